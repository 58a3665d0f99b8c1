"""Bad input: not 0, nothing started, nothing left, and exactly one line that says it."""

import os
import socket
import subprocess
import sys

import pytest
from conftest import BIN, REPO

FINE = "fine.py"


def screen_of(cluster, *arguments, **environment):
    """Exit code and screen of ansible-playbook launch.yml as typed by a user."""
    argv = [str(BIN / "ansible-playbook"), str(REPO / "launch.yml"), "-e", "master_port={}".format(cluster.port)]
    for name, value in cluster.variables.items():
        argv += ["-e", "{}={}".format(name, value)]
    done = subprocess.run(
        argv + list(arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(os.environ, **cluster.environment(), **environment),
        cwd=cluster.stand,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.decode()


def assert_refused(cluster, rc, screen, *parts):
    """One line, with every part, and nothing anywhere."""
    assert rc != 0, screen
    lines = [line for line in screen.splitlines() if "launch refused:" in line or " failed:" in line]
    assert len(lines) == 1, screen
    assert lines[0].startswith("launch refused: ")
    for part in parts:
        assert part in lines[0]
    assert "Traceback" not in screen and "[ERROR]" not in screen
    assert cluster.processes() == []
    assert not list(cluster.state.glob("*/jobs/*"))
    assert not cluster.runs.exists()


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["-e", "script=nope.py"], ["nope.py", "looked at"]),
        (["-e", "script=folder"], ["is a directory"]),
        ([], ["neither script nor module"]),
        (["-e", "script=fine.py", "-e", "module=pkg.train"], ["both script and module"]),
        (["-e", "module=not-a-name"], ["module is 'not-a-name'"]),
        (["-e", "script=fine.py", "-e", "scirpt_args=x"], ["'scirpt_args'", "did you mean script_args?"]),
        (["-e", "script=fine.py", "-e", "nproc=2"], ["'nproc'", "nproc_per_node"]),
        (["-e", "script=fine.py", "-e", "launch_forse=true"], ["'launch_forse'", "did you mean force?"]),
        (["-e", "script=fine.py", "-e", "job=a/b"], ["job is 'a/b'"]),
        (["-e", "script=fine.py", "-e", '{"job": "a b"}'], ["job is 'a b'"]),
        (["-e", "script=fine.py", "-e", "job=a..b"], ["job is 'a..b'"]),
        (["-e", "script=fine.py", "-e", "job=" + "x" * 200], ["200 characters"]),
        (["-e", "script=fine.py", "-e", "nproc_per_node=0"], ["nproc_per_node is '0'"]),
        (["-e", "script=fine.py", "-e", "nproc_per_node=-1"], ["nproc_per_node is '-1'"]),
        (["-e", "script=fine.py", "-e", "nproc_per_node=1.5"], ["nproc_per_node is '1.5'"]),
        (["-e", "script=fine.py", "-e", "nproc_per_node=many"], ["nproc_per_node is 'many'"]),
        (["-e", "script=fine.py", "-e", '{"nproc_per_node": true}'], ["nproc_per_node is True"]),
        (["-e", "script=fine.py", "-e", "master_port=0"], ["master_port is '0'"]),
        (["-e", "script=fine.py", "-e", "master_port=70000"], ["master_port is '70000'"]),
        (["-e", "script=fine.py", "-e", "master_port=80"], ["master_port is '80'", "1024"]),
        (["-e", "script=fine.py", "-e", "env=A"], ["expected a dictionary"]),
        (["-e", "script=fine.py", "-e", '{"env": {"A=B": "1"}}'], ["env has the key 'A=B'"]),
        (["-e", "script=fine.py", "-e", '{"env": {"A": [1]}}'], ["env.A is of type list"]),
        (["-e", "script=fine.py", "-e", '{"env": {"GLOO_SOCKET_IFNAME": "nope0"}}'], ["nope0", "found only", "node0"]),
        (["-e", "script=fine.py", "-e", "script_args=--a 'b c' --d"], ["JSON", "script_args"]),
        (["-e", "script=fine.py", "-e", '{"script_args": "a \'b"}'], ["script_args cannot be split"]),
        (["-e", "script=fine.py", "-e", "wait=perhaps"], ["wait is 'perhaps'"]),
        (["-e", "script=fine.py", "-e", "follow=some"], ["follow is 'some'"]),
        (["-e", "script=fine.py", "-e", "max_restarts=-1"], ["max_restarts is -1"]),
        (["-e", "script=fine.py", "-e", "join_timeout=soon"], ["join_timeout is 'soon'"]),
        (["-e", "script=fine.py", "-e", "chdir=../.."], ["chdir is '../..'"]),
        (["-e", "script=fine.py", "-e", "chdir=nothere"], ["chdir is 'nothere'", "nothing below a folder of that name"]),
        (["-e", "script=fine.py", "-e", "ship=nothing*"], ["ship names 'nothing*'", "matches nothing"]),
        (["-e", "script=fine.py", "--limit", "node1"], ["--limit leaves out node0", "allow_partial"]),
        (["-e", "script=fine.py", "-e", "muster_address=127.0.0.1"], ["node0 and node1 both have the address 127.0.0.1"]),
        (["-e", "script=fine.py", "-e", "muster_python=/nope/python"], ["node0", "/nope/python", "site.yml", "node1"]),
        (["-e", "job=unheard"], ["no job unheard"]),
    ],
)
def test_one_line(cluster, arguments, parts):
    (cluster.stand / "fine.py").write_text("print('fine')\n")
    (cluster.stand / "folder").mkdir()
    rc, screen = screen_of(cluster, *arguments)
    assert_refused(cluster, rc, screen, *parts)


def test_unreadable_script(cluster):
    """Root reads everything, so the test needs a file that nobody can read: a link to itself."""
    (cluster.stand / "loop.py").symlink_to("loop.py")
    rc, screen = screen_of(cluster, "-e", "script=loop.py")
    assert_refused(cluster, rc, screen, "loop.py")


@pytest.mark.parametrize("offset", [0, 1])
def test_port_is_held(cluster, offset):
    """The holder is named with pid, user and command."""
    (cluster.stand / "fine.py").write_text("print('fine')\n")
    held = cluster.port + offset
    code = "import socket,time; s=socket.socket(); s.bind(('127.0.0.1', {})); s.listen(); time.sleep(60)".format(held)
    holder = subprocess.Popen([sys.executable, "-c", code])
    try:
        cluster.wait_for(lambda: listens(held), 10)
        rc, screen = screen_of(cluster, "-e", "script=fine.py")
    finally:
        holder.kill()
        holder.wait()
    assert_refused(cluster, rc, screen, "node0: port {} ".format(held), "pid {} (".format(holder.pid), "socket.socket()")


def listens(port):
    """Whether somebody listens on a port."""
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def test_no_torch(cluster, tmp_path):
    (cluster.stand / "fine.py").write_text("print('fine')\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    rc, screen = screen_of(cluster, "-e", "script=fine.py", "-e", "muster_python={}/bare/bin/python".format(tmp_path))
    assert_refused(cluster, rc, screen, "node0: found no torch in", "site.yml")


def test_gpu_is_meant_but_absent(cluster):
    (cluster.stand / "fine.py").write_text("print('fine')\n")
    rc, screen = screen_of(
        cluster, "-e", "script=fine.py", "-e", "nproc_per_node=gpu", "-e", '{"env": {"CUDA_VISIBLE_DEVICES": ""}}'
    )
    assert_refused(cluster, rc, screen, "node0: found no NVIDIA GPU")


def test_more_processes_than_gpus(cluster):
    (cluster.stand / "fine.py").write_text("print('fine')\n")
    rc, screen = screen_of(
        cluster, "-e", "script=fine.py", "-e", "nproc_per_node=3", "-e", '{"env": {"CUDA_VISIBLE_DEVICES": "0,1"}}'
    )
    assert_refused(cluster, rc, screen, "nproc_per_node is 3, but there are 2 GPUs")


@pytest.mark.parametrize("host", ["node0", "node1"])
def test_unreachable_host(cluster, host):
    """SSH to a port where nobody listens; the other node is called off."""
    (cluster.stand / "fine.py").write_text("print('fine')\n")
    inventory = cluster.folder / "inventory.yml"
    lost = "{ansible_connection: ssh, ansible_host: 127.0.0.9, ansible_port: 1}"
    nodes = {name: lost if name == host else "{}" for name in cluster.hosts}
    inventory.write_text(
        "torch_nodes:\n  hosts:\n"
        + "".join("    {}: {}\n".format(name, values) for name, values in nodes.items())
        + "  vars:\n    ansible_connection: local\n    muster_python: {}/.muster/env/bin/python\n".format(REPO)
        + "    muster_address: \"{{ '127.0.0.1' if inventory_hostname == 'node0' else '127.0.0.2' }}\"\n"
    )
    rc, screen = screen_of(cluster, "-i", str(inventory), "-e", "script=fine.py")
    assert_refused(cluster, rc, screen, "{} is unreachable".format(host))


def test_too_much_to_ship(cluster):
    """A big work tree goes only when `ship` names it."""
    (cluster.stand / "fine.py").write_text("print('fine')\n")
    subprocess.run(["git", "init", "-q", str(cluster.stand)], check=True)
    with open(cluster.stand / "big.bin", "wb") as stream:
        stream.truncate(201 * 1000 * 1000)
    rc, screen = screen_of(cluster, "-e", "script=fine.py")
    assert_refused(cluster, rc, screen, "201 MB", "ship")


def test_another_job_under_the_name_of_a_running_one(cluster):
    """The differing keys are named, values of the environment are not, and the running job goes on."""
    (cluster.stand / "slow.py").write_text("import time\ntime.sleep(60)\n")
    first = cluster.play(script="slow.py", job="f", wait=False)
    assert first.rc == 0, first.stdout
    same = cluster.play(script="slow.py", job="f", wait=False)
    assert same.rc == 0 and ("Start torchrun on every node", "node0") not in same.changed()
    secret = '{"env": {"TOKEN": "hunter2"}, "script_args": ["--x"]}'
    rc, screen = screen_of(cluster, "-e", "script=slow.py", "-e", "job=f", "-e", secret)
    assert rc != 0 and screen.count("launch refused:") == 1
    assert 'args ([], now ["--x"])' in screen and "env.TOKEN" in screen and "hunter2" not in screen
    assert cluster.read("node0", "f", "result.json") is None and len(cluster.processes()) >= 4
    forced = cluster.play(script="slow.py", job="f", wait=False, force=True, script_args=["--x"])
    assert forced.rc == 0, forced.stdout
    assert cluster.play("playbooks/stop.yml", job="f").rc == 0
    cluster.assert_nothing_left()
    finished = cluster.play(script="slow.py", job="f", wait=False)
    assert finished.rc != 0 and "job f is there already, stopped" in finished.messages()[0]


@pytest.mark.parametrize("playbook", ["stop", "logs"])
def test_unknown_job(cluster, playbook):
    done = cluster.play("playbooks/{}.yml".format(playbook), job="unheard")
    assert done.rc != 0
    assert len(done.messages()) == 1 and done.messages()[0].startswith("{} refused: ".format(playbook))
    assert "no job unheard" in done.messages()[0]


@pytest.mark.parametrize("playbook", ["stop", "logs"])
def test_job_is_not_named(cluster, playbook):
    done = cluster.play("playbooks/{}.yml".format(playbook))
    assert done.rc != 0 and "write -e job=NAME" in done.messages()[0]


@pytest.mark.parametrize("playbook", ["launch", "status", "stop", "logs"])
def test_an_inventory_without_the_group(cluster, playbook):
    """Ansible itself would skip everything and end with 0."""
    inventory = cluster.folder / "empty.yml"
    inventory.write_text("all:\n  hosts: {}\n")
    name = "launch.yml" if playbook == "launch" else "playbooks/{}.yml".format(playbook)
    done = cluster.play(name, inventory=inventory, job="f")
    assert done.rc != 0 and len(done.messages()) == 1, done.stdout
    assert "refused: found no hosts in the group torch_nodes" in done.messages()[0]


@pytest.mark.parametrize(("keyword", "part"), [("serial: 1", "the play has serial"), ("strategy: free", "strategy is free")])
def test_plays_that_would_start_the_nodes_one_by_one(cluster, keyword, part):
    """Somebody's own play around the role."""
    (cluster.stand / "fine.py").write_text("print('fine')\n")
    book = cluster.folder / "own-launch.yml"
    book.write_text(
        "- hosts: torch_nodes\n  gather_facts: false\n  {}\n  tasks:\n"
        "    - ansible.builtin.import_role: {{name: muster.cluster.launch}}\n"
        "      vars: {{launch_group: \"{{{{ groups['torch_nodes'] }}}}\"}}\n".format(keyword)
    )
    done = cluster.play(str(book), script="fine.py", job="f")
    assert done.rc != 0 and done.messages(), done.stdout
    assert all(message.startswith("launch refused: ") and part in message for message in done.messages())
    assert cluster.processes() == [] and not list(cluster.state.glob("*/jobs/*"))
