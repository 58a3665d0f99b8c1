#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Start, stop and remove the torchrun of one node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: torchrun
short_description: Starts, stops and removes torchrun jobs
version_added: 0.1.0
description:
  - Starts the agent of a job on this node. The agent waits for the agents of the other nodes, compares Python, torch, packages,
    script and clocks, starts torchrun with this node's rank, stops it when another node fails, and writes one result.
  - A job is known by its name. The same specification under the name of a running job changes nothing; another one is refused
    with the keys that differ.
  - The task ends when the agent has started, not when the job has ended; follow it with M(muster.cluster.torchrun_info).
  - The role P(muster.cluster.launch#role) does all of this for a whole group of hosts and ships the code as well.
author:
  - The Muster founders (@muster-cluster)
options:
  name:
    description: Name of the job, 1 to 63 letters, digits, C(.), C(_) or C(-).
    type: str
    aliases: [job]
  state:
    description:
      - V(started) starts the job.
      - V(stopped) stops it on all its nodes, SIGTERM first, and keeps its folder.
      - V(absent) stops it and removes everything of it from this node, its working folder included.
    type: str
    choices: [started, stopped, absent]
    default: started
  script:
    description: Absolute path of the script on the node, or a path below O(chdir).
    type: str
  module:
    description: Dotted name of a Python module, as after C(python -m), instead of O(script).
    type: str
  args:
    description: Arguments of the script, passed on as they are.
    type: list
    elements: str
    default: []
  env:
    description: Environment of the ranks.
    type: dict
    default: {}
  nproc_per_node:
    description: Processes on this node; a number, V(auto) (one per GPU, one where there is none), V(gpu) or V(cpu).
    type: str
    default: auto
  nodes:
    description: All nodes in node-rank order, the head first. Without it the job has this node alone.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the node in messages.
        type: str
        required: true
      address:
        description: IP address under which the other nodes reach it.
        type: str
        required: true
  node_rank:
    description: Index of this node in O(nodes).
    type: int
    default: 0
  secret:
    description:
      - What the agents of one job sign their messages with, the same on every node, at least 16 characters.
      - Needed for more than one node.
    type: str
  master_port:
    description: Port of the rendezvous on the head; the job uses up to 16 ports from there on.
    type: int
    default: 29500
  data_network:
    description: Network (CIDR) whose interface carries NCCL's and gloo's data; without it the one of the node's address.
    type: str
  python:
    description: The job's interpreter, one that has torch. Without it the one that runs the module.
    type: path
  chdir:
    description: Working folder of the ranks; without it a folder of the job's own.
    type: path
  state_dir:
    description: Folder of Muster's state on the node.
    type: path
    default: /var/lib/muster
  max_restarts:
    description: How often the whole job is started again after a failure.
    type: int
    default: 0
  join_timeout:
    description: Seconds within which every node must answer the roll call.
    type: float
    default: 60
  stop_grace:
    description: Seconds between SIGTERM and SIGKILL at a stop.
    type: float
    default: 30
  supervision:
    description: Who watches over the agent, a session of its own (V(self)) or the unit C(muster@.service) (V(systemd)).
    type: str
    choices: [self, systemd]
    default: self
  force:
    description: Stop a running job that differs, start a finished one again.
    type: bool
    default: false
  plan:
    description: The plan of a launch on the controller. For the role alone; it stands for all the other options of a job.
    type: path
attributes:
  check_mode:
    description: Does the local checks (Python, torch, GPUs, ports, disk, leftovers) and starts nothing.
    support: full
  diff_mode:
    description: Shows state and specification before and after, of the environment the names alone.
    support: full
notes:
  - Needs Python 3.8 or later on the node and nothing but its standard library; the job's Python needs torch 2.0 or later.
seealso:
  - module: muster.cluster.torchrun_info
"""

EXAMPLES = r"""
- name: Start a job on one node
  muster.cluster.torchrun:
    name: exp7
    script: /srv/exp7/train.py
    args: ["--epochs", "3"]
    python: /opt/envs/exp7/bin/python
    chdir: /srv/exp7

- name: Start a job on all nodes of a play
  muster.cluster.torchrun:
    name: exp8
    script: /srv/exp8/train.py
    nodes:
      - {name: n1, address: 192.0.2.1}
      - {name: n2, address: 192.0.2.2}
    node_rank: "{{ ansible_play_hosts_all.index(inventory_hostname) }}"
    secret: "{{ exp8_secret }}"

- name: Stop it everywhere, from any of its nodes
  muster.cluster.torchrun:
    name: exp8
    state: stopped
"""

RETURN = r"""
state:
  description: What the job is now.
  returned: always
  type: str
  sample: running
nproc:
  description: Processes on this node.
  returned: O(state=started)
  type: int
  sample: 4
command:
  description: The torchrun command that does the same by hand.
  returned: O(state=started)
  type: str
  sample: torchrun --nnodes=2 --nproc-per-node=1 --node-rank=0 --master-addr=192.0.2.1 --master-port=29500 train.py
job_dir:
  description: Folder of the job on the node.
  returned: O(state=started)
  type: str
  sample: /var/lib/muster/jobs/exp7
python:
  description:
    - The interpreter that runs the job, O(python) with the links in its folder resolved, so that a job keeps its files when an
      environment is switched.
  returned: O(state=started)
  type: str
  sample: /var/lib/muster/envs/.versions/default/3f9c1e77a2d4/bin/python
environment:
  description: What is known of the environment, where Muster made it; null for another.
  returned: O(state=started)
  type: dict
  sample: {"name": "default", "lock_id": "3f9c1e77a2d4", "fingerprint": "0d6e..."}
attached:
  description: Whether the same job ran already.
  returned: O(state=started)
  type: bool
  sample: false
sentence:
  description: How the job ended, in one sentence.
  returned: O(state=stopped)
  type: str
  sample: "job exp7 stopped: stop by root@admin"
"""

import hashlib
import os
import pkgutil
import socket
import sys
from importlib import import_module

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils import muster_agent
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import __main__ as agent_entry
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import checked, cli, jobs, procs
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal


def argument_spec():
    """The module's arguments, as Ansible checks them."""
    return {
        "name": {"type": "str", "aliases": ["job"]},
        "state": {"type": "str", "choices": ["started", "stopped", "absent"], "default": "started"},
        "script": {"type": "str"},
        "module": {"type": "str"},
        "args": {"type": "list", "elements": "str", "default": []},
        "env": {"type": "dict", "default": {}},
        "nproc_per_node": {"type": "str", "default": "auto"},
        "nodes": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {"name": {"type": "str", "required": True}, "address": {"type": "str", "required": True}},
        },
        "node_rank": {"type": "int", "default": 0},
        "secret": {"type": "str", "no_log": True},
        "master_port": {"type": "int", "default": 29500},
        "data_network": {"type": "str"},
        "python": {"type": "path"},
        "chdir": {"type": "path"},
        "state_dir": {"type": "path", "default": "/var/lib/muster"},
        "max_restarts": {"type": "int", "default": 0},
        "join_timeout": {"type": "float", "default": 60},
        "stop_grace": {"type": "float", "default": 30},
        "supervision": {"type": "str", "choices": ["self", "systemd"], "default": "self"},
        "force": {"type": "bool", "default": False},
        "plan": {"type": "path"},
    }


def agent_sources():
    """The agent's files out of the archive in which Ansible sends a module: ``{name: text}``."""
    names = ["__init__", os.path.splitext(os.path.basename(agent_entry.__file__))[0]]
    names += [found.name for found in pkgutil.iter_modules(muster_agent.__path__)]
    sources = {}
    for name in names:
        full = muster_agent.__name__ if name == "__init__" else "{}.{}".format(muster_agent.__name__, name)
        sources[name + ".py"] = import_module(full).__spec__.loader.get_source(full)
    return sources


def specification(params):
    """The node's specification from the module's arguments; raises :class:`Refusal`."""
    nodes = params["nodes"] or [{"name": socket.gethostname(), "address": "127.0.0.1"}]
    if bool(params["script"]) == bool(params["module"]):
        raise Refusal("expected exactly one of script and module")
    if not 0 <= params["node_rank"] < len(nodes):
        raise Refusal("node_rank is {}, expected 0 to {}".format(params["node_rank"], len(nodes) - 1))
    if len(nodes) > 1 and len(params["secret"] or "") < 16:
        raise Refusal("secret has {} characters, expected 16 or more for several nodes".format(len(params["secret"] or "")))
    name = checked.job_name(params["name"])
    port = checked.master_port(params["master_port"])
    # Every node must come to the same id without talking to the others.
    seed = params["secret"] or os.urandom(16).hex()
    return {
        "job": name,
        "run_id": hashlib.sha256("run {} {}".format(name, seed).encode()).hexdigest()[:12],
        "key": hashlib.sha256("key {} {}".format(name, seed).encode()).hexdigest(),
        "nodes": nodes,
        "node_rank": params["node_rank"],
        "nproc_per_node": checked.nproc(params["nproc_per_node"]),
        "master_port": port,
        "control_port": port + 1,
        "script": params["script"],
        "module": checked.module_name(params["module"]) if params["module"] else None,
        "args": params["args"],
        "env": checked.environment(params["env"]),
        "python": params["python"] or sys.executable,
        "state_dir": checked.state_dir(params["state_dir"]),
        "chdir": params["chdir"],
        "code_sha256": None,
        "data_network": checked.network("data_network", params["data_network"]) if params["data_network"] else None,
        "max_restarts": checked.integer("max_restarts", params["max_restarts"], 0, 1000),
        "join_timeout": checked.seconds("join_timeout", params["join_timeout"], 1, 86400),
        "stop_grace": checked.seconds("stop_grace", params["stop_grace"], 0, 86400),
        "launched_by": who(),
    }


def who():
    """``user@host``, of this node."""
    return "{}@{}".format(procs.user_name(os.getuid()), socket.gethostname())


def shown(state, spec=None):
    """One side of a diff: no secrets."""
    kept = {} if spec is None else {key: spec[key] for key in spec if key not in ("key", "run_id", "env")}
    if spec is not None:
        kept["env"] = sorted(spec["env"])
    return dict(kept, state=state)


def run(module):
    """Do what the arguments say; returns what exit_json shows."""
    params, check = module.params, module.check_mode
    name = checked.job_name(params["name"])
    before = jobs.info(params["state_dir"], name)["jobs"][name]["state"]
    if params["state"] == "started":
        spec = specification(params)
        done = jobs.start(spec, agent_sources(), force=params["force"], check=check, supervision=params["supervision"])
        done["diff"] = {"before": shown(before), "after": shown(done["state"], spec)}
        return done
    if params["state"] == "stopped":
        if check:
            done = {"changed": before == "running", "state": "stopped" if before == "running" else before, "sentence": None}
        else:
            done = jobs.stop(params["state_dir"], name, "stop by " + who())
    else:
        done = jobs.absent(params["state_dir"], name, check)
    done["diff"] = {"before": shown(before), "after": shown(done["state"])}
    return done


def main():
    """Entry point."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    if sys.version_info < (3, 8):  # noqa: UP036 - Ansible runs modules with whatever a node has
        module.fail_json(
            msg="found Python {}.{} on the node, expected 3.8 or later; name another by ansible_python_interpreter".format(
                *sys.version_info[:2]
            )
        )
    if not module.params["name"]:
        module.fail_json(msg="found no name, expected the job's")
    try:
        module.exit_json(**run(module))
    except Refusal as refusal:
        module.fail_json(msg=str(refusal))
    except OSError as error:
        module.fail_json(msg=cli.explain_os_error("torchrun", error))


if __name__ == "__main__":
    main()
