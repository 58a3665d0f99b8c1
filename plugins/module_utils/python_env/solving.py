# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""From a specification to a lock: conda's part by rattler, then the wheels by uv for the Python that this brings."""

from __future__ import annotations

import os
from typing import Any, Callable, Iterable, Mapping

from . import locks, store, stubs
from .commands import Target
from .complaints import Fault
from .conda import Conda
from .fetching import Fetcher
from .plans import label
from .pylock import Resolved, wheel_entry
from .pythons import for_tools, uv_platform
from .requirements import requirement_lines
from .resolving import Answer, Question, Resolver
from .settings import link_location, local_path
from .uv import Uv
from .wish import read_settings


def conda_settings(params: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `conda.Conda` from the options of a module."""
    settings = {key: params.get(key) for key in ("ca_bundle", "proxy", "mirrors", "channel_alias") if params.get(key)}
    if params.get("cache_dir"):
        settings["cache"] = os.path.join(params["cache_dir"], "channels")
    return settings


def conda_engine(params: Mapping[str, Any], environ: Mapping[str, str]) -> Conda:
    """rattler by the options of a module; raises Fault where the tools or a Python for them are missing."""
    python = params.get("tool_python") or for_tools(environ.get("PATH"))
    if not params["tools"] or not os.path.isdir(params["tools"]):
        raise Fault("found no tools on this host, expected them in %s; run site.yml again" % (params["tools"] or "a folder"),
                    kind="no tools")  # fmt: skip
    if not python:
        raise Fault(
            "found no Python 3.10 or later on this host, expected one for the tools that install conda packages; install one, "
            "or name one by python_env_tool_python, or leave the conda part out of the specification"
        )
    return Conda(params["tools"], python, conda_settings(params), environ)


class Solver:
    """Solves on this host for the whole cluster.

    Args:
        params: the options of the module python_lock.
        environ: the environment of the module.
        space: a folder to work in.
        say: takes a line about what is being done.
    """

    def __init__(
        self, params: Mapping[str, Any], environ: Mapping[str, str], space: str, say: Callable[[str], None] = lambda line: None
    ) -> None:
        self.params, self.environ, self.space, self.say = params, environ, space, say
        self.specification: Mapping[str, Any] = params["specification"]
        self.platform: Mapping[str, Any] = params["platform"]
        self.notes: list[str] = list(self.specification.get("notes") or [])

    def solve(self, before: Mapping[str, Any] | None) -> dict[str, Any]:
        """The lock.

        Args:
            before: the lock to stay near to, if any.

        Raises:
            Fault: when there is none.
        """
        if before and before.get("cuda") and not self.platform.get("gpu") and self.params["torch_backend"] == "auto":
            raise Fault(
                "found no NVIDIA GPU, expected one as when this environment was solved; repair the driver, or set "
                "python_env_torch_backend to cpu"
            )
        settings, notes = read_settings(self.params, self.environ)
        self.notes += notes
        records, channels = self._conda(before)
        lines = list(self.specification.get("pip") or [])
        if not lines and not records:
            raise Fault("found no package in the specification, expected at least one; list one, such as torch")
        python = next((record["version"] for record in records if record["name"] == "python"), "")
        wheels: list[dict[str, Any]] = []
        backend = None
        if lines:
            uv = Uv(self.params, self.environ, settings, self.space, self.say)
            provided = stubs.python_packages(records)
            answer = self._wheels(uv, lines, python, provided, before)
            wheels = [wheel_entry(self._hashed(uv, package)) for package in answer.packages if package.name not in provided]
            python = python or uv.base.version
            backend = label(answer.versions.get("torch")) or answer.backend if "torch" in answer.versions else None
        lock = {
            "format": locks.FORMAT,
            "platform": self.platform.get("subdir") or "linux-64",
            "python": python,
            "glibc": self.platform.get("glibc") or None,
            "cuda": self.platform.get("cuda") or None,
            "torch_backend": None if backend in (None, "auto") else backend,
            "asked": self.params["asked"],
            "channels": channels,
            "conda": records,
            "wheels": wheels,
        }
        if self.specification.get("variables"):
            lock["variables"] = dict(self.specification["variables"])
        locks.check(lock)
        return locks.arranged(lock)

    def _conda(self, before: Mapping[str, Any] | None) -> tuple[list[dict[str, Any]], list[str]]:
        """Conda's records and channels."""
        wanted = list(self.specification.get("conda") or [])
        if not wanted:
            return [], []
        self.say("solving %d conda requirements" % len(wanted))
        keep = (before or {}).get("conda") or []
        answer = conda_engine(self.params, self.environ).solve(
            {"channels": list(self.specification.get("channels") or []), "conda": wanted},
            {key: self.platform.get(key) or None for key in ("subdir", "glibc", "cuda", "archspec")},
            {"priority": self.params["channel_priority"], "keep": [] if self.params["update"] else keep},
            self.say,
        )
        self.notes += answer.get("notes") or []
        judge(answer["conda"], self.platform, self.params["torch_backend"])
        return list(answer["conda"]), list(answer["channels"])

    def _wheels(
        self, uv: Uv, lines: list[str], python: str, provided: Mapping[str, str], before: Mapping[str, Any] | None
    ) -> Answer:
        """What uv chooses beside what conda provides."""
        self.say("solving %d requirements of wheels" % len(lines))
        options = list(self.specification.get("pip_options") or [])
        constraints = []
        if provided:
            folder = os.path.join(uv.space, "provided")
            stubs.write(folder, provided)
            options.append("--find-links %s" % link_location(folder))
            constraints = [uv.write("provided.txt", "".join("%s==%s\n" % item for item in provided.items()))]
        if self.specification.get("constraints"):
            text = "".join(line + "\n" for line in self.specification["constraints"])
            constraints.append(uv.write("constraints.txt", text))
        own = os.uname().machine
        platform = uv_platform(own, self.platform.get("glibc") or "", self.platform.get("own_glibc") or "")
        keep = {} if self.params["update"] else {entry["name"]: entry["version"] for entry in (before or {}).get("wheels") or []}
        target = Target(uv.base.path, python, platform)
        backend = self.params["torch_backend"]
        if backend == "auto":
            backend = self.environ.get("UV_TORCH_BACKEND") or "auto"
        wanted = requirement_lines("\n".join([*options, *lines]))
        question = Question(wanted, target, backend, bool(self.platform.get("gpu")), keep, constraints)
        answer = Resolver(uv, question).resolve()
        self.notes += answer.notes
        return answer

    def _hashed(self, uv: Uv, package: Resolved) -> Resolved:
        """A package with its sha256 and size, where the index did not tell them."""
        path = local_path(package.url) if package.url.startswith("file:") else None
        if path:
            return package._replace(sha256=package.sha256 or store.sha256(path), size=os.path.getsize(path))
        if package.sha256:
            return package
        self.say("fetching %s, whose index names no sha256" % package.name)
        digest, size = Fetcher(self.params["cache_dir"] or self.space, uv.environment, self.say).digest(package.url)
        return package._replace(sha256=digest, size=size)


def suits(lock: Mapping[str, Any], platform: Mapping[str, Any], python: str) -> None:
    """Refuse a lock that this cluster cannot install.

    Args:
        lock: the lock.
        platform: what the cluster is: subdir, glibc, cuda, gpu.
        python: version x.y.z of the host's Python, of which an environment without conda packages is made.

    Raises:
        Fault: with what differs.
    """
    if lock["platform"] != (platform.get("subdir") or lock["platform"]):
        raise Fault(
            "found a lock for %s, expected one for %s, which the hosts are; solve anew from its specification"
            % (lock["platform"], platform.get("subdir"))
        )
    if lock.get("glibc") and platform.get("glibc") and _numbers(lock["glibc"]) > _numbers(platform["glibc"]):
        raise Fault(
            "found a lock for glibc %s or later, expected one for %s, the oldest of the hosts; solve anew from its "
            "specification" % (lock["glibc"], platform["glibc"])
        )
    if lock.get("cuda") and not platform.get("gpu"):
        raise Fault(
            "found a lock for hosts with CUDA %s, expected one for hosts without an NVIDIA GPU; solve anew from its "
            "specification" % lock["cuda"]
        )
    if lock.get("cuda") and platform.get("cuda") and _numbers(lock["cuda"]) > _numbers(platform["cuda"]):
        raise Fault(
            "found a lock for CUDA %s, expected one for %s, which the oldest driver of the hosts takes; update the driver, or "
            "solve anew from its specification" % (lock["cuda"], platform["cuda"])
        )
    if not lock["conda"] and python and lock["python"] != python:
        raise Fault(
            "found a lock for Python %s, expected one for %s, which the hosts have; set python_env_python, or solve anew from "
            "its specification" % (lock["python"], python)
        )


def judge(records: Iterable[Mapping[str, Any]], platform: Mapping[str, Any], backend: str) -> None:
    """Refuse a build of conda's torch that does not suit the hosts, as one of the wheels' is refused.

    Args:
        records: what conda's part was solved to.
        platform: what the cluster is: gpu.
        backend: the option torch_backend.

    Raises:
        Fault: for a build without CUDA on hosts with a GPU, unless that is asked for, and the other way round.
    """
    for record in records:
        name, build = record["name"], record.get("build") or ""
        if name not in ("pytorch", "libtorch"):
            continue
        gpu = bool(platform.get("gpu"))
        if "cpu" in build and (gpu and backend == "auto" or backend.startswith("cu")):
            raise Fault(
                "found %s %s (%s) as conda's choice, a build without CUDA, expected one with CUDA, since %s; ask for "
                "`pytorch=*=cuda*` to see what keeps it away, or set python_env_torch_backend to cpu"
                % (name, record["version"], build,
                   "the hosts have NVIDIA GPUs" if gpu else "python_env_torch_backend is %s" % backend)
            )  # fmt: skip
        if "cuda" in build and not gpu and backend in ("auto", "cpu"):
            raise Fault(
                "found %s %s (%s) as conda's choice, a build with CUDA, expected one without, since no host has an NVIDIA GPU; "
                "ask for `pytorch=*=cpu*`, or set python_env_torch_backend to the build that is meant, such as cu128"
                % (name, record["version"], build)
            )


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]
