# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""uv at work: where it is, the Python it builds with, and how it is run."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import signal
import subprocess
from typing import Any, Callable, Mapping, Sequence

from . import pythons
from .complaints import Fault, explain
from .settings import Settings, uv_environ

UV_SECONDS = 3600.0  # for one call: a solve over a slow network, or many wheels on a slow disk


def die_with_parent() -> None:
    """In a child, before exec: be killed when the module is, so that no uv works on after it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # 1: PR_SET_PDEATHSIG


def run(argv: Sequence[str], environ: Mapping[str, str], seconds: float) -> tuple[int, str]:
    """Run a command that ends with the module; its exit code and all it printed.

    Args:
        argv: the command.
        environ: its whole environment.
        seconds: how long it may take.

    Raises:
        OSError: where it cannot start.
        subprocess.TimeoutExpired: where the time is over; it and its children are killed then.
    """
    child = subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environ),
        cwd="/",  # not the caller's, where a pyproject.toml or uv.toml could have a say
        start_new_session=True,
        preexec_fn=die_with_parent,
    )
    try:
        output, _ = child.communicate(timeout=seconds)
    except BaseException:
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise
    finally:
        if child.stdout:
            child.stdout.close()
    return child.returncode, output.decode(errors="replace")


class Uv:
    """uv, ready to work: found, and with a base interpreter.

    Args:
        params: the module's options; `uv` and `python` are read.
        environ: the environment of the module.
        settings: where packages come from.
        space: a folder to work in.
        say: takes a line about what is being done.

    Raises:
        Fault: when there is no uv or no Python that will do.
    """

    def __init__(
        self,
        params: Mapping[str, Any],
        environ: Mapping[str, str],
        settings: Settings,
        space: str,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.settings = settings
        self.space = space
        self.say = say
        tmp = os.path.join(space, "tmp")
        os.makedirs(tmp, exist_ok=True)
        self.environment = uv_environ(environ, settings, tmp)
        self.path = self._find_uv(os.path.expanduser(params["uv"] or "uv"))
        self.base = pythons.find(params["python"] or "", self.environment.get("PATH"), self._ask)

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

    def _ask(self, version: str) -> str:
        """The interpreter that uv finds for a version, "" for none."""
        code, output = self.run([self.path, "python", "find", "--no-project", "--system", version])
        lines = [line for line in output.splitlines() if line.startswith("/")]
        return "" if code or not lines else lines[-1]

    def run(self, argv: Sequence[str]) -> tuple[int, str]:
        """Run a command in uv's environment; its exit code and all it printed."""
        try:
            return run(argv, self.environment, UV_SECONDS)
        except subprocess.TimeoutExpired:
            raise Fault(
                "found %s %s still at work after %.0f s, expected an end; look at the network and the disk of this host, then "
                "run again" % (argv[0], argv[1], UV_SECONDS)
            ) from None
        except OSError as error:
            if error.errno == errno.ENOEXEC:
                raise Fault(
                    "%s is not a program for this machine (is its processor another?): install uv on the node and name "
                    "its path (python_env_uv)" % argv[0]
                ) from None
            raise Fault(
                "%s cannot be run (%s): install uv on the node and name its path (python_env_uv)" % (argv[0], error.strerror)
            ) from None

    def call(self, argv: Sequence[str]) -> None:
        """Run uv; raises Fault when it fails."""
        code, output = self.run(argv)
        if code:
            raise explain(output, self.path)

    def write(self, name: str, text: str) -> str:
        """Write a file into the folder to work in, and give its path."""
        path = os.path.join(self.space, name)
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text)
        return path
