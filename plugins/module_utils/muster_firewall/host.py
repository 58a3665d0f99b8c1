"""Asking and changing the host: commands with a time limit, the SSH connection of this run, systemd's view of a unit."""

import os
import re
import shutil
import subprocess

from ..muster_agent.errors import Refusal
from ..muster_agent.network import addresses
from .rules import EPHEMERAL

FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What a kernel or a container without a packet filter makes the tools say.
NO_FILTER = re.compile(
    r"Could not fetch rule set generation id|do you need to insmod|Permission denied \(you must be root\)|"
    r"missing kernel module|can't initialize ip6?tables|Operation not supported|Protocol not supported|"
    r"cache initialization failed|Netlink.*(?:denied|not permitted)",
    re.IGNORECASE,
)


def which(name):
    """Path of a system command, or None."""
    return shutil.which(name, path=FOLDERS)


def run(argv, timeout=60):
    """Run a command; ``(exit code, stdout, stderr)``, 127 where it is not there, 124 where it ran too long."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout,
            env=dict(os.environ, LC_ALL="C", PATH=FOLDERS),
        )
    except OSError as error:
        return 127, "", "{}: {}".format(argv[0], error.strerror)
    except subprocess.TimeoutExpired:
        return 124, "", "{} gave no answer within {} s".format(argv[0], timeout)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def last_line(text):
    """The last line of an output that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def explain(argv, code, text):
    """One sentence without the host's name about a command that failed."""
    if NO_FILTER.search(text):
        return (
            "found a kernel without the packet filter that {} needs ({}), expected nf_tables; load it on the machine whose "
            "kernel it is, or set firewall_enabled to false for this host".format(argv[0], last_line(text)[:200])
        )
    shown = " ".join(argv)
    return "{} ended with {} ({}), expected it to work; run it by hand on the host".format(
        shown if len(shown) <= 160 else shown[:157] + "...", code, last_line(text)[:200]
    )


def must(argv, timeout=60):
    """Run a command that has to work; returns stdout, raises Refusal."""
    code, out, err = run(argv, timeout)
    if code:
        raise Refusal(explain(argv, code, out + err))
    return out


def read(path):
    """A file's text; empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def unit(name):
    """``{"active": bool, "enabled": bool}`` of a systemd unit."""
    _, out, _ = run(["systemctl", "show", "--property=ActiveState,UnitFileState", name], 20)
    found = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    return {
        "active": found.get("ActiveState") in ("active", "reloading", "activating"),
        "enabled": found.get("UnitFileState") in ("enabled", "enabled-runtime"),
    }


def own_addresses():
    """``[(interface, address)]`` of this host, without the zones of link-local ones."""
    return [(interface, address.split("%")[0]) for interface, address in addresses()]


def speaks_v6():
    """Whether the kernel has IPv6."""
    return os.path.exists("/proc/net/if_inet6")


def ephemeral():
    """The range of ports that this host's programs get when they ask for any."""
    words = read("/proc/sys/net/ipv4/ip_local_port_range").split()
    return (int(words[0]), int(words[1])) if len(words) == 2 else EPHEMERAL


def connection(pid=None):
    """The SSH connection over which this process was started: ``(client address, client port, own address, own port)``.

    sudo drops SSH_CONNECTION, so the processes above are asked; None where there is none, as on a local connection.
    """
    pid = pid or os.getpid()
    for _ in range(64):
        try:
            with open("/proc/{}/environ".format(pid), "rb") as stream:
                words = stream.read().split(b"\0")
            with open("/proc/{}/stat".format(pid), encoding="utf-8", errors="replace") as stream:
                pid = int(stream.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            return None
        found = parse_connection(words)
        if found or pid < 1:
            return found
    return None


def parse_connection(environment):
    """SSH_CONNECTION out of an environment (``[b"NAME=value"]``); None where it is not there or is not whole."""
    for word in environment:
        if word.startswith(b"SSH_CONNECTION="):
            fields = word.partition(b"=")[2].decode("ascii", "replace").split()
            if len(fields) == 4 and fields[1].isdigit() and fields[3].isdigit():
                return fields[0].split("%")[0], int(fields[1]), fields[2].split("%")[0], int(fields[3])
    return None


def has_systemd():
    """Whether systemd is this host's first process."""
    return os.path.isdir("/run/systemd/system")
