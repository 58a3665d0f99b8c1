"""Action of ``muster.cluster.refuse``; its documentation stands with the module of the same name."""

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Fails with lines that the screen shows as they are."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = super().run(tmp, task_vars)
        return dict(result, changed=False, failed=True, muster_said=True, msg="\n".join(map(str, self._task.args["told"])))
