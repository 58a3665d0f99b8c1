"""Filter of the cluster's addresses."""

from ansible.errors import AnsibleFilterError
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import addressing

DOCUMENTATION = r"""
name: addresses
short_description: The cluster addresses of members
version_added: 0.1.0
description:
  - A member's address is its C(muster_address), else what C(ansible_host) (else its name) resolves to on the controller. It comes
    from the inventory alone, so that C(--limit) changes nothing.
positional: _hostvars
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
author:
  - The Muster founders
"""

EXAMPLES = r"""
members: "{{ groups['torch_nodes'] | muster.cluster.addresses(hostvars) }}"
"""

RETURN = r"""
_value:
  description: "C({host: address}) in the order of the input."
  type: dict
"""


def addresses(members, hostvars):
    """``{host: address}``; see :mod:`addressing`."""
    try:
        return addressing.addresses(members, hostvars)
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from None


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"addresses": addresses}
