# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""Command lines of uv."""

from __future__ import annotations

from typing import Sequence


def venv_argv(uv: str, python: str, target: str) -> list[str]:
    """`uv venv` for a new, relocatable environment."""
    return [uv, "venv", "--quiet", "--no-project", "--relocatable", "--python", python, target]


def pip_argv(
    uv: str,
    python: str,
    requirements: str,
    constraints: Sequence[str] = (),
    backend: str | None = None,
    dry_run: bool = False,
    exact: bool = False,
    target: str | None = None,
    no_index: bool = False,
) -> list[str]:
    """`uv pip install` of a requirements file.

    Args:
        uv: the uv binary.
        python: interpreter of the environment, or with `target` the one to resolve for.
        requirements: the requirements file.
        constraints: constraint files.
        backend: uv's --torch-backend; None leaves torch to the configured indexes.
        dry_run: print the plan and change nothing.
        exact: also remove what is not asked for.
        target: resolve for an empty folder instead of the interpreter's own environment.
        no_index: ask local folders and pages only.
    """
    argv = [uv, "pip", "install", "--python", python, "--requirements", requirements]
    for path in constraints:
        argv += ["--constraints", path]
    if target:
        argv += ["--target", target]
    if no_index:
        argv.append("--no-index")
    if backend:
        argv += ["--torch-backend", backend]
    if exact:
        argv.append("--exact")
    if dry_run:
        argv.append("--dry-run")
    return argv
