"""Action of ``muster.cluster.python_tools``; its documentation stands with the module of the same name."""

import os
import sys

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import python_tools, remote

# What the node's code needs beside its own package.
SHARED = ("__init__", "cli", "errors", "shipping", "files")
display = Display()


class ActionModule(ActionBase):
    """One raw command that carries the tools; none where they are there."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = super().run(tmp, task_vars)
        arguments, host = self._task.args, task_vars["inventory_hostname"]
        folder = str(arguments["folder"])
        try:
            with open(python_tools.pins_path(), encoding="utf-8") as stream:
                name = python_tools.tools_name(stream.read(), str(arguments["arch"]))
            there = name in [str(found) for found in arguments.get("there") or []]
            path = os.path.join(folder, name)
            result.update(changed=not there, path=path, uv=os.path.join(path, "uv"), name=name)
            if self._task.diff and not there:
                result["diff"] = {"before": "", "after": path + "\n", "after_header": "tools"}
            if not there and not self._task.check_mode:
                result["changed"] = self._send(folder, host)
        except Refusal as refusal:
            result.update(failed=True, changed=False, muster_said=True, msg="{}: {}".format(host, refusal))
        except remote.NodeError as error:
            kind = "unreachable" if error.unreachable else "failed"
            result.update({kind: True, "changed": False, "muster_said": True, "msg": "{} {}".format(host, error)})
        return result

    def _send(self, folder, host):
        """Send the tools; returns whether they were not there. Raises Refusal or NodeError."""
        arguments = self._task.args
        made = python_tools.build(
            str(arguments["arch"]), os.path.abspath(str(arguments["cache"])), str(arguments.get("uv") or controller_uv()),
            say=display.display,
        )  # fmt: skip
        with open(made.archive, "rb") as stream:
            archive = stream.read()
        display.display("{}: gets rattler and uv, {:.0f} MB".format(host, len(archive) / 1e6))
        content = {"do": "receive", "folder": folder, "name": made.name, "sha256": made.sha256}
        command = remote.first_boot_command([str(arguments["python"])])
        stdin = remote.boot_stdin(content, sources(), archive, "muster_tools")
        answer = remote.ask(self, str(arguments["python"]), command, stdin)
        if "refused" in answer:
            raise Refusal(answer["refused"])
        return boolean(answer["received"])


def controller_uv():
    """The uv beside the Python that runs Ansible, or one on PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    return beside if os.access(beside, os.X_OK) else "uv"


def sources():
    """The files that are sent: the package, and what it needs of the agent's."""
    found = remote.agent_sources(os.path.join(remote.MODULE_UTILS, "muster_tools"))
    agent = remote.agent_sources()
    found.update({"muster_agent/{}.py".format(name): agent[name + ".py"] for name in SHARED})
    return found
