"""Action of ``muster.cluster.launch_verdict``; its documentation stands with the module of the same name."""

import json
import os
import shutil

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.files import write_json
from ansible_collections.muster.cluster.plugins.plugin_utils import concluding

display = Display()


class ActionModule(ActionBase):
    """Ends a launch: the record, the table, the one sentence, the exit code."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = super().run(tmp, task_vars)
        arguments = self._task.args
        with open(arguments["plan"], encoding="utf-8") as stream:
            plan = json.load(stream)
        shutil.rmtree(os.path.dirname(arguments["plan"]))
        nodes = plan["nodes"]
        seen = task_vars["hostvars"]
        starts = {node["name"]: seen[node["name"]].get("__launch_start") or {} for node in nodes}
        refused = concluding.refusal(starts)
        result.update(changed=False, muster_said=True, job=plan["job"])
        if refused:
            return dict(result, failed=True, msg=refused)
        if self._task.check_mode:
            for node in nodes:
                display.display("{}: {}".format(node["name"], starts[node["name"]].get("command", "the job runs already")))
            return dict(result, msg="nothing was started (check mode)")
        record = str(arguments["record"])
        follow = seen[nodes[0]["name"]].get("__launch_follow") or {}
        if follow.get("told"):
            return dict(result, failed=True, msg="job {} could not be followed to its end, it may still run: {}; come back "
                        "by ansible-playbook launch.yml -e job={}".format(plan["job"], follow["told"], plan["job"]))  # fmt: skip
        if not plan["wait"] and follow.get("state") == "running":
            write_record(record, plan, starts, None)
            display.display("job {} runs on {}".format(plan["job"], ", ".join(node["name"] for node in nodes)))
            return dict(result, changed=True, msg="started")
        collected = {node["name"]: seen[node["name"]].get("__launch_collect") or {"lost": "not asked"} for node in nodes}
        ended = concluding.result_of(plan["job"], collected)
        write_record(record, plan, starts, ended)
        for line in concluding.quoted(ended.get("cause")):
            display.display(line)
        for warning in ended.get("warnings") or []:
            display.warning(warning)
        for line in concluding.table(nodes, ended):
            display.display(line)
        display.display("record: {}".format(os.path.relpath(record) if record.startswith(os.getcwd()) else record))
        if ended["outcome"] != "finished":
            return dict(result, failed=True, msg=ended["sentence"])
        display.display(ended["sentence"])
        return dict(result, changed=True, msg=ended["sentence"], record=record)


def write_record(record, plan, starts, ended):
    """The plan, the commands and the result; what the nodes sent lies there already. The environment is the head's."""
    os.makedirs(record, exist_ok=True)
    environment = starts[plan["nodes"][0]["name"]].get("environment")
    if not plan["attach"]:
        plan["environment"] = environment
        write_json(os.path.join(record, "plan.json"), plan, 0o644)
        lines = ["# {}\n{}\n".format(host, start.get("command", "")) for host, start in starts.items()]
        with open(os.path.join(record, "commands.txt"), "w", encoding="utf-8") as stream:
            stream.write("\n".join(lines))
    if ended:
        ended["environment"] = environment
        write_json(os.path.join(record, "result.json"), ended, 0o644)
