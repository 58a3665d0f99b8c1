"""Filter that names hosts whose environment differs."""

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import sameness

DOCUMENTATION = r"""
name: python_env_drift
short_description: Which hosts have another Python environment than the others, package by package
version_added: 0.1.0
description:
  - Hosts with one fingerprint have one environment. What most hosts have is what the others are compared with; where two are as
    frequent, it is the one of the earlier host.
options:
  _input:
    description:
      - What hosts tell, in node-rank order, each with C(name), C(fingerprint) and C(contents) as
        M(muster.cluster.python_env_info) returns them. Without C(contents) the packages are not named.
    type: list
    elements: dict
    required: true
author:
  - The Muster founders
"""

EXAMPLES = r"""
sentences: "{{ reports | muster.cluster.python_env_drift }}"
"""

RETURN = r"""
_value:
  description: One sentence for every environment that is not the one of most hosts; empty where all are equal.
  type: list
  elements: str
"""


def python_env_drift(reports):
    """Sentences; see :func:`sameness.drift`."""
    return sameness.drift(reports)


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"python_env_drift": python_env_drift}
