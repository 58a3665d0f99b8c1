"""Which nodes hold another environment than the others, and in which packages; pure."""

# Packages that are named of one node; of more there is a count.
SHOWN = 5


def groups(reports):
    """Reports with equal fingerprints together, the reference first.

    The reference is what most nodes have; where two are as frequent, what the earlier node has. The head is the first.

    Args:
        reports: ``[{"name", "fingerprint", ...}]`` in node-rank order; those without a fingerprint are left out.
    """
    found = {}
    for report in reports:
        if report.get("fingerprint"):
            found.setdefault(report["fingerprint"], []).append(report)
    return sorted(found.values(), key=len, reverse=True)  # which keeps the order of equals


def drift(reports, fix="run site.yml", shown=SHOWN):
    """One sentence for every environment that is not the one that most nodes have.

    Args:
        reports: as :func:`differences` takes them.
        fix: what to do about it.
        shown: packages to name of each.
    """
    return ["{}; expected the same on every node; {}".format(clause, fix) for clause in differences(reports, shown)]


def differences(reports, shown=SHOWN):
    """How environments differ from the one that most nodes have, without what to do about it.

    Args:
        reports: ``[{"name", "fingerprint", "contents"}]`` in node-rank order. ``contents`` is what :func:`facts.contents` gives,
            of one node for every fingerprint at least; where it is missing the packages are not named.
        shown: packages to name of each.
    """
    same = groups(reports)
    told = []
    for other in same[1:]:
        mine, reference = contents(other), contents(same[0])
        if mine is None or reference is None:
            what = "its fingerprint is {:.12} instead of {:.12}".format(other[0]["fingerprint"], same[0][0]["fingerprint"])
        else:
            what = named(mine, reference, shown)
        told.append("the environment of {} differs from that of {}: {}".format(names(other), names(same[0]), what))
    return told


def contents(group):
    """The contents that the first of a group tells that tells any, or None."""
    return next((report["contents"] for report in group if report.get("contents") is not None), None)


def names(group, most=4):
    """``n1``, ``n1 and n2``, ``n1, n2 and 7 more``."""
    told = [report["name"] for report in group]
    if len(told) > most:
        return "{} and {} more".format(", ".join(told[:most]), len(told) - most)
    return " and ".join(filter(None, [", ".join(told[:-1]), told[-1]]))


def named(mine, reference, shown=SHOWN):
    """How one environment differs from another, package by package: the first ``shown`` and a count.

    >>> named({"numpy": ["2.4.0", "", "ab"]}, {"numpy": ["2.4.1", "", "cd"], "six": ["1", "", "ef"]})
    'numpy is 2.4.0 instead of 2.4.1, six 1 is missing'
    """
    pairs = [(name, mine.get(name), reference.get(name)) for name in sorted(set(mine) | set(reference))]
    told = [one(*pair) for pair in pairs if pair[1] != pair[2]]
    more = ["{} more".format(len(told) - shown)] if len(told) > shown else []
    return " and ".join(filter(None, [", ".join(told[:shown])] + more))


def one(name, found, expected):
    """How one package differs from what is expected; either is None where there is none."""
    if not found:
        return "{} {} is missing".format(name, expected[0])
    if not expected:
        return "{} {} should not be there".format(name, found[0])
    if found[0] != expected[0]:
        return "{} is {} instead of {}".format(name, found[0], expected[0])
    if found[1] != expected[1]:
        return "{} {} is {} instead of {}".format(name, found[0], build(found[1]), build(expected[1]))
    if not found[2]:
        return "{} {} has lost its list of files".format(name, found[0])
    return "{} {} has other files".format(name, found[0])


def build(text):
    """A conda build in words; a wheel has none."""
    return "build " + text if text else "a wheel"
