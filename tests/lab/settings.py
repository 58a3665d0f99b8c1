"""Settings of the kernel that a machine full of hosts needs, raised by the first lab and put back by the last."""

import json
from pathlib import Path

from .common import STATE, write

RECORD = STATE / "settings.json"
WANTED = {
    # The way out of the labs' bridges.
    "/proc/sys/net/ipv4/ip_forward": 1,
    # All hosts count as one user here; a systemd wants half a dozen, and without one it ends or waits in silence.
    "/proc/sys/fs/inotify/max_user_instances": 8192,
    "/proc/sys/fs/inotify/max_user_watches": 262144,
    # A login holds one, and the user ml of every host has the same number.
    "/proc/sys/kernel/keys/maxkeys": 4000,
    "/proc/sys/kernel/keys/maxbytes": 400000,
}


def _recorded():
    try:
        return json.loads(RECORD.read_text())
    except (OSError, ValueError):
        return {}


def up():
    """Raise what is too low, and record what it was before. The caller holds the lock of the labs' records."""
    before, now = _recorded(), {}
    for path, wanted in WANTED.items():
        if Path(path).exists() and int(Path(path).read_text()) < wanted:
            now[path] = Path(path).read_text().strip()
    if now:
        write(RECORD, json.dumps(dict(now, **before)))
    for path in now:
        Path(path).write_text(str(WANTED[path]))


def down():
    """Put back what was raised, unless somebody has changed it since. The caller holds the lock of the labs' records."""
    for path, value in _recorded().items():
        if int(Path(path).read_text()) == WANTED.get(path):
            Path(path).write_text(value)
    RECORD.unlink(missing_ok=True)
