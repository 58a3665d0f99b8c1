"""Filter that reads what an environment is to hold."""

from ansible.errors import AnsibleFilterError
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault
from ansible_collections.muster.cluster.plugins.plugin_utils import environments

DOCUMENTATION = r"""
name: python_env_spec
short_description: What a file asks of a Python environment
version_added: 0.1.0
description:
  - Reads an C(environment.yml) in conda's syntax, a C(requirements.txt) or a lock that Muster wrote, on the controller, with all
    files that it takes in. A fault is one sentence that names file and line.
  - Packages come from conda-forge where the file names no channel, and from Anaconda's own channels only where it names them.
positional: _python
options:
  _input:
    description: Path of the file on the controller.
    type: str
    required: true
  _python:
    description: The Python that is wanted; a version, such as V(3.12), counts where the file has conda packages and names none.
    type: str
    default: ""
author:
  - The Muster founders
"""

EXAMPLES = r"""
specification: "{{ 'environment.yml' | muster.cluster.python_env_spec }}"
"""

RETURN = r"""
_value:
  description: The specification, as M(muster.cluster.python_lock) takes it.
  type: dict
"""


def python_env_spec(path, python=""):
    """The specification in a file; see :func:`environments.read`."""
    try:
        return environments.read(str(path), str(python or ""))
    except Fault as fault:
        raise AnsibleFilterError(str(fault)) from None


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"python_env_spec": python_env_spec}
