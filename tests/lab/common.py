"""What the lab's modules share: where things lie, how programs are run, locks, and what a failure looks like."""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

STATE = Path("/var/lib/muster-lab")
CACHE = Path("/var/cache/muster-lab")

# What the lab calls, and the Debian package that brings it.
PROGRAMS = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "nft": "nftables",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setsid": "util-linux",
    "setpriv": "util-linux",
    "ss": "iproute2",
}


class LabError(Exception):
    """The lab cannot do what was asked; the text is one sentence for the user."""


class Busy(LabError):
    """Another live process holds the lab."""


def say(text):
    """Tell the user how far it has got; stdout is left to results."""
    print("lab: " + text, file=sys.stderr, flush=True)


def missing():
    """Why this machine cannot have a lab, in one sentence; None where it can."""
    if os.geteuid() != 0:
        return "the lab needs root, and this is uid {}".format(os.geteuid())
    lacking = sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})
    if lacking:
        return "the lab needs the packages {}: make lab-packages".format(" ".join(lacking))
    from .processes import cgroup_roots

    if not cgroup_roots():
        return "the lab needs the control groups mounted below /sys/fs/cgroup, and found none"
    return None


def call(argv, check=True, timeout=60, **options):
    """Run a program to its end and return the finished process, with its output as text.

    Raises LabError with the last lines that it wrote, unless ``check`` is false, and where it takes longer than
    ``timeout`` seconds.
    """
    argv = [str(word) for word in argv]
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    try:
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=timeout, **options
        )
    except subprocess.TimeoutExpired:
        raise LabError("{} did not end within {} s".format(" ".join(argv[:6]), timeout)) from None
    if check and done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise LabError("{} ended with {}: {}".format(" ".join(argv[:6]), done.returncode, tail))
    return done


def write(path, text, mode=0o644):
    """Write a file whole or not at all."""
    path = Path(path)
    aside = path.with_name(".{}.{}".format(path.name, os.getpid()))
    descriptor = os.open(str(aside), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as stream:
        os.fchmod(stream.fileno(), mode)
        stream.write(text)
    aside.rename(path)


def take_lock(path, wait=0.0):
    """Lock a file for this process, ``wait`` seconds at the most; returns its descriptor, or None where another has it.

    Closing the descriptor, or the end of the process however it comes, gives the lock back.
    """
    until = time.monotonic() + wait
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(str(path), os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            continue  # the folder went away this very moment, with the last lab
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had the lock may have removed the file meanwhile: then this lock is one of a file that nobody sees.
            if os.stat(str(path)).st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(descriptor)
        if time.monotonic() >= until:
            return None
        time.sleep(0.1)  # a waiting flock could not be bounded


class Locked:
    """``with Locked(path):`` waits for a lock of a few moments, such as that of the lab's common records."""

    def __init__(self, path, wait=30.0):
        """Take the lock of ``path`` within ``wait`` seconds."""
        self.path, self.wait = path, wait

    def __enter__(self):
        """Raises Busy where another process keeps the lock longer than that."""
        self.descriptor = take_lock(self.path, self.wait)
        if self.descriptor is None:
            raise Busy("another process has held {} for more than {:.0f} s".format(self.path, self.wait))

    def __exit__(self, *exc):
        """Give it back; the file stays."""
        os.close(self.descriptor)
