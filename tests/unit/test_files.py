"""Small files: never half-written, and room for the last word."""

import os

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import files


def test_a_file_is_replaced_whole_and_with_its_mode(tmp_path):
    path = tmp_path / "spec.json"
    path.write_text("before")
    files.write_json(str(path), {"a": 1})
    assert files.read_json(str(path)) == {"a": 1} and path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(str(tmp_path)) == ["spec.json"]


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "spec.json"
    path.write_text("before")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_json(str(path), {"a": 1})
    assert path.read_text() == "before" and os.listdir(str(tmp_path)) == ["spec.json"]


def test_the_last_word_has_the_reserved_room(tmp_path, monkeypatch):
    reserved = tmp_path / "reserve"
    files.reserve(str(reserved))
    assert reserved.stat().st_size == 65536 and reserved.stat().st_blocks >= 128
    seen = []
    monkeypatch.setattr(files, "write_json", lambda path, value: seen.append(reserved.exists()))
    files.write_last(str(tmp_path / "result.json"), {}, str(reserved))
    files.write_last(str(tmp_path / "result.json"), {}, str(reserved))  # nothing reserved any more
    assert seen == [False, False]
