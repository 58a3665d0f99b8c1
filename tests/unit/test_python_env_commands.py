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


HOW = ["--only-binary", ":all:", "--no-header", "--format", "pylock.toml", "--output-file", "/o.toml"]


@pytest.mark.parametrize(
    ("target", "how", "expected"),
    [
        (commands.Target("/p"), {}, []),
        (commands.Target("/p", "3.12.1"), {}, ["--python-version", "3.12.1"]),
        (commands.Target("/p", "", "x86_64-manylinux_2_36"), {}, ["--python-platform", "x86_64-manylinux_2_36"]),
        (commands.Target("/p"), {"backend": "cpu"}, ["--torch-backend", "cpu"]),
        (commands.Target("/p"), {"constraints": ["/c", "/d"]}, ["--constraints", "/c", "--constraints", "/d"]),
        (commands.Target("/p"), {"no_index": True}, ["--no-index"]),
    ],
)
def test_compile_argv(target: commands.Target, how: dict, expected: list[str]) -> None:
    head = ["uv", "pip", "compile", "/r.txt", "--python", "/p", *HOW]
    assert commands.compile_argv("uv", target, "/r.txt", "/o.toml", **how) == head + expected


def test_install_argv() -> None:
    argv = commands.install_argv("uv", "/v/bin/python", "/w.txt", ["/a", "/b c"])
    assert argv[:5] == ["uv", "pip", "install", "--python", "/v/bin/python"]
    assert argv[argv.index("--link-mode") + 1] == "hardlink"
    assert {"--no-deps", "--no-index", "--offline", "--require-hashes", "--no-build"} <= set(argv)
    assert argv[-6:] == ["--requirements", "/w.txt", "--find-links", "/a", "--find-links", "/b c"]
