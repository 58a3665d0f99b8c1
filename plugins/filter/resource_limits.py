"""Filter of the resource limits that a host can give."""

from ansible.errors import AnsibleFilterError
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import limits

DOCUMENTATION = r"""
name: resource_limits
short_description: The resource limits that a host can give
version_added: 0.1.0
description:
  - As wanted, but not below what the host has already and not above what it can give. Where a limit that stands in C(limits.d)
    cannot be set, pam_limits refuses the login.
positional: _nofile, _memlock
options:
  _input:
    description: The section C(limits) of the survey.
    type: dict
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
limits: "{{ ansible_facts['muster']['limits'] | muster.cluster.resource_limits(524288, 'unlimited') }}"
"""

RETURN = r"""
_value:
  description: C(nofile) and C(memlock), texts as limits.conf has them.
  type: dict
"""


def resource_limits(found, nofile, memlock):
    """``{"nofile", "memlock"}``; see :func:`limits.resource_limits`."""
    try:
        return limits.resource_limits(nofile, memlock, found)
    except Refusal as refusal:
        raise AnsibleFilterError(str(refusal)) from None


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"resource_limits": resource_limits}
