"""One run at a time on a prefix."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import locking


def hold(path: str, ready: multiprocessing.synchronize.Event, done: multiprocessing.synchronize.Event) -> None:
    """In another process: hold the lock until told otherwise."""
    with locking.lock(path, 5):
        ready.set()
        done.wait(20)


def test_lock_names_its_holder_and_leaves_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "env.lock")
    context = multiprocessing.get_context("fork")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=hold, args=(path, ready, done))
    other.start()
    try:
        assert ready.wait(10)
        told: list[str] = []
        with pytest.raises(locking.Locked, match=r"^process %d of \S+ since \d\d:" % other.pid), locking.lock(
            path, 0.3, told.append
        ):
            pass
        assert len(told) == 1 and told[0].startswith("process %d of " % other.pid)
    finally:
        done.set()
        other.join(10)
    with locking.lock(path, 5):
        handle = os.open(path, os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(handle)
    assert os.listdir(tmp_path) == []


def test_held_is_only_what_a_living_process_holds(tmp_path: Path) -> None:
    path = str(tmp_path / "env.lock")
    assert not locking.held(path)
    with locking.lock(path, 1):
        assert locking.held(path)
    Path(path).write_text("process 1 of a killed run")
    assert not locking.held(path)
