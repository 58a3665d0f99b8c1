"""Filter that decides who solves and who installs an environment."""

from ansible_collections.muster.cluster.plugins.plugin_utils import python_envs

DOCUMENTATION = r"""
name: python_env_plan
short_description: Who has to do what for one Python environment on all hosts
version_added: 0.1.0
description:
  - Compares what every host tells of its environment with what is wanted and with what the head has, and finds what the hosts
    have in common, for which packages are chosen. What keeps one environment from fitting all of them is one sentence per reason.
positional: _wish, _head
options:
  _input:
    description: What M(muster.cluster.python_env) with O(muster.cluster.python_env#module:state=look) told, by host, in
      node-rank order.
    type: dict
    required: true
  _wish:
    description:
      - C(spec), from P(muster.cluster.python_env_spec#filter), or C(file), the path that it would read.
      - C(settings), those that choose packages, with C(torch_backend) and C(python) among them.
      - C(prefix), C(update) (whether to solve anew) and C(hosts) (who may act) may be left out.
    type: dict
    required: true
  _head:
    description: Inventory name of the first host, which solves for all.
    type: str
    required: true
author:
  - The Muster founders
"""

EXAMPLES = r"""
plan: "{{ looks | muster.cluster.python_env_plan({'spec': specification, 'settings': {'torch_backend': 'auto'}}, 'n1') }}"
"""

RETURN = r"""
_value:
  description:
    - C(faults), sentences that end the run, and C(notes), what the user should know. A file that is none of the kinds leads to
      C(faults) alone.
    - C(spec), the specification.
    - C(asked), C(platform) and C(torch_backend) for the modules.
    - C(solve), whether the C(head) has to make the lock; C(head_seen), whether it was among those that looked.
    - C(install) and C(current), hosts; C(same), hosts that share a prefix with one that installs; C(reasons), by host.
    - C(conda), whether conda packages are wanted.
  type: dict
"""


def python_env_plan(looks, wish, head):
    """The plan; see :func:`python_envs.decide` and :func:`python_envs.decide_for_file`."""
    return (python_envs.decide if "spec" in wish else python_envs.decide_for_file)(looks, wish, head)


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"python_env_plan": python_env_plan}
