"""The environment of a job's Python: its real place, what it sets, what is known of it and kept."""

import json
import os

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import jobs, prefixes
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import spec as specs


@pytest.fixture
def envs(tmp_path):
    """``<tmp>/envs/exp``, a link to the first of two versions whose ``bin/python`` is a link to a Python elsewhere."""
    folder = tmp_path / "envs"
    (tmp_path / "base").write_text("")
    for version in ("aaa", "bbb"):
        prefix = folder / ".versions" / "exp" / version
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin" / "python").symlink_to(tmp_path / "base")
        (prefix / ".muster").mkdir()
        (prefix / ".muster" / "stamp.json").write_text(json.dumps({"lock_id": version, "fingerprint": "f" + version}))
        (prefix / ".muster" / "lock.json").write_text("lock " + version)
        (prefix / ".muster" / "environment.yml").write_text("name: exp\n")
    (folder / "exp").symlink_to(".versions/exp/aaa")
    return folder


def switch(envs, version):
    """As a run of site.yml does it."""
    (envs / "new").symlink_to(".versions/exp/" + version)
    os.replace(envs / "new", envs / "exp")


def test_the_folder_is_resolved_and_the_python_is_not(envs):
    asked = str(envs / "exp" / "bin" / "python")
    real = prefixes.real_python(asked)
    assert real == str(envs / ".versions" / "exp" / "aaa" / "bin" / "python")
    switch(envs, "bbb")
    assert prefixes.real_python(asked) == real.replace("aaa", "bbb") and prefixes.real_python(real) == real


@pytest.mark.parametrize("python", ["python3", "python"])
def test_a_bare_name_stays_one(python):
    assert prefixes.real_python(python) == python
    assert prefixes.variables(python) == {} and prefixes.describe(python) is None


def test_what_the_ranks_are_given(envs):
    python, prefix = str(envs / ".versions" / "exp" / "aaa" / "bin" / "python"), envs / ".versions" / "exp" / "aaa"
    assert prefixes.variables(python) == {}
    (prefix / "conda-meta").mkdir()
    assert prefixes.variables(python) == {"CONDA_PREFIX": str(prefix)}
    (prefix / "pyvenv.cfg").write_text("")
    assert prefixes.variables(python) == {"CONDA_PREFIX": str(prefix), "VIRTUAL_ENV": str(prefix)}


def test_variables_that_a_conda_prefix_keeps(envs):
    python, prefix = str(envs / ".versions" / "exp" / "aaa" / "bin" / "python"), envs / ".versions" / "exp" / "aaa"
    (prefix / "etc" / "conda" / "env_vars.d").mkdir(parents=True)
    (prefix / "etc" / "conda" / "env_vars.d" / "one.json").write_text('{"A": "package", "B": "kept", "N": 1, "PATH": "/x"}')
    (prefix / "etc" / "conda" / "env_vars.d" / "two.json").write_text("[no object]")
    assert prefixes.recorded(python) == {} and prefixes.recorded("python3") == {}
    (prefix / "conda-meta").mkdir()
    assert prefixes.recorded(python) == {"A": "package", "B": "kept"}
    (prefix / "conda-meta" / "state").write_text('{"version": 1, "env_vars": {"A": "own", "bad name": "x"}}')
    assert prefixes.recorded(python) == {"A": "own", "B": "kept"}


def test_what_is_known_of_an_environment(envs, tmp_path):
    python = prefixes.real_python(str(envs / "exp" / "bin" / "python"))
    assert prefixes.describe(python) == {
        "name": "exp", "prefix": str(envs / ".versions" / "exp" / "aaa"), "lock_id": "aaa", "fingerprint": "faaa",
    }  # fmt: skip
    (envs / "exp" / ".muster" / "stamp.json").write_text("{")
    assert prefixes.describe(python) is None and prefixes.describe("/usr/bin/python3") is None


def test_lock_and_list_are_kept_as_far_as_they_are_there(envs, tmp_path):
    python, kept = prefixes.real_python(str(envs / "exp" / "bin" / "python")), tmp_path / "kept"
    prefixes.keep(python, str(kept))
    assert {path.name: path.read_text() for path in kept.iterdir()} == {"lock.json": "lock aaa", "environment.yml": "name: exp\n"}
    for nothing in ("/usr/bin/python3", "python3"):
        prefixes.keep(nothing, str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_a_switch_makes_no_other_job(make_spec):
    """What the node has found out is no part of what was asked."""
    asked = make_spec(python="/envs/exp/bin/python")
    started = dict(asked, interpreter="/envs/.versions/exp/aaa/bin/python", environment={"lock_id": "aaa"})
    assert specs.differences(started, asked) == [] and specs.digest(started) == specs.digest(asked)
    assert specs.interpreter(started) == "/envs/.versions/exp/aaa/bin/python" and specs.interpreter(asked) == asked["python"]
    assert specs.shown_differences(started, dict(asked, python="/envs/other/bin/python")) == (
        'python ("/envs/exp/bin/python", now "/envs/other/bin/python")'
    )


def test_the_record_holds_the_environment(tmp_path, make_spec):
    jobdir = jobs.JobDir(str(tmp_path), "exp7")
    jobdir.create()
    jobdir.begin_run("run1")
    os.mkdir(os.path.join(jobdir.run, "environment"))
    for name in ("lock.json", "other"):
        with open(os.path.join(jobdir.run, "environment", name), "w", encoding="utf-8"):
            pass
    assert [name for name, _ in jobs.record_names(jobdir)] == ["environment/lock.json"]
