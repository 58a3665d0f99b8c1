"""An environment of conda packages and wheels: real rattler and uv, the tests' own channel over HTTP, no other network."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from channel import Server
from one_node import Node, make_wheel, make_wheels, result, sentence

PYTHON = "python %d.%d.*" % sys.version_info[:2]


@pytest.fixture
def server(conda_channel: Path) -> Iterator[Server]:
    """The channel over HTTP."""
    with Server(conda_channel) as server:
        yield server


@pytest.fixture
def node(tmp_path: Path, python_tools: Path, server: Server) -> Node:
    """A machine with the tools, whose folder of wheels also wants what the channel has."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    make_wheels(wheels)
    make_wheel(wheels, "talk", "1.0", ("words>=2",))
    make_wheel(wheels, "shout", "1.0", ("words<2",))
    made = Node(tmp_path, wheels, tmp_path / "cache")
    made.common.update(tools=str(python_tools), tool_python=sys.executable)
    return made


def solve(
    node: Node, server: Server, *conda: str, pip: tuple[str, ...] = (), variables: dict[str, str] | None = None, **options: Any
) -> dict[str, Any]:
    """The answer of python_lock for conda packages and wheels."""
    specification = {"kind": "environment", "channels": [server.url], "conda": [PYTHON, *conda], "pip": list(pip)}
    specification["variables"] = variables or {}
    options.setdefault("asked", json.dumps([conda, pip]))
    return result(node.start("python_lock", specification=specification, **options))


def test_conda_packages_and_wheels_in_one_prefix(node: Node, server: Server) -> None:
    solved = solve(node, server, "greet", pip=("talk", "probe==1.0"))
    assert not solved.get("failed"), solved["msg"]
    lock = solved["lock"]
    assert {entry["name"]: entry["version"] for entry in lock["conda"]}["words"] == "2.1"
    # words comes from the channel, so not as a wheel; nothing was asked of an index for it.
    assert [entry["name"] for entry in lock["wheels"]] == ["probe", "probe-base", "talk"]
    assert not server.archives()

    first = node.install(lock)
    assert first["changed"], first["msg"]
    assert node.version() == "1.0" and node.litter() == []
    assert "greet=1.2=py_0" in first["added"] and "talk==1.0" in first["added"]
    assert first["packages"]["greet"] == "1.2" and first["python_version"] == lock["python"]
    assert (node.prefix / "conda-meta/history").exists()
    text = (node.prefix / ".muster/environment.yml").read_text()
    assert "  - greet=1.2=py_0\n" in text and "      - talk==1.0\n" in text
    assert str(node.prefix) in listed(node)
    again = node.install(lock, uv="/does/not/exist", tools="")
    assert again["current"] and again["fingerprint"] == first["fingerprint"]
    counted = dict(server.archives())

    # The same lock elsewhere: from the store, without the channel; and the same fingerprint.
    server.__exit__(None, None, None)
    other = node.install(lock, prefix=str(node.home / "second/e"), offline=True)
    assert other["changed"] and other["fingerprint"] == first["fingerprint"] and other["fetched"]["packages"] == 0
    assert counted == server.archives() and set(counted.values()) == {1}
    result(node.start("python_env", state="absent"))
    assert str(node.prefix) not in listed(node)


def listed(node: Node) -> str:
    """conda's own list of environments of the node's user."""
    path = node.home / ".conda/environments.txt"
    return path.read_text() if path.exists() else ""


def test_a_wheel_that_clashes_with_the_channel_is_one_sentence(node: Node, server: Server) -> None:
    told = sentence(solve(node, server, "greet", pip=("shout",)))
    assert "words" in told and "2.1" in told


def test_the_prefix_is_an_ordinary_conda_prefix(node: Node, server: Server) -> None:
    lock = solve(node, server, "greet", variables={"GREETING": "hello you"})["lock"]
    assert node.install(lock)["changed"]
    kept = json.loads((node.prefix / "conda-meta/state").read_text())
    assert kept["env_vars"] == {"GREETING": "hello you"}
    code = "import sys, greet; print(sys.prefix)"
    done = subprocess.run([node.prefix / "bin/python", "-I", "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert Path(done.stdout.strip()).resolve() == node.prefix.resolve()
    record = next((node.prefix / "conda-meta").glob("greet-*.json"))
    record.unlink()
    seen = node.look()
    assert seen["state"] == "drifted" and any("greet" in reason for reason in seen["reasons"])
    assert node.install(lock)["changed"] and node.look()["state"] == "whole" and len(node.ids()) == 1


def test_a_damaged_archive_in_the_store_is_fetched_anew(node: Node, server: Server) -> None:
    lock = solve(node, server, "greet")["lock"]
    node.install(lock)
    archive = next(Path(node.common["cache_dir"]).glob("packages/*/greet-1.2-*"))
    archive.write_bytes(b"nothing")
    answer = node.install(lock, prefix=str(node.home / "second/e"))
    assert answer["changed"], answer["msg"]
    archive.write_bytes(b"nothing")
    server.__exit__(None, None, None)
    assert "greet" in sentence(node.install(lock, prefix=str(node.home / "third/e"), offline=True))


def test_without_tools_or_with_a_prefix_with_spaces_there_is_one_sentence(node: Node, server: Server) -> None:
    assert "found no tools" in sentence(solve(node, server, "greet", tools=""))
    lock = solve(node, server, "greet")["lock"]
    answer = node.install(lock, prefix=str(node.home / "my envs/e"))
    if answer.get("failed"):
        assert "space" in sentence(answer)
    else:
        python = node.home / "my envs/e/bin/python"
        subprocess.run([python, "-I", "-c", "import greet"], timeout=30, check=True)
