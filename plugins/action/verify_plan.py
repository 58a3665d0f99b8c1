"""Action of ``muster.cluster.verify_plan``; its documentation stands with the module of the same name."""

import os
import tempfile
import time

from ansible import constants, context
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.files import write_json
from ansible_collections.muster.cluster.plugins.plugin_utils import addressing, planning, verifying

display = Display()
# Seconds that a host waits for a time daemon which site.yml has started a moment ago.
CLOCK_WAIT = 15


class ActionModule(ActionBase):
    """Decides once who verifies whom, and lays out the folder through which the hosts' answers go from task to task."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = super().run(tmp, task_vars)
        try:
            result.update(self._plan(task_vars))
        except Refusal as refusal:
            result.update(failed=True, muster_said=True, msg="verify refused: {}".format(refusal))
        return result

    def _plan(self, task_vars):
        arguments = self._task.args
        group = [str(name) for name in arguments["members"]]
        planning.check_group(group)
        if len(task_vars["ansible_play_batch"]) < len(task_vars["ansible_play_hosts"]):
            raise Refusal("the play has serial, expected every host at the same time; remove it")
        play, reachable = task_vars["ansible_play_hosts_all"], task_vars["ansible_play_hosts"]
        names = [name for name in group if name in play]
        nodes = [{"name": name, "address": addressing.address_of(name, task_vars["hostvars"][name])} for name in names]
        planning.check_addresses(nodes)
        options = {
            "user": str(arguments["user"]),
            "port": whole("verify_port", arguments["port"], 1, 65535),
            "port_range": port_range(arguments["port_range"]),
            "timeout": whole("verify_timeout", arguments["timeout"], 1, 60),
            "clock_limit": number("verify_clock_limit", arguments["clock_limit"]),
            # From the head alone is a login promised; --limit may have left it out.
            "ssh": yes("verify_ssh", arguments["ssh"]) and group[0] in names,
            "clocks": yes("verify_clocks", arguments["clocks"]),
            "versions": yes("verify_versions", arguments["versions"]),
            "bandwidth": yes("verify_bandwidth", arguments["bandwidth"]),
        }
        plan = {"nodes": nodes, "group": group, "lost": [name for name in names if name not in reachable], "options": options}
        if self._task.check_mode:
            for line in verifying.plan_lines(nodes, group, options):
                display.display(line)
            return {"changed": False, "plan_file": ""}
        plan["clock_wait"] = CLOCK_WAIT if options["clocks"] else 0
        forks = context.CLIARGS.get("forks") or constants.DEFAULT_FORKS
        plan["lifetime"] = verifying.lifetime(len(nodes), int(forks), options["timeout"], plan["clock_wait"])
        plan["began"] = time.time()
        plan["runs_dir"] = writable(os.path.abspath(os.path.expanduser(str(arguments["runs_dir"]))))
        # Through files: a look into the variables of all other hosts, on every host, would cost as much as the rest.
        folder = tempfile.mkdtemp(prefix="muster-{}-".format(os.getppid()), dir=constants.DEFAULT_LOCAL_TMP)
        path = os.path.join(folder, "plan.json")
        write_json(path, plan)
        return {"changed": False, "plan_file": path}


def writable(folder):
    """A folder for records, made where it is not there yet; raises Refusal before any host is asked."""
    try:
        os.makedirs(folder, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
        why = "permission denied"
    except OSError as error:
        why = error.strerror or str(error)
    raise Refusal("{} cannot be written ({}), expected a folder for the record; set verify_runs_dir".format(folder, why))


def yes(name, value):
    """A boolean, as YAML or an extra variable writes it; raises Refusal."""
    try:
        return boolean(value)
    except TypeError:
        raise Refusal("{} is {!r}, expected true or false; correct it".format(name, value)) from None


def whole(name, value, least, most):
    """A whole number between two bounds; raises Refusal."""
    try:
        found = int(value)
    except (TypeError, ValueError):
        found = least - 1
    if not least <= found <= most:
        raise Refusal("{} is {!r}, expected a number from {} to {}; correct it".format(name, value, least, most))
    return found


def number(name, value):
    """A positive number; raises Refusal."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = 0.0
    if not found > 0:
        raise Refusal("{} is {!r}, expected a number of seconds above 0; correct it".format(name, value))
    return found


def port_range(text):
    """``29500:29999`` as ``[29500, 29999]``; raises Refusal."""
    first, _, last = str(text).replace("-", ":").partition(":")
    ends = [whole("verify_port_range", end, 1, 65535) for end in (first, last or first)]
    if ends[0] > ends[1]:
        raise Refusal("verify_port_range is {!r}, expected the lower port first; correct it".format(str(text)))
    return ends
