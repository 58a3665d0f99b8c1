"""Filter of what is to be done for limits on a host."""

from ansible_collections.muster.cluster.plugins.plugin_utils import limits

DOCUMENTATION = r"""
name: limits_plan
short_description: What is to be done on a host so that its limits and sysctls are as wanted
version_added: 0.1.0
description:
  - Compares what the survey found with what is wanted; empty where nothing is to be done.
positional: _text, _wanted, _notes
options:
  _input:
    description: The section C(limits) of the survey.
    type: dict
    required: true
  _text:
    description: Wanted text of the file with the resource limits.
    type: str
    required: true
  _wanted:
    description: Wanted sysctls, name to value.
    type: dict
    required: true
  _notes:
    description: Comments of their file, name to text.
    type: dict
    required: true
author:
  - The Muster founders
"""

EXAMPLES = r"""
plan: "{{ ansible_facts['muster']['limits'] | muster.cluster.limits_plan(text, limits_sysctls, {}) }}"
"""

RETURN = r"""
_value:
  description: Only what is to be done, out of C(limits) and C(sysctls).
  type: dict
"""


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"limits_plan": limits.plan}
