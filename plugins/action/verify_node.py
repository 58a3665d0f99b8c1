"""Action of ``muster.cluster.verify_node``; its documentation stands with the module of the same name."""

import json
import os
import re
import time

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.files import read_json, write_json
from ansible_collections.muster.cluster.plugins.plugin_utils import looking, preflight, remote, unreachable

# What the node's code needs beside its own package.
# What muster_verify imports beside its own package.
OTHERS = tuple("muster_agent/" + name for name in ("__init__", "cli", "errors", "facts", "network", "procs"))


class ActionModule(ActionBase):
    """One raw command on a host: start its listeners, or connect to those of all others."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = dict(super().run(tmp, task_vars), changed=False)
        arguments = self._task.args
        if self._task.check_mode:
            return dict(result, skipped=True)
        with open(str(arguments["plan"]), encoding="utf-8") as stream:
            plan = json.load(stream)
        names = [node["name"] for node in plan["nodes"]]
        rank = names.index(task_vars["inventory_hostname"])
        folder = os.path.dirname(str(arguments["plan"]))
        if arguments["step"] == "listen":
            content = listen_request(plan, rank)
        else:
            listened = {name: read_json(answer_path(folder, "listen", number), {}) for number, name in enumerate(names)}
            if "facts" not in listened[names[rank]]:
                return dict(result, skipped=True, skip_reason="the host could not be asked before")
            content = connect_request(plan, rank, listened, str(arguments["python"]))
        answer = self._ask(content, looking.interpreters(str(arguments["interpreter"])))
        write_json(answer_path(folder, str(arguments["step"]), rank), answer)
        return dict(result, **{name: answer[name] for name in ("lost", "refused") if name in answer})

    def _ask(self, content, pythons):
        command = remote.first_boot_command(pythons)
        stdin = remote.boot_stdin(content, looking.sources("muster_verify", OTHERS), package="muster_verify")
        before = time.time()
        try:
            answer = remote.ask(self, "the host's Python", command, stdin)
        except remote.NodeError as error:
            return {"lost": str(error)}
        except AnsibleError as error:
            return {"lost": "could not be asked: {}".format(explain(str(error), pythons[0]))}
        if "clock" in answer:
            clock = answer.pop("clock")
            answer["bounds"] = [clock - time.time(), clock - before]
        if "bandwidth" in answer:
            answer["bandwidth"]["to"] = content["ring"]
        return answer


def answer_path(folder, step, rank):
    """Where a host's answer lies until the report."""
    return os.path.join(folder, "{}-{}.json".format(step, rank))


def listen_request(plan, rank):
    """The first request to the host of a node rank."""
    options, node = plan["options"], plan["nodes"][rank]
    return {
        "do": "listen",
        "name": node["name"],
        "address": node["address"],
        "port": options["port"],
        "port_range": options["port_range"],
        "user": options["user"],
        "lifetime": plan["lifetime"],
        "clock_wait": plan["clock_wait"],
    }


def connect_request(plan, rank, listened, python):
    """The second request.

    Args:
        plan: see the action ``verify_plan``.
        rank: node rank of the host.
        listened: ``{name: answer of listen}``.
        python: path of the jobs' Python on this host.
    """
    options, name = plan["options"], plan["nodes"][rank]["name"]
    peers = {
        node["name"]: {"address": node["address"], "listeners": listened[node["name"]]["listeners"]}
        for node in plan["nodes"]
        if "listeners" in listened[node["name"]]
    }
    order = list(peers)
    ring = order[(order.index(name) + 1) % len(order)] if options["bandwidth"] and name in peers and len(order) > 1 else None
    alive = [node["name"] for node in plan["nodes"] if "facts" in listened[node["name"]]]
    return {
        "do": "connect",
        "name": name,
        "peers": peers,
        "visits": 2 * len(alive) + (1 if ring else 0),
        "user": options["user"],
        "timeout": options["timeout"],
        "python": python,
        "ssh": alive if options["ssh"] and rank == 0 else [],
        "ring": ring,
    }


def explain(text, python):
    """Why Ansible could not run the command, in one clause; sudo and its passwords are told as preflight tells them."""
    told = next((clause for pattern, clause in preflight.FAULTS if re.search(pattern, text)), None)
    return told.format(python=python) if told else unreachable.explain(text)

