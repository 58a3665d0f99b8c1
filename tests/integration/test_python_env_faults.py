"""What can go wrong with python_lock and python_env: one sentence each, and the old environment still works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from one_node import UV, Node, make_wheel, result, sentence

# ---------------------------------------------------------------------------------------------- faults


def test_a_tampered_wheel_is_not_installed(made: Node, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    make_wheel(folder, "mine", "1.0")
    # With a cache of its own: what uv has unpacked and checked it does not read again.
    answer = made.solve("mine", find_links=[str(folder)], cache_dir=str(tmp_path / "cache"))
    make_wheel(folder, "mine", "1.0", (), "version = 'evil'\n")
    told = sentence(made.install(answer["lock"]))
    assert "mine" in told and "lock" in told
    assert made.version() == "1.0" and made.litter() == []
    (folder / "mine-1.0-py3-none-any.whl").unlink()
    assert "expected it as in the lock" in sentence(made.install(answer["lock"]))
    assert "package store" in sentence(made.install(answer["lock"], offline=True))


def test_what_somebody_else_made_is_left_alone(node: Node) -> None:
    lock = node.lock()
    node.prefix.mkdir(parents=True)
    (node.prefix / "thesis.txt").write_text("three years")
    assert node.look()["state"] == "foreign"
    assert "a folder that Muster did not make" in sentence(node.install(lock))
    assert "did not make" in sentence(node.install(lock, check=True))
    assert "did not make" in sentence(result(node.start("python_env", state="absent")))
    assert os.listdir(node.prefix) == ["thesis.txt"] and node.litter() == []
    (node.home / "link").symlink_to(node.prefix)
    assert "a link that Muster did not make" in sentence(node.install(lock, prefix=str(node.home / "link")))
    assert "a file that Muster did not make" in sentence(node.install(lock, prefix=str(node.home / "pip.conf")))


def test_an_empty_folder_is_taken(node: Node) -> None:
    node.prefix.mkdir(parents=True)
    assert node.run()["changed"] and node.prefix.is_symlink()


@pytest.mark.parametrize(
    ("requirements", "options", "parts"),
    [
        ("nosuch==1", {}, ["hold no package nosuch", "correct its name"]),
        ("probe==7", {}, ["there is no version of probe==7 and you require probe==7"]),
        ("probe==1.0\nprobe-base<1", {}, ["probe<=1.0 depends on probe-base>=1", "you require probe-base<1"]),
        ("probe=1.0", {}, ["(probe=1.0)", "name==version"]),
        ("old", {}, ["found no wheel of old==1.0", "nothing is compiled"]),
        ("", {}, ["found no package in the specification"]),
        ("probe", {"uv": "/does/not/exist"}, ["uv (/does/not/exist) is not there", "python_env_uv"]),
        ("probe", {"uv": str(Path(__file__))}, ["test_python_env_faults.py) is not there or cannot be run"]),
        ("probe", {"python": "/does/not/exist"}, ["/does/not/exist is not there or does not start"]),
        ("probe", {"python": "3.99"}, ["no Python 3.99 on this host"]),
        ("probe", {"ca_bundle": "/does/not/exist.pem"}, ["/does/not/exist.pem is not there"]),
        ("fast", {}, ["no NVIDIA GPU, but the requirements bring nvidia-fake-cu13", "python_env_torch_backend to none"]),
        ("probe", {"index_url": "http://127.0.0.1:9/simple"}, ["http://127.0.0.1:9/simple/", "cannot be reached"]),
    ],
)
def test_what_cannot_be_solved_is_one_sentence(node: Node, requirements: str, options: dict[str, Any], parts: list[str]) -> None:
    told = sentence(node.solve(requirements, **options))
    for part in parts:
        assert part in told


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"min_free_mb": 10**9}, ["MB free for", "python_env_min_free_mb"]),
        ({"python": "/does/not/exist"}, ["/does/not/exist is not there"]),
        ({"prefix": "/proc/nowhere/e"}, ["cannot be made"]),
    ],
)
def test_what_cannot_be_installed_is_one_sentence(made: Node, change: dict[str, Any], parts: list[str]) -> None:
    told = sentence(made.install(made.lock("torch==9.0"), **change))
    for part in parts:
        assert part in told
    assert made.version() == "1.0" and made.litter() == []


def test_a_lock_for_another_python_is_refused(node: Node) -> None:
    told = sentence(node.install(dict(node.lock(), python="3.9.1")))
    assert "found Python %d.%d.%d" % sys.version_info[:3] in told and "expected 3.9.1 as in the lock" in told


def test_uv_for_another_processor_is_one_sentence(node: Node) -> None:
    alien = node.home / "uv"
    alien.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xf3\x00" + bytes(100))
    alien.chmod(0o755)
    assert "is not a program for this machine" in sentence(node.solve("probe", uv=str(alien)))


def test_a_tmpdir_of_no_use_does_no_harm(node: Node) -> None:
    lock = node.lock()
    node.environ["TMPDIR"] = "/does/not/exist"
    assert node.install(lock)["changed"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk_is_one_sentence_and_spoils_nothing(made: Node, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", small], check=True, timeout=20)
    try:
        made.install(made.lock(), prefix=str(small / "e"), cache_dir=str(small / "cache"))
        big = tmp_path / "big"
        big.mkdir()
        make_wheel(big, "big", "1.0", (), "x = %r\n" % os.urandom(900_000).hex())
        lock = made.solve("big", find_links=[str(big)])["lock"]
        told = sentence(made.install(lock, prefix=str(small / "f"), cache_dir=str(small / "cache")))
        assert "full" in told or "space" in told
        assert not (small / "f").exists() and not list((small / ".versions/f").glob("*"))
    finally:
        subprocess.run(["umount", small], check=True, timeout=20)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
def test_a_user_who_may_not_write_there_is_told_so(made: Node) -> None:
    lock = made.lock("extra")
    for path in (made.prefix.parent, made.versions, made.versions.parent):
        os.chown(path, 65534, 65534)
    made.front = ["setpriv", "--bounding-set", "-dac_override"]  # root as any other user
    told = sentence(made.install(lock))
    assert "may not write in" in told and "become its owner" in told


# ---------------------------------------------------------------------------------------------- torch

no_gpu = pytest.mark.skipif(any(Path("/dev").glob("nvidia[0-9]*")), reason="for hosts without an NVIDIA GPU")


@no_gpu
def test_a_local_cpu_wheel_of_torch_is_taken_without_an_index(node: Node) -> None:
    answer = node.run("torch==9.0")
    assert answer["packages"] == {"torch": "9.0+cpu"} and answer["torch_backend"] == "cpu"


def test_a_torch_that_does_not_import_is_not_switched_to(made: Node) -> None:
    told = sentence(made.install(made.lock("torch==8.0")))
    assert "torch 8.0+cpu does not import on this host (ImportError: libfake.so is missing)" in told
    assert made.version() == "1.0" and made.litter() == []


@no_gpu
def test_without_a_local_wheel_the_cpu_index_is_asked(node: Node) -> None:
    """The index itself is out of reach here, so a uv that notes its arguments stands in for it."""
    script = node.home / "uv"
    script.write_text('#!/bin/sh\necho "$@" >> %s/argv\nexec %s "$@"\n' % (node.home, UV))
    script.chmod(0o755)
    folder = node.home / "none"
    folder.mkdir()
    (node.home / "pip.conf").write_text("[global]\nno-index = true\nfind-links = %s\nconstraint = /gone\n" % folder)
    sentence(node.solve("torch==9.0", uv=str(script)))
    calls = (node.home / "argv").read_text().splitlines()
    assert calls and all("--torch-backend cpu" in call for call in calls if "compile" in call)
