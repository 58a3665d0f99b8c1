"""What a verification makes of logins, clocks and versions; pure. Each judge gives ``(faults, told)``, lists of sentences."""

import re

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import rollcall, sameness

SITE = "run site.yml --tags "
# What stands in ssh's complaint, and what is told of it; the first that fits. ``{user}`` and ``{name}`` are those of the login.
LOGINS = [
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key is not the one that is known there; " + SITE + "ssh_keys"),
    (
        r"Host key verification failed|No \S+ host key is known|authenticity of host",
        "its host key is not known there; " + SITE + "ssh_keys",
    ),
    (
        r"Permission denied|Too many authentication failures",
        "it refuses the login, expected the key of {user}; " + SITE + "ssh_keys",
    ),
    (r"Could not resolve hostname", "the name does not resolve there; " + SITE + "hosts_file"),
    (r"Connection refused", "nothing listens on its SSH port, or its firewall rejects it; " + SITE + "ssh_keys,firewall"),
    (r"timed out|No route to host|unreachable", "it does not answer; see its sshd and its firewall, " + SITE + "firewall"),
]


def logins(head, names, answers, facts, user, reader):
    """The logins from the head to every member.

    Args:
        head: the host that logged in.
        names: those that it should reach, in order.
        answers: ``{name: {"ok", "machine", "detail"}}``; None where it could not try.
        facts: ``{name: facts}`` as ``looking`` tells.
        user: the cluster's user.
        reader: the user as whom the verification ran on the head.
    """
    strangers = [name for name in names if name in facts and not facts[name]["account"]]
    if strangers:
        return [
            "{} no user {}, expected the cluster's (it is not set up); {}cluster_user, or leave it out by -e "
            "verify_ssh=false".format(have(strangers), user, SITE)
        ], []
    if answers is None:
        return [
            "SSH from {} could not be tried, since the verification runs there as {}, expected root or {}; see "
            "ansible_become_user".format(head, reader, user)
        ], []
    return [text for text in (login(head, name, answers.get(name), facts, user) for name in names) if text], []


def login(head, name, answer, facts, user):
    """What is wrong with one login, or None."""
    if answer is None:
        return None
    if answer["ok"]:
        there, expected = answer.get("machine"), facts.get(name, {}).get("machine")
        if there and expected and there != expected:
            return "{} gets to another machine by the name {}, expected {} itself; {}hosts_file".format(head, name, name, SITE)
        return None
    detail = answer.get("detail") or ""
    told = next((text for pattern, text in LOGINS if re.search(pattern, detail, re.IGNORECASE)), None)
    if told is None:
        told = "{}; see ssh {} there".format(detail.splitlines()[-1] if detail else "ssh says nothing", name)
    return "{} cannot log in to {} as {} without a question: {}".format(head, name, user, told.format(user=user, name=name))


def have(names):
    """``n1 has`` or ``n1, n2 have``."""
    return "{} {}".format(", ".join(names), "has" if len(names) == 1 else "have")


# ---------------------------------------------------------------------------------------------------------------- the clocks


def seconds(value):
    """A duration for people: ``0.04 ms``, ``120.4 ms``, ``2.3 s``."""
    if abs(value) >= 1:
        return "{:.1f} s".format(value)
    return "{:.{}f} ms".format(value * 1000, 2 if abs(value) < 0.001 else 1)


def spread(reference, names, clocks):
    """How far the clocks are apart at most, in seconds.

    Args:
        reference: the host from which the others were read.
        names: the hosts.
        clocks: ``{name: {"offset", "error"}}`` as seen from there.

    Returns:
        seconds, the uncertainty included; None where nothing was read.
    """
    known = [clocks[name] for name in names if name in clocks and name != reference]
    if not known:
        return None
    low = min([0.0] + [clock["offset"] - clock["error"] for clock in known])
    high = max([0.0] + [clock["offset"] + clock["error"] for clock in known])
    return high - low


def clocks(nodes, facts, seen, bounds, limit, controller_limit):
    """Whether the clocks agree, and whom they follow.

    Args:
        nodes: ``[{"name", "address"}]``.
        facts: ``{name: facts}``.
        seen: ``(reference, {name: {"offset", "error"}})``.
        bounds: ``{name: (low, high)}``, seconds by which a clock is ahead of the controller's.
        limit: seconds that the hosts may be apart.
        controller_limit: seconds that each may be off the controller's clock.
    """
    faults, told = [], []
    reference, offsets = seen
    for node in nodes:
        name = node["name"]
        clock = offsets.get(name)
        if clock and name != reference and abs(clock["offset"]) - clock["error"] > limit:
            faults.append(
                "the clock of {} is {} {} that of {}, expected at most {}; {}chrony, and see chronyc tracking there".format(
                    name, seconds(abs(clock["offset"])), "ahead of" if clock["offset"] > 0 else "behind", reference,
                    seconds(limit), SITE,
                )
            )  # fmt: skip
        low, high = bounds.get(name, (0, 0))
        if low > controller_limit or high < -controller_limit:
            faults.append(
                "the clock of {} is {} {} this machine's, expected at most {}; correct the wrong one of the two".format(
                    name, seconds(min(abs(low), abs(high))), "ahead of" if low > 0 else "behind", seconds(controller_limit)
                )
            )
        if name in facts:
            faults += follows_nothing(name, facts[name]["time"])
    leaders = {}
    members = {node["address"]: node["name"] for node in nodes}
    for node in nodes:
        if node["name"] in facts:
            leaders.setdefault(leader(facts[node["name"]]["time"], members), []).append(node["name"])
    follow = "; ".join(
        "{} follow{} {}".format(", ".join(names), "s" if len(names) == 1 else "", whom) for whom, names in leaders.items()
    )
    if follow:
        told.append("clocks: " + follow)
    fixed = [name for name in facts if not facts[name]["time"]["settable"]]
    if fixed:
        told.append(
            "clocks: {} may not set {} clock, which is that of the machine underneath".format(
                ", ".join(fixed), "its" if len(fixed) == 1 else "their"
            )
        )
    return faults, told


def follows_nothing(name, found):
    """Faults of a host whose clock nothing keeps."""
    if found["chrony"] and not found["chrony"]["synchronised"]:
        return [
            "{} follows no clock (chrony has chosen no source yet), expected one; see chronyc sources there, {}chrony,"
            "firewall".format(name, SITE)
        ]
    # A container's clock is kept by the machine underneath.
    if not found["daemons"] and found["settable"]:
        return [
            "{} has no time daemon that runs (it is not set up), expected chrony; {}chrony, or leave it out by -e "
            "verify_clocks=false".format(name, SITE)
        ]
    return []


def leader(found, members):
    """Whose clock a host follows, in words; ``members`` maps addresses to names."""
    chrony = found["chrony"]
    if chrony and not chrony["synchronised"]:
        return "no clock yet"
    if chrony and chrony["local"]:
        return "its own clock"
    if chrony:
        return members.get(chrony["source"], chrony["source"])
    if found["daemons"]:
        return "what {} has chosen".format(" and ".join(found["daemons"]))
    return "its own clock" if found["settable"] else "the clock of the machine underneath"


# -------------------------------------------------------------------------------------------------------------- the versions


def versions(nodes, facts, pythons, user):
    """Whether all hosts have the same Python, torch, packages and user.

    Args:
        nodes: ``[{"name", "address"}]``.
        facts: ``{name: facts}``.
        pythons: ``{name: the jobs' Python}`` as ``looking.job_python`` tells; None where there is none.
        user: the cluster's user.
    """
    hellos = {}
    for rank, node in enumerate(nodes):
        name = node["name"]
        if name in pythons and name in facts:
            python, account = pythons[name] or {}, facts[name]["account"]
            hellos[rank] = {
                "python": python.get("version"),
                "torch": python.get("torch"),
                "ids": "uid {uid}, gid {gid}".format(**account) if account else None,
            }
    if not hellos:
        return [], []
    spec = {"nodes": nodes}
    same = SITE + "python_env so that every node has the same"
    numbers = "give it the same numbers everywhere, " + SITE + "cluster_user"
    faults = [
        rollcall.differing(spec, hellos, "python", "the jobs' Python", same),
        rollcall.differing(spec, hellos, "torch", "torch", same),
        *sameness.drift(reports(nodes, pythons), SITE + "python_env"),
        rollcall.differing(spec, hellos, "ids", "the user " + user, numbers),
    ]
    told = []
    if all(hello["python"] is None for hello in hellos.values()):
        told.append("versions: no Python for jobs yet (it is not set up); {}python_env".format(SITE))
    systems = {}
    for node in nodes:
        if node["name"] in facts:
            systems.setdefault(facts[node["name"]]["system"], []).append(node["name"])
    if len(systems) > 1:
        told.append("systems: " + "; ".join("{} on {}".format(what, ", ".join(names)) for what, names in systems.items()))
    return [text for text in faults if text], told


def reports(nodes, pythons):
    """What :func:`sameness.drift` compares, of the hosts that have a Python."""
    return [dict(pythons[node["name"]], name=node["name"]) for node in nodes if pythons.get(node["name"])]
