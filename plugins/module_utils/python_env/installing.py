# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""One version of an environment, made from a lock: fetch what is missing, install, prove."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Mapping

from ..muster_agent import facts
from . import locks, store, versions
from .commands import install_argv, venv_argv
from .complaints import Fault, explain_os_error
from .drift import Found
from .fetching import Fetcher
from .locking import whoami
from .machine import look
from .plans import needed_mb
from .settings import link_location
from .solving import conda_engine
from .uv import Uv, run
from .wish import read_settings

MEGABYTE = 1_000_000
TORCH_SECONDS = 300.0
LOAD_TORCH = """
import ctypes, glob, sys
library, = glob.glob(glob.escape(sys.argv[1]) + "/lib/python3*/site-packages/torch/lib/libtorch_python.so")
ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
"""


class Installer:
    """Makes versions.

    Args:
        params: the options of the module python_env.
        environ: the environment of the module.
        cache: the folder of caches.
        space: a folder to work in, on the disk of the prefix.
        say: takes a line about what is being done.
    """

    def __init__(
        self, params: Mapping[str, Any], environ: Mapping[str, str], cache: str, space: str, say: Callable[[str], None]
    ) -> None:
        self.params, self.environ, self.cache, self.space, self.say = params, environ, cache, space, say
        self.settings, self.notes = read_settings(dict(params, cache_dir=cache), environ)
        self.fetched = {"packages": 0, "bytes": 0}
        # Not the system's /tmp, which may be small: what is unpacked goes to the prefix's own disk.
        self.tmp = os.path.join(space, "tmp")
        os.makedirs(self.tmp, exist_ok=True)
        tempfile.tempdir = self.tmp
        self.inner = dict(environ, TMPDIR=self.tmp)

    def make(self, lock: Mapping[str, Any], version: str, name: str) -> Found:
        """Make a version in its final place, all but its stamp.

        Args:
            lock: what goes into it.
            version: the folder; it is not there yet.
            name: the environment's name.

        Raises:
            Fault: when it cannot be made; what is there then has no stamp.
        """
        uv = self._uv() if self._needs_uv(lock) else None
        if uv and not lock["conda"] and uv.base.version != lock["python"]:
            raise Fault(
                "found Python %s (%s) on this host, expected %s as in the lock; give all hosts the same Python, or name one by "
                "python_env_python" % (uv.base.version, uv.base.path, lock["python"])
            )
        self._check_space(lock)
        self.fetch(lock)
        os.makedirs(version)
        if lock["conda"]:
            self.say("installing %d conda packages" % len(lock["conda"]))
            engine = conda_engine(self.params, self.inner)
            engine.install(lock["conda"], store.folder(self.cache), version, self.say)
            if lock.get("variables"):
                # Where conda keeps them, for whoever activates the prefix; jobs read them there, too.
                state = {"version": 1, "env_vars": dict(lock["variables"])}
                versions.write_whole(os.path.join(version, "conda-meta", "state"), json.dumps(state, sort_keys=True) + "\n")
        elif uv:
            uv.call(venv_argv(uv.path, uv.base.path, version))
        if lock["wheels"] and uv:
            self._install_wheels(uv, lock, version)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(version, ".lock"))  # uv's, which everybody may write
        found = self._prove(lock, version)
        os.makedirs(versions.muster_folder(version), exist_ok=True)
        versions.write_whole(versions.lock_path(version), locks.text(lock))
        yml = os.path.join(versions.muster_folder(version), "environment.yml")
        versions.write_whole(yml, locks.environment_yml(lock, name))
        return found

    def _uv(self) -> Uv:
        """uv with a cache of its own, which goes with the workspace.

        So it unpacks every wheel anew and checks its sha256, and no file of the version is one of a cache that others share.
        """
        environment = dict(self.settings.environment, UV_CACHE_DIR=os.path.join(self.space, "uv"))
        return Uv(self.params, self.inner, self.settings._replace(environment=environment), self.space, self.say)

    @staticmethod
    def _needs_uv(lock: Mapping[str, Any]) -> bool:
        return bool(lock["wheels"]) or not lock["conda"]

    def _check_space(self, lock: Mapping[str, Any]) -> None:
        """Refuse before anything is fetched when the disks are too small."""
        need = needed_mb(locks.packages(lock), self.params["min_free_mb"])
        for what, path, option in (
            ("the prefix", self.space, "python_env_prefix"),
            ("the cache", self.cache, "python_env_cache_dir"),
        ):
            free = facts.free_bytes(path) // MEGABYTE
            if free < need:
                raise Fault(
                    "found %d MB free for %s in %s, expected about %d MB; free some, or set %s to a larger disk (or "
                    "python_env_min_free_mb to a smaller number)" % (free, what, facts.existing(path), need, option)
                )

    def fetch(self, lock: Mapping[str, Any]) -> None:
        """Bring what this host lacks, and check what its store has: a damaged package is removed and counts as missing.

        Raises:
            Fault: when a package cannot be had.
        """
        self._drop_damaged(lock)
        outside = store.missing(self.cache, [*lock["conda"], *lock["wheels"]])
        gone = [item for item in outside if item["url"].startswith("file:")]
        if self.params["offline"] and outside:
            raise store.not_here(outside)
        if gone:
            raise Fault(
                "found no file %s on this host, expected it as in the lock; put it there, or set python_env_cache_from to head"
                % gone[0]["url"]
            )
        total = sum(item.get("size") or 0 for item in outside)
        if outside:
            self.say("fetching %d packages, %.0f MB" % (len(outside), total / MEGABYTE))
        if lock["conda"]:
            # Those that are there are checked by it, and local archives come into the store, which it installs from.
            answer = conda_engine(self.params, self.inner).fetch(
                lock["conda"], store.folder(self.cache), self.say, offline=self.params["offline"]
            )
            remote = [item for item in outside if item in lock["conda"]]
            self.fetched = {"packages": len(remote), "bytes": int(answer.get("bytes") or 0) if remote else 0}
        wheels = [item for item in outside if item not in lock["conda"]]
        if wheels:
            environ = {**self.inner, **self.settings.environment}
            fetched = Fetcher(self.cache, environ, self.say).fetch(wheels)
            self.fetched = {key: self.fetched[key] + fetched[key] for key in fetched}

    def _drop_damaged(self, lock: Mapping[str, Any]) -> None:
        """Remove from the store what is not the package of the lock."""

        def check(item: Mapping[str, Any]) -> None:
            path = store.stored(self.cache, item)
            with contextlib.suppress(FileNotFoundError):
                if store.sha256(path) != item["sha256"]:
                    os.unlink(path)

        try:
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(check, [*lock["conda"], *lock["wheels"]]))
        except OSError as error:
            raise explain_os_error(error, self.cache) from None

    def _install_wheels(self, uv: Uv, lock: Mapping[str, Any], version: str) -> None:
        """uv unpacks the wheels where they lie, links them into the version, and checks the sha256 of each."""
        places = [(entry, store.locate(self.cache, entry)) for entry in lock["wheels"]]
        size = sum(os.path.getsize(path) for _entry, path in places if path)
        self.say("installing %d wheels, %.0f MB" % (len(places), size / MEGABYTE))
        lines = "".join("%s==%s --hash=sha256:%s\n" % (e["name"], e["version"], e["sha256"]) for e, _path in places)
        folders = sorted({link_location(os.path.dirname(path)) for _entry, path in places if path})
        python = os.path.join(version, "bin", "python")
        uv.call(install_argv(uv.path, python, uv.write("wheels.txt", lines), folders))

    def _prove(self, lock: Mapping[str, Any], version: str) -> Found:
        """Look over a new version: its Python starts, it holds what the lock lists, and torch imports."""
        found = look(version)
        wrong = ["%s is there twice" % name for name in found.twice] + ["%s is broken" % name for name in found.broken]
        if lock["python"] and found.python_version != lock["python"]:
            wrong.append("its Python is %s" % (found.python_version or "one that does not start"))
        for entry in lock["wheels"]:
            there = found.packages.get(entry["name"])
            if there != entry["version"]:
                wrong.append("%s is %s instead of %s" % (entry["name"], there or "missing", entry["version"]))
        for entry in lock["conda"]:
            if found.conda.get(entry["name"]) != "%s=%s" % (entry["version"], entry["build"]):
                wrong.append("%s is %s" % (entry["name"], found.conda.get(entry["name"], "missing")))
        if wrong:
            raise Fault(
                "found the new environment not whole (%s), expected what the lock lists; run again, and remove %s if it stays so"
                % ("; ".join(wrong[:3]), self.cache)
            )
        if "torch" in found.packages and self.params["verify"] != "none":
            if self.params["verify"] == "import" or not self._loads_torch(version):
                self._import_torch(version, found)
        return found

    def _loads_torch(self, version: str) -> bool:
        """Whether torch's own library loads with all that it needs, a tenth of what the import costs.

        Where another host has imported the same packages, to the byte, it is all that can still differ: glibc, the driver.
        """
        self.say("loading torch's libraries")
        return self._try_torch(version, ["-I", "-S", "-c", LOAD_TORCH, version])[0] == 0

    def _try_torch(self, version: str, arguments: list[str]) -> tuple[int, str]:
        """Run a version's Python, within bounds."""
        try:
            return run([os.path.join(version, "bin", "python"), *arguments], self.inner, TORCH_SECONDS)
        except subprocess.TimeoutExpired:
            raise Fault(
                "found torch still being imported after %.0f s, expected an end; look whether the GPU's driver or the disk of "
                "this host hangs, then run again" % TORCH_SECONDS
            ) from None

    def _import_torch(self, version: str, found: Found) -> None:
        """torch imports here; this also compiles what it imports, so that the first launch need not."""
        self.say("importing torch")
        code, output = self._try_torch(version, ["-I", "-c", "import torch"])
        if code:
            raise Fault(
                "torch %s does not import on this host (%s): choose a build that suits its system"
                % (found.packages["torch"], (output.strip().splitlines() or ["exit code %d" % code])[-1]),
                output[-4000:],
            )

    def stamp(self, lock: Mapping[str, Any], found: Found, asked: str) -> dict[str, Any]:
        """How a version was made and what it holds, for `versions.write_stamp`."""
        return {
            "made_by": "muster.cluster.python_env",
            "made": time.time(),
            "by": whoami(),
            "asked": asked or lock["asked"],
            "lock_id": locks.lock_id(lock),
            "torch_backend": lock["torch_backend"] or "",
            "python_version": found.python_version,
            "packages": found.packages,
            "conda": found.conda,
            "entries": found.entries,
            "contents": found.contents,
            "fingerprint": facts.fingerprint(found.contents),
        }
