"""Action of ``muster.cluster.launch_plan``; its documentation stands with the module of the same name."""

import getpass
import glob
import json
import os
import shutil
import socket
import tempfile

from ansible import constants
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.files import write_json
from ansible_collections.muster.cluster.plugins.plugin_utils import addressing, planning, selection
from ansible_collections.muster.cluster.plugins.plugin_utils import options as launch_options

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
display = Display()


class ActionModule(ActionBase):
    """Validates everything that can be validated without a node and writes the plan to a private file."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = super().run(tmp, task_vars)
        purpose = self._task.args.get("purpose", "launch")
        try:
            result.update(self._plan(task_vars) if purpose == "launch" else self._find(task_vars, purpose))
        except Refusal as refusal:
            result.update(failed=True, muster_said=True, msg="{} refused: {}".format(purpose, refusal))
        return result

    def _find(self, task_vars, purpose):
        """What status, logs and stop need: the job's name and the hosts of the play."""
        given = launch_options.from_extra_variables(launch_options.plain(load_extra_vars(self._loader)), role_names())
        options = launch_options.merge(self._task.args["options"], given)
        planning.check_group(self._task.args["group"])
        if purpose != "status" and not options.get("job"):
            raise Refusal("found no job, expected its name; write -e job=NAME, playbooks/status.yml lists them")
        nodes = [{"name": host, "address": None} for host in task_vars["ansible_play_hosts_all"]]
        return {
            "changed": False,
            "job": options.get("job"),
            "nodes": nodes,
            "follow": options["follow"],
            "python_env": options.get("python_env", ""),
        }

    def _plan(self, task_vars):
        extra = launch_options.plain(load_extra_vars(self._loader))
        given = launch_options.from_extra_variables(extra, role_names())
        options = launch_options.merge(self._task.args["options"], given)
        attaching = bool(options.get("job")) and not options.get("script") and not options.get("module")
        launch_options.complete(options)
        planning.check_target(options, attaching)
        planning.check_chdir(options.get("chdir"))
        self._refuse_odd_plays(task_vars)
        hosts = planning.participants(
            list(self._task.args["group"]),
            list(task_vars["ansible_play_hosts_all"]),
            list(task_vars["ansible_play_hosts"]),
            options["allow_partial"],
        )
        if options.get("python_env"):
            # One named for this launch wins over an inventory's Python.
            sources = [extra] * len(hosts) if given.get("python_env") else [task_vars["hostvars"][host] for host in hosts]
            named = {host: variables.get("muster_python") for host, variables in zip(hosts, sources)}
            planning.check_environment(options["python_env"], named)
        nodes = [{"name": host, "address": addressing.address_of(host, task_vars["hostvars"][host])} for host in hosts]
        forget_dead_controllers(constants.DEFAULT_LOCAL_TMP)
        folder = tempfile.mkdtemp(prefix="muster-{}-".format(os.getppid()), dir=constants.DEFAULT_LOCAL_TMP)
        shipped = {"script": None, "code": None, "code_sha256": None, "code_bytes": 0, "root": None, "files": 0}
        if not attaching:
            shipped = self._ship(options, folder)
        user = "{}@{}".format(getpass.getuser(), socket.gethostname())
        if attaching:
            options["script"] = options["job"]
        plan = planning.make(options, nodes, shipped, user)
        plan["overrides"] = {name: options[name] for name in launch_options.PER_HOST if name in given}
        plan["attach"] = attaching
        plan["runs_dir"] = self._runs_dir()
        path = os.path.join(folder, "plan.json")
        write_json(path, plan)
        if not attaching:
            for line in told(plan):
                display.display(line)
        return {
            "changed": False,
            "plan_file": path,
            "job": plan["job"],
            "run_id": plan["run_id"],
            "record": os.path.join(plan["runs_dir"], plan["job"]),
            "nodes": nodes,
            "wait": plan["wait"],
            "follow": plan["follow"],
            "python_env": plan["python_env"] or "",
        }

    def _refuse_odd_plays(self, task_vars):
        if len(task_vars["ansible_play_batch"]) < len(task_vars["ansible_play_hosts"]):
            raise Refusal("the play has serial, expected every node at the same time; remove it")
        parent = self._task.get_play() if hasattr(self._task, "get_play") else None
        if parent is not None and parent.strategy not in ("linear", "ansible.builtin.linear", "debug"):
            raise Refusal("the play's strategy is {}, expected linear; remove it".format(parent.strategy))

    def _runs_dir(self):
        return os.path.abspath(os.path.expanduser(str(self._task.args["runs_dir"])))

    def _ship(self, options, folder):
        stands, packaged = os.getcwd(), os.path.join(PROJECT, "files")
        script = selection.find_script(options["script"], stands, packaged) if options.get("script") else None
        root, names = selection.choose(
            script, options.get("module"), options.get("ship"), stands, packaged, self._runs_dir()
        )
        selection.check_chdir(options.get("chdir"), names, root)
        if options.get("module") and not options.get("chdir") and os.path.realpath(stands) != root:
            options["chdir"] = os.path.relpath(os.path.realpath(stands), root)  # where `python -m` finds it
        size = selection.check_size(root, names, options.get("ship"))
        code = os.path.join(folder, "code.tar")
        with open(os.open(code, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as output:
            digest = selection.pack(root, names, output)
        relative = None
        if script:
            work = options.get("chdir") or ""
            if os.path.isabs(work):
                # The ranks start elsewhere on the node; only its agent knows where the shipped copy lies.
                relative = os.path.relpath(script, root)
            else:
                relative = os.path.relpath(script, os.path.join(root, work))
        return {
            "script": relative,
            "code": code,
            "code_sha256": digest,
            "code_bytes": os.path.getsize(code),
            "root": root,
            "files": len(names),
            "bytes": size,
            "origin": selection.origin(root),
        }


def forget_dead_controllers(local_tmp):
    """Remove the private plans of controllers that were killed before they could."""
    for folder in glob.glob(os.path.join(glob.escape(os.path.dirname(local_tmp)), "ansible-local-*", "muster-*")):
        pid = os.path.basename(folder).split("-")[1]
        if pid.isdigit() and not os.path.exists("/proc/" + pid):
            shutil.rmtree(folder, ignore_errors=True)


def role_names():
    """The collection's roles beside launch; their variables are theirs to judge."""
    return [role for role in sorted(os.listdir(os.path.join(PROJECT, "roles"))) if role != "launch"]


def told(plan):
    """What the user sees of the plan."""
    shipped = plan["shipped"]
    target = "-m " + plan["module"] if plan["module"] else plan["script"]
    hosts = ", ".join("{} ({})".format(node["name"], node["address"]) for node in plan["nodes"][:8])
    more = " and {} more".format(len(plan["nodes"]) - 8) if len(plan["nodes"]) > 8 else ""
    return [
        "job {}: {} on {} node{}: {}{}".format(
            plan["job"], " ".join([target] + [json.dumps(arg) if " " in arg or not arg else arg for arg in plan["args"]]),
            len(plan["nodes"]), "" if len(plan["nodes"]) == 1 else "s", hosts, more,
        ),
        "ships {} file{}, {:.1f} MB from {}".format(
            shipped["files"], "" if shipped["files"] == 1 else "s", shipped["bytes"] / 1e6, shipped["root"]
        ),
    ] + (["environment {}".format(plan["python_env"])] if plan["python_env"] else [])  # fmt: skip
