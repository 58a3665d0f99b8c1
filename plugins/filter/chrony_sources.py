"""Filter of chrony's sources."""

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import chrony

DOCUMENTATION = r"""
name: chrony_sources
short_description: Whom a head's chrony follows, and whom the host followed before Muster came
version_added: 0.1.0
description:
  - What the inventory says wins. Without it a head goes on following what it followed before Muster came, which stands as a
    comment in the file that Muster writes and comes from the host's own file until then.
positional: _path, _upstream, _isolated
options:
  _input:
    description: The section C(time) of the survey.
    type: dict
    required: true
  _path:
    description: Path of chrony's configuration.
    type: str
    required: true
  _upstream:
    description: Names, addresses, or lines in chrony's own words.
    type: list
    elements: str
    required: true
  _isolated:
    description: Whether the head follows nobody.
    type: bool
    required: true
author:
  - The Muster founders
"""

EXAMPLES = r"""
sources: "{{ ansible_facts['muster']['time'] | muster.cluster.chrony_sources('/etc/chrony.conf', [], false) }}"
"""

RETURN = r"""
_value:
  description:
    - C(kept), what was followed before, and C(active), what a head follows now, both lines of chrony.conf; C(refusal), what is
      wrong with the inventory, a sentence or empty.
  type: dict
"""


def chrony_sources(found, path, upstream, isolated):
    """``{"kept": lines, "active": lines, "refusal": text}``; see :mod:`chrony`."""
    kept = chrony.kept(found["chrony"]["files"].get(path), found["others"])
    try:
        return {"kept": kept, "active": chrony.sources(upstream, isolated, kept), "refusal": ""}
    except Refusal as refusal:
        return {"kept": kept, "active": [], "refusal": str(refusal)}


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"chrony_sources": chrony_sources}
