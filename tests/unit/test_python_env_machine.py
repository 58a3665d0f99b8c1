"""What this machine has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import facts
from ansible_collections.muster.cluster.plugins.module_utils.python_env import machine


@pytest.mark.parametrize("where", ["proc/driver/nvidia/gpus/0000:01:00.0", "dev/nvidia0"])
def test_has_nvidia_gpu(tmp_path: Path, where: str) -> None:
    assert not machine.has_nvidia_gpu(ask=False, root=str(tmp_path))
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").write_text("")
    assert not machine.has_nvidia_gpu(ask=False, root=str(tmp_path))
    (tmp_path / where).mkdir(parents=True)
    assert machine.has_nvidia_gpu(ask=False, root=str(tmp_path))


def test_a_gpu_that_only_nvidia_smi_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "count_gpus", lambda visible: 1)
    assert machine.has_nvidia_gpu(root=str(tmp_path))
    assert not machine.has_nvidia_gpu(ask=False, root=str(tmp_path))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The site-packages of a prefix without a Python: everything that may lie there, one package twice, one broken."""
    folder = tmp_path / "lib/python3.11/site-packages"
    whole = ["torch-2.13.0+cpu", "typing_extensions-4.16.0", "Zope.Interface-1.0_local", "numpy-2.4.3", "numpy-2.3.0"]
    for name in whole:
        (folder / (name + ".dist-info")).mkdir(parents=True)
        (folder / (name + ".dist-info/METADATA")).write_text("")
    for name in ("six-1.17.0.dist-info", "nothing.dist-info", "numpy.libs", "numpy", "__pycache__"):
        (folder / name).mkdir()
    (folder / "extra.pth").write_text("")
    return folder


def test_look_reads_a_prefix_even_if_its_python_does_not_start(tmp_path: Path, site: Path) -> None:
    found = machine.look(str(tmp_path))
    assert found.python_version == "" and found.site == str(site)
    assert found.packages == {
        "numpy": "2.4.3",
        "six": "1.17.0",
        "torch": "2.13.0+cpu",
        "typing-extensions": "4.16.0",
        "zope-interface": "1.0-local",
    }
    assert found.twice == ["numpy"] and found.broken == ["six"]
    assert "extra.pth" in found.entries and "__pycache__" not in found.entries


def test_the_roll_call_sees_the_same_packages(tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine.look(str(tmp_path))
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: sorted(listdir(path), reverse=True))  # file systems differ in order
    told = facts.distributions([str(site)])
    assert told == found.packages
    assert facts.fingerprint(told) == facts.fingerprint(found.packages)
