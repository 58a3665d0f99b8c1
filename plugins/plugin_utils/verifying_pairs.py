"""Who reaches whom: the matrix of a verification, and a sentence for each pair that fails; pure.

An outcome is what a host tells of one port of another: ``{"state", "port", "ms", "source", "detail"}``, see ``connecting.visit``.
"""

KINDS = ("rendezvous", "ephemeral")
LETTERS = {"ok": ".", "timeout": "T", "refused": "R", "unreachable": "U", "foreign": "F", "error": "E"}
LEGEND = {
    ".": "reached on both ports",
    "T": "no answer",
    "R": "refused",
    "U": "unreachable",
    "F": "something else answers",
    "E": "another error",
    "?": "not tried",
}


def state_of(outcomes):
    """The worse of a pair's two states, and whether both are it: ``("timeout", False)``; None for a pair that was not tried."""
    if not outcomes:
        return None, True
    states = [outcomes[kind]["state"] for kind in KINDS]
    bad = [state for state in states if state != "ok"]
    return (bad[0], len(set(states)) == 1) if bad else ("ok", True)


def letter(outcomes):
    """One character for a pair: small where only one of the two ports fails."""
    state, both = state_of(outcomes)
    if state is None:
        return "?"
    return LETTERS[state] if both else LETTERS[state].lower()


def count(names, pairs):
    """``(pairs that reach each other on both ports, all pairs)``, a host with itself left out."""
    told = [letter(pairs.get(one, {}).get(other)) for one in names for other in names if one != other]
    return told.count("."), len(told)


def matrix(names, pairs):
    """The table of who (rows) reaches whom (columns), as lines; one character per cell.

    Args:
        names: the hosts in node-rank order.
        pairs: ``{from: {to: {kind: outcome}}}``.
    """
    wide = max(map(len, names))
    rank_width = len(str(len(names) - 1))
    gap = " " if len(names) <= 16 else ""
    margin = " " * (rank_width + 1 + wide + 2)
    heads = [str(number).rjust(rank_width) for number in range(len(names))]
    lines = [(margin + gap.join(head[row] for head in heads)).rstrip() for row in range(rank_width)]
    used = set()
    for number, one in enumerate(names):
        cells = []
        for other in names:
            cell = letter(pairs.get(one, {}).get(other))
            cells.append("-" if one == other and cell in ".?" else cell)
        used.update(cells)
        lines.append("{} {}  {}".format(str(number).rjust(rank_width), one.ljust(wide), gap.join(cells)))
    return lines + legend(used)


def legend(used):
    """What the characters of a matrix mean, in one line; only those that stand in it."""
    told = ["from row to column"]
    told += ["{} {}".format(sign, text) for sign, text in LEGEND.items() if sign in used or sign.lower() in used]
    if any(sign.islower() for sign in used):
        told.append("small: on one of the two ports")
    return ["; ".join(told)]


def slowest(names, pairs):
    """Milliseconds of the slowest connection that succeeded, None where none did."""
    found = [
        outcome["ms"]
        for one in names
        for other, outcomes in pairs.get(one, {}).items()
        for outcome in outcomes.values()
        if outcome["state"] == "ok" and other != one
    ]
    return max(found) if found else None


def sentences(nodes, pairs, ranges, timeout):
    """One sentence for every pair that fails, with both hosts and what is missing.

    Args:
        nodes: ``[{"name", "address"}]``.
        pairs: ``{from: {to: {kind: outcome}}}``.
        ranges: ``{name: {kind: "first:last"}}``, the ports that a host's firewall should open to members.
        timeout: seconds that a connection was waited for.
    """
    addresses = {node["name"]: node["address"] for node in nodes}
    found = []
    for one in addresses:
        for other in addresses:
            outcomes = pairs.get(one, {}).get(other) or {}
            failing = {kind: outcome for kind, outcome in outcomes.items() if outcome["state"] != "ok"}
            if failing:
                # A host that reaches itself has a listener that lives, whatever others are told.
                alive = state_of(pairs.get(other, {}).get(other))[0] == "ok"
                back = not lost_ways(pairs.get(other, {}).get(one))
                known = {"alive": alive, "back": back}
                found.append(sentence((one, addresses[one]), (other, addresses[other]), failing, ranges[other], timeout, known))
    return found


def lost_ways(outcomes):
    """Whether a host has told that it has no route."""
    return any(outcome["state"] in ("unreachable", "error") and not outcome["source"] for outcome in (outcomes or {}).values())


def sentence(source, target, failing, ranges, timeout, known):
    """One pair that fails: found, expected, what to do.

    Args:
        source, target: ``(name, address)``.
        failing: ``{kind: outcome}``.
        ranges: ``{kind: "first:last"}`` of the target.
        timeout: seconds.
        known: ``{"alive": whether the target's listeners can be reached on the target itself, "back": whether the target has a
            route back}``.
    """
    kinds = [kind for kind in KINDS if kind in failing]
    told = {kind: how(failing[kind], timeout) for kind in kinds}
    if len(set(told.values())) == 1:
        where = "port{} {} ({})".format(
            "s" if len(kinds) > 1 else "", " and ".join(str(failing[kind]["port"]) for kind in kinds), told[kinds[0]]
        )
    else:
        where = " and ".join("port {} ({})".format(failing[kind]["port"], told[kind]) for kind in kinds)
    name = "itself" if target[0] == source[0] else target[0]
    return "{} cannot reach {} at {} {}, expected {} open to members: {}".format(
        source[0], name, target[1], where, "them" if len(kinds) > 1 else "it", why(source, target, failing, ranges, known)
    )


def how(outcome, timeout):
    """What a connection met, for the brackets of a sentence."""
    known = {
        "timeout": "no answer within {:g} s".format(timeout),
        "refused": "refused",
        "foreign": "something else answers there",
    }
    return known.get(outcome["state"]) or outcome.get("detail") or outcome["state"]


def why(source, target, failing, ranges, known):
    """What is likely missing, and the way to it."""
    worst = next(iter(failing.values()))
    states = {outcome["state"] for outcome in failing.values()}
    start = worst.get("source")
    rule = "tcp {} from {}".format(" and ".join(ranges[kind] for kind in KINDS if kind in failing), start or source[1])
    if "foreign" in states:
        return "another host or a proxy answers for {}; see which machines hold that address, and what holds the port".format(
            target[1]
        )
    if lost_ways(failing):
        return "{} has no route there; correct the routes of {}, or muster_address of {} in the inventory".format(
            source[0], source[0], target[0]
        )
    if not known["back"]:
        return "{} has no route back; correct the routes of {}, or muster_address of {} in the inventory".format(
            target[0], target[0], source[0]
        )
    if "error" in states:
        return "{} may not connect; see the firewall of {} for what it lets out".format(source[0], source[0])
    if "refused" in states and not known["alive"]:
        return "nothing listens there any more; see what ended the listener of {}, and run verify.yml again".format(target[0])
    if start and start != source[1] and source[0] != target[0] and not source[1].startswith("127."):
        return "{} goes there from {}, which is not its address in the cluster; correct its routes, or muster_address of {} in " \
            "the inventory".format(source[0], start, source[0])  # fmt: skip
    verb = "lacks" if states == {"timeout"} else "rejects"
    return "the firewall of {} {} {}; run site.yml --tags firewall".format(target[0], verb, rule)
