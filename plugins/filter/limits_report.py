"""Filter of what is said of limits that hosts do not let be set."""

from ansible_collections.muster.cluster.plugins.plugin_utils import limits

DOCUMENTATION = r"""
name: limits_report
short_description: What is said of sysctls and limits that hosts do not let be set
version_added: 0.1.0
description:
  - In a container most sysctls are the machine's beneath it, and a limit may not be raised.
positional: _hosts, _nofile, _memlock
options:
  _input:
    description: The variable C(hostvars), where C(__limits_set) holds what P(muster.cluster.sysctls#module) has returned.
    type: dict
    required: true
  _hosts:
    description: Names of the hosts to speak of.
    type: list
    elements: str
    required: true
  _nofile:
    description: Wanted number of open files.
    type: str
    required: true
  _memlock:
    description: Wanted kilobytes of locked memory, or V(unlimited).
    type: str
    required: true
author:
  - The Muster founders
"""

EXAMPLES = r"""
- name: Say what hosts do not let be set
  ansible.builtin.debug:
    msg: "{{ hostvars | muster.cluster.limits_report(ansible_play_hosts, 524288, 'unlimited') }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: One sentence per sysctl or limit.
  type: list
  elements: str
"""


def limits_report(hostvars, hosts, nofile, memlock):
    """Sentences; see :func:`limits.report`."""
    found = {host: hostvars[host].get("__limits_set") or {} for host in hosts}
    facts = {host: (hostvars[host].get("ansible_facts") or {}).get("muster") for host in hosts}
    return limits.report(
        {host: result["left"] for host, result in found.items() if result.get("left")},
        {host: survey["limits"] for host, survey in facts.items() if survey},
        nofile,
        memlock,
    )


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"limits_report": limits_report}
