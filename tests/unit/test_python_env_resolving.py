"""Which torch is chosen, when uv answers from a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env.commands import Target
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault
from ansible_collections.muster.cluster.plugins.module_utils.python_env.resolving import Question, Resolver
from ansible_collections.muster.cluster.plugins.module_utils.python_env.settings import uv_settings
from ansible_collections.muster.cluster.plugins.module_utils.python_env.uv import Uv


class Scripted(Uv):
    """A uv that is a table: it answers each run by its --torch-backend.

    Args:
        answers: --torch-backend (None: without) to packages, or to uv's complaint.
        space: a folder.
        index: pip's index-url, if any.
        links: a folder of wheels, if any.
    """

    def __init__(self, answers: dict, space: Path, index: str = "", links: str = "") -> None:
        self.settings = uv_settings({}, {"index-url": index, "find-links": links}, {}, lambda path: True)
        self.answers, self.asked, self.kept = answers, [], []
        self.path, self.space = "uv", str(space)

    def run(self, argv: list[str]) -> tuple[int, str]:
        backend = argv[argv.index("--torch-backend") + 1] if "--torch-backend" in argv else None
        assert argv[:3] == ["uv", "pip", "compile"]
        self.asked.append(backend)
        answer = self.answers[backend]
        if isinstance(answer, str):
            return 2, answer
        output = Path(argv[argv.index("--output-file") + 1])
        self.kept.append(output.read_text() if output.exists() else "")
        lines = ['[[packages]]\nname = "%s"\nversion = "%s"\n' % item for item in answer.items()]
        output.write_text("".join(line + 'wheels = [{ url = "https://h/a-1-py3-none-any.whl" }]\n' for line in lines))
        return 0, ""


CPU_OUT = {"torch": "2.13.0+cpu"}
CUDA_OUT = {"nvidia-nccl-cu13": "2.29.7", "torch": "2.13.0"}
CUDA126_OUT = {"nvidia-nccl-cu12": "2.29.7", "torch": "2.13.0+cu126"}
NO_ROUTE = "error: Failed to fetch: https://h/whl/torch/\n  cause: dns error\n"
NO_TORCH = "error: No solution found\n  cause: Because there is no version of torch==2.13.0 and you require torch.\n"
WHEEL = "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl"


def question(backend: str, gpu: bool, keep: dict | None = None) -> Question:
    """A question for torch."""
    return Question(["torch==2.13.0"], Target("/usr/bin/python3"), backend, gpu, keep or {})


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
        (False, "auto", "", "", {"cpu": CUDA_OUT}, ["cpu"], "no NVIDIA GPU, but"),
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
    uv = Scripted(answers, tmp_path, index, str(tmp_path) if wheel else "")
    resolver = Resolver(uv, question(backend, gpu))
    if expected in answers:
        answer = resolver.resolve()
        assert answer.backend == expected and "torch" in answer.versions
    else:
        with pytest.raises(Fault) as caught:
            resolver.resolve()
        assert str(expected) in caught.value.sentence
    assert uv.asked == asked


def test_torch_of_unknown_kind_is_noted_where_pytorchs_index_is_out_of_reach(tmp_path: Path) -> None:
    uv = Scripted({None: CUDA_OUT, "auto": NO_ROUTE}, tmp_path, "https://i")
    answer = Resolver(uv, question("auto", True)).resolve()
    assert answer.backend is None and "torch 2.13.0 comes from the configured indexes" in answer.notes[0]


def test_versions_that_are_there_are_preferred(tmp_path: Path) -> None:
    uv = Scripted({"cpu": CPU_OUT}, tmp_path)
    Resolver(uv, question("auto", False, {"six": "1.16.0"})).resolve()
    assert 'name = "six"\nversion = "1.16.0"' in uv.kept[0]
