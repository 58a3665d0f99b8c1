"""The environment that a job's Python belongs to: its real place, what it sets for the ranks, what is known of it.

Muster's own environments lie at ``<folder>/.versions/<name>/<id>``, with ``<folder>/<name>`` a link to the one in use. Others
are taken as they are.
"""

import glob
import json
import os
import re
import shutil

# What goes into a job's record, out of the folder .muster of an environment.
KEPT = ("lock.json", "environment.yml")


def real_python(python):
    """The path of an interpreter with the links in its *folder* resolved, so that a job keeps its files when the environment is
    switched to another version. ``bin/python`` itself stays: in a virtual environment it is a link to a Python elsewhere.

    Args:
        python: a path, or a name to look up on PATH, which is returned as it is.
    """
    folder, name = os.path.split(python)
    return os.path.join(os.path.realpath(folder), name) if folder else python


def of_python(python):
    """The prefix of an interpreter ``<prefix>/bin/python``; None for a bare name."""
    folder = os.path.dirname(python)
    return os.path.dirname(folder) if folder else None


def variables(python):
    """What activating the interpreter's environment sets: CONDA_PREFIX for conda's, VIRTUAL_ENV for a virtual one."""
    prefix, found = of_python(python), {}
    if prefix and os.path.isdir(os.path.join(prefix, "conda-meta")):
        found["CONDA_PREFIX"] = prefix
    if prefix and os.path.isfile(os.path.join(prefix, "pyvenv.cfg")):
        found["VIRTUAL_ENV"] = prefix
    return found


def recorded(python):
    """The variables that a conda prefix keeps for whoever activates it: those of its packages, then its own, which win.

    Scripts in ``etc/conda/activate.d`` are a shell's to run and are left out, and so is a PATH that would replace the ranks'.
    """
    prefix = of_python(python)
    if not prefix or not os.path.isdir(os.path.join(prefix, "conda-meta")):
        return {}
    found = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(prefix), "etc", "conda", "env_vars.d", "*.json"))):
        found.update(_object(path))
    own = _object(os.path.join(prefix, "conda-meta", "state")).get("env_vars")
    found.update(own if isinstance(own, dict) else {})
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, str) and re.match(r"[A-Za-z_]\w*\Z", name) and "\0" not in value and name != "PATH"
    }


def _object(path):
    """A JSON object in a file; empty where there is none."""
    try:
        with open(path, encoding="utf-8") as stream:
            value = json.load(stream)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def describe(python):
    """What is known of an environment that Muster made, None for any other.

    Args:
        python: from :func:`real_python`.

    Returns:
        ``{"name", "prefix", "lock_id", "fingerprint"}``; the last two are None where its stamp does not say.
    """
    prefix = of_python(python)
    stamp = _object(os.path.join(prefix, ".muster", "stamp.json")) if prefix else {}
    if not stamp:
        return None
    return {
        "name": os.path.basename(os.path.dirname(prefix)),
        "prefix": prefix,
        "lock_id": stamp.get("lock_id"),
        "fingerprint": stamp.get("fingerprint"),
    }


def keep(python, folder):
    """Copy lock and list of the interpreter's environment into ``folder``, as far as there are any; raises OSError."""
    source = os.path.join(of_python(python) or "", ".muster")
    for name in KEPT:
        path = os.path.join(source, name)
        if os.path.isabs(path) and os.path.isfile(path):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            shutil.copyfile(path, os.path.join(folder, name))
