"""What systemd says of units: one process for any number of them. Nothing here raises."""

import os

from . import reading

FOLDERS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator.late",  # of init scripts
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
ACTIVE = ("active", "activating", "reloading")


def existing(names, folders=FOLDERS):
    """Those of the services ``names`` (without ``.service``) for which a file or a link to one lies anywhere."""
    return [name for name in names if any(os.path.exists(os.path.join(folder, name + ".service")) for folder in folders)]


def states(names):
    """How services stand that exist.

    Args:
        names: of services, without ``.service``.

    Returns:
        ``{name: {"active": bool, "enabled": bool, "state": systemd's word for how it is enabled, "command": the line of
        ExecStart}}``; a service with several names stands there once, under its own.
    """
    there = existing(names)
    if not there:
        return {}
    argv = ["systemctl", "show", "--property=Id,LoadState,ActiveState,UnitFileState,ExecStart"]
    return parse(reading.output(argv + [name + ".service" for name in there]) or "")


def parse(text):
    """The output of ``systemctl show`` as :func:`states` gives it."""
    found = {}
    for block in text.split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if values.get("LoadState", "not-found") == "not-found" or "Id" not in values:
            continue
        state = values.get("UnitFileState", "")
        found[values["Id"].rsplit(".", 1)[0]] = {
            "active": values.get("ActiveState") in ACTIVE,
            "enabled": state.startswith("enabled"),
            "state": state,
            "command": command(values.get("ExecStart", "")),
        }
    return found


def command(shown):
    """The command line in what systemctl shows of ExecStart: ``{ path=/a ; argv[]=/a -b ; ignore_errors=no ; ...}``."""
    return shown.split("argv[]=", 1)[-1].split(" ; ", 1)[0] if "argv[]=" in shown else ""
