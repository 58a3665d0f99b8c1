"""Filter of what is to be done for chrony on a host."""

from ansible_collections.muster.cluster.plugins.plugin_utils import chrony

DOCUMENTATION = r"""
name: chrony_plan
short_description: What is to be done on a host so that chrony is its one time daemon, as wanted
version_added: 0.1.0
description:
  - Compares what the survey found with what is wanted; empty where nothing is to be done.
positional: _place, _config, _missing, _dropin
options:
  _input:
    description: All that the survey found.
    type: dict
    required: true
  _place:
    description: C(service), C(config), C(options), C(variable) and C(dropin) of the host's family of systems.
    type: dict
    required: true
  _config:
    description: Wanted text of chrony's configuration.
    type: str
    required: true
  _missing:
    description: Packages that are not installed.
    type: list
    elements: str
    required: true
  _dropin:
    description: Wanted text of the drop-in of a host that may not set its clock.
    type: str
    required: true
author:
  - The Muster founders
"""

EXAMPLES = r"""
plan: "{{ ansible_facts['muster'] | muster.cluster.chrony_plan(place, config, [], dropin) }}"
"""

RETURN = r"""
_value:
  description: Only what is to be done, out of C(install), C(stop), C(config), C(options), C(dropin) and C(start).
  type: dict
"""


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"chrony_plan": chrony.plan}
