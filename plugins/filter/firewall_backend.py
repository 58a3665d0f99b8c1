"""Filter of the firewall that a host has."""

from ansible.errors import AnsibleFilterError
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import firewall

DOCUMENTATION = r"""
name: firewall_backend
short_description: Which firewall Muster manages on a host
version_added: 0.1.0
description:
  - The active one, else the installed one, else ufw on Debian's family and firewalld on Red Hat's.
positional: _wish, _host
options:
  _input:
    description: All that the survey found.
    type: dict
    required: true
  _wish:
    description: C(auto), C(ufw) or C(firewalld).
    type: str
    required: true
  _host:
    description: The host's inventory name, for messages.
    type: str
    required: true
author:
  - The Muster founders
"""

EXAMPLES = r"""
name: "{{ ansible_facts['muster'] | muster.cluster.firewall_backend('auto', inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: C(ufw) or C(firewalld).
  type: str
"""


def backend(facts, wish, host):
    """``ufw`` or ``firewalld``; see :mod:`firewall`."""
    try:
        return firewall.backend(facts, wish, host)
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from None


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"firewall_backend": backend}
