"""The operating system, its Python, its kind of machine, disk space, addresses."""

import hashlib
import os
import socket
import struct
import sys

from ..muster_agent import network
from . import reading

CAP_SYS_TIME = 25
# How far up the processes are asked for the SSH connection: module, Python, shell, sudo, shell, sshd.
ANCESTORS = 10


def look(options):
    """The section.

    Args:
        options: those of the module ``survey``; ``state_dir`` is read.

    Returns:
        a dictionary of ``family`` (debian, redhat or other), ``distribution`` and ``version`` as /etc/os-release has them,
        ``name`` (its words for a reader), ``kernel``, ``arch``, ``python``, ``hostname`` (up to the first dot), ``machine``
        (a digest of the machine's id, since the id itself is nobody's business; None without one), ``container`` (its kind,
        empty on a machine), ``cap_sys_time``, ``root``, ``init_systemd``, ``disks`` (``{path: {"free_mb", "total_mb",
        "device"}}``), ``addresses`` (``[[interface, address]]``), ``default_route`` (``{"interface", "via"}`` or None),
        ``ephemeral`` (the first and last port that outgoing connections use) and ``ssh_server_port`` (None where no
        connection is seen).
    """
    release = os_release(reading.text("/etc/os-release") or reading.text("/usr/lib/os-release") or "")
    machine = (reading.text("/etc/machine-id") or "").strip()
    routes = (reading.text("/proc/net/route") or "", reading.text("/proc/net/ipv6_route") or "")
    kernel = os.uname()
    return {
        "family": family(release),
        "distribution": release.get("ID", "unknown"),
        "version": release.get("VERSION_ID", ""),
        "name": release.get("PRETTY_NAME", "an unknown system"),
        "kernel": kernel.release,
        "arch": kernel.machine,
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "hostname": kernel.nodename.split(".")[0],
        "machine": hashlib.sha256(b"muster" + machine.encode()).hexdigest()[:16] if machine else None,
        "container": container(),
        "cap_sys_time": has_capability(reading.text("/proc/1/status") or "", CAP_SYS_TIME),
        "root": os.geteuid() == 0,
        "init_systemd": os.path.isdir("/run/systemd/system"),
        "disks": disks(["/", "/tmp", "/var", existing(options.get("state_dir") or "/")]),
        "addresses": [list(pair) for pair in network.addresses()],
        "default_route": default_route(routes[0]) or default_route6(routes[1]),
        "ephemeral": numbers(reading.text("/proc/sys/net/ipv4/ip_local_port_range") or "", [32768, 60999]),
        "ssh_server_port": ssh_server_port(os.getpid()),
    }


def os_release(content):
    """``{name: value}`` of an os-release file's text, without quotes."""
    found = {}
    for line in content.splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.startswith("#"):
            found[name.strip()] = value.strip().strip("\"'")
    return found


def family(release):
    """``debian``, ``redhat`` or ``other`` from what :func:`os_release` gave."""
    kinds = [release.get("ID", "")] + release.get("ID_LIKE", "").split()
    if "debian" in kinds or "ubuntu" in kinds:
        return "debian"
    return "redhat" if {"rhel", "fedora", "centos"} & set(kinds) else "other"


def container():
    """The kind of container, in the words of ``systemd-detect-virt --container``; empty on a machine."""
    told = reading.text("/run/systemd/container")
    if told:
        return told.strip()
    for line in (reading.text("/proc/1/environ") or "").split("\0"):
        if line.startswith("container="):
            return line.partition("=")[2]
    for path, kind in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        if os.path.exists(path):
            return kind
    return ""


def has_capability(status, number):
    """Whether a capability is in the bounding set, from the text of a /proc/PID/status."""
    for line in status.splitlines():
        if line.startswith("CapBnd:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False


def existing(path):
    """``path``, or the nearest folder above it that is there."""
    while path != os.path.dirname(path) and not os.path.isdir(path):
        path = os.path.dirname(path)
    return path or "/"


def disks(paths):
    """``{path: {"free_mb", "total_mb", "device"}}``; paths with one ``device`` are on one disk, unreadable ones left out."""
    found = {}
    for path in paths:
        try:
            size = os.statvfs(path)
            device = os.stat(path).st_dev
        except OSError:
            continue
        # What root alone may fill counts as full: the jobs are not root's.
        free, total = size.f_bavail * size.f_frsize, size.f_blocks * size.f_frsize
        found[path] = {"free_mb": free >> 20, "total_mb": total >> 20, "device": device}
    return found


def default_route(content):
    """The best IPv4 default route in the text of /proc/net/route: ``{"interface", "via"}``, or None."""
    best = None
    for fields in (line.split() for line in content.splitlines()[1:]):
        # Bit 0 of the flags: up; bit 9: a route that refuses.
        if len(fields) > 7 and fields[1] == "00000000" and fields[7] == "00000000" and int(fields[3], 16) & 0x201 == 1:
            if best is None or int(fields[6]) < best[0]:
                via = socket.inet_ntoa(struct.pack("=I", int(fields[2], 16)))
                best = (int(fields[6]), {"interface": fields[0], "via": via})
    return best[1] if best else None


def default_route6(content):
    """The same from the text of /proc/net/ipv6_route."""
    best = None
    for fields in (line.split() for line in content.splitlines()):
        if len(fields) > 9 and fields[0] == "0" * 32 and fields[1] == "00" and int(fields[8], 16) & 0x201 == 1:
            if fields[9] != "lo" and (best is None or int(fields[5], 16) < best[0]):
                via = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(fields[4]))
                best = (int(fields[5], 16), {"interface": fields[9], "via": via})
    return best[1] if best else None


def numbers(content, otherwise):
    """The numbers of a line as a list, or ``otherwise`` where there are not as many as there."""
    found = [int(word) for word in content.split() if word.isdigit()]
    return found if len(found) == len(otherwise) else otherwise


def ssh_server_port(pid):
    """The port at which sshd took the connection that started process ``pid``, or None.

    sudo removes SSH_CONNECTION, so the processes above are asked, too.
    """
    for _ in range(ANCESTORS):
        for line in (reading.text("/proc/{}/environ".format(pid)) or "").split("\0"):
            if line.startswith("SSH_CONNECTION="):
                last = line.split()[-1]
                return int(last) if last.isdigit() else None
        # The name in brackets may hold anything; what counts stands after it.
        fields = (reading.text("/proc/{}/stat".format(pid)) or "").rpartition(")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0
        if pid <= 1:
            return None
    return None
