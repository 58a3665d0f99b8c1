"""The hosts file and the host's own name."""

import glob
import os
import re

from . import reading

HOSTS = "/etc/hosts"
CLOUD = "/etc/cloud/cloud.cfg"


def look(options):
    """The section.

    Args:
        options: those of the module ``survey``; none is read.

    Returns:
        ``text`` of /etc/hosts (None where it cannot be read), ``hostname`` as the host has it, with a domain or without, and
        ``rewritten_by``: the file that has cloud-init write /etc/hosts anew at every boot, or None.
    """
    files = [CLOUD] + sorted(glob.glob(CLOUD + ".d/*.cfg"))
    return {
        "text": reading.text(HOSTS),
        "hostname": os.uname().nodename,
        "rewritten_by": rewriter([(path, reading.text(path) or "") for path in files]),
    }


def rewriter(files):
    """Which of cloud-init's files, ``[(path, text)]`` in their order, has it manage the hosts file; the last word counts."""
    found = None
    for path, text in files:
        for value in re.findall(r"^manage_etc_hosts:[ \t]*([^#\n]*)", text, re.MULTILINE):
            on = value.strip().strip("'\"").lower() in ("true", "yes", "on", "template", "localhost")
            found = path if on else None
    return found
