"""Launches in a named environment, which lies as site.yml lays it out: a link to one of several versions."""

import json
import sys

import made_environment
import pytest

OLD, NEW = (made_environment.locks.lock_id(made_environment.lock_of({"marked": version})) for version in "12")
# Tells where it runs; fails once after an order to, so that the job starts again; ends after an order to.
SCRIPT = """
import json, os, sys, time
import marked
names = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "KEPT")
told = {"python": sys.executable, "which": marked.VERSION, "env": {name: os.environ.get(name) for name in names}}
with open("told-{}-{}.json".format(os.environ["MUSTER_ATTEMPT"], os.environ["RANK"]), "w") as stream:
    json.dump(told, stream)
print("told", flush=True)
while not os.path.exists(sys.argv[1] + os.environ["MUSTER_ATTEMPT"]):
    time.sleep(0.05)
sys.exit(1 if os.environ["MUSTER_ATTEMPT"] == "0" else 0)
"""


@pytest.fixture
def envs(cluster):
    """``{host: its envs folder}``, each with two versions of the environment exp; the first is in use."""
    # The inventory names another Python; one named by -e wins.
    found = {host: cluster.state / host / "envs" for host in cluster.hosts}
    for folder in found.values():
        made_environment.make(folder, "exp", {"marked": "1"})
        made_environment.make(folder, "exp", {"marked": "2"}, switch=False)
        (folder / "exp" / "conda-meta" / "state").write_text('{"env_vars": {"KEPT": "by conda"}}')
    (cluster.stand / "tell.py").write_text(SCRIPT)
    return found


def test_a_job_keeps_the_version_that_it_started_with(cluster, envs):
    """Agent, torchrun, ranks and the restart of the whole job; attaching sees no difference; the record says it all."""
    order = str(cluster.folder / "order-")
    launch = {"script": "tell.py", "script_args": [order], "job": "e", "python_env": "exp", "max_restarts": 1}
    process = cluster.begin(**launch)

    def told(attempt, rank):
        path = cluster.job_dir(cluster.hosts[rank], "e") / "work" / "told-{}-{}.json".format(attempt, rank)
        return json.loads(path.read_text()) if path.exists() and path.stat().st_size else None

    cluster.wait_for(lambda: all(told(0, rank) for rank in (0, 1)))
    for folder in envs.values():
        made_environment.use(folder, "exp", NEW)
    attached = cluster.play(wait=False, **launch)
    assert attached.rc == 0 and "job e is running on node0, node1" in attached.stdout, attached.stdout
    by_name = cluster.play(wait=False, job="e")
    assert by_name.rc == 0, by_name.stdout
    commands = [command for _, command in cluster.processes()]
    assert commands and not [command for command in commands if "/envs/exp/" in command]
    (cluster.folder / "order-0").touch()
    cluster.wait_for(lambda: all(told(1, rank) for rank in (0, 1)))
    (cluster.folder / "order-1").touch()
    assert process.wait(60) == 0, process.screen.read_text()
    assert "environment exp\n" in process.screen.read_text()
    for attempt in (0, 1):
        for rank, host in enumerate(cluster.hosts):
            prefix = str(envs[host] / ".versions" / "exp" / OLD)
            found = told(attempt, rank)
            assert (found["python"], found["which"]) == (prefix + "/bin/python", "1")
            assert found["env"]["CONDA_PREFIX"] == found["env"]["VIRTUAL_ENV"] == prefix
            assert found["env"]["KEPT"] == "by conda"
            assert found["env"]["PATH"].split(":")[0] == prefix + "/bin"
    record = cluster.runs / "e"
    lock = made_environment.locks.read((record / "environment" / "lock.json").read_text())
    assert made_environment.locks.lock_id(lock) == OLD
    assert "- marked==1\n" in (record / "environment" / "environment.yml").read_text()
    assert not (record / "node0" / "environment").exists()
    head = str(envs["node0"] / ".versions" / "exp" / OLD)
    told = json.loads((record / "node0" / "facts.json").read_text())
    known = {"name": "exp", "prefix": head, "lock_id": OLD, "fingerprint": told["fingerprint"]}
    assert json.loads((record / "plan.json").read_text())["environment"] == known
    assert json.loads((record / "result.json").read_text())["environment"] == known
    assert head + "/bin/torchrun --nnodes=2" in (record / "commands.txt").read_text()
    cluster.assert_nothing_left()


def test_the_job_is_found_again_though_its_environment_is_gone(cluster, envs):
    (cluster.folder / "order-0").touch()
    done = cluster.play(script="tell.py", script_args=[str(cluster.folder / "order-")], job="g", python_env="exp")
    assert done.rc != 0 and "ended with exit code 1" in done.stdout
    for folder in envs.values():
        folder.rename(folder.parent / "moved")
    again = cluster.play(job="g")
    # Both ranks end alike; whichever was first, it is told again.
    assert again.rc != 0 and again.messages() == done.messages(), again.stdout
    logs = cluster.play("playbooks/logs.yml", job="g")
    assert "told" in logs.stdout, logs.stdout


def test_an_environment_that_is_not_there(cluster, envs):
    (envs["node1"] / "exp").rename(envs["node1"] / "expo")
    done = cluster.play(script="tell.py", script_args=["x"], job="n", python_env="exp")
    assert done.rc != 0
    assert done.messages() == [
        "launch refused: node1 found expo alone below {}, expected the environment exp (did you mean expo?); make it by "
        "ansible-playbook site.yml -e python_env_name=exp -e python_env_spec=FILE, or name another by python_env".format(
            envs["node1"]
        )
    ]
    usual = cluster.play(script="tell.py", script_args=["x"], job="n", muster_python="")
    assert usual.messages()[0].startswith("launch refused: node0 found exp alone below {}, expected the".format(envs["node0"]))
    cluster.assert_nothing_left()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"python_env": "a/b"}, "launch refused: python_env is 'a/b', expected an environment's name:"),
        ({"python_env": ".exp"}, "launch refused: python_env is '.exp', expected an environment's name:"),
        ({"python_env": "exp", "muster_python": sys.executable}, "launch refused: found both python_env=exp and muster_python ("),
    ],
)
def test_an_environment_that_cannot_be(cluster, envs, options, told):
    done = cluster.play(script="tell.py", script_args=["x"], job="b", **options)
    assert done.rc != 0 and len(done.messages()) == 1 and done.messages()[0].startswith(told), done.stdout
