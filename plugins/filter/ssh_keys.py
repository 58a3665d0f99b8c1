"""Filter that decides what a host needs so that the cluster's user reaches every member by key."""

from ansible.errors import AnsibleFilterError
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import addressing
from ansible_collections.muster.cluster.plugins.plugin_utils import ssh_keys as deciding

DOCUMENTATION = r"""
name: ssh_keys
short_description: What a host needs so that the cluster's user reaches every member by key
version_added: 0.1.0
description:
  - Compares what the survey has read with the members' host keys, ports and public keys; what would keep the user out and is not
    ours to change becomes a warning.
positional: _hostvars, _host, _wish
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
  _wish:
    description: "C(user), C(everywhere) and C(from)."
    type: dict
    required: true
author:
  - The Muster founders
"""

EXAMPLES = r"""
plan: "{{ groups['torch_nodes'] | muster.cluster.ssh_keys(hostvars, inventory_hostname,
  {'user': 'muster', 'everywhere': false, 'from': []}) }}"
"""

RETURN = r"""
_value:
  description: "C(todo), a list of what is to be done; C(known_hosts) and C(authorized_keys), members for the module
    M(muster.cluster.entries); C(client_ports), a text for ssh; C(coming), members whose key is still to be made."
  type: dict
"""


def ssh_keys(members, hostvars, host, wish):
    """See :func:`deciding.decide`."""
    looked = {}
    for name in dict.fromkeys([*members, host]):
        variables = hostvars[name]
        made = variables.get("__ssh_keys_public") or {}
        looked[name] = {
            "survey": variables.get("ansible_facts", {}).get("muster"),
            "port": variables.get("ansible_port"),
            "made": " ".join(made.get("stdout", "").split()[:2]) or None,
        }
    try:
        plan = deciding.decide(host, addressing.addresses(members, hostvars), wish, looked)
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from None
    for note in plan["notes"]:
        Display().warning(note)
    return plan


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"ssh_keys": ssh_keys}
