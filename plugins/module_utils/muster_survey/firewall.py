"""Which firewall the host has, and whether it is active."""

import os
import re

from . import reading

NAMES = ("ufw", "firewalld")
# What else sets rules; the unit of iptables-persistent is netfilter-persistent.
OTHERS = ("nftables", "iptables", "ip6tables", "netfilter-persistent")
FOLDERS = ("/usr/sbin", "/sbin", "/usr/local/sbin")


def look(options):
    """The section.

    Args:
        options: those of the module ``survey``; none is read.

    Returns:
        ``{"ufw": {"installed", "active", "enabled"}, "firewalld": the same, "others": [names]}``; ``enabled``: it
        starts at boot; ``others``: those of OTHERS that are active or start at boot.
    """
    found = {name: {"installed": is_installed(name), "active": False, "enabled": False} for name in NAMES}
    argv = ["systemctl", "show", "--property=Id,ActiveState,UnitFileState"]
    seen = units(reading.output(argv + [name + ".service" for name in NAMES + OTHERS]) or "")
    for name in NAMES:
        if found[name]["installed"]:
            found[name].update(seen.get(name, {}))
    # The unit of ufw counts as active although it has started nothing, where ufw itself is switched off.
    if not ufw_enabled(reading.text("/etc/ufw/ufw.conf") or ""):
        found["ufw"].update(active=False, enabled=False)
    return dict(found, others=[name for name in OTHERS if any(seen.get(name, {}).values())])


def is_installed(name):
    """Whether a firewall's program is there."""
    return any(os.path.exists(os.path.join(folder, name)) for folder in FOLDERS)


def units(text):
    """``{name: {"active", "enabled"}}`` out of what ``systemctl show`` prints of several units."""
    found = {}
    for block in text.split("\n\n"):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if fields.get("Id"):
            found[fields["Id"].rsplit(".", 1)[0]] = {
                "active": fields.get("ActiveState") in ("active", "reloading", "activating"),
                "enabled": fields.get("UnitFileState") in ("enabled", "enabled-runtime"),
            }
    return found


def ufw_enabled(text):
    """Whether the text of ufw.conf switches ufw on."""
    return bool(re.search(r"^\s*ENABLED=[\"']?yes\b", text, re.MULTILINE | re.IGNORECASE))
