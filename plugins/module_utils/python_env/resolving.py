# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""Which wheels an environment gets: uv compiles the requirements, until one torch backend brings a build that suits."""

from __future__ import annotations

import os
from typing import Mapping, NamedTuple, Sequence

from .commands import Target, compile_argv
from .complaints import Fault, explain
from .machine import listed, read_text
from .plans import backends, cuda_packages, label, local_torch, verdict
from .pylock import Resolved, parse, preferences
from .uv import Uv


class Question(NamedTuple):
    """What is to be resolved.

    lines: requirement lines; target: for which Python; backend: the torch backend asked for; gpu: whether the cluster has
    NVIDIA GPUs; keep: versions to prefer, name to version; constraints: constraint files beside the configured ones.
    """

    lines: Sequence[str]
    target: Target
    backend: str
    gpu: bool
    keep: Mapping[str, str]
    constraints: Sequence[str] = ()


class Answer(NamedTuple):
    """What uv chose: the packages, the torch backend that brought them (None: the configured places), notes for the user."""

    packages: list[Resolved]
    backend: str | None
    notes: list[str]

    @property
    def versions(self) -> dict[str, str]:
        """Name to version."""
        return {package.name: package.version for package in self.packages}


class Resolver:
    """Resolves without installing.

    Args:
        uv: uv, ready to work.
        question: what is to be resolved.
    """

    def __init__(self, uv: Uv, question: Question) -> None:
        self.uv = uv
        self.question = question
        self.requirements = uv.write("requirements.txt", "".join(line + "\n" for line in question.lines))

    def resolve(self) -> Answer:
        """Try the torch backends in order and take the first answer that will do.

        Raises:
            Fault: when there is none.
        """
        asked, gpu = self.question.backend, self.question.gpu
        local = local_torch(listed(self.uv.settings.find_links))
        tries = backends(asked, gpu, local, self.uv.settings.own_index)
        first: Fault | None = None
        spare: Answer | None = None
        for backend in tries:
            code, output = self._compile(backend)
            if code:
                fault = explain(output, self.uv.path)
                if backend is None and len(tries) > 1 and fault.kind == "unsatisfiable" and "torch" in fault.sentence:
                    first = fault
                    continue
                if fault.kind == "network" and spare and gpu and label(spare.versions.get("torch")) != "cpu":
                    note = (
                        "torch %s comes from the configured indexes, since PyTorch's own cannot be reached: see to it "
                        "that it suits the hosts' driver" % spare.versions.get("torch")
                    )
                    return spare._replace(notes=[note])
                raise self._final(fault, first, spare, backend)
            answer = Answer(parse(read_text(self._output(backend)) or "", self.uv.space), backend, [])
            word = verdict(asked, gpu, local, backend, answer.versions)
            if word == "ok":
                return answer
            if word != "next":
                raise unsuitable(word, answer.versions)
            spare = answer
        raise AssertionError("the last of the backends is judged finally")

    def _output(self, backend: str | None) -> str:
        return os.path.join(self.uv.space, "pylock.%s.toml" % (backend or "own").replace(".", "-"))

    def _compile(self, backend: str | None) -> tuple[int, str]:
        """One run of uv; what it finds stands in the file `_output`."""
        output = self._output(backend)
        if self.question.keep:
            self.uv.write(os.path.basename(output), preferences(self.question.keep))
        settings = self.uv.settings
        constraints = [*settings.constraints, *self.question.constraints]
        argv = compile_argv(
            self.uv.path, self.question.target, self.requirements, output, constraints, backend, settings.no_index
        )
        return self.uv.run(argv)

    def _final(self, fault: Fault, first: Fault | None, spare: Answer | None, backend: str | None) -> Fault:
        """The sentence that helps most, when the last backend has failed after others were tried."""
        settings = self.uv.settings
        if fault.kind == "unsatisfiable" and settings.constraints:
            fault.sentence += "; the settings of pip or uv add the constraints in %s" % ", ".join(settings.constraints)
        if fault.kind == "unsatisfiable" and settings.ignored:
            fault.sentence += "; named as a place of packages, but not there: %s" % ", ".join(settings.ignored)
        if fault.kind != "network":
            return fault
        if spare and label(spare.versions.get("torch")) == "cpu" and self.question.gpu:
            return unsuitable("cpu", spare.versions)
        if first:
            return Fault("%s (and PyTorch's own index cannot be reached)" % first.sentence, fault.details, first.kind)
        if backend:
            fault.sentence += (
                "; a wheel of torch in a folder named by pip's find-links does without PyTorch's index, and "
                "python_env_torch_backend: none takes torch from the configured indexes alone"
            )
        return fault


def unsuitable(word: str, packages: Mapping[str, str]) -> Fault:
    """The sentence for packages that do not suit the cluster's hardware; `word` is the verdict on them."""
    if word == "cpu":
        return Fault(
            "this host has an NVIDIA GPU, but torch %s is a CPU build: offer a CUDA build, or set "
            "python_env_torch_backend to cpu to do without the GPU" % packages.get("torch")
        )
    return Fault(
        "this host has no NVIDIA GPU, but the requirements bring %s: remove what needs CUDA from them, or set "
        "python_env_torch_backend to none to take it all the same" % ", ".join(cuda_packages(packages)[:3])
    )
