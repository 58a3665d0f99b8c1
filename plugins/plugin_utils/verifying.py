"""The verdict of a verification from what every host has told: faults, what is only told, one sentence; pure."""

from . import verifying_pairs as pairs_of
from . import verifying_promises as promises

# Beyond this many hosts the matrix stands in its file alone.
SHOWN = 16
FAULTS_SHOWN = 20
# Of a host's clock against the controller's, which is often a laptop's; the roll call of a launch has the same.
CONTROLLER_SECONDS = 30.0


def lifetime(hosts, forks, timeout, clock_wait):
    """Seconds that listeners live at most: until the last host has connected, in as many rounds as there are forks for."""
    rounds = -(-hosts // max(1, forks))
    return int(20 + rounds * (clock_wait + timeout + 5))


def plan_lines(nodes, group, options):
    """What a verification would do, for check mode."""
    names = [node["name"] for node in nodes]
    lines = ["would prove {} pairs of {}".format(len(names) * (len(names) - 1), ", ".join(names))]
    if options["ssh"]:
        lines.append("would log in from {} to {} as {}".format(names[0], ", ".join(names), options["user"]))
    lines += ["would compare the " + what for what in ("clocks", "versions") if options[what]]
    return lines + left_out(nodes, group)


def left_out(nodes, group):
    """Who of the group is not in the play, as lines."""
    missing = [name for name in group if name not in {node["name"] for node in nodes}]
    return ["not in this run (--limit): " + ", ".join(missing)] if missing else []


def judge(plan, listened, connected):
    """Everything that was found.

    Args:
        plan: ``{"nodes", "group", "lost", "options"}`` as the action ``verify_plan`` makes it.
        listened: ``{name: answer of listen}``, with ``lost`` where the host could not be asked, and the controller's ``bounds``.
        connected: ``{name: answer of connect}``, or ``lost``.

    Returns:
        ``{"ok", "sentence", "faults", "told", "matrix", "record"}``; ``record`` is what JSON can carry.
    """
    nodes, options = plan["nodes"], plan["options"]
    names = [node["name"] for node in nodes]
    facts = {name: answer["facts"] for name, answer in listened.items() if "facts" in answer}
    pairs = {name: answer["pairs"] for name, answer in connected.items() if "pairs" in answer}
    ranges = {
        name: {
            "rendezvous": "{}:{}".format(*options["port_range"]),
            "ephemeral": "{}:{}".format(*(facts[name]["ephemeral"] if name in facts else (32768, 60999))),
        }
        for name in names
    }
    good, tried = pairs_of.count(names, pairs)
    faults = losses(plan, listened, connected) + pairs_of.sentences(nodes, pairs, ranges, options["timeout"])
    if good < tried and not faults:
        faults.append("{} of {} pairs were not tried; run verify.yml again".format(tried - good, tried))
    told = left_out(nodes, plan["group"])
    told += ["{}: port {} is held by {}, {} was tried instead".format(
        name, options["port"], answer["listeners"]["passed_over"], answer["listeners"]["rendezvous"]
    ) for name, answer in listened.items() if answer.get("listeners", {}).get("passed_over")]  # fmt: skip
    parts = [reach(good, tried, pairs_of.slowest(names, pairs))]
    for judged in (ssh_part, clock_part, version_part):
        more, lines, part = judged(plan, facts, connected, listened)
        faults, told, parts = faults + more, told + lines, parts + part
    told += bandwidth(names, connected)
    record = {
        "hosts": nodes, "group": plan["group"], "lost": plan["lost"], "options": options, "pairs": pairs, "facts": facts,
        "ssh": {name: answer["ssh"] for name, answer in connected.items() if answer.get("ssh")},
        "clocks": {name: answer["clocks"] for name, answer in connected.items() if "clocks" in answer},
        "bounds": {name: answer["bounds"] for name, answer in listened.items() if "bounds" in answer},
        "pythons": {name: answer["python"] for name, answer in connected.items() if "python" in answer},
        "bandwidth": {name: answer["bandwidth"] for name, answer in connected.items() if "bandwidth" in answer},
        "faults": faults, "told": told,
    }  # fmt: skip
    return {
        "ok": not faults,
        "sentence": conclusion(plan, faults, parts),
        "faults": faults,
        "told": told,
        "matrix": pairs_of.matrix(names, pairs),
        "record": record,
    }


def losses(plan, listened, connected):
    """Hosts that could not take part, each with the reason."""
    found = []
    for node in plan["nodes"]:
        name = node["name"]
        first, second = listened.get(name, {}), connected.get(name, {})
        if name in plan["lost"]:
            found.append("{} was lost in this run, before it could be verified; mend what its own message says".format(name))
        elif first.get("lost") or second.get("lost"):
            found.append("{} {}".format(name, first.get("lost") or second["lost"]))
        elif first.get("refused"):
            found.append("{} {}".format(name, first["refused"]))
        elif "facts" not in first or "pairs" not in second:
            found.append("{} was lost in this run, while it was verified; mend what its own message says".format(name))
    return found


def reach(good, tried, slowest):
    """``6 of 6 pairs reach each other (at most 0.4 ms)``."""
    if not tried:
        return "no pairs to try"
    latency = "" if slowest is None else " ({:.1f} ms at most)".format(slowest)
    return "{} of {} pairs reach each other{}".format(good, tried, latency)


def ssh_part(plan, facts, connected, listened):
    """``(faults, told, parts of the sentence)`` of the logins from the head."""
    if not plan["options"]["ssh"]:
        return [], ["SSH: not tried (verify_ssh is false)"], []
    head = plan["nodes"][0]["name"]
    answer = connected.get(head, {})
    if "pairs" not in answer:
        return [], ["SSH: not tried, since {} could not be asked".format(head)], []
    names = [node["name"] for node in plan["nodes"] if "facts" in listened.get(node["name"], {})]
    faults, told = promises.logins(
        head, names, answer.get("ssh"), facts, plan["options"]["user"], answer.get("user")
    )
    good = len(names) - len(faults) if answer.get("ssh") else 0
    return faults, told, ["SSH from {} to {} of {}".format(head, good, len(plan["nodes"]))]


def clock_part(plan, facts, connected, listened):
    """``(faults, told, parts of the sentence)`` of the clocks."""
    if not plan["options"]["clocks"]:
        return [], ["clocks: not compared (verify_clocks is false)"], []
    names = [node["name"] for node in plan["nodes"]]
    reference = next((name for name in names if connected.get(name, {}).get("clocks")), None)
    offsets = connected[reference]["clocks"] if reference else {}
    bounds = {name: answer["bounds"] for name, answer in listened.items() if "bounds" in answer}
    faults, told = promises.clocks(
        plan["nodes"], facts, (reference, offsets), bounds, plan["options"]["clock_limit"], CONTROLLER_SECONDS
    )
    apart = promises.spread(reference, names, offsets)
    return faults, told, [] if apart is None else ["clocks within {}".format(promises.seconds(apart))]


def version_part(plan, facts, connected, listened):
    """``(faults, told, parts of the sentence)`` of the versions."""
    if not plan["options"]["versions"]:
        return [], ["versions: not compared (verify_versions is false)"], []
    pythons = {name: answer["python"] for name, answer in connected.items() if "python" in answer}
    faults, told = promises.versions(plan["nodes"], facts, pythons, plan["options"]["user"])
    first = next((python for python in pythons.values() if python), None)
    if faults or not first:
        return faults, told, []
    return faults, told, ["Python {}{} everywhere".format(
        first["version"], ", torch " + first["torch"] if first.get("torch") else ""
    )]  # fmt: skip


def bandwidth(names, connected):
    """One line of the ring's bandwidth; empty where none was measured."""
    told = []
    for name in names:
        found = connected.get(name, {}).get("bandwidth")
        if found:
            value = "{:.1f} Gbit/s".format(found["gbit_per_s"]) if "gbit_per_s" in found else found["error"]
            told.append("{} to {} {}".format(name, found["to"], value))
    return ["bandwidth of one TCP stream, all at once: " + "; ".join(told)] if told else []


def conclusion(plan, faults, parts):
    """The one sentence."""
    hosts = len(plan["nodes"])
    what = "cluster of {} host{}".format(hosts, "" if hosts == 1 else "s")
    if hosts < len(plan["group"]):
        what = "{} of the {} hosts of the cluster".format(hosts, len(plan["group"]))
    known = ", ".join(parts)
    if not faults:
        return "{} verified: {}".format(what, known)
    more = " (and {} more fault{}, told above)".format(len(faults) - 1, "" if len(faults) == 2 else "s")
    return "{} not verified ({}): {}{}".format(what, known, faults[0], more if len(faults) > 1 else "")
