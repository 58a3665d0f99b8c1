"""Puts the firewall back as it was, unless the change is confirmed in time; runs on its own as a unit of systemd.

It needs nothing but this file and the record beside it, so that neither a dead module nor a lost controller can stop it. After
a reboot it starts at once, since whoever could have confirmed is gone.
"""

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time

FOLDER = "/var/lib/muster-firewall"
UNIT = "muster-firewall-rollback.service"
UNIT_FILE = "/etc/systemd/system/" + UNIT
WANTS = "/etc/systemd/system/multi-user.target.wants/" + UNIT
LOCK = "/run/muster-firewall.lock"


class Held(Exception):
    """Somebody else holds the lock."""


def boot_id():
    """What differs from boot to boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
        return stream.read().strip()


@contextlib.contextmanager
def lock(timeout=None):
    """Hold the one lock on the firewall, whose file exists only while somebody holds or awaits it.

    Args:
        timeout: seconds to wait, for ever without.

    Raises:
        Held: somebody else holds it all the time.
    """
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        handle = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if until is not None and time.monotonic() >= until:
                        raise Held() from None
                    time.sleep(0.1)  # a waiting flock could not be bounded
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(LOCK)):
                    break
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the one before us has removed the file
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(LOCK)
        os.close(handle)


def load():
    """The record of a change that nobody has confirmed, or None."""
    try:
        with open(os.path.join(FOLDER, "guard.json"), encoding="utf-8") as stream:
            return json.load(stream)
    except FileNotFoundError:
        return None


def seconds_left(record):
    """Seconds until the change is undone; 0 where its time is over or the host has been booted since."""
    if record["boot"] != boot_id():
        return 0.0
    try:
        with open(os.path.join(FOLDER, "deadline"), encoding="ascii") as stream:
            return max(0.0, float(stream.read()) - time.monotonic())
    except (OSError, ValueError):
        return 0.0


def write(path, content, mode=0o600, uid=0, gid=0):
    """Replace a file by one rename."""
    aside = "{}.{}.muster".format(path, os.getpid())
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(handle, "wb") as stream:
        stream.write(content)
        os.fchown(handle, uid, gid)
        os.fchmod(handle, mode)
        stream.flush()
        os.fsync(handle)
    os.rename(aside, path)


def keep(paths):
    """What JSON can carry of files, there or not."""
    found = []
    for path in paths:
        try:
            with open(path, "rb") as stream:
                status = os.fstat(stream.fileno())
                content = base64.b64encode(stream.read()).decode("ascii")
        except FileNotFoundError:
            found.append({"path": path, "content": None})
            continue
        mode = status.st_mode & 0o7777
        found.append({"path": path, "content": content, "mode": mode, "uid": status.st_uid, "gid": status.st_gid})
    return found


def bring_back(files):
    """Make files as :func:`keep` saw them; those that have not changed are not touched."""
    for file, now in zip(files, keep([file["path"] for file in files])):
        if file == now:
            continue
        if file["content"] is None:
            os.unlink(file["path"])
        else:
            write(file["path"], base64.b64decode(file["content"]), file["mode"], file["uid"], file["gid"])


def command(argv):
    """Run a command; whether it worked. What it says goes to the journal."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            env=dict(os.environ, LC_ALL="C", PATH=path),
        )
    except (OSError, subprocess.SubprocessError) as error:
        print("{}: {}".format(argv[0], error), file=sys.stderr)
        return False
    if done.returncode:
        said = done.stdout.decode("utf-8", "replace").strip()
        print("{} ended with {}: {}".format(argv, done.returncode, said), file=sys.stderr)
    return done.returncode == 0


def restore(record):
    """Undo the change; the caller holds the lock. Returns whether all went well, in the first or the last way."""
    lists = record["lists"]["live" if record["boot"] == boot_id() else "booted"]
    well = all([command(argv) for argv in lists["before"]])
    bring_back(record["files"])
    well = all([command(argv) for argv in lists["after"]]) and well
    # An open host is better than one that nobody reaches.
    return well or any(command(argv) for argv in lists["fallback"])


def remove():
    """Remove every trace of the guard; the caller holds the lock."""
    # The record first: without it the change stands, wherever this is interrupted.
    for path in (os.path.join(FOLDER, "guard.json"), WANTS, UNIT_FILE):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    shutil.rmtree(FOLDER, ignore_errors=True)  # the way back is settled; a file that cannot go must not undo that
    command(["systemctl", "daemon-reload"])


def watch():
    """Wait until the change is confirmed or its time is over; returns the exit code."""
    record = load()
    if record is None:
        with lock():
            if load() is None:
                remove()
        return 0
    if record["boot"] == boot_id():
        write(os.path.join(FOLDER, "watching"), b"")
    while True:
        left = seconds_left(record)
        if left > 0:
            # The module may put the end off while it works.
            time.sleep(min(left, 0.5))
            continue
        with lock():
            record = load()
            if record is None:
                return 0
            if seconds_left(record) > 0:
                continue
            print("nobody has confirmed the change of the firewall: it is undone", file=sys.stderr)
            well = restore(record)
            if well:
                remove()
            return 0 if well else 1


if __name__ == "__main__":
    sys.exit(watch())
