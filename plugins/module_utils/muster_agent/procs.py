"""Processes as /proc shows them: who belongs to a job, and how to end exactly those."""

import ctypes
import os
import pwd
import signal
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# Every process of a job carries these, so that leftovers are found whatever their parent. Both tell nodes apart that
# share a machine: a run is "<run id>/<node rank>", a folder belongs to one node.
RUN_VARIABLE = "MUSTER_RUN"
FOLDER_VARIABLE = "MUSTER_JOB_DIR"


def die_with_parent(parent):
    """Ask the kernel to SIGKILL this process when its parent ends; ``parent`` is the pid that must still be it."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans():
    """Become the parent of every descendant whose own parent ends, so that none gets out of sight."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_adopted(own):
    """Reap adopted children that have ended; ``own`` is the child that somebody else waits for."""
    for pid in pids():
        found = stat(pid)
        if found and found["ppid"] == os.getpid() and found["state"] == "Z" and pid != own:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


def descendants(root):
    """Ids of all processes below ``root``, zombies included."""
    parents = {pid: found["ppid"] for pid, found in ((pid, stat(pid)) for pid in pids()) if found}
    below, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        grown = bool(more)
        below |= more
    return sorted(below - {root})


def parse_stat(text):
    """Fields of /proc/PID/stat that matter: state, ppid, pgrp, session, start (clock ticks after boot)."""
    rest = text[text.rindex(")") + 2 :].split()
    return {
        "state": rest[0],
        "ppid": int(rest[1]),
        "pgrp": int(rest[2]),
        "session": int(rest[3]),
        "start": int(rest[19]),
    }


def stat(pid):
    """:func:`parse_stat` of a process, or None where there is none."""
    try:
        with open("/proc/{}/stat".format(pid), encoding="utf-8", errors="replace") as stream:
            return parse_stat(stream.read())
    except (OSError, ValueError, IndexError):
        return None


def alive(pid, start=None):
    """Whether ``pid`` runs (a zombie does not) and, where ``start`` is given, is the process that began then."""
    found = stat(pid)
    return found is not None and found["state"] not in "ZX" and start in (None, found["start"])


def parse_environ(data):
    """Bytes of /proc/PID/environ as a dictionary of str."""
    pairs = (item.partition(b"=") for item in data.split(b"\0") if b"=" in item)
    return {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, _, value in pairs}


def pids():
    """Ids of all processes that /proc shows."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def with_variable(name, value):
    """Ids of this user's processes whose environment holds ``name=value``; zombies and the caller left out."""
    needle = "{}={}".format(name, value).encode()
    found = []
    for pid in pids():
        if pid == os.getpid():
            continue
        try:
            with open("/proc/{}/environ".format(pid), "rb") as stream:
                if needle in stream.read().split(b"\0") and alive(pid):
                    found.append(pid)
        except OSError:
            continue
    return found


def send(pid, number):
    """Send a signal; False where the process is gone or another user's."""
    try:
        os.kill(pid, number)
        return True
    except (ProcessLookupError, PermissionError):
        return False


def sweep(name, value, bound=5.0):
    """SIGKILL every process whose environment holds ``name=value`` until none is left.

    Args:
        name: variable, e.g. ``MUSTER_RUN``.
        value: its value.
        bound: seconds after which to give up.

    Returns:
        ids of the processes that are still there (a process in uninterruptible sleep cannot be ended).
    """
    deadline = time.monotonic() + bound
    empty = 0
    while True:
        left = with_variable(name, value)
        for pid in left:
            send(pid, signal.SIGKILL)
        # A process in the middle of exec has no environment for a moment, so one empty look proves nothing.
        empty = 0 if left else empty + 1
        if empty == 2 or left and time.monotonic() > deadline:
            return left
        time.sleep(0.015)


def command_line(pid, limit=120):
    """The command of a process, for a message; '' where it cannot be read."""
    try:
        with open("/proc/{}/cmdline".format(pid), "rb") as stream:
            text = stream.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def user_name(uid):
    """Login name of a uid, or ``uid N``."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "uid {}".format(uid)


def job_of(pid):
    """Name of the Muster job to which a process belongs, or None."""
    try:
        with open("/proc/{}/cmdline".format(pid), "rb") as stream:
            words = stream.read().decode("utf-8", "replace").split("\0")
        with open("/proc/{}/environ".format(pid), "rb") as stream:
            environ = parse_environ(stream.read())
    except OSError:
        return None
    if "run" in words and words[words.index("run") - 1].endswith("/muster_agent"):
        return words[words.index("run") + 2]
    return environ.get("MUSTER_JOB")


def describe(pid):
    """``pid 12 (alice: python train.py)`` for a message."""
    try:
        owner = user_name(os.stat("/proc/{}".format(pid)).st_uid)
    except OSError:
        return "pid {}".format(pid)
    job = job_of(pid)
    if job:
        return "pid {} ({}: Muster's job {})".format(pid, owner, job)
    return "pid {} ({}: {})".format(pid, owner, command_line(pid) or "?")
