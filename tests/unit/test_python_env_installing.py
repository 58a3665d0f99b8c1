"""Making a version: what is checked before, and what is bounded."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import installing, store, uv
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault
from ansible_collections.muster.cluster.plugins.module_utils.python_env.settings import Settings


def installer(tmp_path: Path, **changes: Any) -> installing.Installer:
    """An installer without all that `fetch` and the proof do not need."""
    made = object.__new__(installing.Installer)
    made.params, made.environ, made.inner = {"offline": True, **changes}, {}, {"PATH": "/usr/bin:/bin"}
    made.cache, made.space, made.say = str(tmp_path / "cache"), str(tmp_path / "space"), lambda line: None
    made.settings = Settings({"UV_CACHE_DIR": made.cache}, [], [], [], False, False, [])
    made.fetched = {"packages": 0, "bytes": 0}
    return made


def test_a_damaged_package_of_the_store_counts_as_missing(tmp_path: Path) -> None:
    items = []
    for name in ("good", "bad"):
        item = {"name": name, "url": "https://x.test/" + name, "file_name": name + ".whl", "size": 4,
                "sha256": hashlib.sha256(name.encode()).hexdigest()}  # fmt: skip
        path = Path(store.stored(str(tmp_path / "cache"), item))
        path.parent.mkdir(parents=True)
        path.write_text(name if name == "good" else "damaged")
        items.append(item)
    with pytest.raises(Fault, match=r"^found no bad\.whl on this host"):
        installer(tmp_path).fetch({"conda": [], "wheels": items})
    assert [Path(store.stored(str(tmp_path / "cache"), item)).exists() for item in items] == [True, False]
    installer(tmp_path).fetch({"conda": [], "wheels": items[:1]})


def test_uv_installs_with_a_cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "Uv", lambda *arguments: arguments)
    made = installer(tmp_path)
    assert made._uv()[2].environment["UV_CACHE_DIR"] == str(tmp_path / "space" / "uv")
    assert made.settings.environment["UV_CACHE_DIR"] == made.cache


def sleeper(tmp_path: Path) -> str:
    """A version whose Python never ends, and whose child neither."""
    python = tmp_path / "v" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nsleep 60 & sleep 60\n")
    python.chmod(0o755)
    return str(tmp_path / "v")


def test_an_import_that_hangs_ends_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "TORCH_SECONDS", 0.3)
    version = sleeper(tmp_path)
    for work in (lambda made: made._loads_torch(version), lambda made: made._import_torch(version, SimpleNamespace(packages={}))):
        with pytest.raises(Fault, match="found torch still being imported after 0 s, expected an end; look"):
            work(installer(tmp_path))


def test_a_uv_that_hangs_ends_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uv, "UV_SECONDS", 0.3)
    it = object.__new__(uv.Uv)
    it.environment = {"PATH": "/usr/bin:/bin"}
    with pytest.raises(Fault, match=r"found \S+ pip still at work after 0 s, expected an end; look"):
        it.run([sleeper(tmp_path) + "/bin/python", "pip"])


def test_what_ends_in_time_is_told() -> None:
    assert uv.run([sys.executable, "-c", "print(1); exit(3)"], {}, 20) == (3, "1\n")
