"""The guard against a lock-out: armed before a change, gone when it is confirmed; see ``rollback`` for what it does."""

import contextlib
import inspect
import json
import os
import sys
import time

from ..muster_agent.errors import Refusal
from . import host, rollback

# Seconds beyond a guard's own time that another run waits for it to go.
PATIENCE = 20
UNIT_TEXT = """[Unit]
Description=Put the firewall back unless Muster confirms its change
After=ufw.service firewalld.service dbus.service

[Service]
ExecStart={python} {script}
"""


@contextlib.contextmanager
def alone(seconds):
    """Hold the lock, once no other run's change awaits its confirmation.

    Args:
        seconds: the longest that a change may go unconfirmed.

    Raises:
        Refusal: another run is at work all the time, or its guard could not undo it.
    """
    until = time.monotonic() + seconds + PATIENCE
    while True:
        try:
            with rollback.lock(max(1.0, until - time.monotonic())):
                if _nobody_waits():
                    yield
                    return
        except rollback.Held:
            raise Refusal("found another run at work on the firewall, expected none; wait until it has ended") from None
        if time.monotonic() > until:
            raise Refusal("found another run's change of the firewall unconfirmed, expected none; wait until it has ended")
        time.sleep(0.5)  # the other run tells nobody when it has ended


def _nobody_waits():
    """Whether no change is unconfirmed; one whose guard has died is undone here."""
    record = rollback.load()
    if record is None:
        return True
    if host.unit(rollback.UNIT)["active"]:
        return False
    if not undo(record):
        raise Refusal(
            "found a change of the firewall that could not be undone, expected none; see `journalctl -u {}` and remove {}".format(
                rollback.UNIT, rollback.FOLDER
            )
        )
    return True


def arm(token, files, lists, seconds, client):
    """Save what a change may touch and start the unit that brings it back; the caller holds the lock.

    Args:
        token: whoever confirms must know it.
        files: paths to save.
        lists: commands around the return of the files: ``{"before", "after", "fallback"}`` under ``live``, and under ``booted``
            those for a host that has been booted meanwhile; of the last kind the first that works counts where others fail.
        seconds: how long the change may go unconfirmed.
        client: the SSH connection of this run as ``host.connection`` gives it.

    Returns:
        the record, for :func:`save` and :func:`undo`.

    Raises:
        Refusal: the unit does not start.
    """
    os.makedirs(rollback.FOLDER, 0o700, exist_ok=True)
    os.chmod(rollback.FOLDER, 0o700)
    record = {
        "token": token,
        "boot": rollback.boot_id(),
        "seconds": seconds,
        "client": client,
        "files": rollback.keep(files),
        "lists": lists,
    }
    script = os.path.join(rollback.FOLDER, "rollback.py")
    put_off(seconds)
    rollback.write(script, inspect.getsource(rollback).encode("utf-8"))
    save(record)
    rollback.write(rollback.UNIT_FILE, UNIT_TEXT.format(python=sys.executable, script=script).encode("utf-8"), 0o644)
    os.makedirs(os.path.dirname(rollback.WANTS), exist_ok=True)
    if not os.path.islink(rollback.WANTS):
        os.symlink(rollback.UNIT_FILE, rollback.WANTS)
    try:
        host.must(["systemctl", "daemon-reload"])
        host.must(["systemctl", "start", rollback.UNIT])
        _see_it_watch()
    except Refusal:
        disarm()
        raise
    return record


def _see_it_watch():
    until = time.monotonic() + 15
    while not os.path.exists(os.path.join(rollback.FOLDER, "watching")):
        if time.monotonic() > until:
            raise Refusal("{} does not run, expected it to guard the change; see its journal".format(rollback.UNIT))
        time.sleep(0.02)  # the unit has been started a moment ago


def save(record):
    """Write the record."""
    rollback.write(os.path.join(rollback.FOLDER, "guard.json"), json.dumps(record).encode("utf-8"))


def put_off(seconds):
    """Let the change go unconfirmed for ``seconds`` from now on."""
    rollback.write(os.path.join(rollback.FOLDER, "deadline"), repr(time.monotonic() + seconds).encode("ascii"))


def disarm():
    """Stop the guard and remove every trace of it; the caller holds the lock."""
    host.run(["systemctl", "stop", rollback.UNIT])
    rollback.remove()
    host.run(["systemctl", "reset-failed", rollback.UNIT])


def undo(record):
    """Bring the old state back now; the caller holds the lock. Returns whether it worked."""
    well = rollback.restore(record)
    if well:
        disarm()
    return well


def confirm(token, client):
    """Keep the change, if it still stands and this is another connection than the one that made it.

    Args:
        token: as given to :func:`arm`.
        client: the SSH connection of this run.

    Returns:
        ``{"confirmed": bool, "fresh": bool}``; neither where the guard has undone the change already.
    """
    with rollback.lock(120):
        record = rollback.load()
        if record is None or record["token"] != token:
            return {"confirmed": False, "fresh": True}
        if client and record["client"] and list(client) == list(record["client"]):
            return {"confirmed": False, "fresh": False}
        disarm()
    return {"confirmed": True, "fresh": True}
