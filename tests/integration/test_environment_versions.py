"""playbooks/snapshot.yml and playbooks/rollback.yml on two local nodes."""

import subprocess

import made_environment
import pytest
from made_environment import locks, used

FIRST, SECOND = {"numpy": "2.3.0", "six": "1.16"}, {"numpy": "2.4.3"}
OLD, NEW = (locks.lock_id(made_environment.lock_of(packages)) for packages in (FIRST, SECOND))


@pytest.fixture
def envs(cluster):
    """``{host: its envs folder}``, each with two versions of the environment exp; the second is in use."""
    cluster.variables["python_env_snapshot_dir"] = str(cluster.folder / "git")
    found = {host: cluster.state / host / "envs" for host in cluster.hosts}
    for folder in found.values():
        made_environment.make(folder, "exp", FIRST)
        made_environment.make(folder, "exp", SECOND)
    return found


def snapshot(cluster, check=False, **options):
    """Run the playbook."""
    return cluster.play("playbooks/snapshot.yml", check=check, python_env="exp", **options)


def rollback(cluster, check=False, **options):
    """Run the playbook."""
    return cluster.play("playbooks/rollback.yml", check=check, python_env="exp", **options)


def test_a_snapshot_is_for_git(cluster, envs):
    """Written once; the same again changes nothing; check mode writes nothing."""
    folder = cluster.folder / "git" / "exp"
    checked = snapshot(cluster, check=True)
    assert checked.rc == 0 and len(checked.changed()) == 1 and not folder.exists(), checked.stdout
    first = snapshot(cluster)
    assert first.rc == 0 and len(first.changed()) == 1, first.stdout
    assert {path.name for path in folder.iterdir()} == {"environment.yml", "lock.json"}
    assert locks.lock_id(locks.read((folder / "lock.json").read_text())) == NEW
    assert (folder / "environment.yml").read_text() == locks.environment_yml(made_environment.lock_of(SECOND), "exp")
    times = [path.stat().st_mtime_ns for path in folder.iterdir()]
    again = snapshot(cluster)
    assert again.rc == 0 and again.changed() == [] and "as they were" in again.stdout
    assert times == [path.stat().st_mtime_ns for path in folder.iterdir()]


def test_a_snapshot_of_hosts_that_differ_is_refused(cluster, envs):
    made_environment.install(envs["node1"] / "exp", "extra", "3.0")
    done = snapshot(cluster)
    assert done.rc != 0 and not (cluster.folder / "git").exists()
    assert done.messages() == [
        "snapshot refused: the environment of node1 differs from that of node0: extra 3.0 should not be there; expected the "
        "same on every node; run ansible-playbook site.yml"
    ]


def test_what_was_installed_by_hand_everywhere(cluster, envs):
    for folder in envs.values():
        made_environment.install(folder / "exp", "extra", "3.0")
    done = snapshot(cluster)
    assert done.rc == 0 and "extra 3.0 was added" in done.stdout, done.stdout
    folder = cluster.folder / "git" / "exp"
    assert [path.name for path in folder.iterdir()] == ["environment.yml"]
    assert "- extra==3.0\n" in (folder / "environment.yml").read_text()


@pytest.mark.parametrize(
    ("playbook", "options", "told"),
    [
        (
            "snapshot",
            {"python_env": "none"},
            "snapshot refused: node0 has nothing at {}/node0/envs/none, expected an environment",
        ),
        (
            "rollback",
            {"python_env": "exp", "verison": "1"},
            "rollback refused: found the extra variable 'verison', which nothing",
        ),
        ("rollback", {"python_env": "exp", "version": "dddd"}, "rollback refused: node0: found no version dddd, expected one of"),
        ("rollback", {"python_env": "a/b"}, "rollback refused: python_env is 'a/b', expected"),
    ],
)
def test_what_cannot_be(cluster, envs, playbook, options, told):
    done = cluster.play("playbooks/{}.yml".format(playbook), **options)
    assert done.rc != 0 and len(done.messages()) == 1, done.stdout
    assert done.messages()[0].startswith(told.format(cluster.state))


def test_there_and_back(cluster, envs):
    """The version before, package by package, with the one that still runs; then nothing older; then forward by name."""
    python = envs["node1"] / ".versions" / "exp" / NEW / "bin" / "python"
    running = subprocess.Popen([str(python), "-c", "import time; print(1, flush=True); time.sleep(200)"], stdout=subprocess.PIPE)
    try:
        running.stdout.readline()
        checked = rollback(cluster, check=True)
        assert checked.rc == 0 and "environment exp would go back to {}".format(OLD) in checked.stdout, checked.stdout
        assert {used(folder, "exp") for folder in envs.values()} == {NEW}
        back = rollback(cluster)
        assert back.rc == 0 and len(back.changed()) == 2, back.stdout
    finally:
        running.kill()
        running.wait()
        running.stdout.close()
    assert {used(folder, "exp") for folder in envs.values()} == {OLD}
    assert "environment exp is back at {0} on node0, node1; it was at {1} on node0, node1".format(OLD, NEW) in back.stdout
    assert "numpy is 2.3.0 instead of 2.4.3, six 1.16 comes back" in back.stdout
    assert "pid {} (".format(running.pid) in back.stdout and "still runs on the version before, on node1" in back.stdout
    assert "site.yml goes forward again" in back.stdout
    older = rollback(cluster)
    assert older.rc != 0 and "found no version older than the present one" in older.messages()[0]
    forward = rollback(cluster, version=NEW[:6])
    assert forward.rc == 0 and {used(folder, "exp") for folder in envs.values()} == {NEW}, forward.stdout
    same = rollback(cluster, version=NEW)
    assert same.rc == 0 and same.changed() == []
    assert "environment exp is at {} on every host already; nothing was changed".format(NEW) in same.stdout


def test_all_hosts_or_none(cluster, envs):
    versions = envs["node1"] / ".versions" / "exp"
    (versions / OLD / ".muster" / "stamp.json").unlink()
    done = rollback(cluster)
    assert done.rc != 0 and {used(folder, "exp") for folder in envs.values()} == {NEW}
    assert done.messages()[0].startswith(
        "rollback refused: node1 has no version {}, expected it on every host before any is switched; all have {}: ".format(
            OLD, NEW
        )
    )
    part = cluster.play("playbooks/rollback.yml", "--limit node0", python_env="exp")
    assert part.rc != 0 and "this run leaves out node1, expected all 2 hosts" in part.messages()[0]
    assert used(envs["node0"], "exp") == NEW
