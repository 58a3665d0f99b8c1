"""Action of ``muster.cluster.survey``; its documentation stands with the module of the same name."""

import time

from ansible.errors import AnsibleConnectionFailure
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible_collections.muster.cluster.plugins.plugin_utils import looking

# What the sections of the survey import beside their own package.
OTHERS = ("muster_agent/__init__", "muster_agent/cli", "muster_agent/errors", "muster_agent/network", "muster_agent/procs",
          "entries", "sysctls")  # fmt: skip


class ActionModule(ActionBase):
    """One look at a host by one raw command; notes this machine's time before and after, between which the host's was read."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = dict(super().run(tmp, task_vars), changed=False)
        arguments = self._task.args
        request = {
            "user": str(arguments.get("user", "muster")),
            "state_dir": str(arguments.get("state_dir", "/var/lib/muster")),
        }
        began = time.time()
        try:
            found = looking.look(self, task_vars, "muster_survey", request, OTHERS)
        except (AnsibleConnectionFailure, looking.Fault) as error:
            if boolean(arguments.get("fault_as_data", False)):
                lost = isinstance(error, AnsibleConnectionFailure)
                return dict(result, fault=str(error), fault_unreachable=lost)
            if isinstance(error, AnsibleConnectionFailure):
                raise
            return dict(result, failed=True, msg="{} could not be looked at: {}".format(task_vars["inventory_hostname"], error))
        found["time"]["controller"] = [began, time.time()]
        return dict(result, ansible_facts={"muster": found})
