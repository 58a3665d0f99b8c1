"""The roll call's verdict; pure. Each function returns one sentence (host, found, expected, fix) or None."""

from . import sameness

# Beyond this the hosts' logs and certificates stop making sense together.
CLOCK_SECONDS = 30.0
SHM_BYTES = 256 * 1024 * 1024


def absent(spec, present, waited):
    """Who did not come.

    Args:
        spec: the head's specification.
        present: node ranks that answered.
        waited: seconds.
    """
    missing = [node for rank, node in enumerate(spec["nodes"]) if rank not in present]
    if not missing:
        return None
    head = spec["nodes"][0]
    return (
        "{} did not answer the roll call within {:g} s ({} of {} nodes did); see that the host is up and reaches "
        "{}:{} on {}".format(
            ", ".join(node["name"] for node in missing), waited, len(present), len(spec["nodes"]),
            head["address"], spec["control_port"], head["name"],
        )
    )  # fmt: skip


def differing(spec, hellos, key, what, fix):
    """Whether ``key`` differs between nodes; names every value with its hosts."""
    values = {}
    for rank, hello in sorted(hellos.items()):
        value = hello.get(key)
        shown = "missing" if value is None else str(value)[:12] if key.endswith("sha256") else str(value)
        values.setdefault(shown, []).append(spec["nodes"][rank]["name"])
    if len(values) < 2:
        return None
    told = "; ".join("{} on {}".format(value, ", ".join(hosts)) for value, hosts in values.items())
    return "{} differs: {}; expected the same on every node; {}".format(what, told, fix)


def witnesses(hellos):
    """Node ranks that have to name their packages: one for every environment there is; none where there is only one."""
    first = {}
    for rank, hello in sorted(hellos.items()):
        if hello.get("fingerprint"):
            first.setdefault(hello["fingerprint"], rank)
    return sorted(first.values()) if len(first) > 1 else []


def environments(spec, hellos, shown=3):
    """Whose environment differs from that of most nodes, package by package where the packages are known."""
    told = sameness.differences([dict(hello, name=spec["nodes"][rank]["name"]) for rank, hello in sorted(hellos.items())])
    if not told:
        return None
    more = "; and {} more".format(len(told) - shown) if len(told) > shown else ""
    return "{}{}; expected the same on every node; run site.yml".format("; ".join(told[:shown]), more)


def clocks(spec, hellos):
    """A clock that is far from the head's."""
    for rank, hello in sorted(hellos.items()):
        if abs(hello.get("skew", 0.0)) > CLOCK_SECONDS:
            return "the clock of {} is {:.0f} s {} that of {}, expected at most {:g} s; set it by chrony".format(
                spec["nodes"][rank]["name"], abs(hello["skew"]), "ahead of" if hello["skew"] > 0 else "behind",
                spec["nodes"][0]["name"], CLOCK_SECONDS,
            )  # fmt: skip
    return None


def twins(spec, hellos):
    """Two hosts that hold the same address: different kernels that both call it theirs."""
    seen = {}
    for rank in sorted(hellos):
        address = spec["nodes"][rank]["address"]
        other = seen.setdefault(address, rank)
        if other != rank:
            return "{} and {} both have the address {}, expected one each; correct muster_address".format(
                spec["nodes"][other]["name"], spec["nodes"][rank]["name"], address
            )
    return None


def unreachable(spec, probes):
    """A pair that cannot talk; ``probes`` maps node rank to ``[{"rank", "address", "port", "error"}]``."""
    told = []
    for rank, failures in sorted(probes.items()):
        for failure in failures:
            told.append(
                "{} cannot reach {} at {} on port {} ({})".format(
                    spec["nodes"][rank]["name"], spec["nodes"][failure["rank"]]["name"], failure["address"],
                    failure["port"], failure["error"],
                )
            )  # fmt: skip
    if not told:
        return None
    more = " and {} more pairs".format(len(told) - 3) if len(told) > 3 else ""
    return "{}{}; expected every port open between members; open the ephemeral range in the firewall of that host".format(
        "; ".join(told[:3]), more
    )


def verdict(spec, hellos, probes):
    """The first thing that forbids the start, or None."""
    site = "run site.yml so that every node has the same"
    return (
        twins(spec, hellos)
        or clocks(spec, hellos)
        or differing(spec, hellos, "python", "Python", site)
        or differing(spec, hellos, "torch", "torch", site)
        or environments(spec, hellos)
        or differing(spec, hellos, "script_sha256", "the script", "launch again so that it is shipped anew")
        or unreachable(spec, probes)
    )


def warnings(spec, hellos):
    """What does not forbid the start but is known to break a job later."""
    told = []
    for rank, hello in sorted(hellos.items()):
        name = spec["nodes"][rank]["name"]
        if hello.get("shm_bytes", SHM_BYTES) < SHM_BYTES:
            told.append(
                "{}: /dev/shm has {} MB free; DataLoader workers may die with 'No space left on device'".format(
                    name, hello["shm_bytes"] // 1048576
                )
            )
        if 0 <= hello.get("nofile", 4096) < 4096:  # -1 is infinity
            told.append("{}: only {} open files are allowed; expected 4096 or more".format(name, hello["nofile"]))
    return told


def rank_offsets(spec, nprocs):
    """First global rank of every node and the world size, from processes per node in node-rank order."""
    offsets, total = [], 0
    for rank in range(len(spec["nodes"])):
        offsets.append(total)
        total += nprocs[rank]
    return offsets, total
