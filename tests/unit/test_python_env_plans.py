"""The judgement on what uv resolved, as tables."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import plans


@pytest.mark.parametrize(
    ("requested", "gpu", "local", "own_index", "expected"),
    [
        # No GPU: the CPU index, never PyPI's CUDA wheels; local wheels and an index of one's own come first.
        ("auto", False, [], False, ["cpu"]),
        ("auto", False, ["2.13.0+cpu"], False, [None, "cpu"]),
        ("auto", False, [], True, [None, "cpu"]),
        # A GPU: uv chooses by the driver.
        ("auto", True, [], False, ["auto"]),
        ("auto", True, ["2.13.0+cu126"], False, [None, "auto"]),
        # A backend by name needs its index only where no local wheel is of that kind.
        ("cpu", True, [], True, ["cpu"]),
        ("cpu", False, ["2.13.0+cpu"], False, [None, "cpu"]),
        ("cu126", True, ["2.13.0+cpu"], False, ["cu126"]),
        ("cu126", False, ["2.13.0+cu126"], False, [None, "cu126"]),
        ("none", False, [], False, [None]),
    ],
)
def test_backends(requested: str, gpu: bool, local: list[str], own_index: bool, expected: list[str | None]) -> None:
    assert plans.backends(requested, gpu, local, own_index) == expected


def packages(**versions: str) -> dict[str, str]:
    """What was resolved; underscores in the names become dashes."""
    return {name.replace("_", "-"): version for name, version in versions.items()}


CPU, CUDA = packages(torch="2.13.0+cpu"), packages(torch="2.13.0", nvidia_nccl_cu13="2.29.7")
CUDA126 = packages(torch="2.13.0+cu126", nvidia_nccl_cu12="2.29.7")
PLAIN = packages(numpy="2.4.3")


@pytest.mark.parametrize(
    ("requested", "gpu", "local", "backend", "plan", "expected"),
    [
        ("auto", False, [], "cpu", CPU, "ok"),
        ("auto", False, ["2.13.0+cpu"], None, CPU, "ok"),
        ("auto", False, ["2.9.0+cpu"], None, CUDA, "next"),
        ("auto", False, [], "cpu", CUDA, "cuda"),
        ("auto", False, [], "cpu", PLAIN, "ok"),
        ("auto", False, [], "cpu", packages(nvidia_ml_py="13.0"), "ok"),
        ("auto", True, ["2.13.0+cpu"], None, CPU, "next"),
        ("auto", True, [], "auto", CPU, "cpu"),
        ("auto", True, [], "auto", CUDA126, "ok"),
        ("auto", True, ["2.13.0+cu126"], None, CUDA126, "ok"),
        ("auto", True, [], None, CUDA, "next"),
        ("auto", True, [], None, PLAIN, "ok"),
        ("cpu", True, ["2.13.0+cpu"], None, CPU, "ok"),
        ("cpu", True, ["2.13.0+cpu"], None, CUDA126, "next"),
        ("cpu", False, [], "cpu", packages(torch="2.13.0+cpu", nvidia_nccl_cu12="2.29.7"), "cuda"),
        ("cu126", False, [], "cu126", CUDA126, "ok"),
        ("cu126", False, ["2.13.0+cu126"], None, CUDA, "next"),
        ("none", False, [], None, CUDA, "ok"),
    ],
)
def test_verdict(requested: str, gpu: bool, local: list[str], backend: str | None, plan: dict[str, str], expected: str) -> None:
    assert plans.verdict(requested, gpu, local, backend, plan) == expected


@pytest.mark.parametrize(("plan", "expected"), [(CPU, 2500), (CUDA, 10000), (PLAIN, 200)])
def test_needed_mb(plan: dict[str, str], expected: int) -> None:
    assert plans.needed_mb(plan, 2500) == expected
    assert plans.needed_mb(plan, 0) == 0


def test_local_torch() -> None:
    names = [
        "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
        "torch-2.13.0%2Bcu126-cp312-cp312-linux_x86_64.whl",
        "torchvision-0.29.0-cp311-cp311-linux_x86_64.whl",
        "torch-2.12.0.tar.gz",
    ]
    assert plans.local_torch(names) == ["2.13.0+cpu", "2.13.0+cu126"]
