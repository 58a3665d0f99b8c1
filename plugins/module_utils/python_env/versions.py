# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""Where the versions of an environment lie, and which of them the prefix stands for."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import re
import shutil
import time
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from .complaints import Fault
from .machine import read_text

STAMP_FORMAT = 2
# What a virtual environment of an earlier Muster has: a file in it, and a line of its pyvenv.cfg.
OLD_STAMP = ".muster-env.json"
OLD_MARK = "muster = muster.cluster.python_env"
ID = re.compile(r"([0-9a-f]{12})(?:-([0-9]+))?\Z")
# What else lies among the versions for a moment: a folder to work in, and what an earlier Muster had at the prefix.
PASSING = re.compile(r"(?:work|old)-[0-9]+\Z")


class Place(NamedTuple):
    """All paths of one environment, derived from its prefix alone.

    prefix: the path that users know, a link to one of the versions; parent: the folder above; name: its last part;
    home: the folder of all versions; lock: whose flock is held by whoever changes any of it.
    """

    prefix: str
    parent: str
    name: str
    home: str
    lock: str

    def version(self, lock_id: str) -> str:
        """The folder of one version."""
        return os.path.join(self.home, lock_id)


def place(prefix: str) -> Place:
    """The paths of an environment.

    Args:
        prefix: its path; links above its last part are resolved, the last part (which is a link) is not.
    """
    path = os.path.abspath(os.path.expanduser(prefix))
    parent, name = os.path.realpath(os.path.dirname(path)), os.path.basename(path)
    home = os.path.join(parent, ".versions", name)
    return Place(os.path.join(parent, name), parent, name, home, os.path.join(parent, ".%s.lock" % name))


def muster_folder(version: str) -> str:
    """Where a version keeps what Muster knows about it."""
    return os.path.join(version, ".muster")


def stamp_path(version: str) -> str:
    """The stamp: written last, so that a version without it is unfinished."""
    return os.path.join(muster_folder(version), "stamp.json")


def lock_path(version: str) -> str:
    """The lock that a version was made from."""
    return os.path.join(muster_folder(version), "lock.json")


# -- what lies there


class Version(NamedTuple):
    """One whole version: its folder's name and path, its stamp, and when it was last switched to (seconds since 1970)."""

    id: str
    path: str
    stamp: Mapping[str, Any]
    used: float

    @property
    def lock_id(self) -> str:
        """The lock it was made from."""
        return str(self.stamp.get("lock_id", ""))


def read_stamp(version: str) -> dict[str, Any] | None:
    """The stamp of a version; None when there is none that can be read."""
    try:
        stamp = json.loads(read_text(stamp_path(version)) or "")
    except ValueError:
        return None
    return stamp if isinstance(stamp, dict) and stamp.get("format") == STAMP_FORMAT else None


def write_whole(path: str, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    with open(path + ".new", "w", encoding="utf-8") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(path + ".new", path)


def write_stamp(version: str, stamp: Mapping[str, Any]) -> None:
    """Record how a version was made and what it holds; with this it is finished."""
    write_whole(stamp_path(version), json.dumps({"format": STAMP_FORMAT, **stamp}, indent=1, sort_keys=True) + "\n")


def pointed(where: Place) -> str | None:
    """The version that the prefix is a link to, as a path that need not exist; None where it is no link of ours."""
    try:
        target = os.readlink(where.prefix)
    except OSError:
        return None
    return os.path.normpath(os.path.join(where.parent, target)) if _leads_home(where, where.prefix) else None


def kind(where: Place) -> str:
    """What lies at the prefix: "none" (nothing, or an empty folder), "link" (ours), "old" (an earlier Muster's), "foreign".

    Raises:
        Fault: for what cannot be read.
    """
    prefix = where.prefix
    if pointed(where):
        return "link"
    if not os.path.lexists(prefix):
        return "none"
    if os.path.islink(prefix) or not os.path.isdir(prefix):
        return "foreign"
    try:
        if not os.listdir(prefix):
            return "none"
    except OSError as error:
        raise Fault(
            "found %s, which cannot be read (%s), expected a folder of this user's; become its owner, or choose another "
            "prefix" % (prefix, error.strerror)
        ) from None
    return "old" if is_old(prefix) else "foreign"


def is_old(folder: str) -> bool:
    """Whether a folder is a virtual environment of an earlier Muster."""
    if os.path.islink(folder) or not os.path.isdir(folder):
        return False
    marked = OLD_MARK in (read_text(os.path.join(folder, "pyvenv.cfg")) or "").splitlines()
    return marked or os.path.exists(os.path.join(folder, OLD_STAMP))


def found(where: Place) -> list[Version]:
    """The whole versions of an environment, the one used last first."""
    out = []
    for name in _names(where):
        path = where.version(name)
        stamp = read_stamp(path) if ID.match(name) else None
        if stamp:
            out.append(Version(name, path, stamp, _used(path)))
    return sorted(out, key=lambda version: (version.used, version.id), reverse=True)


def _names(where: Place) -> list[str]:
    try:
        return sorted(os.listdir(where.home))
    except OSError:
        return []


def _used_path(version: str) -> str:
    return os.path.join(muster_folder(version), "used")


def _used(version: str) -> float:
    try:
        return os.stat(_used_path(version)).st_mtime
    except OSError:
        return 0.0


def unfinished(where: Place) -> list[str]:
    """Paths of what killed runs left among the versions and beside the prefix; what others put there is not among them.

    These are versions without a stamp, folders to work in, new links that were not renamed, and what an earlier Muster had.
    """
    left = [path for path in ours(where) if not ID.match(os.path.basename(path)) or not read_stamp(path)]
    pattern = re.compile(re.escape(where.name) + r"\.new-[0-9]+\Z")
    with contextlib.suppress(OSError):
        beside = [os.path.join(where.parent, name) for name in sorted(os.listdir(where.parent)) if pattern.match(name)]
        left += [path for path in beside if _leads_home(where, path) or is_old(path)]
    return left


def ours(where: Place) -> list[str]:
    """Paths of all that this module has put among the versions, by their names."""
    return [where.version(name) for name in _names(where) if ID.match(name) or PASSING.match(name)]


def _leads_home(where: Place, path: str) -> bool:
    """Whether something is a link to a place among the versions, which need not be there."""
    try:
        return os.path.dirname(os.path.normpath(os.path.join(where.parent, os.readlink(path)))) == where.home
    except OSError:
        return False


def _free(stem: str) -> str:
    """The first path `<stem>-N` that is not taken, from this process's id on."""
    number = os.getpid()
    while os.path.lexists("%s-%d" % (stem, number)):
        number += 1
    return "%s-%d" % (stem, number)


def next_id(where: Place, lock_id: str) -> str:
    """A name for a new version of a lock: its id, or `<id>-2` and so on where that is taken."""
    taken = set(_names(where))
    name, number = lock_id, 1
    while name in taken:
        number += 1
        name = "%s-%d" % (lock_id, number)
    return name


# -- what changes it


def switch(where: Place, version: str, note_use: bool = True) -> None:
    """Make the prefix a link to a version, by one rename; what an earlier Muster had there goes among the versions.

    There the next `unfinished` names it, for whoever knows that nobody uses it.

    Args:
        where: the environment.
        version: path of one of its versions.
        note_use: whether this counts as the last use; a way back keeps the order, so that the next one goes further.
    """
    if note_use:
        with open(_used_path(version), "w", encoding="utf-8"):
            pass
        os.utime(_used_path(version), (time.time(), time.time()))
    fresh = _free(where.prefix + ".new")
    os.symlink(os.path.relpath(version, where.parent), fresh)
    what = kind(where)
    if what == "old":
        aside = _free(where.version("old"))
        if exchange(fresh, where.prefix):
            with contextlib.suppress(OSError):  # beside the prefix it is found as well
                os.rename(fresh, aside)
            return
        os.rename(where.prefix, aside)  # killed after this, `bring_back` is needed
        os.rename(fresh, where.prefix)
        return
    if what == "none" and os.path.isdir(where.prefix):
        os.rmdir(where.prefix)
    os.rename(fresh, where.prefix)


def bring_back(where: Place) -> bool:
    """Where a switch was killed between its two renames: what an earlier Muster had is the prefix again; whether it was so."""
    old = [path for path in ours(where) if PASSING.match(os.path.basename(path)) and is_old(path)]
    if not old or os.path.lexists(where.prefix):
        return False
    os.rename(max(old, key=lambda path: os.lstat(path).st_ctime), where.prefix)
    return True


def go_back(where: Place, target: Version) -> None:
    """Switch to another version. Those used after it are no longer ways back by themselves, only by their names."""
    later = [version for version in found(where) if version.used > target.used] if target.used else []
    for version in later:
        os.utime(_used_path(version.path), (0, 0))
    switch(where, target.path, note_use=not target.used)


def remove_all(where: Place) -> None:
    """Remove the prefix and all its versions; the name goes first, so that nobody starts what is half there.

    What others have put among the versions stays.
    """
    if kind(where) == "old":
        os.makedirs(where.home, exist_ok=True)
        os.rename(where.prefix, _free(where.version("old")))
    elif os.path.islink(where.prefix):
        os.unlink(where.prefix)
    elif os.path.isdir(where.prefix):
        os.rmdir(where.prefix)
    for path in {*ours(where), *unfinished(where)}:
        remove(path)
    with contextlib.suppress(OSError):
        os.rmdir(where.home)
        os.rmdir(os.path.dirname(where.home))


def remove(path: str) -> bool:
    """Remove a link or a folder with all it holds, if it is there; whether nothing of it remains.

    The stamp goes first, so that a half is known as one.
    """
    if os.path.islink(path) or os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        with contextlib.suppress(OSError):
            os.unlink(stamp_path(path))
        shutil.rmtree(path, ignore_errors=True)  # what stays is told
    return not os.path.lexists(path)


def exchange(new: str, old: str) -> bool:
    """Swap two names at once, by Linux's renameat2(2); False where the file system cannot."""
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


def in_use(paths: Iterable[str], proc: str = "/proc") -> set[str]:
    """Those of the folders that a process uses: its program, a library it has loaded or its command line lies there.

    Processes of other users show their command line alone, unless root asks.
    """
    wanted = {path: os.fsencode(path) + b"/" for path in paths}
    used: set[str] = set()
    for pid in os.listdir(proc) if wanted else ():
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        texts = []
        with contextlib.suppress(OSError):
            texts.append(os.fsencode(os.readlink(os.path.join(proc, pid, "exe"))))
        for name in ("cmdline", "maps"):
            with contextlib.suppress(OSError), open(os.path.join(proc, pid, name), "rb") as handle:
                texts.append(handle.read())
        used.update(path for path, needle in wanted.items() if any(needle in text for text in texts))
    return used


def outdated(versions: Sequence[Version], current: str | None, keep: int) -> list[str]:
    """Paths of the versions that need not remain: beyond `keep` old ones, and all but the latest of the same lock.

    Args:
        versions: the whole versions, the one used last first.
        current: path of the one that the prefix stands for.
        keep: how many others remain.
    """
    out, kept = [], 0
    seen = {version.lock_id for version in versions if version.path == current}
    for version in versions:
        if version.path == current:
            continue
        if version.lock_id in seen or kept >= keep:
            out.append(version.path)
        else:
            kept += 1
        seen.add(version.lock_id)
    return out


def way_back(versions: Sequence[Version], current: str | None, to: str) -> Version:
    """The version to go back to.

    Args:
        versions: the whole versions, the one used last first.
        current: path of the one that the prefix stands for.
        to: a version's id, its lock id or the beginning of one; "" for the one used before the present one.

    Raises:
        Fault: when there is none.
    """
    there = ", ".join(version.id for version in versions if version.path != current) or "none but the present one"
    if to:
        match = [version for version in versions if version.id == to] or [v for v in versions if v.lock_id.startswith(to)]
        if not match:
            raise Fault("found no version %s, expected one of those that are kept: %s; name one of them" % (to, there))
        return match[0]
    # A version whose use is zero was gone back from.
    good = [version for version in versions if version.used or version.path == current]
    position = next((index for index, version in enumerate(good) if version.path == current), -1)
    if position + 1 >= len(good):
        raise Fault(
            "found no version older than the present one, expected one to go back to (there is %s); install the older "
            "lock by python_env_spec" % there
        )
    return good[position + 1]
