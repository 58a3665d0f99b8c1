# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""What this machine has: files, Pythons, packages, GPUs."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import subprocess
from typing import Iterable

from ..muster_agent import facts
from .drift import Found, minor
from .settings import local_path


def read_text(path: str) -> str | None:
    """A file's text; None when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return None


ASK_PYTHON = (
    "import sys, json; print(json.dumps(['%d.%d.%d' % tuple(sys.version_info[:3]), "
    "getattr(sys, '_base_executable', None) or sys.executable]))"
)


def ask_python(python: str) -> tuple[str, str] | None:
    """Version and base interpreter of a Python; None when it does not start within 30 s."""
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", ASK_PYTHON],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=True,
            cwd="/",
        )
        version, base = json.loads(done.stdout.decode())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return str(version), str(base)


def look(prefix: str) -> Found:
    """Read what a prefix holds: one start of its Python and one listing of its site-packages."""
    answer = ask_python(os.path.join(prefix, "bin", "python"))
    version = answer[0] if answer else ""
    found = sorted(glob.glob(os.path.join(glob.escape(prefix), "lib", "python3.*", "site-packages")))
    expected = os.path.join(prefix, "lib", "python" + minor(version), "site-packages")
    site = expected if version or not found else found[0]
    try:
        entries = sorted(os.listdir(site))
    except OSError:
        entries = []
    names = []
    broken = []
    for entry in entries:
        package = facts.distribution(entry)
        if package:
            names.append(package[0])
            if not os.path.exists(os.path.join(site, entry, "METADATA")):
                broken.append(package[0])
    twice = sorted({name for name in names if names.count(name) > 1})
    others = [entry for entry in entries if entry != "__pycache__"]
    return Found(
        version, site, facts.distributions([site]), conda_packages(prefix), twice, broken, others, facts.prefix_contents(prefix)
    )


def conda_packages(prefix: str) -> dict[str, str]:
    """What conda's records in a prefix name: name to `version=build`, from the names of the files."""
    try:
        names = os.listdir(os.path.join(prefix, "conda-meta"))
    except OSError:
        return {}
    parts = [name[: -len(".json")].rsplit("-", 2) for name in sorted(names) if name.endswith(".json")]
    return {part[0]: "%s=%s" % (part[1], part[2]) for part in parts if len(part) == 3}


def has_nvidia_gpu(ask: bool = True, root: str = "/") -> bool:
    """Whether an NVIDIA GPU shows: by the driver's folder, its device files, or (`ask`) by nvidia-smi, as under WSL."""
    if glob.glob(os.path.join(root, "proc/driver/nvidia/gpus/*")) or glob.glob(os.path.join(root, "dev/nvidia[0-9]*")):
        return True
    return ask and facts.count_gpus(None) > 0


def listed(find_links: Iterable[str]) -> list[str]:
    """File names in the local folders among find-links."""
    names: list[str] = []
    for location in find_links:
        with contextlib.suppress(OSError):
            names += os.listdir(local_path(location) or "")
    return names
