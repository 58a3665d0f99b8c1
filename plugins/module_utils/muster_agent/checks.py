"""What a node looks at before it lets a job start; each check raises :class:`Refusal` with one sentence."""

import os

from . import facts, network, procs
from .errors import Refusal

FREE_BYTES = 64 * 1024 * 1024


def python_and_torch(name, python):
    """The job's Python is new enough and has torch; returns torch's version."""
    found = facts.interpreter(python)
    if found is None:
        raise Refusal(
            "{}: {} cannot be run, expected the job's Python; run ansible-playbook site.yml, or name a Python that has torch "
            "by muster_python".format(name, python)
        )
    if found["version"] < [3, 8]:
        raise Refusal(
            "{}: {} is Python {}.{}, expected 3.8 or later; name another by muster_python".format(
                name, python, *found["version"]
            )
        )
    if found["torch"] is None:
        raise Refusal(
            "{}: found no torch in {}, expected it in the job's environment; run ansible-playbook site.yml, or name "
            "a Python that has it by muster_python".format(name, python)
        )
    if int(found["torch"].split(".")[0]) < 2:
        raise Refusal("{}: found torch {}, expected 2.0 or later; upgrade it".format(name, found["torch"]))
    return found["torch"]


def processes(name, wanted, env):
    """Number of processes for this node: ``wanted`` resolved and compared with its GPUs."""
    visible = env.get("CUDA_VISIBLE_DEVICES")
    gpus = facts.count_gpus(visible)
    count = facts.resolve_nproc(wanted, gpus, facts.cores())
    if count == 0:
        raise Refusal(
            "{}: found no NVIDIA GPU, expected one or more since nproc_per_node is gpu; "
            "use nproc_per_node=auto or a number".format(name)
        )
    if gpus and wanted != "cpu" and count > gpus:
        raise Refusal(
            "{}: nproc_per_node is {}, but there are {} GPUs; use at most {}, or set CUDA_VISIBLE_DEVICES to the empty "
            "string in env to run on the CPU".format(name, count, gpus, gpus)
        )
    return count


def interfaces(name, address, env, data_network):
    """The interface variables for this host: ``{"GLOO_SOCKET_IFNAME": ..., ...}``; the user's own are checked, not set."""
    pairs = network.addresses()
    names = {pair[0] for pair in pairs} | {"lo"}
    chosen = {}
    # NCCL's variable may be a prefix or an exclusion, so that only gloo's can be compared.
    wanted = env.get("GLOO_SOCKET_IFNAME")
    if wanted and not set(wanted.split(",")) & names:
        raise Refusal(
            "{}: env sets GLOO_SOCKET_IFNAME={}, found only {}; remove it (Muster chooses per host) or name one that every "
            "host has".format(name, wanted, ", ".join(sorted(names)))
        )
    if not network.is_local(address):
        raise Refusal(
            "{}: this host has no address {}, found {}; correct muster_address in the inventory".format(
                name, address, ", ".join(sorted({held for _, held in pairs})) or "none"
            )
        )
    if data_network:
        interface = network.interface_in(data_network, pairs)
        if interface is None:
            raise Refusal(
                "{}: no interface has an address in {}, expected one; correct muster_data_network".format(
                    name, data_network
                )
            )
        chosen["NCCL_SOCKET_IFNAME"] = interface
    else:
        interface = network.interface_of(address, pairs)
    if interface:
        chosen["GLOO_SOCKET_IFNAME"] = interface
    return {variable: value for variable, value in chosen.items() if variable not in env}


def ports(name, wanted):
    """The head's ports are free; ``wanted`` is ``[(port, what it is for)]``."""
    for port, purpose in wanted:
        if not network.port_free(port):
            raise Refusal(
                "{}: port {} ({}) is held by {}, expected it free; end that process or choose another "
                "master_port".format(name, port, purpose, network.port_holder(port))
            )


def disk(name, folder, needed):
    """Room for the code, the logs and a little more."""
    free = facts.free_bytes(folder)
    if free < needed + FREE_BYTES:
        raise Refusal(
            "{}: {} MB free below {}, expected {} MB or more; make room or choose another muster_state_dir".format(
                name, free // 1048576, folder, (needed + FREE_BYTES) // 1048576
            )
        )


def state_folder(name, folder):
    """The state folder can be made and written by this user."""
    existing = facts.existing(folder)
    if not os.path.isdir(existing) or not os.access(existing, os.W_OK | os.X_OK):
        raise Refusal(
            "{}: {} cannot be written by {}, expected a folder of its own; run site.yml or set muster_state_dir".format(
                name, existing, _me()
            )
        )


def script(name, path):
    """The script is a readable file on this host."""
    if not os.path.exists(path):
        raise Refusal("{}: found no {}, expected the script there; correct script".format(name, path))
    if os.path.isdir(path):
        raise Refusal("{}: {} is a directory, expected a Python script; correct script".format(name, path))
    if not os.access(path, os.R_OK):
        raise Refusal("{}: {} cannot be read by {}; chmod it".format(name, path, _me()))


def _me():
    return procs.user_name(os.getuid())


def all_local(spec, needed_bytes=0, held_by_itself=False):
    """Every check of one node.

    Args:
        spec: the node's specification (see :mod:`spec`).
        needed_bytes: size of what is shipped.
        held_by_itself: the ports are held by the very job that would be replaced.

    Returns:
        ``{"nproc": int, "interface": {variable: name}, "torch": version}``.
    """
    nodes = spec["nodes"]
    me = nodes[spec["node_rank"]]
    name = me["name"]
    state_folder(name, spec["state_dir"])
    found = {"torch": python_and_torch(name, spec["python"])}
    if spec.get("script") and os.path.isabs(spec["script"]):
        script(name, spec["script"])
    if spec.get("chdir") and os.path.isabs(spec["chdir"]) and not os.path.isdir(spec["chdir"]):
        raise Refusal("{}: found no folder {}, expected chdir to exist there; make it".format(name, spec["chdir"]))
    found["nproc"] = processes(name, spec["nproc_per_node"], spec["env"])
    found["interface"] = interfaces(name, me["address"], spec["env"], spec.get("data_network"))
    if spec["node_rank"] == 0 and not held_by_itself:
        ports(name, [(spec["master_port"], "rendezvous"), (spec["control_port"], "control plane")])
    disk(name, spec["state_dir"], needed_bytes)
    return found
