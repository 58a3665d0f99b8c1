"""Resource limits and sysctls: Muster's files and the values in force."""

import resource

from .. import sysctls
from . import reading

LIMITS_FILE = "/etc/security/limits.d/60-muster.conf"
SYSCTL_FILE = "/etc/sysctl.d/60-muster.conf"
CAP_SYS_RESOURCE = 24


def look(options):
    """The section.

    Args:
        options: those of the module ``survey``; none is used.

    Returns:
        ``{"files": {path: text or None}, "sysctls": {name: see sysctls.state} of those that Muster's file names, "hard":
        {"nofile": number, "memlock": bytes; -1 without a bound}, "nr_open": number or None, "may_raise": bool}``, the last
        whether root may go above the hard limits.
    """
    files = {path: reading.text(path) for path in (LIMITS_FILE, SYSCTL_FILE)}
    most = sysctls.state("fs.nr_open")["value"]
    return {
        "files": files,
        "sysctls": {name: sysctls.state(name) for name in sysctls.named(files[SYSCTL_FILE])},
        "hard": {
            "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
            "memlock": resource.getrlimit(resource.RLIMIT_MEMLOCK)[1],
        },
        "nr_open": int(most) if most and most.isdigit() else None,
        "may_raise": may_raise(reading.text("/proc/1/status"), reading.text("/proc/1/uid_map")),
    }


def may_raise(status, uid_map):
    """Whether CAP_SYS_RESOURCE is in the bounds that ``/proc/1/status`` tells, and counts: not in a user namespace (LXC).

    Args:
        status, uid_map: the texts of these files of the first process, or None.
    """
    if (uid_map or "").split() != ["0", "0", "4294967295"]:
        return False
    for line in (status or "").splitlines():
        if line.startswith("CapBnd:"):
            return bool(int(line.split()[1], 16) >> CAP_SYS_RESOURCE & 1)
    return False
