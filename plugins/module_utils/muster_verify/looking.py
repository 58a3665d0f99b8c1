"""What a host tells of itself: versions, the cluster's user, and which clock it follows."""

import os
import platform
import re
import subprocess
import time

from ..muster_agent import facts
from . import accounts, logins

DAEMONS = ("chrony", "chronyd", "systemd-timesyncd", "ntpd", "ntpsec", "ntp", "openntpd")
CAP_SYS_TIME = 25


def look(user, clock_wait):
    """Everything of this host but its jobs' Python, which may be somebody else's and is none of root's business.

    Args:
        user: name of the cluster's user.
        clock_wait: seconds to wait for a time daemon that has chosen no source yet.

    Returns:
        ``{"machine", "boot_id", "system", "ephemeral", "account", "time"}``.
    """
    entry = accounts.find(user)
    return {
        "machine": logins.machine(read("/etc/machine-id").encode()),
        "boot_id": facts.boot_id(),
        "system": "{}, Linux {}".format(os_name(read("/etc/os-release")), platform.release()),
        "ephemeral": [int(word) for word in read("/proc/sys/net/ipv4/ip_local_port_range").split()] or [32768, 60999],
        "account": {"uid": entry.pw_uid, "gid": entry.pw_gid} if entry else None,
        "time": look_at_time(clock_wait),
    }


def read(path):
    """The text of a file, empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def os_name(text):
    """PRETTY_NAME of /etc/os-release."""
    match = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.MULTILINE)
    return match.group(1) if match else "unknown"


def job_python(path):
    """``{"version", "torch", "fingerprint", "contents"}`` of the jobs' Python, or None where there is none.

    An environment, conda's or a virtual one, is read, not started; another Python is started, by root only where it is root's.
    """
    if not os.access(path, os.X_OK):
        return None
    prefix = os.path.dirname(os.path.dirname(path))
    match = re.search(r"^version(?:_info)? *= *([0-9.]+[0-9])", read(os.path.join(prefix, "pyvenv.cfg")), re.MULTILINE)
    contents = facts.prefix_contents(prefix)
    torch = contents.get("torch", [None])[0]
    found = {"fingerprint": facts.fingerprint(contents), "contents": facts.brief(contents), "torch": torch}
    if match:
        return dict(found, version=match.group(1))
    # Only conda has Python itself among the packages.
    if contents.get("python", ["", ""])[1]:
        return dict(found, version=contents["python"][0])
    told = facts.interpreter(path) if os.geteuid() or os.stat(path).st_uid == 0 else None
    if told is None:
        return None
    return dict(found, version=".".join(map(str, told["version"])), torch=torch or told["torch"])


def look_at_time(wait):
    """``{"container", "settable", "daemons", "chrony"}``."""
    match = re.search(r"^CapBnd:\s*([0-9a-f]+)", read("/proc/self/status"), re.MULTILINE)
    daemons = active(DAEMONS)
    return {
        "container": read("/run/systemd/container").strip(),
        "settable": bool(match and int(match.group(1), 16) >> CAP_SYS_TIME & 1),
        # Debian's chrony answers to both names.
        "daemons": sorted({"chrony" if name == "chronyd" else name for name in daemons}),
        "chrony": chrony(wait) if {"chrony", "chronyd"} & set(daemons) else None,
    }


def output(words, bound=5.0):
    """What a command prints, empty where it cannot be run."""
    try:
        return subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=bound, check=False,
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"},
        ).stdout.decode("utf-8", "replace")  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""


def active(units):
    """Those of ``units`` that systemd says are active."""
    if not os.path.isdir("/run/systemd/system"):
        return []
    states = output(["systemctl", "is-active"] + [unit + ".service" for unit in units]).split()
    return [unit for unit, state in zip(units, states) if state == "active"]


def chrony(wait):
    """:func:`parse_tracking`, once chrony follows something or ``wait`` seconds have passed."""
    end = time.monotonic() + wait
    asked = False
    while True:
        found = parse_tracking(output(["chronyc", "-n", "-c", "tracking"]))
        if found is None or found["synchronised"] or time.monotonic() > end:
            return found
        if not asked:
            # It asked at its start, when the head may not have let it in yet; by itself it would ask again after a minute.
            asked = bool(output(["chronyc", "burst", "4/4"]))
        time.sleep(0.5)  # chrony tells only whoever asks


def parse_tracking(text):
    """``{"source", "stratum", "synchronised", "offset"}`` from chronyc's comma-separated tracking; None where it has none."""
    fields = text.strip().split(",")
    if len(fields) < 14:
        return None
    return {
        "source": fields[1],
        "local": fields[0] == "7F7F0101",
        "stratum": int(fields[2]),
        "synchronised": fields[13] != "Not synchronised",
        "offset": float(fields[4]),
    }
