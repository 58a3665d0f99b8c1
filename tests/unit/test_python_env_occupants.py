"""Who needs a version of an environment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import occupants, versions


@pytest.fixture
def where(tmp_path: Path) -> versions.Place:
    """The place of an environment in a state folder."""
    return versions.place(str(tmp_path / "envs" / "e"))


def job(state: Path, name: str, spec: object, ended: bool = False) -> None:
    """A job as its agent lays it out."""
    folder = state / "jobs" / name
    (folder / "run").mkdir(parents=True)
    (folder / "spec.json").write_text(spec if isinstance(spec, str) else json.dumps(spec))
    if ended:
        (folder / "run" / "result.json").write_text("{}")


def test_a_job_without_a_result_keeps_its_version(where: versions.Place, tmp_path: Path) -> None:
    a, b = where.version("a" * 12), where.version("b" * 12)
    assert occupants.used(where, [a, b]) == set()
    job(tmp_path, "armed", {"interpreter": a + "/bin/python"})
    job(tmp_path, "over", {"interpreter": b + "/bin/python"}, ended=True)
    for name, spec in (("older", {"python": b}), ("half", "{"), ("list", []), ("odd", {"interpreter": 7})):
        job(tmp_path, name, spec)
    (tmp_path / "jobs" / "file").write_text("")
    assert occupants.used(where, [a, b]) == {a}
    assert occupants.told(where, [b]) == "" and occupants.told(where, [b, a]) == "job armed (%s)" % a


def test_what_an_earlier_muster_had_stays_as_long_as_a_process_names_the_prefix(where: versions.Place) -> None:
    paths = [where.version("old-7"), where.version("a" * 12)]
    process = subprocess.Popen([sys.executable, "-c", "input()", where.prefix + "/bin/python"], stdin=subprocess.PIPE)
    try:
        assert occupants.used(where, paths) == {paths[0]}
        assert "pid %d" % process.pid in occupants.told(where, [where.prefix])
    finally:
        process.kill()
        process.communicate()
