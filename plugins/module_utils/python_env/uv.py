# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""uv at work: where it is, the Python it builds with, and how it is run."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from typing import Any, Mapping, Sequence

from .commands import pip_argv
from .complaints import Fault, explain
from .machine import ask_python
from .requirements import pinned
from .settings import Settings, uv_environ

OLDEST_PYTHON = (3, 8)


def die_with_parent() -> None:
    """In a child, before exec: be killed when the module is, so that no uv works on after it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # 1: PR_SET_PDEATHSIG


class Uv:
    """uv, ready to work: found, with a base interpreter, and with the requirements where it can read them.

    Args:
        params: the module's options, by name, all of them present.
        environ: the environment of the module.
        settings: where packages come from.
        space: a folder to work in.

    Raises:
        Fault: when there is no uv or no Python that will do.
    """

    def __init__(self, params: Mapping[str, Any], environ: Mapping[str, str], settings: Settings, space: str) -> None:
        self.settings = settings
        self.space = space
        tmp = os.path.join(space, "tmp")
        os.mkdir(tmp)
        self.environment = uv_environ(environ, settings, tmp)
        if params["requirements_content"] is None:
            self.requirements = os.path.abspath(params["requirements"])
            self.folder = os.path.dirname(self.requirements)
        else:
            self.requirements = self._write("requirements.txt", params["requirements_content"])
            self.folder = "/"
        self.path = self._find_uv(os.path.expanduser(params["uv"] or "uv"))
        self.python_version, self.base = self._find_python(params["python"] or "")

    def _find_uv(self, wanted: str) -> str:
        """The uv binary."""
        uv = shutil.which(wanted, path=self.environment.get("PATH"))
        if not uv:
            where = "on this user's PATH" if "/" not in wanted else "or cannot be run by this user"
            raise Fault(
                "uv (%s) is not there %s: install uv on the node and name its path (python_env_uv)" % (wanted, where),
                kind="no uv",
            )
        return uv

    def _find_python(self, wanted: str) -> tuple[str, str]:
        """Version and path of the interpreter to build with."""
        if not wanted:
            wanted = getattr(sys, "_base_executable", None) or sys.executable
        elif "/" not in wanted and re.match(r"[0-9]", wanted):
            code, output = self.run([self.path, "python", "find", "--no-project", "--system", wanted])
            if code:
                raise Fault(
                    "there is no Python %s on this host: install it, or set python_env_python to the path or "
                    "version of one that is there" % wanted,
                    output,
                )
            wanted = [line for line in output.splitlines() if line.startswith("/")][-1]
        elif "/" not in wanted:
            wanted = shutil.which(wanted, path=self.environment.get("PATH")) or wanted
        answer = ask_python(os.path.expanduser(wanted))
        if not answer:
            raise Fault(
                "the Python %s is not there or does not start: install it, or set python_env_python to the path "
                "or version of one that is there" % wanted
            )
        version, base = answer
        if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_PYTHON:
            raise Fault(
                "%s is Python %s, but 3.8 or later is needed: set python_env_python to the path or version of "
                "one" % (wanted, version)
            )
        return version, base

    def run(self, argv: Sequence[str]) -> tuple[int, str]:
        """Run a command in uv's environment; its exit code and all it printed."""
        try:
            done = subprocess.run(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.folder,  # not the caller's, where a pyproject.toml or uv.toml could have a say
                check=False,
                preexec_fn=die_with_parent,
            )
        except OSError as error:
            if error.errno == errno.ENOEXEC:
                raise Fault(
                    "%s is not a program for this machine (is its processor another?): install uv on the node and name "
                    "its path (python_env_uv)" % argv[0]
                ) from None
            raise Fault(
                "%s cannot be run (%s): install uv on the node and name its path (python_env_uv)"
                % (argv[0], error.strerror)
            ) from None
        return done.returncode, done.stdout.decode(errors="replace")

    def call(self, argv: Sequence[str]) -> None:
        """Run uv; raises Fault when it fails."""
        code, output = self.run(argv)
        if code:
            raise explain(output, self.path)

    def install_argv(self, python: str, pins: Sequence[str], backend: str | None, **how: Any) -> list[str]:
        """`uv pip install` of the requirements for one interpreter.

        Args:
            python: the interpreter.
            pins: constraint files beside the configured ones.
            backend: uv's --torch-backend, None for none.
            how: what else `pip_argv` takes.
        """
        constraints = [*self.settings.constraints, *pins]
        no_index = self.settings.no_index
        return pip_argv(self.path, python, self.requirements, constraints, backend, no_index=no_index, **how)

    def pin(self, packages: Mapping[str, str]) -> str:
        """Write a constraints file that allows these versions only."""
        return self._write("pins.txt", "".join(line + "\n" for line in pinned(packages)))

    def _write(self, name: str, text: str) -> str:
        """Write a file into the folder to work in, and give its path."""
        path = os.path.join(self.space, name)
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text)
        return path
