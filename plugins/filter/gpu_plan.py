"""Filter of what is to be done for GPUs on a host."""

from ansible_collections.muster.cluster.plugins.plugin_utils import gpu

DOCUMENTATION = r"""
name: gpu_plan
short_description: What is wrong with a host's GPUs, and what is to be done
version_added: 0.1.0
description:
  - Empty on a host without NVIDIA GPUs, and where nothing is to be done.
positional: _host
options:
  _input:
    description: All that the survey found.
    type: dict
    required: true
  _host:
    description: Name of the host, for the sentences.
    type: str
    required: true
author:
  - The Muster founders
"""

EXAMPLES = r"""
plan: "{{ ansible_facts['muster'] | muster.cluster.gpu_plan(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description:
    - Only what is to be done, out of C(faults), C(persistence_dropin), C(persistence_unit), C(persistence) and C(fabric_manager).
  type: dict
"""


def gpu_plan(survey, host):
    """What is to be done; see :func:`gpu.plan`."""
    return gpu.plan(survey["gpu"], host, survey["system"]["container"])


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"gpu_plan": gpu_plan}
