"""What is told of an environment on a node, on a layout made by hand."""

import json
import os
import subprocess
import sys
import time

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import inspecting, locks, machine, versions
from ansible_collections.muster.cluster.plugins.module_utils.python_env.drift import NOTHING


def wheel(name, version):
    """A wheel of a lock."""
    return {"name": name, "version": version, "url": "file:/w/x.whl", "file_name": "x.whl", "sha256": "0" * 64}


def lock(**packages):
    """A lock without a conda part."""
    return {
        "format": 1, "platform": "linux-64", "python": "%d.%d.%d" % sys.version_info[:3], "glibc": None, "cuda": None,
        "torch_backend": None, "asked": "x", "channels": [], "conda": [],
        "wheels": [wheel(name, version) for name, version in packages.items()],
    }  # fmt: skip


def install(prefix, name, version):
    """A package of which there is nothing but metadata."""
    site = next(prefix.glob("lib/python3*/site-packages"))
    folder = site / "{}-{}.dist-info".format(name, version)
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: {}\nVersion: {}\n".format(name, version))
    (folder / "RECORD").write_text("{}.py,sha256=x,1\n".format(name))


@pytest.fixture
def envs(tmp_path):
    """Two versions of exp, the second in use; returns ``(prefix, {lock id: path})``."""
    where = versions.place(str(tmp_path / "my envs" / "exp"))
    paths = {}
    for packages in ({"numpy": "2.3.0"}, {"numpy": "2.4.3", "six": "1.17"}):
        made = lock(**packages)
        lock_id = locks.lock_id(made)
        prefix = tmp_path / "my envs" / ".versions" / "exp" / lock_id
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
        for name, version in packages.items():
            install(prefix, name, version)
        (prefix / ".muster").mkdir()
        (prefix / ".muster" / "lock.json").write_text(locks.text(made))
        found = machine.look(str(prefix))
        stamp = {
            "lock_id": lock_id, "packages": packages, "conda": {}, "entries": [], "python_version": made["python"],
            "contents": found.contents,
        }  # fmt: skip
        versions.write_stamp(str(prefix), stamp)
        versions.switch(where, str(prefix))
        paths[lock_id] = prefix
        time.sleep(0.01)  # so that the times of use differ
    return where.prefix, paths


def test_an_environment_with_two_versions(envs):
    prefix, paths = envs
    old, new = paths
    found = inspecting.inspect(prefix)
    assert (found["state"], found["name"], found["real"], found["lock_id"]) == ("there", "exp", str(paths[new]), new)
    assert found["drift"] == [] and found["lock"] == lock(numpy="2.4.3", six="1.17")
    assert found["environment_yml"] == (
        "name: exp\nchannels: []\ndependencies:\n  - python={}\n  - pip\n  - pip:\n      - numpy==2.4.3\n      - six==1.17\n"
    ).format("%d.%d.%d" % sys.version_info[:3])
    assert sorted(found["contents"]) == ["numpy", "six"] and len(found["fingerprint"]) == 64
    assert [(entry["lock_id"], entry["current"], entry["users"]) for entry in found["versions"]] == [
        (new, True, []), (old, False, [])]  # fmt: skip
    assert found["versions"][1]["changes"] == [["numpy", "2.4.3", "2.3.0"], ["six", "1.17", None]]
    assert json.loads(json.dumps(found)) == found


def test_what_somebody_has_installed_by_hand_is_told(envs):
    prefix, paths = envs
    install(list(paths.values())[1], "extra", "3.0")
    found = inspecting.inspect(prefix)
    assert found["drift"] == ["extra 3.0 was added"] and "- extra==3.0\n" in found["environment_yml"]


def test_who_uses_a_version(envs):
    prefix, paths = envs
    old, new = paths.values()
    running = [
        subprocess.Popen([str(old / "bin" / "python"), "-c", "import time; print(1, flush=True); time.sleep(60)"],
                         stdout=subprocess.PIPE, env=dict(os.environ, MUSTER_JOB=job) if job else None)
        for job in ("exp7", None)
    ]  # fmt: skip
    try:
        for process in running:
            process.stdout.readline()
        users = inspecting.processes([str(old), str(new)])
    finally:
        for process in running:
            process.kill()
            process.wait()
            process.stdout.close()
    assert users[str(new)] == [] and len(users[str(old)]) == 2
    assert users[str(old)][0] == "job exp7" and users[str(old)][1].startswith("pid {} (".format(running[1].pid))


@pytest.mark.parametrize(("make", "state"), [(None, "none"), (os.mkdir, "none"), (lambda path: open(path, "w").close(), "other")])
def test_what_is_no_environment(tmp_path, make, state):
    if make:
        make(str(tmp_path / "exp"))
    found = inspecting.inspect(str(tmp_path / "exp"))
    assert (found["state"], found["lock"], found["versions"], found["real"]) == (state, None, [], "")


def test_a_lost_lock_is_told(envs):
    prefix, paths = envs
    (list(paths.values())[1] / ".muster" / "lock.json").write_text("{")
    found = inspecting.inspect(prefix)
    assert found["state"] == "there" and found["lock"] is None and found["environment_yml"] == ""


def test_conda_packages_stand_in_condas_part():
    """A package that conda brought has Python's metadata as well; a wheel may cover one."""
    made = dict(lock(six="2"), channels=["https://c/forge"])
    stamp = {"packages": {"numpy": "1", "six": "2", "pyyaml": "6"}}
    found = NOTHING._replace(
        python_version="3.11.7",
        conda={"numpy": "1=py_0", "python": "3.11.7=h1_cpython", "six": "1=py_0", "yaml-python": "6=h=1"},
        packages={"numpy": "1", "six": "2", "pyyaml": "6", "mine": "0.1"},
    )
    assert inspecting.really(made, stamp, found) == {
        "channels": ["https://c/forge"],
        "python": "3.11.7",
        "variables": {},
        "conda": [
            {"name": "numpy", "version": "1", "build": "py_0"},
            {"name": "python", "version": "3.11.7", "build": "h1_cpython"},
            {"name": "six", "version": "1", "build": "py_0"},
            {"name": "yaml-python", "version": "6", "build": "h=1"},
        ],
        "wheels": [{"name": "six", "version": "2"}, {"name": "mine", "version": "0.1"}],
    }


def test_variables_are_told_with_what_is_installed():
    made = dict(lock(six="1.17"), variables={"OMP_NUM_THREADS": "4"})
    assert inspecting.really(made, {}, NOTHING)["variables"] == {"OMP_NUM_THREADS": "4"}
    assert 'OMP_NUM_THREADS: "4"' in locks.environment_yml(inspecting.really(made, {}, NOTHING), "exp")
