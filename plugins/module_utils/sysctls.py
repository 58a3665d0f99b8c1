"""Sysctls as a set: what is wanted, what the host lets be set, the file that sets it at boot; pure, but for :func:`state`.

The module ``sysctls`` acts by it and the controller decides by it whether there is anything to do.
"""

import os
import re

ROOT = "/proc/sys"
NAME = re.compile(r"^[a-z0-9_-]+(\.[\w*:/-]+)+$", re.IGNORECASE)

# Sizes, of which a host may have more than is wanted. Everything else is set as it is stated.
AT_LEAST = (
    "fs.aio-max-nr",
    "fs.file-max",
    "fs.inotify.max_user_instances",
    "fs.inotify.max_user_watches",
    "fs.nr_open",
    "kernel.pid_max",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.threads-max",
    "net.core.netdev_max_backlog",
    "net.core.optmem_max",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "vm.max_map_count",
)
# What stands before a line that this host does not let be set.
LEFT = "# left: "


def path_of(name, root=ROOT):
    """The file behind a name; in names of interfaces a slash stands for a dot, as sysctl has it."""
    return os.path.join(root, name.translate(str.maketrans("./", "/.")))


def state(name, root=ROOT):
    """What is in force: ``{"value": text or None where there is no such setting, "writable": bool}``."""
    path = path_of(name, root)
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            value = words(stream.read())
    except OSError:
        return {"value": None, "writable": False}
    return {"value": value, "writable": os.access(path, os.W_OK)}


def words(value):
    """A value with one blank between its words, as text."""
    return " ".join(str(value).split())


def at_least(wanted, found):
    """The greater of two values, word by word where they are several numbers; ``wanted`` where they cannot be compared."""
    pairs = list(zip(wanted.split(), found.split()))
    if len(wanted.split()) != len(found.split()) or not all(re.match(r"^-?\d+$", word) for pair in pairs for word in pair):
        return wanted
    return " ".join(max(pair, key=int) for pair in pairs)


def decide(wanted, states):
    """What becomes of each sysctl.

    Args:
        wanted: ``{name: value}``; a value of None or nothing is not wanted.
        states: ``{name: state}``, see :func:`state`.

    Returns:
        ``{name: {"value": text, "do": "set", "keep" or "leave"}}`` in the order of the names; ``value`` is the greater one
        where the host has more of a size, ``leave`` is what the host does not let be set.
    """
    found = {}
    for name in sorted(name for name, value in wanted.items() if words("" if value is None else value)):
        value, now = words(wanted[name]), states[name]
        if now["value"] is not None and name in AT_LEAST:
            value = at_least(value, now["value"])
        if now["value"] is None or not now["writable"] and now["value"] != value:
            found[name] = {"value": words(wanted[name]), "do": "leave"}
        else:
            found[name] = {"value": value, "do": "keep" if now["value"] == value else "set"}
    return found


def render(decided, notes):
    """The file for ``/etc/sysctl.d``.

    Args:
        decided: from :func:`decide`.
        notes: ``{name: why}``, comments.
    """
    lines = ["# Muster keeps this file (role limits): what is changed here is changed back by the next run."]
    for name, one in decided.items():
        lines.append("")
        lines += ["# " + line for line in (notes.get(name) or "").splitlines()]
        lines.append("{}{} = {}".format(LEFT if one["do"] == "leave" else "", name, one["value"]))
    if any(one["do"] == "leave" for one in decided.values()):
        lines += ["", "# What is left is not there or not this host's to set: in a container it is the machine's beneath it."]
    return "\n".join(lines) + "\n"


def named(text):
    """The names in a file that :func:`render` has made, those that were left too."""
    return re.findall(r"^(?:{})?([a-z]\S*) = ".format(re.escape(LEFT)), text or "", re.MULTILINE)
