"""The specification of a job on one node: its fields, its hash, and what differs between two; pure.

=================  ====================================================================================
field              meaning
=================  ====================================================================================
job                the job's name
run_id, key        of this start; the key (hex) signs the control plane; neither is part of the hash
nodes              ``[{"name", "address"}]`` in node-rank order; the first is the head
node_rank          index of this node
nproc_per_node     number, or ``auto``, ``gpu``, ``cpu``
master_port        rendezvous port of the first attempt
control_port       port of the head's control plane
script | module    what runs; a relative script lies in the shipped code
args               list of str
env                dictionary of str
python             the job's interpreter, as it was asked for
state_dir          folder of Muster's state on this node
chdir              working folder: None (the shipped root), a path below it, or an absolute one
code_sha256        of the shipped tar, None where nothing is shipped
data_network       CIDR for NCCL and gloo, or None
max_restarts       restarts of the whole job
join_timeout       seconds for the roll call
stop_grace         seconds between SIGTERM and SIGKILL at a stop
launched_by        who and from where; not part of the hash
nproc, interface   what the node has made of ``nproc_per_node`` and its addresses; not part of the hash
interpreter        ``python`` with the links in its folder resolved, environment: what is known of it (see
                   :mod:`prefixes`); not part of the hash, so that a job stays the same when an environment is switched
=================  ====================================================================================
"""

import hashlib
import json

UNHASHED = ("run_id", "key", "launched_by", "nproc", "interface", "interpreter", "environment")


def interpreter(spec):
    """The Python that runs the job: the real path, found once at the start, of what ``python`` asks for."""
    return spec.get("interpreter") or spec["python"]


def digest(spec):
    """sha256 of everything that makes this job what it is."""
    kept = {name: value for name, value in spec.items() if name not in UNHASHED}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def differences(old, new):
    """Sorted names of the keys in which two specifications differ; ``env.NAME`` for the environment, values unseen."""
    found = []
    for name in sorted((set(old) | set(new)) - set(UNHASHED)):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if name == "env":
            keys = sorted(set(before or {}) | set(after or {}))
            found += ["env." + key for key in keys if (before or {}).get(key) != (after or {}).get(key)]
        else:
            found.append(name)
    return found


def shown_differences(old, new):
    """The differences as text: ``nproc_per_node (1, now 2), env.NAME``; environment values stay unseen."""
    told = []
    for name in differences(old, new):
        if name.startswith("env.") or name in ("nodes", "code_sha256"):
            told.append({"code_sha256": "the shipped code", "nodes": "the nodes"}.get(name, name))
        else:
            told.append("{} ({}, now {})".format(name, json.dumps(old.get(name)), json.dumps(new.get(name))))
    return ", ".join(told)
