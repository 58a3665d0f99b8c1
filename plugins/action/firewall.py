"""Action in front of the module ``firewall``: confirms a change over a fresh connection, or tells why nobody could."""

import secrets
import time

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.modules.firewall import ARGUMENTS
from ansible_collections.muster.cluster.plugins.plugin_utils import firewall, looking, unreachable

MODULE = "muster.cluster.firewall"
# Seconds beyond the guard's own that the host may need to come back.
PATIENCE = 45
# What the look imports beside its own package.
OTHERS = ("muster_agent/__init__", "muster_agent/cli", "muster_agent/errors", "muster_agent/network", "muster_agent/procs")
display = Display()


class ActionModule(ActionBase):
    """One raw look where nothing has to change; else the module, and again over a new connection."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = super().run(tmp, task_vars)
        seen = self._look(task_vars)
        if seen.get("done"):
            return dict(result, changed=False, guarded=False, commands=[], client=seen["client"], warnings=seen["warnings"])
        host = task_vars["inventory_hostname"]
        token = secrets.token_hex(8)
        lost = None
        try:
            first = self._execute_module(MODULE, dict(self._task.args, guard=token), task_vars=task_vars)
        except AnsibleConnectionFailure as error:
            if self._task.check_mode:
                raise
            # It may have died of the change, which the guard then undoes.
            first, lost = {"changed": True, "guarded": True}, error
        result.update(first)
        if result.get("failed"):
            result["msg"] = "{}: {}".format(host, result.get("msg"))
        elif result.get("guarded"):
            told = self._confirm(host, token, result.get("client", ""), lost, task_vars)
            result.update({"failed": True, "changed": False, "msg": told} if told else {"confirmed": True})
        return dict(result, muster_said=True) if result.get("failed") else result

    def _look(self, task_vars):
        """What ``muster_firewall.cli`` answers; empty where the module has to say what is wrong."""
        _, options = self.validate_argument_spec(ARGUMENTS)
        if options["state"] != "present" or not options["backend"]:
            return {}
        try:
            return looking.look(self, task_vars, "muster_firewall", {"backend": options["backend"], "options": options}, OTHERS)
        except looking.Fault:
            return {}

    def _confirm(self, host, token, client, lost, task_vars):
        """Confirm the change, or wait until the guard has undone it; a sentence about what went wrong, or None.

        Args:
            client: the controller's address as the host saw it.
            lost: what ended the connection during the change, if something did.
        """
        seconds = int(self._task.args.get("rollback_seconds", 60))
        until = time.monotonic() + seconds + PATIENCE
        failure, answer = lost, None
        while answer is None:
            try:
                # An open connection is let live on by every firewall, so that it proves nothing.
                self._connection.reset()
                answer = self._execute_module(MODULE, {"state": "confirm", "guard": token}, task_vars=task_vars)
            except AnsibleConnectionFailure as error:
                if failure is None:
                    display.display("{}: no new connection after the change of the firewall; it will be undone".format(host))
                failure = failure or error
                if time.monotonic() > until:
                    if lost:
                        raise
                    return firewall.gone(host, unreachable.explain(str(failure)), seconds, PATIENCE)
                time.sleep(1)  # between two tries to connect; a refused one comes back at once
        if answer.get("failed"):
            return "{}: {}; the change is undone after {} s".format(host, answer.get("msg"), seconds)
        if answer.get("confirmed"):
            return None
        if not answer.get("fresh"):
            return firewall.old_connection(host, seconds)
        if lost:
            return firewall.broken(host, unreachable.explain(str(lost)))
        if failure is None:
            return firewall.late(host, seconds)
        return firewall.shut_out(host, client, self._task.args.get("admin_networks"), self._task.args.get("members"), seconds)
