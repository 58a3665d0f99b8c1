# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The way through: look at the environment of one prefix, install a lock, go back, or remove it."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import time
from typing import Any, Iterator, Mapping, NamedTuple

from ..muster_agent import facts
from . import locks, occupants, pythons, registering, versions
from .complaints import Fault, explain_os_error
from .drift import NOTHING, Found, drift
from .locking import Locked, held, lock
from .machine import look, read_text
from .progress import Progress
from .progress import path as progress_path

# How the kinds of what lies at a prefix are called where nothing more is known.
SILENT_SECONDS = 600.0  # after so long without a word, nobody works any more
STATES = {"none": "none", "old": "old", "foreign": "foreign"}


class Status(NamedTuple):
    """How a prefix stands.

    state: as the module returns it; reasons: what differs from what was installed; path: the version it stands for, ""
    for none; stamp: its stamp; lock: its lock, None if lost; found: what it holds.
    """

    state: str
    reasons: list[str]
    path: str
    stamp: Mapping[str, Any]
    lock: Mapping[str, Any] | None
    found: Found


class Environment:
    """One prefix on this machine.

    Args:
        params: the module's options, by name, all of them present.
        environ: the environment of the module.
    """

    def __init__(self, params: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self.params = params
        self.environ = environ
        self.where = versions.place(params["prefix"])
        self.cache = os.path.expanduser(params["cache_dir"] or os.path.join(os.path.dirname(self.where.home), ".cache"))
        self.say = Progress(progress_path(self.cache, self.where.prefix))
        self.notes: list[str] = []
        self.waited_for = ""

    def act(self, state: str, check: bool) -> dict[str, Any]:
        """What the module does for a `state`; gives its result, with `before`, `after` (lines) and `notes` beside it.

        Raises:
            Fault: when it cannot be done; the prefix is as it was.
        """
        os.umask(0o022)  # An environment holds no secrets, and jobs run as another user.
        work = {"look": self.look, "present": self.present, "rolled_back": self.roll_back, "absent": self.remove}
        result = work[state](check)
        return dict(result, notes=self.notes, waited_for=self.waited_for)

    # -- the four ways

    def look(self, check: bool = False) -> dict[str, Any]:
        """Read, and change nothing."""
        status = self._status()
        search = self.environ.get("PATH")
        uv, tools = self.params["uv"] or "uv", self.params["tools"]
        result = self._told(status, False)
        if not self.params["packages"]:
            result["packages"] = {}
        return dict(
            result,
            **locks.platform_of(status.lock),
            left=self._left(status),
            cache_dir=self.cache,
            facts=pythons.gather(self.where.prefix, self.params["python"], search),
            tools=sorted(
                os.path.basename(os.path.dirname(path)) for path in glob.glob(os.path.join(glob.escape(tools), "*", "done"))
            ),
            uv_found=bool(shutil.which(os.path.expanduser(uv), path=search)),
        )

    def present(self, check: bool) -> dict[str, Any]:
        """Install the lock and switch to it, or tell what that would change."""
        wanted = self.params["lock"]
        if wanted is None:
            if not check:
                raise Fault("found no lock to install, expected one; solve it by the module python_lock")
            status = self._not_foreign(self._status())
            told = self._told(status, True, ["what it is to hold is not known yet"])
            lines = locks.lines(status.lock)
            return dict(told, current=False, added=self.params["lines"], removed=[], before=lines, after=self.params["lines"])
        locks.check(wanted)
        status = self._not_foreign(self._status())
        if self._is_current(status, wanted):
            if not check:
                self._tidy(status)
                if locks.platform_of(wanted) != locks.platform_of(status.lock):
                    # The same packages, solved for older hosts than before.
                    self._guard(lambda: versions.write_whole(versions.lock_path(status.path), locks.text(wanted)))
            return self._done(status, status, False)
        if check:
            return self._predicted(status, wanted)
        with self.say.telling(), self._hold(self.params["lock_timeout"]):
            self._recover()
            status = self._not_foreign(self._status())
            if self._is_current(status, wanted):
                return self._done(status, status, False)
            return self._install(status, wanted)

    def roll_back(self, check: bool) -> dict[str, Any]:
        """Switch to an older version."""
        with contextlib.ExitStack() as stack:
            if not check:
                stack.enter_context(self._hold(self.params["lock_timeout"]))
                self._recover()
            before = self._not_foreign(self._status())
            target = versions.way_back(versions.found(self.where), before.path or None, self.params["to"])
            after = self._status_of(target.path)
            if after.state != "whole":
                raise Fault(
                    "found the version %s changed (%s), expected it as it was installed; name another, or install its lock by "
                    "python_env_spec" % (target.id, "; ".join(after.reasons[:3]))
                )
            changed = target.path != before.path
            if changed and not check:
                self._guard(lambda: versions.go_back(self.where, target))
            return self._done(before, after, changed)

    def remove(self, check: bool) -> dict[str, Any]:
        """Remove the prefix and all its versions."""
        status = self._not_foreign(self._status())
        if not os.path.lexists(self.where.prefix) and not os.path.isdir(self.where.home):
            return self._done(status, status, False)
        nothing = Status("none", [], "", {}, None, NOTHING)
        if not check:
            with self._hold(self.params["lock_timeout"]):
                self._not_foreign(self._status())
                self._refuse_used()
                self._guard(lambda: versions.remove_all(self.where))
                self._register(False)
        return self._done(status, nothing, True)

    def _refuse_used(self) -> None:
        """Take nothing away from under a process."""
        there = [*versions.ours(self.where), *versions.unfinished(self.where), self.where.prefix]
        who = occupants.told(self.where, there)
        if who:
            raise Fault(
                "found %s in use by %s, expected nobody; stop it (a job that was cut off: remove it), then run again"
                % (self.where.prefix, who)
            )

    # -- what is there

    def _status(self) -> Status:
        """How the prefix stands."""
        what = versions.kind(self.where)
        path = versions.pointed(self.where)
        if what != "link" or not path:
            return Status(STATES[what], [] if what != "old" else ["it is of an earlier Muster"], "", {}, None, NOTHING)
        return self._status_of(path)

    @staticmethod
    def _status_of(path: str) -> Status:
        """How one version stands."""
        stamp = versions.read_stamp(path)
        if not os.path.isdir(path):
            return Status("drifted", ["its folder is gone"], path, {}, None, NOTHING)
        found = look(path)
        try:
            lock = locks.read(read_text(versions.lock_path(path)) or "")
        except Fault:
            lock = None
        if stamp is None or lock is None:
            return Status(
                "drifted", ["its stamp is lost" if stamp is None else "its lock is lost"], path, stamp or {}, lock, found
            )
        reasons = drift(stamp, found)
        return Status("drifted" if reasons else "whole", reasons, path, stamp, lock, found)

    def _not_foreign(self, status: Status) -> Status:
        """Never touch what somebody else made."""
        if status.state == "foreign":
            prefix = self.where.prefix
            what = "a link" if os.path.islink(prefix) else "a folder" if os.path.isdir(prefix) else "a file"
            raise Fault(
                "found %s that Muster did not make at %s, expected nothing there; it is left alone: choose another prefix, or "
                "move it away" % (what, prefix)
            )
        return status

    def _asked(self, wanted: Mapping[str, Any]) -> str:
        return str(self.params["asked"] or wanted["asked"])

    def _is_current(self, status: Status, wanted: Mapping[str, Any]) -> bool:
        stamp = status.stamp
        same = stamp.get("lock_id") == locks.lock_id(wanted) and stamp.get("asked") == self._asked(wanted)
        return status.state == "whole" and same

    # -- what is told

    def _told(self, status: Status, changed: bool, reasons: list[str] | None = None) -> dict[str, Any]:
        """What every way returns."""
        stamp = status.stamp
        packages = dict({name: what.split("=")[0] for name, what in status.found.conda.items()}, **status.found.packages)
        there = versions.found(self.where)
        current = versions.pointed(self.where)
        return {
            "changed": changed,
            "state": status.state,
            "reasons": status.reasons if reasons is None else reasons,
            "real": status.path,
            "asked": str(stamp.get("asked", "")),
            "lock_id": str(stamp.get("lock_id", "")),
            "fingerprint": facts.fingerprint(status.found.contents) if status.found.contents else "",
            "packages": dict(sorted(packages.items())),
            "python_version": status.found.python_version,
            "torch_backend": str(stamp.get("torch_backend", "")),
            "versions": [
                {
                    "id": version.id,
                    "lock_id": version.lock_id,
                    "asked": version.stamp.get("asked", ""),
                    "made": version.stamp.get("made", 0.0),
                    "used": version.used,
                    "current": version.path == current,
                }
                for version in there
            ],
        }

    def _done(self, before: Status, after: Status, changed: bool, reasons: list[str] | None = None) -> dict[str, Any]:
        """The result of a way that leads from one status to another."""
        old, new = locks.lines(before.lock), locks.lines(after.lock)
        told = self._told(after, changed, reasons)
        return dict(
            told,
            current=not changed,
            built=False,
            added=[line for line in new if line not in old],
            removed=[line for line in old if line not in new],
            fetched={"packages": 0, "bytes": 0},
            before=old,
            after=new,
        )

    def _predicted(self, status: Status, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """What installing a lock would change."""
        lock_id = locks.lock_id(wanted)
        changed = status.state != "whole" or status.stamp.get("lock_id") != lock_id
        predicted = Status("whole", [], status.path if not changed else self.where.version(lock_id), {}, wanted, NOTHING)
        told = self._done(status, predicted, changed, self._reasons(status, lock_id))
        return dict(told, lock_id=lock_id, packages=locks.packages(wanted), python_version=wanted["python"])

    @staticmethod
    def _reasons(status: Status, lock_id: str) -> list[str]:
        """Why something has to be done, in words."""
        if status.state == "none":
            return ["it is not there yet"]
        other = ["another lock is wanted"] if status.stamp.get("lock_id") not in ("", None, lock_id) else []
        return status.reasons + other

    # -- what is done

    def _install(self, status: Status, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Under the flock: find or make a whole version of the lock, and switch to it."""
        # Not above: it takes time, and a look needs nothing of it.
        from .installing import Installer

        lock_id, asked = locks.lock_id(wanted), self._asked(wanted)
        fetched = {"packages": 0, "bytes": 0}
        ready, made = None, False
        for version in versions.found(self.where):
            if version.lock_id == lock_id and self._status_of(version.path).state == "whole":
                ready = version.path
                if version.stamp.get("asked") != asked:
                    versions.write_stamp(version.path, dict(version.stamp, asked=asked))
                break
        if ready is None:
            ready = self.where.version(versions.next_id(self.where, lock_id))
            with self._workspace() as space:
                name = self.params["name"] or self.where.name
                installer = Installer(self.params, self.environ, self.cache, space, self.say)
                self.notes += installer.notes
                try:
                    found = installer.make(wanted, ready, name)
                    versions.write_stamp(ready, installer.stamp(wanted, found, asked))
                except BaseException:
                    versions.remove(ready)
                    raise
                fetched = installer.fetched
                made = True
        if not self.params["switch"] and versions.pointed(self.where) != ready:
            told = self._done(status, self._status_of(ready), made, self._reasons(status, lock_id))
            return dict(told, fetched=fetched, current=False, built=True)
        switched = versions.pointed(self.where) != ready
        if switched:
            self._guard(lambda: versions.switch(self.where, ready))
        self._register(bool(wanted["conda"]))
        self._prune()
        after = self._status()
        changed = switched or status.state != "whole"
        told = self._done(status, after, changed, self._reasons(status, lock_id))
        return dict(told, fetched=fetched)

    def _register(self, there: bool) -> None:
        """Put a conda prefix on conda's own list; without that it works as well, so a fault is told and no more."""
        try:
            registering.register(self.where.prefix, there)
        except Fault as fault:
            self.notes.append(fault.sentence)

    def _prune(self) -> None:
        """Remove the versions that need not remain, and the damaged one that was replaced, unless a process uses one."""
        self._recover()
        current = versions.pointed(self.where)
        old = versions.outdated(versions.found(self.where), current, self.params["keep"])
        used = occupants.used(self.where, old)
        for path in old:
            if path not in used:
                self._remove(path)

    def _left(self, status: Status) -> list[str]:
        """What killed runs left undone here, in words, where nobody is at work."""
        if held(self.where.lock):
            return []
        left = ["%s is not finished" % path for path in self._abandoned()]
        dead = [path for path in (self.where.lock,) if os.path.exists(path)]
        with contextlib.suppress(OSError):
            # A solve or a run that shares packages tells there as well, and holds no lock.
            dead += [self.say.file] if dead or time.time() - os.stat(self.say.file).st_mtime > SILENT_SECONDS else []
        left += ["%s is of a run that was killed" % path for path in dead if os.path.exists(path)]
        if status.lock and status.lock["conda"] and not registering.is_registered(self.where.prefix):
            path = facts.existing(os.path.dirname(registering.own_list()))
            left += ["conda does not know it"] if os.access(path, os.W_OK) else []
        return left

    def _tidy(self, status: Status) -> None:
        """Where nothing has to change: do what a killed run left undone, if nobody is at work."""
        if not self._left(status):
            return
        with contextlib.suppress(Fault), self._hold(0), self.say.telling():
            self._recover()
        self._register(bool(status.lock and status.lock["conda"]))

    def _abandoned(self) -> list[str]:
        """What killed runs left, and nobody needs."""
        left = [path for path in versions.unfinished(self.where) if path != versions.pointed(self.where)]
        used = occupants.used(self.where, left)
        return [path for path in left if path not in used]

    def _recover(self) -> None:
        """Under the flock: put right what killed runs left."""
        self._guard(lambda: versions.bring_back(self.where))
        for path in self._abandoned():
            self._remove(path)

    def _remove(self, path: str) -> None:
        """Remove what nobody needs; what cannot go is no reason to end, and is told."""
        if not versions.remove(path):
            self.notes.append(
                "found files in %s that this user may not remove, expected its own there; remove that folder as root" % path
            )

    @contextlib.contextmanager
    def _hold(self, timeout: float) -> Iterator[None]:
        """Hold the lock beside the prefix, whose parent is made if need be; what the system refuses becomes a Fault."""

        def wait(holder: str) -> None:
            self.waited_for = holder
            self.say("waits for %s, which works on %s" % (holder, self.where.prefix))

        try:
            os.makedirs(self.where.parent, exist_ok=True)
            with lock(self.where.lock, timeout, wait):
                yield
        except Locked as error:
            raise Fault(
                "found %s being changed by %s, expected it to be free within %d s; wait for it, or raise "
                "python_env_lock_timeout" % (self.where.prefix, error, timeout)
            ) from None
        except OSError as error:
            raise explain_os_error(error, self.where.prefix) from None

    def _guard(self, work: Any) -> None:
        """Do what changes names; the system's refusal becomes a Fault."""
        try:
            work()
        except OSError as error:
            raise explain_os_error(error, self.where.prefix) from None

    @contextlib.contextmanager
    def _workspace(self) -> Iterator[str]:
        """A folder among the versions for what is needed for a moment; it goes with all it holds."""
        space = self.where.version("work-%d" % os.getpid())
        os.makedirs(space)
        try:
            yield space
        finally:
            shutil.rmtree(space, ignore_errors=True)  # the next run removes what stays


def installed_lock(prefix: str, asked: str) -> Mapping[str, Any] | None:
    """The lock of a version at a prefix that was made for what is asked, the one used last first; None if there is none."""
    for version in versions.found(versions.place(prefix)):
        if version.stamp.get("asked") == asked:
            with contextlib.suppress(Fault):
                return locks.read(read_text(versions.lock_path(version.path)) or "")
    return None


def current_lock(prefix: str) -> Mapping[str, Any] | None:
    """The lock of the version that a prefix stands for; None if there is none."""
    path = versions.pointed(versions.place(prefix))
    if path:
        with contextlib.suppress(Fault):
            return locks.read(read_text(versions.lock_path(path)) or "")
    return None
