"""Command lines of uv."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import commands


def test_venv_argv() -> None:
    assert commands.venv_argv("/t/uv", "/usr/bin/python3", "/p.new-1/env") == [
        "/t/uv",
        "venv",
        "--quiet",
        "--no-project",
        "--relocatable",
        "--python",
        "/usr/bin/python3",
        "/p.new-1/env",
    ]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, []),
        ({"backend": "cpu"}, ["--torch-backend", "cpu"]),
        ({"constraints": ["/c", "/p"]}, ["--constraints", "/c", "--constraints", "/p"]),
        (
            {"backend": "cpu", "dry_run": True, "target": "/t"},
            ["--target", "/t", "--torch-backend", "cpu", "--dry-run"],
        ),
        ({"exact": True, "dry_run": True}, ["--exact", "--dry-run"]),
        ({"no_index": True}, ["--no-index"]),
    ],
)
def test_pip_argv(how: dict, expected: list[str]) -> None:
    head = ["uv", "pip", "install", "--python", "/e/bin/python", "--requirements", "/r.txt"]
    assert commands.pip_argv("uv", "/e/bin/python", "/r.txt", **how) == head + expected
