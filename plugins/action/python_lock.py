"""Action in front of the module ``python_lock``: it shows what the module does while it does it."""

from ansible_collections.muster.cluster.plugins.plugin_utils import following


class ActionModule(following.Shown):
    """Runs the module, and shows its progress."""

    MODULE = "muster.cluster.python_lock"
