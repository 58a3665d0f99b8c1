"""What differs between an environment as it was made and as it is."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import drift

STAMP = {
    "wanted": "key",
    "python": "",
    "requested_backend": "auto",
    "gpu": False,
    "python_version": "3.11.7",
    "packages": {"numpy": "2.4.3", "torch": "2.13.0+cpu"},
    "entries": ["numpy", "numpy-2.4.3.dist-info", "torch", "torch-2.13.0+cpu.dist-info"],
}


def found(**other: object) -> drift.Found:
    """What a whole prefix holds, with differences."""
    whole = drift.Found("3.11.7", "/s", dict(STAMP["packages"]), [], [], [*STAMP["entries"], "extra.pth"])
    return whole._replace(**other)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (found(), []),
        (found(python_version="3.11.9"), []),
        (found(python_version=""), ["its Python does not start"]),
        (found(python_version="3.12.1"), ["its Python is 3.12.1 instead of 3.11.7"]),
        (found(packages={"torch": "2.13.0+cpu"}), ["numpy 2.4.3 is gone"]),
        (found(packages={"torch": "2.13.0+cpu", "numpy": "2.3.0"}), ["numpy is 2.3.0 instead of 2.4.3"]),
        (found(packages={**STAMP["packages"], "six": "1"}), ["six 1 was added"]),
        (found(twice=["numpy"]), ["numpy is there twice"]),
        (found(broken=["numpy"]), ["numpy has lost its metadata"]),
        (found(entries=STAMP["entries"][1:]), ["numpy is gone from site-packages"]),
    ],
)
def test_drift(there: drift.Found, expected: list[str]) -> None:
    assert drift.drift(STAMP, there) == expected


@pytest.mark.parametrize(
    ("stamp", "key", "python", "backend", "gpu", "expected"),
    [
        (STAMP, "key", "", "auto", False, ([], [], [])),
        (STAMP, "new", "", "auto", False, (["the requirements have changed"], [], [])),
        (STAMP, "key", "3.12", "auto", False, ([], ["the choice of Python has changed"], [])),
        (STAMP, "key", "", "cpu", False, ([], ["torch_backend is cpu instead of auto"], [])),
        (STAMP, "key", "", "auto", True, ([], ["an NVIDIA GPU has appeared"], [])),
        # A GPU that has gone is no reason.
        ({**STAMP, "gpu": True}, "key", "", "auto", False, ([], [], [])),
        ({**STAMP, "requested_backend": "cpu"}, "key", "", "cpu", True, ([], [], [])),
        (None, "key", "", "auto", False, ([], ["its stamp is lost"], [])),
    ],
)
def test_reasons_to_act(stamp: dict | None, key: str, python: str, backend: str, gpu: bool, expected: tuple) -> None:
    assert drift.reasons_to_act(stamp, found(), key, python, backend, gpu) == expected
