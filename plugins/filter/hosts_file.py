"""Filter that decides what the hosts file of a host needs."""

from ansible.errors import AnsibleFilterError
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import addressing
from ansible_collections.muster.cluster.plugins.plugin_utils import hosts_file as deciding

DOCUMENTATION = r"""
name: hosts_file
short_description: What the hosts file of a host needs
version_added: 0.1.0
description:
  - Compares what the survey has read with what the members need; that cloud-init would undo it becomes a warning.
positional: _hostvars, _host
options:
  _input:
    description: Inventory names of the members, in node-rank order.
    type: list
    elements: str
    required: true
  _hostvars:
    description: The variable C(hostvars).
    type: dict
    required: true
  _host:
    description: Inventory name of the host.
    type: str
    required: true
author:
  - The Muster founders
"""

EXAMPLES = r"""
plan: "{{ groups['torch_nodes'] | muster.cluster.hosts_file(hostvars, inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: "C(todo), whether there is something to do, and C(wish), what the module M(muster.cluster.entries) takes."
  type: dict
"""


def hosts_file(members, hostvars, host):
    """See :func:`deciding.decide`."""
    try:
        survey = hostvars[host]["ansible_facts"]["muster"]["hosts"]
        plan = deciding.decide(host, addressing.addresses(members, hostvars), survey)
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from None
    for note in plan["notes"]:
        Display().warning(note)
    return plan


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"hosts_file": hosts_file}
