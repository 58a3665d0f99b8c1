"""Action in front of the module ``survey``, as ``template`` has one; its documentation stands with the module.

It notes this machine's time before and after the module, between which the host's own clock was read.
"""

import time

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

# What Ansible has to say about a fault stands in these.
TOLD_IN = ("msg", "module_stderr", "module_stdout", "exception")


class ActionModule(ActionBase):
    """One look at a host."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = super().run(tmp, task_vars)
        as_data = boolean(self._task.args.get("fault_as_data", False))
        began = time.time()
        try:
            answer = self._execute_module(module_name="muster.cluster.survey", task_vars=task_vars)
        except AnsibleError as error:  # no connection, no Python, no way to become root
            if not as_data:
                raise
            answer = {"failed": True, "msg": str(error), "unreachable": isinstance(error, AnsibleConnectionFailure)}
        if not answer.get("failed") and not answer.get("unreachable"):
            answer["ansible_facts"]["muster"]["time"]["controller"] = [began, time.time()]
        elif as_data:
            told = "\n".join(str(answer[key]) for key in TOLD_IN if answer.get(key))
            answer = {"changed": False, "fault": told, "fault_unreachable": bool(answer.get("unreachable"))}
        result.update(answer)
        return result
