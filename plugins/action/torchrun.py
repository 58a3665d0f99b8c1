"""Action in front of the module ``torchrun``, as ``template`` has one; its documentation stands with the module.

For a task of the launch (``plan``) it starts a node by one raw command; every other task is the module's own.
"""

import json
import os

from ansible.plugins.action import ActionBase
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import checked
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import options as launch_options
from ansible_collections.muster.cluster.plugins.plugin_utils import planning, remote


class ActionModule(ActionBase):
    """One remote call per node."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = super().run(tmp, task_vars)
        if "plan" not in self._task.args:
            result.update(self._execute_module(module_name="muster.cluster.torchrun", task_vars=task_vars))
            return result
        host = task_vars["inventory_hostname"]
        supervision = self._task.args.get("supervision") or "self"
        try:
            if supervision not in ("self", "systemd"):
                raise Refusal("launch_supervision is {!r}, expected self or systemd; correct it".format(str(supervision)))
            result.update(self._start(host))
        except Refusal as refusal:
            result.update(changed=False, refused=str(refusal))
        except remote.NodeError as error:
            result.update(changed=False, refused="{} {}".format(host, error), unreachable_host=error.unreachable)
        return result

    def _start(self, host):
        arguments = self._task.args
        with open(arguments["plan"], encoding="utf-8") as stream:
            plan = json.load(stream)
        python, state_dir = str(arguments["python"]), checked.state_dir(str(arguments["state_dir"]))
        if plan["attach"]:
            return self._attach(plan, host, python, state_dir)
        data_network = arguments.get("data_network") or None
        if data_network:
            checked.network("muster_data_network", str(data_network))
        overrides = plan["overrides"]
        per_host = launch_options.merge(
            {name: arguments.get(name) for name in launch_options.PER_HOST}, dict(overrides)
        )
        spec = planning.specification(
            plan, host, {"nproc_per_node": per_host.get("nproc_per_node", "auto"), "env": per_host.get("env", {})},
            python, state_dir, data_network,
        )  # fmt: skip
        check = bool(self._task.check_mode)
        content = {
            "do": "start",
            "spec": spec,
            "code_bytes": plan["shipped"]["code_bytes"],
            "force": plan["force"],
            "check": check,
            "supervision": str(arguments.get("supervision") or "self"),
        }
        code = b""
        if not check:
            with open(plan["shipped"]["code"], "rb") as stream:
                code = stream.read()
        return remote.start(self, python, content, code)

    def _attach(self, plan, host, python, state_dir):
        # The job may have another Python than this launch names.
        answer = remote.request(self, python, {"do": "info", "state_dir": state_dir, "job": plan["job"]})
        if answer.get("refused"):
            return answer
        found = answer["jobs"][plan["job"]]
        if found["state"] == "absent":
            told = "{}: found no job {} and no script to start it with; add -e script=...".format(host, plan["job"])
            return {"changed": False, "refused": told}
        return {
            "changed": False,
            "state": found["state"],
            "attached": True,
            "job_dir": os.path.join(state_dir, "jobs", plan["job"]),
            "run_id": found["run_id"],
            "python": found["python"],
            "environment": found["environment"],
        }
