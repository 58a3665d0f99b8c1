"""Filter of what is said of clocks."""

from ansible_collections.muster.cluster.plugins.plugin_utils import chrony

DOCUMENTATION = r"""
name: clock_report
short_description: What is said of hosts whose clock is not theirs to set
version_added: 0.1.0
description:
  - A container without the capability to set the time has the clock of the machine beneath it, whatever chrony does there.
positional: _hosts
options:
  _input:
    description: The variable C(hostvars).
    type: dict
    required: true
  _hosts:
    description: Names of the hosts to speak of; those without a survey are passed over.
    type: list
    elements: str
    required: true
author:
  - The Muster founders
"""

EXAMPLES = r"""
- name: Say whose clock it is
  ansible.builtin.debug:
    msg: "{{ hostvars | muster.cluster.clock_report(ansible_play_hosts) }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: One sentence, empty where every host may set its clock.
  type: str
"""


def clock_report(hostvars, hosts):
    """One sentence or none; see :func:`chrony.report`."""
    found = {host: (hostvars[host].get("ansible_facts") or {}).get("muster") for host in hosts}
    return chrony.report({host: facts["system"] for host, facts in found.items() if facts})


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"clock_report": clock_report}
