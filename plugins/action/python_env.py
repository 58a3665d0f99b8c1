"""Action in front of the module ``python_env``: it looks by a raw command, and shows what the module does while it does it."""

import os

from ansible.utils.vars import load_extra_vars
from ansible_collections.muster.cluster.plugins.modules.python_env import ARGUMENTS
from ansible_collections.muster.cluster.plugins.plugin_utils import following, looking

# What the look imports beside its own package.
OTHERS = ("muster_agent/__init__", "muster_agent/cli", "muster_agent/errors", "muster_agent/facts", "muster_agent/procs")


class ActionModule(following.Shown):
    """Runs the module where something may change."""

    MODULE = "muster.cluster.python_env"

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        if self._task.args.get("state") != "look":
            return super().run(tmp, task_vars)
        return dict({"changed": False}, **self._look(task_vars))

    def _look(self, task_vars):
        named = load_extra_vars(self._loader).get("python_env")
        if named and named != task_vars.get("python_env_name"):
            told = "found python_env={0}, which launch.yml reads, expected python_env_name; run again with -e python_env_name={0}"
            return {"failed": True, "muster_said": True, "msg": told.format(named)}
        _, options = self.validate_argument_spec(ARGUMENTS)
        # As they were given: the home of a path is the one on the host, which expands it.
        options.update({key: str(self._task.args[key]) for key in ("prefix", "cache_dir") if self._task.args.get(key)})
        prefix = options["prefix"]
        place = {"prefix": prefix, "python": os.path.join(prefix, "bin", "python")}
        try:
            answer = looking.look(self, task_vars, "python_env", {"options": options}, OTHERS)
        except looking.Fault as fault:
            return dict(place, failed=True, msg="the host could not be looked at: {}".format(fault))
        if "fault" in answer:
            return dict(place, failed=True, msg=answer["fault"])
        found = answer["result"]
        # In the module's answer the lines of a diff and the warnings are no values either.
        return dict(place, **{name: value for name, value in found.items() if name not in ("notes", "before", "after")})
