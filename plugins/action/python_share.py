"""Action in front of the module ``python_share``: it shows what the module does while it does it."""

from ansible.plugins.action import ActionBase
from ansible_collections.muster.cluster.plugins.plugin_utils import following


class ActionModule(ActionBase):
    """Runs the module, and shows its progress."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = super().run(tmp, task_vars)
        result.update(following.run(self, "muster.cluster.python_share", task_vars))
        return result
