"""Action of ``muster.cluster.verify_report``; its documentation stands with the module of the same name."""

import json
import os
import shutil
import time

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.files import read_json, write_json
from ansible_collections.muster.cluster.plugins.plugin_utils import verifying

from .verify_node import answer_path

display = Display()


class ActionModule(ActionBase):
    """Ends a verification: the matrix, the record, a sentence per fault, the one sentence, the exit code."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = dict(super().run(tmp, task_vars), changed=False)
        if self._task.check_mode:
            return dict(result, skipped=True)
        path = str(self._task.args["plan"])
        with open(path, encoding="utf-8") as stream:
            plan = json.load(stream)
        folder = os.path.dirname(path)
        listened, connected = (
            {node["name"]: read_json(answer_path(folder, step, rank), {}) for rank, node in enumerate(plan["nodes"])}
            for step in ("listen", "connect")
        )
        shutil.rmtree(folder)
        verdict = verifying.judge(plan, listened, connected)
        record = write_record(plan, verdict)
        shown = verdict["told"] + verdict["faults"][1 : verifying.FAULTS_SHOWN]
        if 1 < len(plan["nodes"]) <= verifying.SHOWN:
            shown = verdict["matrix"] + shown
        for line in shown:
            display.display(line)
        display.display("record: {}".format(os.path.relpath(record) if record.startswith(os.getcwd()) else record))
        result.update(muster_said=True, record=record, msg=verdict["sentence"], faults=verdict["faults"])
        if not verdict["ok"]:
            return dict(result, failed=True)
        display.display(verdict["sentence"])
        return result


def write_record(plan, verdict):
    """The folder of a verification in the user's ``verify_runs_dir``."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(plan["began"]))
    record = os.path.join(plan["runs_dir"], "verify-" + stamp)
    os.makedirs(record, exist_ok=True)
    content = dict(verdict["record"], sentence=verdict["sentence"], began=plan["began"])
    write_json(os.path.join(record, "verify.json"), content, 0o644)
    with open(os.path.join(record, "matrix.txt"), "w", encoding="utf-8") as stream:
        stream.write("\n".join(verdict["matrix"] + verdict["told"] + verdict["faults"] + [verdict["sentence"]]) + "\n")
    return record
