"""The modules alone, in somebody's own playbook: no launch, no plan."""

import json
import os
import subprocess
import time

import pytest
from conftest import BIN, JOB_PYTHON, REPO

PLAYBOOK = """
- hosts: torch_nodes
  gather_facts: false
  tasks:
    - name: Manage the job
      muster.cluster.torchrun:
        name: own
        state: "{{ wanted | default('started') }}"
        script: "{{ target }}"
        args: "{{ given | default([]) }}"
        python: "{{ muster_python }}"
        state_dir: "{{ muster_state_dir }}"
        nodes:
          - {name: node0, address: 127.0.0.1}
          - {name: node1, address: 127.0.0.2}
        node_rank: "{{ ansible_play_hosts_all.index(inventory_hostname) }}"
        secret: correct horse battery
        master_port: "{{ port }}"
        force: "{{ forced | default(false) | bool }}"
"""


@pytest.fixture
def own(cluster):
    """Runs the playbook above and returns its outcome."""
    book = cluster.folder / "own.yml"
    book.write_text(PLAYBOOK)
    cluster.variables.pop("launch_runs_dir")

    def play(**options):
        options.setdefault("target", str(cluster.stand / "slow.py"))
        return cluster.play(str(book), port=cluster.port, **options)

    (cluster.stand / "slow.py").write_text("import os, time\nprint('rank', os.environ['RANK'])\ntime.sleep(60)\n")
    play.cluster = cluster
    return play


def diffs(done):
    """`(before, after)` of the diff of every host."""
    events = [event["event_data"]["res"] for event in done.events if event["event"] == "runner_on_ok"]
    return [(res["diff"]["before"], res["diff"]["after"]) for res in events if "diff" in res]


def test_start_same_other_stop_absent(own):
    cluster = own.cluster
    looked = own(check=True, cmdline="--diff")
    assert looked.rc == 0 and len(looked.changed()) == 2, looked.stdout
    assert not cluster.state.exists() or not list(cluster.state.glob("*/jobs/*"))
    assert [(before["state"], after["state"]) for before, after in diffs(looked)] == [("absent", "running")] * 2

    assert len(own().changed()) == 2
    cluster.wait_for(lambda: "rank 1" in cluster.log("own", 1))
    assert own().changed() == []
    other = own(given=["--x"])
    assert other.rc != 0 and all('args ([], now ["--x"])' in text for text in other.messages())

    stopped = own(wanted="stopped")
    assert stopped.rc == 0 and len(stopped.changed()) >= 1, stopped.stdout
    assert own(wanted="stopped").changed() == []
    cluster.assert_nothing_left()
    again = own()
    assert again.rc != 0 and "job own is there already, stopped" in again.messages()[0]
    forced = own(forced=True)
    assert forced.rc == 0 and len(forced.changed()) == 2, forced.stdout
    gone = own(wanted="absent")
    assert gone.rc == 0 and len(gone.changed()) == 2
    assert own(wanted="absent").changed() == []
    assert not list(cluster.state.glob("*/jobs/*"))
    cluster.assert_nothing_left()
    assert "correct horse" not in gone.stdout


def test_refusals_are_one_sentence(own):
    missing = own(target="/nope/train.py")
    assert missing.rc != 0 and all("found no /nope/train.py" in text for text in missing.messages()) and missing.messages()
    assert own.cluster.processes() == []


def test_info_waits_for_lines(cluster):
    script = cluster.stand / "lines.py"
    script.write_text("import time\nprint('first')\ntime.sleep(2)\nprint('second')\n")
    book = cluster.folder / "info.yml"
    book.write_text(
        "- hosts: node0\n  gather_facts: false\n  tasks:\n"
        "    - muster.cluster.torchrun: {name: solo, script: '%s', python: '%s', state_dir: '{{ muster_state_dir }}',"
        " master_port: %d}\n"
        "    - muster.cluster.torchrun_info: {name: solo, state_dir: '{{ muster_state_dir }}', wait: 60}\n"
        "      register: one\n"
        "    - muster.cluster.torchrun_info: {name: solo, state_dir: '{{ muster_state_dir }}', wait: 60,"
        " offsets: '{{ one.offsets }}'}\n"
        "      register: two\n" % (script, JOB_PYTHON, cluster.port)
    )
    done = cluster.play(str(book))
    assert done.rc == 0, done.stdout
    results = [event["event_data"]["res"] for event in done.events if event["event"] == "runner_on_ok"]
    texts = ["".join(chunk["text"] for chunk in res["chunks"]) for res in results if "chunks" in res]
    assert texts == ["first\n", "second\n"]
    assert results[1]["jobs"]["solo"]["state"] == "running" and "key" not in json.dumps(results[1])
    cluster.wait_for(lambda: cluster.read("node0", "solo", "result.json"), 20)
    assert cluster.read("node0", "solo", "result.json")["outcome"] == "finished"
    time.sleep(0.5)
    cluster.assert_nothing_left()


def test_built_installed_and_used_by_its_full_name(cluster):
    """The collection as a user installs it, away from the clone: playbook, module and role by FQCN."""
    env = dict(os.environ, **cluster.environment())
    env.update(ANSIBLE_HOME=str(cluster.folder / "home"), ANSIBLE_COLLECTIONS_PATH=str(cluster.folder / "collections"))
    env.pop("ANSIBLE_CONFIG")
    dist = cluster.folder / "dist"

    def run(*argv):
        done = subprocess.run(
            [str(BIN / argv[0]), *argv[1:]], cwd=cluster.stand, env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout.decode()
        return done.stdout.decode()

    run("ansible-galaxy", "collection", "build", "--output-path", str(dist), str(REPO))
    archive = next(dist.glob("muster-cluster-*.tar.gz"))
    run("ansible-galaxy", "collection", "install", "--offline", "-p", str(cluster.folder / "collections"), str(archive))
    installed = cluster.folder / "collections" / "ansible_collections" / "muster" / "cluster"
    assert not (installed / "collections").exists() and not (installed / ".venv").exists()
    assert "nproc_per_node" in run("ansible-doc", "-t", "module", "muster.cluster.torchrun")
    inventory = str(REPO / "inventory" / "local")
    screen = run(
        "ansible-playbook", "muster.cluster.launch", "-i", inventory,
        "-e", json.dumps(cluster.extra({"script": "report.py", "job": "fqcn"})),
    )  # fmt: skip
    assert "job fqcn finished: every one of 2 ranks ended with 0" in screen
    told = run("ansible", "torch_nodes", "-i", inventory, "-m", "muster.cluster.torchrun_info", "-a",
               "name=fqcn state_dir={}/node0".format(cluster.state))  # fmt: skip
    assert '"state": "finished"' in told
    cluster.assert_nothing_left()
