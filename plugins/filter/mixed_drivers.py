"""Filter of what is said of different drivers."""

from ansible_collections.muster.cluster.plugins.plugin_utils import gpu

DOCUMENTATION = r"""
name: mixed_drivers
short_description: What is said of hosts with different NVIDIA drivers
version_added: 0.1.0
description:
  - Compares the drivers of all hosts whose GPUs answer.
positional: _hosts
options:
  _input:
    description: The variable C(hostvars).
    type: dict
    required: true
  _hosts:
    description: Names of the hosts to compare; those without a survey are passed over.
    type: list
    elements: str
    required: true
author:
  - The Muster founders
"""

EXAMPLES = r"""
told: "{{ hostvars | muster.cluster.mixed_drivers(ansible_play_hosts) }}"
"""

RETURN = r"""
_value:
  description: A sentence and the rows of a table, empty where all have one driver.
  type: list
  elements: str
"""


def mixed_drivers(hostvars, hosts):
    """Lines or none; see :func:`gpu.mixed`."""
    found = {host: (hostvars[host].get("ansible_facts") or {}).get("muster") for host in hosts}
    return gpu.mixed(gpu.drivers_of({host: facts["gpu"] for host, facts in found.items() if facts}))


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"mixed_drivers": mixed_drivers}
