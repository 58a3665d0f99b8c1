# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""What there is to tell of an environment: what is really installed, its versions, and who uses them. It changes nothing."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Iterable, Mapping

from ..muster_agent import facts, procs
from . import locks, versions
from .complaints import Fault
from .drift import Found, drift
from .machine import look, read_text


def inspect(prefix: str) -> dict[str, Any]:
    """Everything about an environment.

    Args:
        prefix: its path.

    Returns:
        what the module python_env_info documents.

    Raises:
        Fault: when the prefix cannot be read.
    """
    where = versions.place(prefix)
    there = versions.found(where)
    current = next((version for version in there if version.path == versions.pointed(where)), None)
    answer: dict[str, Any] = {
        "name": where.name,
        "state": "there" if current else "none" if versions.kind(where) == "none" else "other",
        "real": current.path if current else "",
        "lock_id": current.lock_id if current else "",
        "lock": None,
        "environment_yml": "",
        "fingerprint": "",
        "contents": {},
        "drift": [],
        "versions": [],
    }
    lock = read_lock(current) if current else None
    if current and lock:
        found = look(current.path)
        answer.update(
            lock=lock,
            drift=drift(current.stamp, found),
            environment_yml=locks.environment_yml(really(lock, current.stamp, found), where.name),
            fingerprint=facts.fingerprint(found.contents),
            contents=facts.brief(found.contents),
        )
    users = processes(version.path for version in there)
    for version in there:
        answer["versions"].append(
            {
                "id": version.id,
                "path": version.path,
                "lock_id": version.lock_id,
                "used": version.used,
                "current": version is current,
                "changes": [list(change) for change in locks.differences(lock, read_lock(version))],
                "users": users[version.path],
            }
        )
    return answer


def read_lock(version: versions.Version) -> dict[str, Any] | None:
    """The lock of a version; None when somebody has taken or spoilt it."""
    try:
        return locks.read(read_text(versions.lock_path(version.path)) or "")
    except Fault:
        return None


def really(lock: Mapping[str, Any], stamp: Mapping[str, Any], found: Found) -> dict[str, Any]:
    """What is installed in the words of a lock, as far as `locks.environment_yml` reads them.

    Args:
        lock: what the version was installed from.
        stamp: what it held then.
        found: what it holds now.
    """
    wheels = {entry["name"] for entry in lock["wheels"]}
    # What Python's metadata name and a conda package has brought.
    of_conda = {name: version for name, version in (stamp.get("packages") or {}).items() if name not in wheels}
    conda = [[name, *what.split("=", 1)] for name, what in sorted(found.conda.items())]
    return {
        "channels": lock["channels"],
        "python": found.python_version or lock["python"],
        "variables": dict(lock.get("variables") or {}),
        "conda": [{"name": name, "version": version, "build": build} for name, version, build in conda],
        "wheels": [
            {"name": name, "version": version}
            for name, version in found.packages.items()
            if name in wheels or of_conda.get(name) != version
        ],
    }


def processes(paths: Iterable[str], proc: str = "/proc") -> dict[str, list[str]]:
    """Who uses folders, by `versions.in_use`: jobs of Muster by name, other processes one by one.

    Args:
        paths: the folders.
        proc: where processes show.
    """
    users: dict[str, list[str]] = {path: [] for path in paths}
    for path in versions.in_use(users, proc):
        for pid in sorted(int(name) for name in os.listdir(proc) if name.isdigit() and int(name) != os.getpid()):
            if _uses(os.path.join(proc, str(pid)), os.fsencode(path) + b"/"):
                job = procs.job_of(pid)
                users[path].append("job %s" % job if job else procs.describe(pid))
        users[path] = sorted(set(users[path]))
    return users


def _uses(folder: str, needle: bytes) -> bool:
    """Whether a process, by its folder below /proc, names a path."""
    for name in ("cmdline", "maps"):
        with contextlib.suppress(OSError), open(os.path.join(folder, name), "rb") as handle:
            if needle in handle.read():
                return True
    with contextlib.suppress(OSError):
        return os.fsencode(os.readlink(os.path.join(folder, "exe"))).startswith(needle)
    return False
