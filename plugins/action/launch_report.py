"""Action of ``muster.cluster.launch_report``; its documentation stands with the module of the same name."""

import time

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.plugin_utils import concluding, screen

display = Display()


class ActionModule(ActionBase):
    """Tells once what a task on every host has found: the jobs there are, or how a stop went."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = super().run(tmp, task_vars)
        arguments = self._task.args
        hosts = [node["name"] for node in arguments["nodes"]]
        found = {host: task_vars["hostvars"][host].get(arguments["register"]) or {} for host in hosts}
        job = arguments.get("job")
        result.update(changed=False, muster_said=True)
        if arguments["purpose"] == "stop":
            refused = concluding.stop_refusal(str(job), found)
            if refused:
                return dict(result, failed=True, msg=refused)
            lines = concluding.stopped(str(job), found)
        else:
            lines = screen.table(concluding.status_rows(found, str(job) if job else None, when))
            lines += concluding.unasked_lines(found)
        for line in lines:
            display.display(line)
        return dict(result, msg="\n".join(lines))


def when(seconds):
    """Local time of the controller, or ``-``."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) if seconds else "-"
