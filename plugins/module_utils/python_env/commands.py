# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""Command lines of uv."""

from __future__ import annotations

from typing import NamedTuple, Sequence


class Target(NamedTuple):
    """For which Python uv resolves.

    python: an interpreter on this host; version: the version to resolve for, "" for the interpreter's own; platform: uv's
    --python-platform, "" for this host.
    """

    python: str
    version: str = ""
    platform: str = ""


def venv_argv(uv: str, python: str, target: str) -> list[str]:
    """`uv venv` for a new environment; relocatable scripts find their Python beside themselves, whatever its path."""
    return [uv, "venv", "--quiet", "--no-project", "--relocatable", "--python", python, target]


def compile_argv(
    uv: str,
    target: Target,
    requirements: str,
    output: str,
    constraints: Sequence[str] = (),
    backend: str | None = None,
    no_index: bool = False,
) -> list[str]:
    """`uv pip compile` of a requirements file into a pylock.toml, wheels only.

    Args:
        uv: the uv binary.
        target: for which Python.
        requirements: the requirements file.
        output: the pylock.toml; what it holds already is preferred.
        constraints: constraint files.
        backend: uv's --torch-backend; None leaves torch to the configured indexes.
        no_index: ask local folders and pages only.
    """
    argv = [uv, "pip", "compile", requirements, "--python", target.python, "--only-binary", ":all:", "--no-header"]
    argv += ["--format", "pylock.toml", "--output-file", output]
    if target.version:
        argv += ["--python-version", target.version]
    if target.platform:
        argv += ["--python-platform", target.platform]
    for path in constraints:
        argv += ["--constraints", path]
    if backend:
        argv += ["--torch-backend", backend]
    if no_index:
        argv.append("--no-index")
    return argv


def install_argv(uv: str, python: str, requirements: str, folders: Sequence[str]) -> list[str]:
    """`uv pip install` of wheels that lie in folders of this host, each with its sha256; it asks nobody.

    Args:
        uv: the uv binary.
        python: interpreter of the environment.
        requirements: a file with a line `name==version --hash=sha256:...` for each.
        folders: the folders.
    """
    how = ["--no-deps", "--no-index", "--offline", "--require-hashes", "--no-build", "--break-system-packages"]
    # Named here, so that neither the user's environment nor a uv.toml counts: uv's cache goes right after.
    how += ["--link-mode", "hardlink"]
    argv = [uv, "pip", "install", "--python", python, *how, "--requirements", requirements]
    for folder in folders:
        argv += ["--find-links", folder]
    return argv
