"""Action of ``muster.cluster.launch_follow``; its documentation stands with the module of the same name."""

import base64
import json
import os
import time

from ansible import constants, context
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.files import write_json
from ansible_collections.muster.cluster.plugins.plugin_utils import concluding, planning, remote, screen

# A poll waits on the node, for lines and a little longer; the next one begins no sooner than this after the last.
PACE_SECONDS = 0.3
WAIT_SECONDS = 5.0
# A node that cannot be asked may come back; after this the follower gives up, and the job lives on.
LOST_SECONDS = 120.0
# An agent that shows no life for so long, though its node answers, hangs: the other nodes have given it up before.
FROZEN_SECONDS = 25.0
display = Display()


class ActionModule(ActionBase):
    """Shows a job's lines as they come, until the job has ended."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = super().run(tmp, task_vars)
        arguments = self._task.args
        hosts = [node["name"] for node in arguments["nodes"]]
        host, job = task_vars["inventory_hostname"], str(arguments["job"])
        self.parent = os.getppid()
        if arguments.get("launched", True):
            starts = {name: task_vars["hostvars"][name].get("__launch_start") or {} for name in hosts}
            if host == task_vars["ansible_play_hosts"][0]:
                forget_secrets(str(arguments["plan"]))
                if not concluding.refusal(starts) and not self._task.check_mode:
                    concluding.set_record_aside(str(arguments["record"]), starts[hosts[0]]["run_id"])
            if concluding.refusal(starts) or self._task.check_mode:
                return dict(result, changed=False, skipped=True)
            if host == hosts[0]:
                display.display("job {} {} {}".format(job, _doing(starts[host]), ", ".join(hosts[:8])))
                for line in _hints(job) if starts[host].get("state") == "running" else ():
                    display.display(line)
            python = str(starts[host].get("python") or arguments["python"])
            return dict(result, changed=False, **self._follow(host, job, arguments, python))
        result.update(changed=False, muster_said=True)
        trouble = self._unknown(host, job, arguments)
        if trouble:
            return dict(result, failed=True, msg="logs refused: " + trouble)
        followed = self._follow(host, job, arguments, str(arguments["python"]))
        if followed["told"] or followed["state"] == "frozen":
            told = followed["told"] or "its agent on {} shows no life; stop it by playbooks/stop.yml -e job={}".format(host, job)
            return dict(result, failed=True, msg="logs of job {} end here: {}".format(job, told))
        if followed["sentence"] and host == hosts[0]:
            display.display(followed["sentence"])
        return dict(result, msg=followed["sentence"] or followed["state"], **followed)

    def _unknown(self, host, job, arguments):
        """Why this node cannot show the job, or None."""
        request = {"do": "info", "state_dir": str(arguments["state_dir"]), "job": job}
        try:
            answer = remote.request(self, str(arguments["python"]), request)
        except remote.NodeError as error:
            return "{} {}".format(host, error)
        if answer.get("refused"):
            return "{}: {}".format(host, answer["refused"])
        if answer["jobs"][job]["state"] == "absent":
            return "{} knows no job {}, expected the name of one; playbooks/status.yml lists what there is".format(host, job)
        return None

    def _follow(self, host, job, arguments, python):
        job_dir = os.path.join(str(arguments["state_dir"]), "jobs", job)
        until = arguments.get("until", "end")
        offsets, lines, lost_since, restarts = {}, {}, None, None
        beat, beat_seen = None, time.monotonic()
        while True:
            began = time.monotonic()
            request = {"do": "tail", "state_dir": str(arguments["state_dir"]), "job": job, "offsets": offsets}
            request["wait"] = WAIT_SECONDS if until == "end" else 0.3
            try:
                answer = remote.ask(self, python, remote.shipped_command(python, job_dir, request))
                lost_since = None
            except remote.NodeError as error:
                if not error.unreachable:
                    return {"state": "unknown", "told": "{} {}".format(host, error), "sentence": None}
                lost_since = lost_since or time.monotonic()
                if time.monotonic() - lost_since > LOST_SECONDS:
                    return {"state": "unknown", "told": "{} {}".format(host, error), "sentence": None}
                display.warning("lost contact with {}, not the job; trying again".format(host))
                time.sleep(2)
                continue
            if answer.get("refused"):
                return {"state": "unknown", "told": "{}: {}".format(host, answer["refused"]), "sentence": None}
            if os.getppid() != self.parent:
                os._exit(1)  # ansible-playbook is gone; nobody reads this
            if answer["beat"] != beat:
                beat, beat_seen = answer["beat"], time.monotonic()
            elif answer["state"] == "running" and time.monotonic() - beat_seen > FROZEN_SECONDS:
                return {"state": "frozen", "told": None, "sentence": None}
            offsets = answer["offsets"]
            for cause in answer["restarts"][len(answer["restarts"]) if restarts is None else restarts :]:
                display.display("job {} starts again after: {}".format(job, cause))
            restarts = len(answer["restarts"])
            self._show(host, answer, lines)
            if answer["done"]:
                for (_, rank), cutter in sorted(lines.items()):
                    _display(host, rank, cutter.feed(b"", final=True))
                return {"state": answer["state"], "told": None, "sentence": (answer["result"] or {}).get("sentence")}
            if until == "running" and answer["phase"] == "running":
                return {"state": "running", "told": None, "sentence": None}
            time.sleep(max(0.0, PACE_SECONDS - (time.monotonic() - began)))

    def _show(self, host, answer, lines):
        for chunk in answer["chunks"]:
            rank = chunk["rank"]
            cutter = lines.setdefault((chunk["attempt"], rank), screen.Lines())
            if chunk["skipped"]:
                display.display("{}:{} | [{} bytes left out; the whole log is on the host]".format(host, rank, chunk["skipped"]))
            _display(host, rank, cutter.feed(base64.b64decode(chunk["data"])))


def _display(host, rank, lines):
    if lines:
        mark = "{}:{} | ".format(host, rank)
        display.display("\n".join(mark + line for line in lines))


def _doing(start):
    if start.get("state") != "running":
        return "has ended on"
    return "is running on" if start.get("attached") else "has started on"


def _hints(job):
    """How to come back and how to stop, as this user would type it; said before anything can go wrong."""
    given = context.CLIARGS.get("inventory") or ()
    inventories = () if list(given) == list(constants.DEFAULT_HOST_LIST) else given
    playbooks = context.CLIARGS.get("args") or ("launch.yml",)
    return planning.hints(job, str(playbooks[0]), [os.path.relpath(path) if os.sep in path else path for path in inventories])


def forget_secrets(path):
    """Every node has what it needs: the plan loses its key and environment, the shipped tar goes."""
    with open(path, encoding="utf-8") as stream:
        plan = json.load(stream)
    if plan["shipped"].get("code"):
        os.unlink(plan["shipped"]["code"])
    write_json(path, planning.public(plan))
