"""site.yml and the role python_env on the two local nodes: uv is real, the wheels are made here."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from one_node import REPO


def results(run: Any, task: str) -> dict[str, dict[str, Any]]:
    """Each host's result of a task."""
    ends = [event["event_data"] for event in run.events if event["event"].startswith("runner_on_")]
    return {data["host"]: data["res"] for data in ends if data.get("task") == task and "res" in data}


@pytest.fixture
def play(tmp_path: Path, run_playbook: Callable, wheels: Path) -> Callable:
    """`play(cmdline=None, **extra)`: run site.yml for a prefix in tmp_path/nodes, without a network."""
    (tmp_path / "requirements.txt").write_text("probe==1.0\n")
    (tmp_path / "pip.conf").write_text("[global]\nno-index = true\n")
    variables = {
        "python_env_prefix": str(tmp_path / "nodes/e"),
        "python_env_spec": str(tmp_path / "requirements.txt"),
        "python_env_cache_dir": str(tmp_path / "cache"),
        "python_env_min_free_mb": 0,
        "verify_versions": False,
    }
    environ = {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "PIP_FIND_LINKS": str(wheels)}

    def play(cmdline: str | None = None, **extra: Any) -> Any:
        return run_playbook("site.yml", {**variables, **extra}, cmdline=cmdline, env=environ)

    return play


SOLVE, INSTALL, LOOK = "Solve for all hosts on the head", "Switch to it", "Look at the environment"


def test_site_checks_makes_and_keeps(tmp_path: Path, play: Callable) -> None:
    prefix = tmp_path / "nodes/e"
    checked = play("--check --diff")
    assert checked.status == "successful", checked.stdout
    assert "+probe==1.0" in checked.stdout and checked.stats["changed"]
    assert not prefix.parent.exists()

    first = play()
    assert first.status == "successful", first.stdout
    # Both nodes share the prefix on one machine: one of them makes it, and the other is not asked.
    assert len(first.stats["changed"]) == 1 and prefix.joinpath("bin/python").exists()

    second = play()
    assert second.status == "successful" and second.stats["changed"] == {}
    assert {host: result["state"] for host, result in results(second, LOOK).items()} == {"node0": "whole", "node1": "whole"}
    assert "lock" not in results(second, SOLVE).get("node0", {})
    assert sorted(os.listdir(prefix.parent)) == [".versions", "e"]

    (tmp_path / "requirements.txt").write_text("probe==2.0\n# why\n")
    predicted = play("--check --diff")
    assert "-probe==1.0" in predicted.stdout and "+probe==2.0" in predicted.stdout
    assert len(play().stats["changed"]) == 1 and len(list((prefix.parent / ".versions/e").iterdir())) == 2


def test_each_node_installs_what_the_head_has_solved(tmp_path: Path, play: Callable) -> None:
    apart = {"python_env_prefix": str(tmp_path / "{{ inventory_hostname }}/e")}
    first = play(**apart)
    assert first.status == "successful" and set(first.stats["changed"]) == {"node0", "node1"}
    found = results(first, INSTALL)
    assert found["node0"]["fingerprint"] == found["node1"]["fingerprint"]
    # A node that has lost it gets the head's lock: nothing is solved.
    (tmp_path / "node1/e").unlink()
    again = play(**apart)
    assert again.status == "successful" and set(again.stats["changed"]) == {"node1"}
    assert results(again, SOLVE)["node0"]["source"] == "installed"
    # A lock is as good as what it was solved from.
    lock = tmp_path / "lock.json"
    lock.write_text((tmp_path / "node0/e/.muster/lock.json").read_text())
    given = play(**apart, python_env_spec=str(lock))
    assert given.status == "successful" and given.stats["changed"] == {}, given.stdout


def test_no_node_switches_before_all_have_the_version(tmp_path: Path, play: Callable) -> None:
    apart = {"python_env_prefix": str(tmp_path / "{{ inventory_hostname }}/e")}
    assert play(**apart).status == "successful"
    before = [os.readlink(tmp_path / node / "e") for node in ("node0", "node1")]
    (tmp_path / "requirements.txt").write_text("probe==2.0\n")
    with open(tmp_path / "node1/.e.lock", "w") as busy:
        fcntl.flock(busy, fcntl.LOCK_EX)
        run = play(**apart, python_env_lock_timeout=0)
    assert run.status == "failed" and [os.readlink(tmp_path / node / "e") for node in ("node0", "node1")] == before
    assert "found the new version of default missing on node1, expected it on every host before any switches" in run.stdout
    again = play(**apart)
    assert again.status == "successful" and set(again.stats["changed"]) == {"node0", "node1"}
    after = [os.readlink(tmp_path / node / "e") for node in ("node0", "node1")]
    assert after[0] == after[1] != before[0]


def test_a_file_that_is_not_there_or_cannot_be_solved_is_one_sentence(tmp_path: Path, play: Callable) -> None:
    run = play(python_env_spec="/does/not/exist.txt")
    assert run.status == "failed" and "/does/not/exist.txt" in run.stdout
    (tmp_path / "requirements.txt").write_text("probe==7\n")
    run = play()
    assert run.status == "failed"
    assert "there is no version of probe==7" in results(run, SOLVE)["node0"]["msg"]


def told_at_the_roll_call(python: Path) -> dict[str, Any]:
    """What the agent tells of an interpreter's packages."""
    command = [python, "-I", REPO / "plugins/module_utils/muster_agent", "facts"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    return json.loads(done.stdout.partition("\x02MUSTER")[2].partition("\x03")[0])


def test_the_embedded_default_makes_torch_and_then_changes_nothing(run_playbook: Callable) -> None:
    first = run_playbook("site.yml", timeout=600)
    assert first.status == "successful", first.stdout
    second = run_playbook("site.yml")
    assert second.status == "successful" and second.stats["changed"] == {}
    answer = results(second, LOOK)["node0"]
    assert answer["torch_backend"] and Path(answer["python"]) == REPO / ".muster/env/bin/python"
    # The module and the roll call agree.
    told = told_at_the_roll_call(Path(answer["python"]))
    assert told["fingerprint"] == answer["fingerprint"] and told["packages"]["torch"].startswith("2.13.0")
