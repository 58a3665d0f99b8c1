"""What several sections read with: a file's text, a command's output, a process's name. Nothing here raises."""

import os
import subprocess

# Programs of which the script they run is the better name.
INTERPRETERS = ("python", "perl", "sh", "bash", "dash")


def text(path, limit=4 << 20):
    """A file's text, or None where it cannot be read.

    Args:
        path: of the file.
        limit: bytes that are read at most.
    """
    try:
        with open(path, "rb") as stream:
            return stream.read(limit).decode("utf-8", "replace")
    except OSError:
        return None


def output(argv, timeout=10):
    """What a command prints on stdout, or None where it is not there, fails or takes longer than ``timeout`` seconds."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=timeout, check=True,
            env=dict(os.environ, LC_ALL="C", PATH=os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace")


def process(pid):
    """A process's short name: that of its program, or of the script where the program is an interpreter; ``?`` if gone."""
    argv = [word for word in (text("/proc/{}/cmdline".format(pid)) or "").split("\0") if word]
    if not argv:
        return (text("/proc/{}/comm".format(pid)) or "?").strip()
    name = os.path.basename(argv[0])
    if name.rstrip("0123456789.-") in INTERPRETERS and len(argv) > 1 and not argv[1].startswith("-"):
        return os.path.basename(argv[1])
    return name
