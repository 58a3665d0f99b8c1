# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The folder of an environment: whose it is, and how a new one takes its place."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import shutil
from typing import Any, Mapping

from .machine import read_text

STAMP = ".muster-env.json"
STAMP_FORMAT = 1
# A line of pyvenv.cfg (Python ignores it): the prefix is ours even if its stamp is lost.
MARK = "muster = muster.cluster.python_env"


def read_stamp(prefix: str) -> dict[str, Any] | None:
    """The stamp of a prefix; None when there is none that can be read."""
    try:
        stamp = json.loads(read_text(os.path.join(prefix, STAMP)) or "")
    except ValueError:
        return None
    return stamp if isinstance(stamp, dict) and stamp.get("format") == STAMP_FORMAT else None


def write_stamp(prefix: str, stamp: Mapping[str, Any]) -> None:
    """Record how an environment was made and what it holds; whole or not at all."""
    path = os.path.join(prefix, STAMP)
    with open(path + ".new", "w", encoding="utf-8") as handle:
        json.dump({"format": STAMP_FORMAT, **stamp}, handle, indent=1, sort_keys=True)
        handle.write("\n")
    os.replace(path + ".new", path)


def mark(prefix: str) -> None:
    """Note in an environment that it is ours, for the case that its stamp is lost."""
    with open(os.path.join(prefix, "pyvenv.cfg"), "a", encoding="utf-8") as handle:
        handle.write(MARK + "\n")


def is_ours(prefix: str) -> bool:
    """Whether this module made the prefix: its stamp is there, or its line in pyvenv.cfg."""
    if os.path.exists(os.path.join(prefix, STAMP)):
        return True
    return MARK in (read_text(os.path.join(prefix, "pyvenv.cfg")) or "").splitlines()


def exchange(new: str, old: str) -> bool:
    """Swap the names of two folders at once, by Linux's renameat2(2); False where the file system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    at_cwd, swap = -100, 2
    if rename(at_cwd, os.fsencode(new), at_cwd, os.fsencode(old), swap) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), old)


def put_in_place(new: str, prefix: str, aside: str) -> None:
    """Make `new` the prefix; what was there before then lies at `new` or `aside`, both in the workspace.

    Where names cannot be swapped at once there is a moment without a prefix: `recover` mends a run killed in it.
    """
    if not os.path.exists(prefix) or not os.listdir(prefix):
        os.rename(new, prefix)
    elif not exchange(new, prefix):
        os.rename(prefix, aside)
        try:
            os.rename(new, prefix)
        except OSError:
            os.rename(aside, prefix)
            raise


def workspaces(prefix: str) -> list[str]:
    """Folders beside the prefix which runs of this module work in, or were killed in."""
    pattern = re.compile(re.escape(os.path.basename(prefix)) + r"\.new-[0-9]+$")
    parent = os.path.dirname(prefix)
    try:
        return sorted(os.path.join(parent, name) for name in os.listdir(parent) if pattern.match(name))
    except OSError:
        return []


def recover(prefix: str) -> None:
    """Under the lock: put back an environment that a killed run had moved aside, and remove what such runs left."""
    for space in workspaces(prefix):
        aside = os.path.join(space, "old")
        if not os.path.exists(prefix) and is_ours(aside):
            os.rename(aside, prefix)
        shutil.rmtree(space, ignore_errors=True)
