"""Finding and ending what a host runs, without trust in pid files: by command line and by control group."""

import os
import signal
import time
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def cgroup_roots():
    """Folders in which a host's processes can be put together: one where there is only version 2, two where both are."""
    if (CGROUPS / "cgroup.procs").exists():
        return [CGROUPS]
    return [path for path in (CGROUPS / "systemd", CGROUPS / "unified") if (path / "cgroup.procs").exists()]


def cgroups(lab, host):
    """Control groups of a host, there or not."""
    return [root / "muster-lab" / lab / host for root in cgroup_roots()]


def in_cgroup(folder):
    """Ids of all processes in a control group and below it."""
    found = set()
    for path, _folders, _files in os.walk(str(folder)):
        try:
            found.update(int(line) for line in Path(path, "cgroup.procs").read_text().split())
        except OSError:
            continue  # gone meanwhile
    return found - {0}


def remove_cgroup(folder, timeout=5.0):
    """Remove a control group and those below it, as soon as the kernel lets go of them."""
    until = time.monotonic() + timeout
    while folder.exists():
        for path, _folders, _files in os.walk(str(folder), topdown=False):
            try:
                os.rmdir(path)
            except OSError:
                pass
        if time.monotonic() > until:
            return
        if folder.exists():
            time.sleep(0.02)  # the kernel lets go of a group a moment after its last process
    # The folders above are shared; the last one out removes them.
    for parent in (folder.parent, folder.parent.parent):
        try:
            parent.rmdir()
        except OSError:
            return


def with_argument(argument):
    """Ids of the processes that have exactly this word on their command line."""
    found = set()
    wanted = str(argument).encode()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                words = Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if wanted in words:
                found.add(int(entry))
    return found - {os.getpid()}


def children(pid):
    """Ids of a process's children."""
    found = set()
    try:
        for task in Path("/proc", str(pid), "task").iterdir():
            found.update(int(word) for word in (task / "children").read_text().split())
    except OSError:
        pass
    return found


def _status(pid):
    try:
        lines = Path("/proc", str(pid), "status").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split(":", 1) for line in lines if ":" in line)


def init_of(nspawn):
    """Id of the first process of the host that a systemd-nspawn runs, None while there is none.

    That is the child which is number 1 in a pid namespace of its own and no longer systemd-nspawn itself.
    """
    for child in children(nspawn):
        status = _status(child)
        if status.get("NSpid", "").split()[1:] == ["1"] and "nspawn" not in status.get("Name", ""):
            return child
    return None


def alive(pid):
    """Whether a process runs; one that has ended and was not waited for does not."""
    return _status(pid).get("State", "Z").split()[:1] not in (["Z"], ["X"])


def kill(pids, timeout=10.0):
    """End processes at once, by SIGKILL, and wait until they are gone; returns those that are not."""
    pids = set(pids)
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    until = time.monotonic() + timeout
    while True:
        pids = {pid for pid in pids if alive(pid)}
        if not pids or time.monotonic() > until:
            return pids
        time.sleep(0.01)  # they are no children of ours to be waited for
