# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""Which packages an environment gets: uv's dry runs, until one brings a build of torch that suits this host."""

from __future__ import annotations

import os
from typing import Mapping, Sequence

from .complaints import Fault, explain
from .drift import State
from .machine import listed
from .plans import Plan, backends, cuda_packages, label, local_torch, parse_plan, verdict
from .uv import Uv


class Resolver:
    """Resolves without installing.

    Args:
        uv: uv, ready to work.
        prefix: the environment.
        backend: the torch backend asked for.
        gpu: whether this host has an NVIDIA GPU.
    """

    def __init__(self, uv: Uv, prefix: str, backend: str, gpu: bool) -> None:
        self.uv = uv
        self.prefix = prefix
        self.backend = backend
        self.gpu = gpu
        self.notes: list[str] = []

    def plan(self, state: State) -> tuple[Plan, str | None]:
        """A plan whose `added` are all packages of the environment, and the torch backend that it takes.

        A whole environment keeps the versions that still satisfy changed requirements; a damaged one gets the very
        versions back that it had, if they can still be had.

        Raises:
            Fault: when there is none.
        """
        made = state.stamp or {}
        packages: Mapping[str, str] = made.get("packages") or {}
        if self.backend == "auto" and not self.gpu and made.get("gpu") and "torch" in packages:
            raise Fault(
                "this host had an NVIDIA GPU when %s was made, and shows none now: repair its driver, or set "
                "python_env_torch_backend to cpu" % self.prefix
            )
        if state.how == "broken":
            try:
                return self.resolve([self.uv.pin(packages)])
            except Fault as fault:
                if fault.kind != "unsatisfiable":
                    raise
        return self.resolve([], state.found.packages if state.how == "asked" else None)

    def resolve(self, pins: Sequence[str], onto: Mapping[str, str] | None = None) -> tuple[Plan, str | None]:
        """Try the torch backends in order and take the first plan that will do.

        Args:
            pins: constraint files beside the configured ones.
            onto: what the prefix holds, to plan the way from there instead of from nothing.
        """
        local = local_torch(listed(self.uv.settings.find_links))
        tries = backends(self.backend, self.gpu, local, self.uv.settings.own_index)
        first: Fault | None = None
        spare: Plan | None = None
        for backend in tries:
            code, output = self.uv.run(self._argv(pins, backend, onto is not None))
            if code:
                fault = explain(output, self.uv.path)
                if backend is None and len(tries) > 1 and fault.kind == "unsatisfiable" and "torch" in fault.sentence:
                    first = fault
                    continue
                if fault.kind == "network" and spare and self.gpu and label(spare.added.get("torch")) != "cpu":
                    self.notes.append(
                        "torch %s comes from the configured indexes, since PyTorch's own cannot be reached: see to it "
                        "that it suits this host's driver" % spare.added.get("torch")
                    )
                    return spare, None
                raise self._final(fault, first, spare, backend)
            plan = parse_plan(output)
            if onto is not None:
                plan = plan._replace(added=plan.result(onto))
            word = verdict(self.backend, self.gpu, local, backend, plan)
            if word == "ok":
                return plan, backend
            if word != "next":
                raise unsuitable(word, plan)
            spare = plan
        raise AssertionError("the last of the backends is judged finally")

    def _argv(self, pins: Sequence[str], backend: str | None, onto: bool) -> list[str]:
        """The dry run, onto what the prefix holds or into an empty folder."""
        if onto:
            python = os.path.join(self.prefix, "bin", "python")
            return self.uv.install_argv(python, pins, backend, dry_run=True, exact=True)
        target = os.path.join(self.uv.space, "target")
        return self.uv.install_argv(self.uv.base, pins, backend, dry_run=True, target=target)

    def _final(self, fault: Fault, first: Fault | None, spare: Plan | None, backend: str | None) -> Fault:
        """The sentence that helps most, when the last backend has failed after others were tried."""
        settings = self.uv.settings
        if fault.kind == "unsatisfiable" and settings.constraints:
            fault.sentence += "; the settings of pip or uv add the constraints in %s" % ", ".join(settings.constraints)
        if fault.kind == "unsatisfiable" and settings.ignored:
            fault.sentence += "; named as a place of packages, but not there: %s" % ", ".join(settings.ignored)
        if fault.kind != "network":
            return fault
        if spare and label(spare.added.get("torch")) == "cpu" and self.gpu:
            return unsuitable("cpu", spare)
        if first:
            return Fault("%s (and PyTorch's own index cannot be reached)" % first.sentence, fault.details, first.kind)
        if backend:
            fault.sentence += (
                "; a wheel of torch in a folder named by pip's find-links does without PyTorch's index, and "
                "python_env_torch_backend: none takes torch from the configured indexes alone"
            )
        return fault


def unsuitable(word: str, plan: Plan) -> Fault:
    """The sentence for a plan that does not suit this host's hardware; `word` is the verdict on it."""
    if word == "cpu":
        return Fault(
            "this host has an NVIDIA GPU, but torch %s is a CPU build: offer a CUDA build, or set "
            "python_env_torch_backend to cpu to do without the GPU" % plan.added.get("torch")
        )
    return Fault(
        "this host has no NVIDIA GPU, but the requirements bring %s: remove what needs CUDA from them, or set "
        "python_env_torch_backend to none to take it all the same" % ", ".join(cuda_packages(plan.added)[:3])
    )
