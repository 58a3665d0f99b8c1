"""Which torch is chosen, when uv answers from a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault
from ansible_collections.muster.cluster.plugins.module_utils.python_env.drift import NOTHING, State
from ansible_collections.muster.cluster.plugins.module_utils.python_env.resolving import Resolver
from ansible_collections.muster.cluster.plugins.module_utils.python_env.settings import uv_settings
from ansible_collections.muster.cluster.plugins.module_utils.python_env.uv import Uv


class Scripted(Uv):
    """A uv that is a table: it answers each dry run by its --torch-backend.

    Args:
        answers: --torch-backend (None: without) to uv's output; one that begins with "error" fails.
        index: pip's index-url, if any.
        links: a folder of wheels, if any.
    """

    def __init__(self, answers: dict, index: str = "", links: str = "") -> None:
        self.settings = uv_settings({}, {"index-url": index, "find-links": links}, {}, lambda path: True)
        self.answers, self.asked = answers, []
        self.path, self.base, self.requirements, self.space = "uv", "/usr/bin/python3", "/r.txt", "/p/e.new-1"

    def run(self, argv: list[str]) -> tuple[int, str]:
        backend = argv[argv.index("--torch-backend") + 1] if "--torch-backend" in argv else None
        assert argv[:3] == ["uv", "pip", "install"] and "--dry-run" in argv
        self.asked.append(backend)
        output = self.answers[backend]
        return (2 if output.startswith("error") else 0), output


CPU_OUT = " + torch==2.13.0+cpu\n"
CUDA_OUT = " + nvidia-nccl-cu13==2.29.7\n + torch==2.13.0\n"
CUDA126_OUT = " + nvidia-nccl-cu12==2.29.7\n + torch==2.13.0+cu126\n"
NO_ROUTE = "error: Failed to fetch: https://h/whl/torch/\n  cause: dns error\n"
NO_TORCH = "error: No solution found\n  cause: Because there is no version of torch==2.13.0 and you require torch.\n"
NO_ENVIRONMENT = State("none", [], None, NOTHING)
WHEEL = "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl"


@pytest.mark.parametrize(
    ("gpu", "backend", "index", "wheel", "answers", "asked", "expected"),
    [
        # Nothing local: the CPU index at once.
        (False, "auto", "", "", {"cpu": CPU_OUT}, ["cpu"], "cpu"),
        # A local wheel: PyTorch's index is not asked.
        (False, "auto", "", WHEEL, {None: CPU_OUT}, [None], None),
        # A local wheel that does not do, so that PyPI's CUDA build would come: the CPU index.
        (False, "auto", "", WHEEL, {None: CUDA_OUT, "cpu": CPU_OUT}, [None, "cpu"], "cpu"),
        (False, "auto", "", WHEEL, {None: NO_TORCH, "cpu": CPU_OUT}, [None, "cpu"], "cpu"),
        (False, "auto", "", WHEEL, {None: NO_TORCH, "cpu": NO_ROUTE}, [None, "cpu"], "own index cannot be reached"),
        (False, "auto", "", "", {"cpu": NO_ROUTE}, ["cpu"], "find-links does without PyTorch's index"),
        (False, "auto", "https://i", "", {None: NO_ROUTE}, [None], "cannot be reached"),
        (False, "auto", "", "", {"cpu": CUDA_OUT}, ["cpu"], "this host has no NVIDIA GPU, but"),
        (False, "none", "", "", {None: CUDA_OUT}, [None], None),
        # A GPU: by its driver; a CPU wheel that lies about is not taken silently.
        (True, "auto", "", "", {"auto": CUDA126_OUT}, ["auto"], "auto"),
        (True, "auto", "", WHEEL, {None: CPU_OUT, "auto": CUDA126_OUT}, [None, "auto"], "auto"),
        (True, "auto", "", WHEEL, {None: CPU_OUT, "auto": NO_ROUTE}, [None, "auto"], "torch 2.13.0+cpu is a CPU build"),
        (True, "auto", "https://i", "", {None: CUDA_OUT, "auto": NO_ROUTE}, [None, "auto"], None),
        (True, "cpu", "", WHEEL, {None: CPU_OUT}, [None], None),
        (True, "cu126", "", WHEEL, {"cu126": CUDA126_OUT}, ["cu126"], "cu126"),
    ],
)
def test_torch_is_chosen_step_by_step(
    tmp_path: Path, gpu: bool, backend: str, index: str, wheel: str, answers: dict, asked: list, expected: str | None
) -> None:
    if wheel:
        (tmp_path / wheel).write_text("")
    uv = Scripted(answers, index, str(tmp_path) if wheel else "")
    resolver = Resolver(uv, "/p/e", backend, gpu)
    if expected in answers:
        plan, chosen = resolver.plan(NO_ENVIRONMENT)
        assert chosen == expected and "torch" in plan.added
    else:
        with pytest.raises(Fault) as caught:
            resolver.plan(NO_ENVIRONMENT)
        assert str(expected) in caught.value.sentence
    assert uv.asked == asked


def test_torch_of_unknown_kind_is_noted_where_pytorchs_index_is_out_of_reach() -> None:
    uv = Scripted({None: CUDA_OUT, "auto": NO_ROUTE}, "https://i")
    resolver = Resolver(uv, "/p/e", "auto", True)
    assert resolver.plan(NO_ENVIRONMENT)[1] is None
    assert "torch 2.13.0 comes from the configured indexes" in resolver.notes[0]


def test_changed_requirements_are_planned_onto_what_is_there() -> None:
    state = State("asked", [], {}, NOTHING._replace(packages={"six": "1", "torch": "2.12.0+cpu"}))
    uv = Scripted({"cpu": " - torch==2.12.0+cpu\n + torch==2.13.0+cpu\n"})
    plan, _backend = Resolver(uv, "/p/e", "auto", False).plan(state)
    assert plan.added == {"six": "1", "torch": "2.13.0+cpu"}


def test_a_gpu_that_has_gone_stops_a_rebuild() -> None:
    stamp = {"gpu": True, "packages": {"torch": "2.13.0+cu126"}}
    with pytest.raises(Fault, match="shows none now: repair its driver"):
        Resolver(Scripted({}), "/p/e", "auto", False).plan(State("other", [], stamp, NOTHING))
