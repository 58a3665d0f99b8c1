"""The versions of an environment, and what the prefix stands for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import versions
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault


def make(where: versions.Place, name: str, used: float = 0.0, lock_id: str = "") -> str:
    """A whole version."""
    path = Path(where.version(name))
    (path / ".muster").mkdir(parents=True)
    versions.write_stamp(str(path), {"lock_id": lock_id or name.partition("-")[0]})
    (path / ".muster/used").write_text("")
    os.utime(path / ".muster/used", (used, used))
    return str(path)


@pytest.fixture
def where(tmp_path: Path) -> versions.Place:
    """The place of an environment."""
    return versions.place(str(tmp_path / "envs" / "e"))


A, B, C, D = ("a" * 12, "b" * 12, "c" * 12, "d" * 12)


def test_all_paths_come_from_the_prefix(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "envs").symlink_to("disk")
    where = versions.place(str(tmp_path / "envs" / "my env"))
    assert where.prefix == str(tmp_path / "disk/my env") and where.name == "my env"
    assert where.version(A) == str(tmp_path / "disk/.versions/my env" / A)
    assert where.lock == str(tmp_path / "disk/.my env.lock")


def test_switch_and_what_is_found(where: versions.Place) -> None:
    a, b = make(where, A, 1), make(where, B, 2)
    assert versions.kind(where) == "none" and versions.pointed(where) is None
    versions.switch(where, a)
    assert versions.kind(where) == "link" and versions.pointed(where) == a
    assert os.readlink(where.prefix) == ".versions/e/" + A
    assert [version.id for version in versions.found(where)] == [A, B]
    versions.switch(where, b)
    assert [version.id for version in versions.found(where)] == [B, A] and versions.unfinished(where) == []
    assert os.listdir(where.parent) == [".versions", "e"] or sorted(os.listdir(where.parent)) == [".versions", "e"]


@pytest.mark.parametrize("swaps", [True, False])
def test_an_old_environment_gives_way(where: versions.Place, monkeypatch: pytest.MonkeyPatch, swaps: bool) -> None:
    if not swaps:
        monkeypatch.setattr(versions, "exchange", lambda new, old: False)
    a = make(where, A)
    Path(where.prefix).mkdir()
    (Path(where.prefix) / "pyvenv.cfg").write_text("home = /usr/bin\n" + versions.OLD_MARK + "\n")
    assert versions.kind(where) == "old"
    versions.switch(where, a)
    assert versions.pointed(where) == a and os.listdir(where.parent) in ([".versions", "e"], ["e", ".versions"])
    # It goes when nobody uses it.
    (aside,) = versions.unfinished(where)
    assert os.path.basename(aside).startswith("old-") and os.path.exists(aside + "/pyvenv.cfg")


def test_a_switch_that_was_killed_between_its_renames(where: versions.Place) -> None:
    old = Path(where.version("old-77"))
    old.mkdir(parents=True)
    assert not versions.bring_back(where)  # it is none of an earlier Muster
    (old / versions.OLD_STAMP).write_text("{}")
    assert versions.bring_back(where) and versions.kind(where) == "old"
    assert not versions.bring_back(where) and versions.unfinished(where) == []


def test_what_others_put_there_stays(where: versions.Place) -> None:
    a = make(where, A)
    versions.switch(where, a)
    beside, among = Path(where.parent) / ("e.new-%d" % os.getpid()), Path(where.home) / "mydata"
    for folder in (beside, among):
        folder.mkdir()
        (folder / "data").write_text("")
    assert versions.unfinished(where) == []
    versions.switch(where, make(where, B))
    versions.remove_all(where)
    assert (beside / "data").exists() and os.listdir(where.home) == ["mydata"] and not os.path.lexists(where.prefix)


def test_kinds_of_what_lies_there(where: versions.Place) -> None:
    prefix = Path(where.prefix)
    prefix.mkdir(parents=True)
    assert versions.kind(where) == "none"
    (prefix / "x").write_text("")
    assert versions.kind(where) == "foreign"
    (prefix / versions.OLD_STAMP).write_text("{}")
    assert versions.kind(where) == "old"
    for path in prefix.iterdir():
        path.unlink()
    prefix.rmdir()
    prefix.symlink_to("/tmp")
    assert versions.kind(where) == "foreign"


def test_unfinished_is_what_has_no_stamp(where: versions.Place) -> None:
    make(where, A)
    Path(where.version(B)).mkdir()
    Path(where.version("work-7")).mkdir()
    for name, target in (("e.new-77", ".versions/e/x"), ("e.new-78", "x"), ("e.new-notes", ".versions/e/x")):
        os.symlink(target, os.path.join(where.parent, name))
    left = [os.path.basename(path) for path in versions.unfinished(where)]
    assert left == [B, "work-7", "e.new-77"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}'])
def test_read_stamp_takes_only_its_own(where: versions.Place, text: str) -> None:
    path = make(where, A)
    Path(versions.stamp_path(path)).write_text(text)
    assert versions.read_stamp(path) is None


def test_next_id(where: versions.Place) -> None:
    assert versions.next_id(where, A) == A
    make(where, A)
    assert versions.next_id(where, A) == A + "-2"
    make(where, A + "-2")
    assert versions.next_id(where, A) == A + "-3"


@pytest.mark.parametrize(
    ("names", "current", "keep", "expected"),
    [
        ([A, B, C, D], A, 2, [D]),
        ([A, B, C, D], A, 0, [B, C, D]),
        ([A, B, C, D], C, 2, [D]),
        # A damaged one that was built anew is no way back.
        ([A + "-2", A, B], A + "-2", 2, [A]),
        ([A, B], None, 1, [B]),
        ([A], A, 0, []),
    ],
)
def test_outdated(names: list[str], current: str | None, keep: int, expected: list[str]) -> None:
    there = [versions.Version(name, "/v/" + name, {"lock_id": name[:12]}, 1.0) for name in names]
    current_path = "/v/" + current if current else None
    assert versions.outdated(there, current_path, keep) == ["/v/" + name for name in expected]


@pytest.mark.parametrize(
    ("used", "current", "to", "expected"),
    [
        ({C: 3, B: 2, A: 1}, C, "", B),
        ({C: 3, B: 2, A: 1}, B, "", A),
        ({C: 3, B: 2, A: 1}, A, "", "no version older"),
        ({C: 3, B: 2, A: 1}, C, A, A),
        ({C: 3, B: 2, A: 1}, C, "aa", A),
        ({C: 3, B: 2, A: 1}, A, C, C),
        ({C: 3, B: 2, A: 1}, C, "f", "found no version f, expected one of those that are kept: " + B),
        # B was gone back from.
        ({D: 3, A: 1, B: 0}, D, "", A),
        ({A: 1}, A, "", "none but the present one"),
    ],
)
def test_way_back(used: dict[str, float], current: str, to: str, expected: str) -> None:
    there = [versions.Version(name, "/v/" + name, {"lock_id": name}, when) for name, when in used.items()]
    if expected in used:
        assert versions.way_back(there, "/v/" + current, to).id == expected
    else:
        with pytest.raises(Fault, match=expected):
            versions.way_back(there, "/v/" + current, to)


def test_going_back_goes_further_each_time(where: versions.Place) -> None:
    for number, name in enumerate((A, B, C), 1):
        make(where, name, number)
    versions.switch(where, where.version(C))
    for expected in (B, A):
        target = versions.way_back(versions.found(where), versions.pointed(where), "")
        versions.go_back(where, target)
        assert target.id == expected
    versions.go_back(where, versions.way_back(versions.found(where), versions.pointed(where), C))
    assert [version.id for version in versions.found(where)] == [C, A, B]


def test_in_use_by_program_or_command_line(tmp_path: Path) -> None:
    folder = tmp_path / "v"
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)
    process = subprocess.Popen([str(folder / "python"), "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert versions.in_use([str(folder), str(tmp_path / "other")]) == {str(folder)}
    finally:
        process.kill()
        process.communicate()
    assert versions.in_use([str(folder)]) == set()


def test_remove_a_link_leaves_what_it_leads_to(where: versions.Place, tmp_path: Path) -> None:
    a = make(where, A)
    link = str(tmp_path / "link")
    os.symlink(a, link)
    versions.remove(link)
    assert versions.read_stamp(a) and not os.path.lexists(link)
    versions.remove(a)
    versions.remove(a)
    assert not os.path.exists(a)
