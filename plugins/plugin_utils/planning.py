"""The plan of a launch: who takes part, with which node rank, under which name; pure, computed once."""

import ipaddress
import re
import secrets
import shlex
import time

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal

# The control plane listens beside the first rendezvous port.
CONTROL_OFFSET = 1


def default_job(target, now=None):
    """A job's name where the user gave none: the script's stem and the time, ``train-20261201-093000``."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", re.sub(r"\.py$", "", target.rsplit("/", 1)[-1])).strip("-_") or "job"
    return "{}-{}".format(stem[:40], time.strftime("%Y%m%d-%H%M%S", time.localtime(now)))


def check_group(group):
    """The inventory has a cluster at all."""
    if not group:
        raise Refusal("found no hosts in the group torch_nodes, expected the cluster's; name its inventory by -i inventory/...")


def participants(group, play, reachable, allow_partial):
    """The hosts of the world, in inventory order.

    Args:
        group: all hosts of the group, in inventory order.
        play: hosts of this play (``--limit`` makes it smaller).
        reachable: hosts of the play that no earlier play has lost.
        allow_partial: whether a part of the group will do.

    Raises:
        Refusal: nobody is left, or somebody is missing unasked.
    """
    check_group(group)
    if not play:
        raise Refusal("the play has no hosts, expected the group of the cluster; see the inventory and --limit")
    lost = [host for host in play if host not in reachable]
    if lost and not allow_partial:
        raise Refusal(
            "{} failed or was unreachable before the launch, expected all {} hosts; mend it, or launch on the others with "
            "-e allow_partial=true".format(", ".join(lost), len(play))
        )
    missing = [host for host in group if host not in play]
    if missing and not allow_partial:
        raise Refusal(
            "--limit leaves out {}, expected all {} hosts of the group; launch without --limit, or on the part alone with "
            "-e allow_partial=true".format(", ".join(missing), len(group))
        )
    left = [host for host in play if host in reachable]
    if not left:
        raise Refusal("every host failed or was unreachable before the launch ({}); mend them first".format(", ".join(play)))
    return left


def check_addresses(nodes):
    """Every node has an IP address of its own; ``nodes`` is ``[{"name", "address"}]``."""
    seen = {}
    for node in nodes:
        try:
            address = ipaddress.ip_address(node["address"])
        except ValueError:
            raise Refusal(
                "{} has the address {!r}, expected an IP address; set muster_address in the inventory".format(
                    node["name"], node["address"]
                )
            ) from None
        other = seen.setdefault(address, node["name"])
        if other != node["name"]:
            raise Refusal(
                "{} and {} both have the address {}, expected one each; correct muster_address or ansible_host in the "
                "inventory".format(other, node["name"], node["address"])
            )
    loopback = [node for node in nodes if ipaddress.ip_address(node["address"]).is_loopback]
    if loopback and len(loopback) < len(nodes):
        raise Refusal(
            "{} has the address {}, which no other host reaches, expected one of its network; set muster_address in the "
            "inventory".format(loopback[0]["name"], loopback[0]["address"])
        )


def check_target(options, attaching):
    """Exactly one of script and module, unless the launch only comes back to a job."""
    if options.get("script") and options.get("module"):
        raise Refusal("found both script and module, expected one of them; leave one out")
    if not options.get("script") and not options.get("module") and not attaching:
        raise Refusal("found neither script nor module, expected one; write -e script=train.py")


def check_chdir(chdir):
    """A working folder is an absolute path on the nodes or one below the shipped root."""
    if chdir and not chdir.startswith("/") and ".." in chdir.split("/"):
        raise Refusal(
            "chdir is {!r}, which leads out of the shipped folder; name a folder in it or an absolute path on the "
            "nodes".format(chdir)
        )
    return chdir


def check_environment(name, pythons):
    """An environment is named, so that no host may have a Python of its own; ``pythons`` is ``{host: muster_python or None}``."""
    named = [host for host, python in pythons.items() if python]
    if named:
        more = " and {} more".format(len(named) - 1) if len(named) > 1 else ""
        raise Refusal(
            "found both python_env={} and muster_python ({} on {}{}), expected one of them; leave one out".format(
                name, pythons[named[0]], named[0], more
            )
        )


def make(options, nodes, shipped, launched_by, now=None):
    """The plan.

    Args:
        options: clean options, see :mod:`options`.
        nodes: ``[{"name", "address"}]`` in node-rank order.
        shipped: ``{"script", "code", "code_sha256", "code_bytes", "root", "files", "origin"}``.
        launched_by: ``user@host``.

    Returns:
        a dictionary that JSON can carry; ``key`` in it is a secret.
    """
    check_addresses(nodes)
    target = options.get("module") or options["script"]
    return {
        "job": options.get("job") or default_job(target, now),
        "run_id": secrets.token_hex(6),
        "key": secrets.token_hex(32),
        "nodes": nodes,
        "master_port": options["master_port"],
        "control_port": options["master_port"] + CONTROL_OFFSET,
        "script": shipped["script"],
        "module": options.get("module"),
        "args": options.get("script_args", []),
        "chdir": check_chdir(options.get("chdir")),
        "max_restarts": options["max_restarts"],
        "join_timeout": options["join_timeout"],
        "stop_grace": options["stop_grace"],
        "force": options["force"],
        "wait": options["wait"],
        "follow": options["follow"],
        "python_env": options.get("python_env"),
        "overrides": {},
        "shipped": shipped,
        "launched_by": launched_by,
        "attach": False,
    }


def specification(plan, host, per_host, python, state_dir, data_network):
    """The specification of one node (see the agent's ``spec``), from the plan and what is this host's own.

    Args:
        plan: from :func:`make`.
        host: inventory name.
        per_host: clean ``nproc_per_node`` and ``env`` of this host.
        python, state_dir, data_network: of this host.
    """
    names = [node["name"] for node in plan["nodes"]]
    copied = (
        "job", "run_id", "key", "nodes", "master_port", "control_port", "script", "module", "args", "chdir",
        "max_restarts", "join_timeout", "stop_grace", "launched_by",
    )  # fmt: skip
    spec = {name: plan[name] for name in copied}
    spec.update(
        node_rank=names.index(host),
        nproc_per_node=per_host["nproc_per_node"],
        env=per_host["env"],
        python=python,
        state_dir=state_dir,
        data_network=data_network,
        code_sha256=plan["shipped"]["code_sha256"],
    )
    return spec


def hints(job, playbook, inventories):
    """The commands that come back to a job and stop it, as the user typed the launch.

    Args:
        job: its name.
        playbook: the launch's playbook as typed: a path, or a name like ``muster.cluster.launch``.
        inventories: what was given by ``-i``; empty for the configured default.
    """
    if playbook.endswith("launch.yml"):
        folder = playbook[: -len("launch.yml")]
        stop = folder + ("stop.yml" if folder.endswith("playbooks/") else "playbooks/stop.yml")
    else:
        stop = "muster.cluster.stop"
    words = ["ansible-playbook"] + [word for path in inventories for word in ("-i", path)]
    again, end = (" ".join(map(shlex.quote, words + [book, "-e", "job=" + job])) for book in (playbook, stop))
    return ["  Ctrl-C leaves it running", "  come back: " + again, "  stop it:   " + end]


def public(plan):
    """The plan as it stands in the record: no key, of the environment the names alone, no path of the tar."""
    kept = {name: value for name, value in plan.items() if name not in ("key", "overrides")}
    kept["shipped"] = {name: value for name, value in plan["shipped"].items() if name != "code"}
    kept["env_names"] = sorted(plan["overrides"].get("env", {}))
    return kept
