"""From a specification to a lock: what each step decides, as tables."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import pythons, solving, stubs
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault

LOCK = {"platform": "linux-64", "glibc": "2.36", "cuda": None, "python": "3.11.7", "conda": []}
HOSTS = {"subdir": "linux-64", "glibc": "2.36", "gpu": False}


@pytest.mark.parametrize(
    ("lock", "hosts", "python", "part"),
    [
        ({}, {}, "3.11.7", None),
        ({}, {"glibc": "2.41"}, "3.11.7", None),
        ({}, {}, "", None),
        ({"conda": [{}]}, {}, "3.12.1", None),
        ({}, {}, "3.11.9", "found a lock for Python 3.11.7, expected one for 3.11.9"),
        ({}, {"glibc": "2.28"}, "3.11.7", "found a lock for glibc 2.36 or later, expected one for 2.28"),
        ({"glibc": "2.9"}, {"glibc": "2.28"}, "3.11.7", None),
        ({}, {"subdir": "linux-aarch64"}, "3.11.7", "found a lock for linux-64, expected one for linux-aarch64"),
        ({"cuda": "12.8"}, {}, "3.11.7", "found a lock for hosts with CUDA 12.8"),
        ({"cuda": "12.8"}, {"gpu": True}, "3.11.7", None),
        ({"cuda": "12.8"}, {"gpu": True, "cuda": "13.0"}, "3.11.7", None),
        ({"cuda": "12.8"}, {"gpu": True, "cuda": "12.4"}, "3.11.7", "found a lock for CUDA 12.8, expected one for 12.4"),
    ],
)
def test_which_lock_suits(lock: dict, hosts: dict, python: str, part: str | None) -> None:
    if part is None:
        solving.suits({**LOCK, **lock}, {**HOSTS, **hosts}, python)
        return
    with pytest.raises(Fault, match=part):
        solving.suits({**LOCK, **lock}, {**HOSTS, **hosts}, python)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([{"name": "numpy", "version": "2.4.3", "depends": ["libblas", "python >=3.11,<3.12.0a0"]}], {"numpy": "2.4.3"}),
        ([{"name": "six", "version": "1.17.0", "noarch": "python", "depends": []}], {"six": "1.17.0"}),
        ([{"name": "Ruamel_yaml", "version": "0.18", "depends": ["python_abi 3.11.*"]}], {"ruamel-yaml": "0.18"}),
        ([{"name": "pytorch", "version": "2.9.1", "depends": ["python"]}], {"torch": "2.9.1"}),
        ([{"name": "openssl", "version": "3.5.0", "depends": ["libgcc"]}], {}),
        ([{"name": "tz", "version": "2025b", "noarch": "python"}], {}),
        ([{"name": "python", "version": "3.11.7", "depends": ["libzlib"]}], {}),
    ],
)
def test_which_conda_packages_stand_in_for_wheels(records: list, expected: dict) -> None:
    assert stubs.python_packages(records) == expected


def test_a_stub_is_a_wheel(tmp_path: Path) -> None:
    stubs.write(str(tmp_path / "provided"), {"ruamel-yaml": "0.18"})
    (path,) = (tmp_path / "provided").iterdir()
    assert path.name == "ruamel_yaml-0.18-py3-none-any.whl"
    with zipfile.ZipFile(path) as archive:
        assert b"Name: ruamel-yaml\nVersion: 0.18\n" in archive.read("ruamel_yaml-0.18.dist-info/METADATA")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {}),
        ({"proxy": "", "mirrors": {}, "cache_dir": "/c"}, {"cache": "/c/channels"}),
        ({"proxy": "http://p", "ca_bundle": "/b"}, {"proxy": "http://p", "ca_bundle": "/b"}),
    ],
)
def test_conda_settings(options: dict[str, Any], expected: dict[str, Any]) -> None:
    assert solving.conda_settings(options) == expected


def test_the_tools_and_a_python_for_them_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Fault, match="found no tools on this host") as caught:
        solving.conda_engine({"tools": "/does/not/exist"}, {})
    assert caught.value.kind == "no tools"
    monkeypatch.setattr(solving, "for_tools", lambda search: "")
    with pytest.raises(Fault, match="found no Python 3.10 or later"):
        solving.conda_engine({"tools": str(tmp_path)}, {})
    assert solving.conda_engine({"tools": str(tmp_path), "tool_python": "/p"}, {}).python == "/p"


# ------------------------------------------------------------------------------------------------ which Python, which machine


@pytest.mark.parametrize(
    ("arch", "wanted", "own", "expected"),
    [
        ("x86_64", "2.36", "2.36", ""),
        ("x86_64", "", "2.36", ""),
        ("x86_64", "2.36", "2.41", "x86_64-manylinux_2_36"),
        ("aarch64", "2.30", "2.36", "aarch64-manylinux_2_28"),
        ("x86_64", "2.44", "2.45", "x86_64-manylinux_2_40"),
        ("x86_64", "2.12", "2.36", ""),
    ],
)
def test_uv_platform(arch: str, wanted: str, own: str, expected: str) -> None:
    assert pythons.uv_platform(arch, wanted, own) == expected


VERSION = "%d.%d.%d" % sys.version_info[:3]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("", VERSION),
        (sys.executable, VERSION),
        ("python-of-the-tests", VERSION),
        ("%d.%d" % sys.version_info[:2], VERSION),
        (VERSION, VERSION),
        ("3.99", "there is no Python 3.99"),
        ("%d.%d.99" % sys.version_info[:2], "there is no Python"),
        ("/does/not/exist", "does not start"),
        ("nosuch", "does not start"),
    ],
)
def test_which_python(tmp_path: Path, wanted: str, expected: str) -> None:
    for name in ("python-of-the-tests", "python%d.%d" % sys.version_info[:2]):
        (tmp_path / name).symlink_to(sys.executable)
    if expected == VERSION:
        assert pythons.find(wanted, str(tmp_path)).version == VERSION
        return
    with pytest.raises(Fault, match=expected):
        pythons.find(wanted, str(tmp_path))


def test_uv_is_asked_for_a_version_that_is_not_on_the_path(tmp_path: Path) -> None:
    assert pythons.find("3.99", str(tmp_path), lambda version: sys.executable).version == VERSION
    with pytest.raises(Fault, match=r"there is no Python 3\.99"):
        pythons.find("3.99", str(tmp_path), lambda version: "")


def test_what_a_machine_tells(tmp_path: Path) -> None:
    facts = pythons.gather(str(tmp_path / "a/b/e"), "", "/usr/bin:/bin")
    assert facts["python"] == VERSION and shutil.which(facts["tool_python"])
    assert all(part.isdigit() for part in facts["glibc"].split(".")) and facts["arch"]
    assert facts["place"] == pythons.place(str(tmp_path / "a/b/e")) != pythons.place(str(tmp_path / "a/b/f"))
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    assert pythons.place(str(tmp_path / "a/e")) == pythons.place(str(tmp_path / "link/e"))
    assert pythons.gather(str(tmp_path), "3.99", "/nowhere")["python"] == ""


@pytest.mark.parametrize(
    ("name", "build", "gpu", "backend", "part"),
    [
        ("pytorch", "cpu_generic_py311", True, "auto", "a build without CUDA, expected one with CUDA, since the hosts have"),
        ("libtorch", "cpu_mkl_h1", True, "cu128", "a build without CUDA"),
        ("pytorch", "cpu_generic_py311", False, "cu128", "since python_env_torch_backend is cu128"),
        ("pytorch", "cuda128_py311", False, "cpu", "a build with CUDA, expected one without"),
        ("pytorch", "cuda128_py311", False, "auto", "a build with CUDA, expected one without"),
        ("pytorch", "cuda128_py311", True, "auto", None),
        ("pytorch", "cuda128_py311", False, "cu128", None),
        ("pytorch", "cpu_generic_py311", True, "cpu", None),
        ("pytorch", "cpu_generic_py311", False, "auto", None),
        ("libblas", "cpu_x", True, "auto", None),
    ],
)
def test_condas_torch_is_judged_as_the_wheels_is(name: str, build: str, gpu: bool, backend: str, part: str | None) -> None:
    records = [{"name": name, "version": "2.9.1", "build": build}]
    if part is None:
        solving.judge(records, {"gpu": gpu}, backend)
        return
    with pytest.raises(Fault) as caught:
        solving.judge(records, {"gpu": gpu}, backend)
    assert part in caught.value.sentence and "python_env_torch_backend" in caught.value.sentence


def test_the_solver_judges_condas_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Engine:
        def solve(self, *_: Any) -> dict[str, Any]:
            return {"channels": [], "conda": [{"name": "pytorch", "version": "2.9.1", "build": "cpu_x"}]}

    monkeypatch.setattr(solving, "conda_engine", lambda params, environ: Engine())
    params = {"specification": {"conda": ["pytorch"]}, "platform": {"gpu": True}, "torch_backend": "auto", "update": False}
    with pytest.raises(Fault, match="a build without CUDA"):
        solving.Solver({**params, "channel_priority": "strict"}, {}, str(tmp_path))._conda(None)
