"""Action of ``muster.cluster.python_env_versions``; its documentation stands with the module of the same name."""

import os
import tempfile

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import environment_versions, options, planning

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
display = Display()


class ActionModule(ActionBase):
    """The steps of a snapshot and of a rollback that belong to the controller; each runs once for all hosts."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = dict(super().run(tmp, task_vars), changed=False)
        step, purpose = self._task.args["step"], self._task.args["purpose"]
        try:
            result.update(getattr(self, "_" + step)(task_vars, purpose))
        except Refusal as refusal:
            result.update(failed=True, muster_said=True, msg="{} refused: {}".format(purpose, refusal))
        return result

    def _read(self, task_vars, purpose):
        group = [str(host) for host in self._task.args["hosts"]]
        planning.check_group(group)
        missing = [host for host in group if host not in task_vars["ansible_play_hosts"]]
        if missing and purpose == "rollback":
            raise Refusal(
                "this run leaves out {}, expected all {} hosts, which have the same environment; leave --limit out, or mend "
                "what has failed".format(", ".join(missing), len(group))
            )
        roles = sorted(os.listdir(os.path.join(PROJECT, "roles")))
        return environment_versions.read(options.plain(load_extra_vars(self._loader)), roles, purpose)

    def _registered(self, task_vars):
        """What a task on every host has registered: ``{host: its result}``."""
        found = {host: task_vars["hostvars"][host].get(self._task.args["register"]) for host in self._task.args["hosts"]}
        return {str(host): options.plain(result or {}) for host, result in found.items()}

    def _write(self, task_vars, purpose):
        reports = self._registered(task_vars)
        files, warnings = environment_versions.snapshot(reports)
        for warning in warnings:
            display.warning(warning)
        prefix = self._templar.template(task_vars.get("python_env_prefix") or "")
        name = environment_versions.folder_name(options.plain(load_extra_vars(self._loader)), prefix)
        folder = os.path.join(os.path.abspath(os.path.expanduser(str(self._task.args["folder"]))), name)
        diffs = []
        for file, text in sorted(files.items()):
            path = os.path.join(folder, file)
            before = read_text(path)
            if before != text:
                diffs.append({"before_header": path, "after_header": path, "before": before or "", "after": text})
                if not self._task.check_mode:
                    write_text(path, text)
        shown = os.path.relpath(folder) if folder.startswith(os.getcwd() + os.sep) else folder
        there = "{} in {}".format(" and ".join(sorted(files)), shown)
        told = "snapshot of environment {}: {}{}".format(name, there, "" if diffs else ", as they were")
        display.display(told)
        return {"changed": bool(diffs), "diff": diffs, "folder": folder, "msg": told}

    def _choose(self, task_vars, purpose):
        return environment_versions.choose(self._registered(task_vars), str(self._task.args.get("version") or ""))

    def _tell(self, task_vars, purpose):
        chosen = options.plain(self._task.args["chosen"])
        name = str(self._task.args["name"])
        lines = environment_versions.outcome(name, chosen, self._registered(task_vars), self._task.check_mode)
        for line in lines:
            display.display(line)
        return {"msg": "\n".join(lines), "muster_said": True}


def read_text(path):
    """A file's text, None where it is not there; raises Refusal."""
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal("{} cannot be read ({}), expected a file of this playbook's; move it away".format(path, error)) from None


def write_text(path, text):
    """Write a file whole or not at all; raises Refusal."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor, fresh = tempfile.mkstemp(prefix=".muster-", dir=os.path.dirname(path))
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(fresh, 0o644)
        os.replace(fresh, path)
    except OSError as error:
        raise Refusal(
            "{} cannot be written ({}), expected a folder for the files; set python_env_snapshot_dir".format(
                path, error.strerror or error
            )
        ) from None
