# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""Who needs a version of an environment: processes that use it, and jobs that may start with it again."""

from __future__ import annotations

import json
import os
from typing import Iterable

from .inspecting import processes
from .machine import read_text
from .versions import PASSING, Place, in_use


def jobs(where: Place, paths: Iterable[str]) -> dict[str, list[str]]:
    """The jobs without a result whose interpreter lies in one of the folders: they run, are armed, or were cut off.

    Args:
        where: the environment; jobs are looked for in the state folder above its own, `<state>/envs`.
        paths: the folders.

    What cannot be read names nobody.
    """
    names: dict[str, list[str]] = {path: [] for path in paths}
    folder = os.path.join(os.path.dirname(where.parent), "jobs")
    try:
        there = sorted(os.listdir(folder))
    except OSError:
        there = []
    for job in there:
        if os.path.exists(os.path.join(folder, job, "run", "result.json")):
            continue
        try:
            spec = json.loads(read_text(os.path.join(folder, job, "spec.json")) or "")
        except ValueError:
            continue
        python = spec.get("interpreter") if isinstance(spec, dict) else None
        for path in names if isinstance(python, str) else ():
            if os.path.normpath(str(python)).startswith(path + os.sep):
                names[path].append("job %s" % job)
    return names


def used(where: Place, paths: Iterable[str]) -> set[str]:
    """Those of an environment's folders that somebody needs."""
    wanted = list(paths)
    if not wanted:
        return set()
    # What an earlier Muster had at the prefix was started by that name.
    busy = in_use([*wanted, where.prefix])
    if where.prefix in busy:
        busy.update(path for path in wanted if PASSING.match(os.path.basename(path)))
    return {path for path, names in jobs(where, wanted).items() if names or path in busy}


def told(where: Place, paths: Iterable[str]) -> str:
    """Who needs one of the folders, in words: `job exp7 (/x/y)`; "" for nobody."""
    wanted = list(paths)
    by_jobs = jobs(where, wanted)
    for path, names in processes(wanted).items():
        users = sorted({*names, *by_jobs[path]})
        if users:
            return "%s (%s)" % (", ".join(users[:3]), path)
    return ""
