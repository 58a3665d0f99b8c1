"""Which limits a host takes, and what of that is to be done; pure."""

from ansible_collections.muster.cluster.plugins.module_utils import sysctls
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_survey.limits import LIMITS_FILE, SYSCTL_FILE

from . import role_variables

UNLIMITED = -1


def resource_limits(nofile, memlock, found):
    """The limits for ``limits.d``: as wanted, not below what the host has, and not above what it can give.

    pam_limits refuses the login of a user for whom a limit cannot be set, so what is impossible must not stand there.

    Args:
        nofile: number of open files.
        memlock: kilobytes, or ``unlimited``.
        found: the section limits of the survey.

    Returns:
        ``{"nofile": text, "memlock": text}``.

    Raises:
        Refusal: a value is no number.
    """
    hard, most = found["hard"], found["nr_open"]
    files = bounded(number("limits_nofile", nofile), hard["nofile"], found["may_raise"])
    if most and (files == UNLIMITED or files > most):
        files = most  # more than the kernel gives anybody
    kilobytes = hard["memlock"] if hard["memlock"] == UNLIMITED else hard["memlock"] // 1024
    locked = bounded(number("limits_memlock", memlock), kilobytes, found["may_raise"])
    return {"nofile": str(files), "memlock": "unlimited" if locked == UNLIMITED else str(locked)}


def number(name, value):
    """A limit as a number, -1 for ``unlimited``; raises Refusal."""
    if str(value) in ("unlimited", "infinity", "-1"):
        return UNLIMITED
    if not str(value).isdigit():
        raise Refusal("{} is {!r}, expected a number or unlimited; correct it in the inventory".format(name, value))
    return int(value)


def bounded(wanted, hard, may_raise):
    """The greater of two limits, or the one in force where it cannot be raised."""
    if not may_raise or hard == UNLIMITED:
        return hard
    return wanted if wanted == UNLIMITED else max(wanted, hard)


def plan(found, text, wanted, notes):
    """What is to be done on a host.

    Args:
        found: the section limits of the survey.
        text: wanted text of the file with the limits.
        wanted: ``{name: value}`` of sysctls.
        notes: ``{name: why}``, comments of their file.

    Returns:
        ``{"limits": True, "sysctls": True}``, only what is to be done.
    """
    todo = {}
    if found["files"].get(LIMITS_FILE) != text:
        todo["limits"] = True
    if not sysctls_as_wanted(found, wanted, notes):
        todo["sysctls"] = True
    return todo


def sysctls_as_wanted(found, wanted, notes):
    """Whether the file of sysctls and what is in force are as wanted."""
    names = [name for name, value in wanted.items() if value not in (None, "")]
    if any(name not in found["sysctls"] for name in names):
        return False
    decided = sysctls.decide(wanted, found["sysctls"])
    in_force = all(one["do"] != "set" for one in decided.values())
    return in_force and found["files"].get(SYSCTL_FILE) == sysctls.render(decided, notes)


def report(left, sections, nofile, memlock):
    """What is said of what hosts do not let be set: one sentence per sysctl or limit.

    Args:
        left: ``{host: {name: {"wanted", "found": text or None}}}`` of sysctls.
        sections: ``{host: the section limits of the survey}``.
        nofile, memlock: as wanted, see :func:`resource_limits`.
    """
    told = {}
    for host, names in left.items():
        for name, values in names.items():
            told.setdefault((name, values["wanted"], values["found"]), []).append(host)
    return [
        "found {} on {}, expected {}; {}".format(
            "no {}".format(name) if found is None else "{} = {}".format(name, found),
            role_variables.listed(hosts),
            wanted,
            "the kernel has no such setting, or keeps it from a container" if found is None else "set it on the machine beneath",
        )
        for (name, wanted, found), hosts in told.items()
    ] + report_limits(sections, nofile, memlock)


def report_limits(sections, nofile, memlock):
    """The part of :func:`report` about resource limits."""
    told = {}
    for host, found in sections.items():
        given = resource_limits(nofile, memlock, found)
        for name, wanted in (("nofile", nofile), ("memlock", memlock)):
            if not found["may_raise"] and below(number(name, given[name]), number(name, wanted)):
                told.setdefault((name, given[name], str(wanted)), []).append(host)
    return [
        "found the limit {} = {} on {}, expected {}; raise it where the container is started, which may not do so itself".format(
            name, given, role_variables.listed(hosts), wanted
        )
        for (name, given, wanted), hosts in told.items()
    ]


def below(given, wanted):
    """Whether a limit is the smaller of two."""
    return given != UNLIMITED and (wanted == UNLIMITED or given < wanted)
