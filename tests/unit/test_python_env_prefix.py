"""Whose a prefix is, and how a new one takes its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import prefix as prefixes


def test_is_ours(tmp_path: Path) -> None:
    assert not prefixes.is_ours(str(tmp_path))
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert not prefixes.is_ours(str(tmp_path))
    prefixes.mark(str(tmp_path))
    assert prefixes.is_ours(str(tmp_path))


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"format": 99})])
def test_read_stamp_takes_only_its_own(tmp_path: Path, text: str) -> None:
    (tmp_path / prefixes.STAMP).write_text(text)
    assert prefixes.read_stamp(str(tmp_path)) is None


@pytest.mark.parametrize("swaps", [True, False])
def test_put_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swaps: bool) -> None:
    if not swaps:
        monkeypatch.setattr(prefixes, "exchange", lambda new, old: False)
    new, prefix, aside = (tmp_path / name for name in ("new", "prefix", "aside"))
    for folder, text in ((new, "new"), (prefix, "old")):
        folder.mkdir()
        (folder / "text").write_text(text)
    prefixes.put_in_place(str(new), str(prefix), str(aside))
    assert (prefix / "text").read_text() == "new"
    assert ((new if swaps else aside) / "text").read_text() == "old"


def test_recover_puts_back_what_a_killed_run_had_moved_aside(tmp_path: Path) -> None:
    prefix, space = tmp_path / "env", tmp_path / "env.new-77"
    (space / "old").mkdir(parents=True)
    (space / "old/pyvenv.cfg").write_text(prefixes.MARK + "\n")
    other = tmp_path / "env.new-notes"
    other.mkdir()
    prefixes.recover(str(prefix))
    assert (prefix / "pyvenv.cfg").exists()
    assert not space.exists() and other.exists()


def test_a_stamp_is_read_as_it_was_written(tmp_path: Path) -> None:
    prefixes.write_stamp(str(tmp_path), {"wanted": "key", "packages": {"six": "1"}})
    stamp = prefixes.read_stamp(str(tmp_path))
    assert stamp and stamp["wanted"] == "key" and stamp["packages"] == {"six": "1"}
    assert prefixes.is_ours(str(tmp_path)) and [path.name for path in tmp_path.iterdir()] == [prefixes.STAMP]
