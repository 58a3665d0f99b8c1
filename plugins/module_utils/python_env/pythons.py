# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""Which Python of this machine is meant, and what the machine is."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import sys
from typing import Any, Callable, NamedTuple

from ..muster_agent import facts
from .complaints import Fault
from .machine import ask_python, has_nvidia_gpu

OLDEST = (3, 8)
# The oldest Python that the tools for conda packages run on, and the newest that is looked for by name.
TOOLS_OLDEST, NEWEST = 10, 15


class Python(NamedTuple):
    """An interpreter: its version x.y.z and its path."""

    version: str
    path: str


def own_base() -> Python:
    """The Python that runs this, or the one beneath it if that is a virtual environment."""
    path = getattr(sys, "_base_executable", None) or sys.executable
    return Python("%d.%d.%d" % tuple(sys.version_info[:3]), path)


def find(wanted: str, search: str | None, ask: Callable[[str], str] | None = None) -> Python:
    """The interpreter that the option python names.

    Args:
        wanted: a path, a command, a version such as "3.12", or "" for `own_base`.
        search: a PATH.
        ask: gives the path of an interpreter of a version that is not on it, "" for none.

    Raises:
        Fault: when it is not there, does not start, or is too old.
    """
    if not wanted:
        return own_base()
    path = wanted
    by_version = "/" not in wanted and bool(re.match(r"[0-9]", wanted))
    if by_version:
        path = shutil.which("python" + ".".join(wanted.split(".")[:2]), path=search) or ""
        answer = ask_python(path) if path else None
        if not answer or not (answer[0] + ".").startswith(wanted.rstrip(".") + "."):
            path = ask(wanted) if ask else ""
        if not path:
            raise Fault(
                "there is no Python %s on this host: install it, or set python_env_python to the path or "
                "version of one that is there" % wanted
            )
    elif "/" not in wanted:
        path = shutil.which(wanted, path=search) or wanted
    answer = ask_python(os.path.expanduser(path))
    if not answer:
        raise Fault(
            "the Python %s is not there or does not start: install it, or set python_env_python to the path "
            "or version of one that is there" % wanted
        )
    if tuple(int(part) for part in answer[0].split(".")[:2]) < OLDEST:
        raise Fault(
            "%s is Python %s, but 3.8 or later is needed: set python_env_python to the path or version of one"
            % (wanted, answer[0])
        )
    return Python(*answer)


def for_tools(search: str | None) -> str:
    """Path of a Python that the tools for conda packages run on; "" for none."""
    if sys.version_info[:2] >= (3, TOOLS_OLDEST):
        return own_base().path
    names = ["python3.%d" % minor for minor in range(NEWEST, TOOLS_OLDEST - 1, -1)]
    return next((path for path in (shutil.which(name, path=search) for name in names) if path), "")


def glibc() -> str:
    """Version of this machine's C library, "" where it is another one."""
    try:
        words = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()
    except (OSError, ValueError):
        return ""
    return words[1] if len(words) == 2 and words[0] == "glibc" else ""


def cuda() -> str:
    """Highest version of CUDA that the NVIDIA driver of this machine knows, "" where there is none."""
    try:
        version = ctypes.c_int()
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)) == 0 and version.value:
            return "%d.%d" % (version.value // 1000, version.value % 1000 // 10)
    except (OSError, AttributeError):
        pass
    return ""


def place(prefix: str) -> str:
    """What is the same for two names of one prefix on one machine: the machine's boot, and the folder that is there already."""
    folder, rest = os.path.dirname(prefix), os.path.basename(prefix)
    while True:
        try:
            found = os.stat(folder)
            break
        except OSError:
            folder, rest = os.path.dirname(folder), os.path.join(os.path.basename(folder), rest)
    return "%s:%d:%d:%s" % (facts.boot_id(), found.st_dev, found.st_ino, rest)


def gather(prefix: str, python: str, search: str | None) -> dict[str, Any]:
    """What decides about packages on this machine, as the module python_env returns it.

    Args:
        prefix: path of the environment.
        python: the option of that name.
        search: a PATH.
    """
    gpu = has_nvidia_gpu()
    try:
        found = find(python, search)
    except Fault:
        found = Python("", "")
    return {
        "arch": platform.machine(),
        "glibc": glibc(),
        "gpu": gpu,
        "cuda": cuda() if gpu else "",
        "python": found.version,
        "python_path": found.path,
        "tool_python": for_tools(search),
        "place": place(prefix),
    }


# The versions of glibc that uv has a --python-platform for.
MANYLINUX = (17, 28, *range(31, 41))


def uv_platform(arch: str, wanted: str, own: str) -> str:
    """uv's --python-platform for the oldest C library of the cluster, "" where that is this host's own.

    >>> uv_platform("x86_64", "2.36", "2.41")
    'x86_64-manylinux_2_36'
    """
    if not wanted or wanted == own:
        return ""
    minor = int(wanted.split(".")[1])
    fitting = [known for known in MANYLINUX if known <= minor]
    return "%s-manylinux_2_%d" % (arch, fitting[-1]) if fitting else ""
