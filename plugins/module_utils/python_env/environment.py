# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The way through: compare, then keep, predict, build or remove the environment of one prefix."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from typing import Any, Iterator, Mapping, NamedTuple

from ..muster_agent import facts
from .commands import venv_argv
from .complaints import Fault, explain_os_error
from .drift import NOTHING, Found, State, drift, reasons_to_act
from .locking import Locked, lock
from .machine import has_nvidia_gpu, look
from .plans import Plan, needed_mb
from .prefix import is_ours, mark, put_in_place, read_stamp, recover, workspaces, write_stamp
from .resolving import Resolver
from .uv import Uv
from .wish import Wish, read_wish


class Outcome(NamedTuple):
    """What became of an environment, or would become of it.

    changed; current: whether it was as wanted before; reasons: why not; before and after: packages, name to version
    (`after` is None when check mode cannot know it); notes: warnings; python_version: of the prefix, "" if unknown.
    """

    changed: bool
    current: bool
    reasons: list[str]
    before: dict[str, str]
    after: dict[str, str] | None
    python_version: str
    notes: list[str]


class Environment:
    """One prefix on this machine.

    Args:
        params: the module's options, by name, all of them present.
        environ: the environment of the module.
        tmp: a folder for what check mode needs for a moment.
    """

    wish: Wish

    def __init__(self, params: Mapping[str, Any], environ: Mapping[str, str], tmp: str | None = None) -> None:
        self.params = params
        self.environ = environ
        self.tmp = tmp
        self.prefix = os.path.realpath(params["prefix"])
        self.notes: list[str] = []

    # -- the way through

    def ensure(self, check: bool) -> Outcome:
        """Make the prefix as wanted, or with `check` tell what that would change; raises Fault."""
        self.wish = read_wish(self.params, self.environ)
        self.notes += self.wish.notes
        self._refuse_foreign()
        state = self._compare()
        if state.how == "current":
            self._tidy(check)
            return self._kept(state)
        if check:
            with tempfile.TemporaryDirectory(prefix="python-env-", dir=self.tmp) as space:
                return self._predict(state, space)
        with self._hold(self.params["lock_timeout"]):
            recover(self.prefix)
            self._refuse_foreign()
            state = self._compare()
            if state.how == "current":
                return self._kept(state)
            with self._workspace() as space:
                return self._build(state, space)

    def remove(self, check: bool) -> Outcome:
        """Remove the prefix, or with `check` tell what would go; raises Fault."""
        self._refuse_foreign()
        if not os.path.isdir(self.prefix) or not os.listdir(self.prefix):
            self._tidy(check)
            return Outcome(False, True, [], {}, {}, "", self.notes)
        before = look(self.prefix).packages
        if not check:
            with self._hold(self.params["lock_timeout"]):
                recover(self.prefix)
                with self._workspace() as space:
                    os.rename(self.prefix, os.path.join(space, "gone"))
        return Outcome(True, False, ["it is there"], before, {}, "", self.notes)

    def _kept(self, state: State) -> Outcome:
        """The outcome where nothing has to change."""
        found = state.found
        return Outcome(False, True, [], found.packages, found.packages, found.python_version, self.notes)

    def _predict(self, state: State, space: str) -> Outcome:
        """What a run would change, by a dry run; without uv, Python or network for a first environment: unknown."""
        try:
            uv = Uv(self.params, self.environ, self.wish.settings, space)
            plan = self._plan(uv, state, has_nvidia_gpu())[0]
        except Fault as fault:
            if state.how != "none" or fault.kind == "unsatisfiable":
                raise
            if fault.kind != "no uv":
                self.notes.append("the packages cannot be foretold, since %s" % fault.sentence)
            return Outcome(True, False, state.reasons, {}, None, "", self.notes)
        if state.how == "asked" and plan.added == state.found.packages:
            return self._kept(state)
        return Outcome(True, False, state.reasons, state.found.packages, plan.added, uv.python_version, self.notes)

    def _build(self, state: State, space: str) -> Outcome:
        """Under the lock: build a new environment beside the prefix, look it over, and put it in place."""
        uv = Uv(self.params, self.environ, self.wish.settings, space)
        gpu = has_nvidia_gpu()
        plan, backend = self._plan(uv, state, gpu)
        if state.how == "asked" and plan.added == state.found.packages:
            # Other words for the same packages: nothing to install, only the stamp to renew.
            self._write_stamp(self.prefix, state.found, backend, gpu)
            return self._kept(state)
        self._check_space(uv, plan)
        fresh = os.path.join(space, "env")
        uv.call(venv_argv(uv.path, uv.base, fresh))
        pins = uv.pin({name: version for name, version in plan.added.items() if name not in plan.urls})
        uv.call(uv.install_argv(os.path.join(fresh, "bin", "python"), [pins], backend))
        found = self._prove(uv, fresh)
        mark(fresh)
        self._write_stamp(fresh, found, backend, gpu)
        put_in_place(fresh, self.prefix, os.path.join(space, "old"))
        before = state.found.packages
        return Outcome(True, False, state.reasons, before, found.packages, found.python_version, self.notes)

    # -- the steps

    def _tidy(self, check: bool) -> None:
        """Where nothing has to change: remove what a killed run left, if one did and if nobody is at work."""
        if not check and (workspaces(self.prefix) or os.path.exists(self.prefix + ".lock")):
            with contextlib.suppress(Fault), self._hold(0):
                recover(self.prefix)

    def _refuse_foreign(self) -> None:
        """Never touch what somebody else made."""
        if not os.path.lexists(self.prefix):
            return
        if not os.path.isdir(self.prefix):
            raise Fault("%s is a file: choose another prefix, or remove it" % self.prefix)
        try:
            foreign = bool(os.listdir(self.prefix)) and not is_ours(self.prefix)
        except OSError as error:
            raise Fault(
                "%s cannot be read (%s): become its owner, or choose another prefix" % (self.prefix, error.strerror)
            ) from None
        if foreign:
            raise Fault(
                "%s was not made by Muster, so it is left alone: choose another prefix, or move that folder away"
                % self.prefix
            )

    def _compare(self) -> State:
        """How the prefix stands to the wish."""
        if not is_ours(self.prefix):
            return State("none", ["it is not there yet"], None, NOTHING)
        stamp, found = read_stamp(self.prefix), look(self.prefix)
        asked, made, broken = reasons_to_act(
            stamp, found, self.wish.key, self.params["python"] or "", self.wish.backend, has_nvidia_gpu(ask=False)
        )
        kinds = [kind for kind, reasons in (("asked", asked), ("other", made), ("broken", broken)) if reasons]
        how = kinds[0] if len(kinds) == 1 else "other" if kinds else "current"
        return State(how, asked + made + broken, stamp, found)

    @contextlib.contextmanager
    def _hold(self, timeout: float) -> Iterator[None]:
        """Hold the lock beside the prefix, whose parent is made if need be; what the system refuses becomes a Fault."""
        os.umask(0o022)  # An environment holds no secrets, and jobs run as another user.
        try:
            os.makedirs(os.path.dirname(self.prefix), exist_ok=True)
            with lock(self.prefix + ".lock", timeout):
                yield
        except Locked as error:
            raise Fault(
                "%s is being worked on by %s, which %d s of waiting did not outlast: wait for it, or raise "
                "python_env_lock_timeout" % (self.prefix, error, timeout)
            ) from None
        except OSError as error:
            raise explain_os_error(error, self.prefix) from None

    @contextlib.contextmanager
    def _workspace(self) -> Iterator[str]:
        """A folder beside the prefix, so that everything can be renamed into place; it goes with all it holds."""
        space = "%s.new-%d" % (self.prefix, os.getpid())
        os.mkdir(space)
        try:
            yield space
        finally:
            shutil.rmtree(space, ignore_errors=True)

    def _plan(self, uv: Uv, state: State, gpu: bool) -> tuple[Plan, str | None]:
        """All packages that the environment is to have, and the torch backend that it takes."""
        resolver = Resolver(uv, self.prefix, self.wish.backend, gpu)
        plan = resolver.plan(state)
        self.notes += resolver.notes
        return plan

    def _check_space(self, uv: Uv, plan: Plan) -> None:
        """Refuse before anything is fetched when the disks are too small."""
        need = needed_mb(plan, self.params["min_free_mb"])
        places = [("the prefix", os.path.dirname(self.prefix), "python_env_prefix")]
        if plan.downloads:
            cache = uv.environment.get("UV_CACHE_DIR") or os.path.join(
                uv.environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "uv"
            )
            places.append(("uv's cache", cache, "python_env_cache_dir"))
        for what, path, option in places:
            free = facts.free_bytes(path) // 1_000_000
            if free < need:
                raise Fault(
                    "%s in %s has %d MB free, but about %d MB are needed: free some space, or set %s to a larger "
                    "disk (or python_env_min_free_mb to a smaller number)"
                    % (what, facts.existing(path), free, need, option)
                )

    def _prove(self, uv: Uv, fresh: str) -> Found:
        """Look over a new environment: its Python starts, its packages are whole, and torch imports."""
        found = look(fresh)
        if not found.python_version or found.twice or found.broken:
            raise Fault(
                "the new environment is not whole (%s): run again, and clear uv's cache if it stays so"
                % ("; ".join(drift({"python_version": found.python_version, "packages": found.packages}, found)))
            )
        if self.params["verify"] and "torch" in found.packages:
            # This also compiles what torch imports, so that the first launch need not.
            code, output = uv.run([os.path.join(fresh, "bin", "python"), "-I", "-c", "import torch"])
            if code:
                raise Fault(
                    "torch %s does not import on this host (%s): choose a build that suits its system"
                    % (found.packages["torch"], (output.strip().splitlines() or ["exit code %d" % code])[-1]),
                    output[-4000:],
                )
        return found

    def _write_stamp(self, prefix: str, found: Found, backend: str | None, gpu: bool) -> None:
        """Record how an environment was made and what it holds."""
        stamp = {
            "made_by": "muster.cluster.python_env",
            "wanted": self.wish.key,
            "python": self.params["python"] or "",
            "requested_backend": self.wish.backend,
            "torch_backend": backend or "",
            "gpu": gpu,
            "python_version": found.python_version,
            "packages": found.packages,
            "entries": found.entries,
        }
        write_stamp(prefix, stamp)
