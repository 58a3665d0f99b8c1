"""What a run tells and mends of what killed ones left undone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import locking, registering
from ansible_collections.muster.cluster.plugins.module_utils.python_env.drift import NOTHING
from ansible_collections.muster.cluster.plugins.module_utils.python_env.environment import Environment, Status


def status(conda: list) -> Status:
    """A whole version."""
    return Status("whole", [], "/v", {}, {"conda": conda, "wheels": []}, NOTHING)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """An environment whose user has a list of conda's."""
    monkeypatch.setattr(registering, "own_list", lambda: str(tmp_path / "home" / ".conda" / "environments.txt"))
    (tmp_path / "home").mkdir()
    (tmp_path / "envs").mkdir()
    return Environment({"prefix": str(tmp_path / "envs" / "e"), "cache_dir": str(tmp_path / "cache")}, {})


def test_a_conda_prefix_that_was_not_registered_is(environment: Environment) -> None:
    assert environment._left(status([])) == []
    assert environment._left(status([1])) == ["conda does not know it"]
    environment._tidy(status([1]))
    assert registering.is_registered(environment.where.prefix) and environment._left(status([1])) == []


def test_what_a_dead_run_told_is_removed_and_what_a_living_one_tells_is_not(environment: Environment) -> None:
    said = Path(environment.say.file)
    said.parent.mkdir()
    said.write_text("solving\n")
    assert environment._left(status([])) == []  # a solve may be telling it
    os.utime(said, (1000, 1000))
    assert environment._left(status([])) == ["%s is of a run that was killed" % said]
    with locking.lock(environment.where.lock, 1):
        assert environment._left(status([])) == []
        environment._tidy(status([]))
        assert said.exists()
    environment._tidy(status([]))
    assert not said.exists() and environment._left(status([])) == []


def test_what_cannot_be_removed_is_told(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    left = Path(environment.where.version("work-1"))
    left.mkdir(parents=True)
    monkeypatch.setattr("shutil.rmtree", lambda path, ignore_errors: None)
    environment._recover()
    assert environment.notes == [
        "found files in %s that this user may not remove, expected its own there; remove that folder as root" % left
    ]
