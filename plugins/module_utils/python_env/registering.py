# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""conda's own list of environments, a text file in a user's home: one prefix on a line, written by every conda there is."""

from __future__ import annotations

import contextlib
import os
import pwd
import tempfile

from . import locking
from .complaints import Fault

LOCK_SECONDS = 10.0


def own_list() -> str:
    """The file of the user who runs this: below HOME, as conda has it, unless a login of another user has left that."""
    home = os.environ.get("HOME", "")
    with contextlib.suppress(OSError, KeyError):
        if not os.path.isabs(home) or os.stat(home).st_uid != os.geteuid():
            home = pwd.getpwuid(os.geteuid()).pw_dir
    return os.path.join(home or "/", ".conda", "environments.txt")


def lines_with(text: str, prefix: str, there: bool) -> str:
    """The list with or without a prefix; all other lines stay as they are.

    Args:
        text: of the file.
        prefix: an environment's path, which then stands there once.
        there: whether it is to stand there.
    """
    kept, seen = [], False
    for line in text.splitlines(keepends=True):
        if line.strip() and os.path.normpath(line.strip()) == os.path.normpath(prefix):
            if seen or not there:
                continue
            seen = True
        kept.append(line)
    if there and not seen:
        kept += ["" if not text or text.endswith("\n") else "\n", prefix + "\n"]
    return "".join(kept)


def is_registered(prefix: str, path: str | None = None) -> bool:
    """Whether conda knows an environment by its path.

    Args:
        prefix: the path that users know.
        path: of the list; None for the user's own.
    """
    try:
        text = _read(path or own_list())
    except OSError:
        return False
    return lines_with(text, prefix, True) == text


def register(prefix: str, there: bool = True, path: str | None = None) -> bool:
    """Put an environment on conda's list, or take it off; whether the list was changed.

    Whoever else writes the list by this function waits; what a conda appends meanwhile is seen and kept.

    Args:
        prefix: the path that users know.
        there: whether it is to stand there.
        path: of the list; None for the user's own.

    Raises:
        Fault: when the list cannot be written.
    """
    path = os.path.realpath(path or own_list())
    try:
        if not os.path.exists(path) and not there:
            return False
        if lines_with(_read(path), prefix, there) == _read(path):
            return False
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        with locking.lock(path + ".lock", LOCK_SECONDS):
            for _ in range(100):
                before, text = _mark(path), _read(path)
                wanted = lines_with(text, prefix, there)
                if wanted == text:
                    return False
                if _replace(path, wanted, before):
                    return True
    except locking.Locked as held:
        raise _fault(path, "it is held by %s" % held) from None
    except OSError as error:
        raise _fault(path, error.strerror or str(error)) from None
    raise _fault(path, "others write it all the time")


def _fault(path: str, why: str) -> Fault:
    return Fault(
        "found conda's list %s, which cannot be written (%s), expected a file of this user's; become its owner" % (path, why)
    )


def _read(path: str) -> str:
    """The list, byte for byte; empty where there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as handle:
            return handle.read()
    except FileNotFoundError:
        return ""


def _mark(path: str) -> tuple[int, int, int] | None:
    """What tells whether a file has been written since; None for no file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _replace(path: str, text: str, before: tuple[int, int, int] | None) -> bool:
    """Put a new file in the place of one that is still as it was; False where it is not."""
    handle, fresh = tempfile.mkstemp(prefix=".environments.", dir=os.path.dirname(path))
    try:
        with open(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
            stream.write(text)
        os.chmod(fresh, os.stat(path).st_mode & 0o7777 if before else 0o644)
        if _mark(path) != before:
            return False
        os.replace(fresh, path)
        return True
    finally:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
