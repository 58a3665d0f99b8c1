"""Filter of the addresses from which a cluster's members come."""

from ansible.errors import AnsibleFilterError
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import firewall

DOCUMENTATION = r"""
name: firewall_peers
short_description: The addresses from which a cluster's members come
version_added: 0.1.0
description:
  - Their cluster addresses, and those that they have in their C(muster_data_network).
  - The latter are known of hosts that this run has looked at; for the others C(keep) names the networks whose rules are to stay.
positional: _hostvars
options:
  _input:
    description: Inventory names of the members.
    type: list
    elements: str
    required: true
  _hostvars:
    description: The variable C(hostvars).
    type: dict
    required: true
author:
  - The Muster founders
"""

EXAMPLES = r"""
peers: "{{ groups['torch_nodes'] | muster.cluster.firewall_peers(hostvars) }}"
"""

RETURN = r"""
_value:
  description: "C({'members': {name: [addresses]}, 'keep': [networks]})."
  type: dict
"""


def peers(members, hostvars):
    """``{"members", "keep"}``; see :mod:`firewall`."""
    try:
        return firewall.peers(members, hostvars)
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from None


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"firewall_peers": peers}
