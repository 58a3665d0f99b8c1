"""What goes wrong while a job runs: the cause in one sentence, on both nodes in turn, nothing left, a rerun succeeds."""

import os
import re
import signal
import subprocess
import time

import pytest
from conftest import JOB_PYTHON, REPO

FAULT = "fault.py"
# From the fault to the end of the command; a wide bound for a loaded machine, the figures are the benchmark's.
BOUND = 20


def begun(cluster, job, rank):
    """Whether a rank has printed its first line."""
    return "World Size" in cluster.log(job, rank)


def in_training(cluster, *arguments):
    """A launch of job f that has begun on both nodes; its ranks go on for two minutes."""
    process = cluster.begin(script=FAULT, script_args=list(arguments), job="f")
    cluster.wait_for(lambda: begun(cluster, "f", 0) and begun(cluster, "f", 1))
    return process


def end_of(cluster, process, bound=BOUND):
    """Exit code and screen of a launch that must end within ``bound`` seconds."""
    try:
        rc = process.wait(bound)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail("the launch did not end within {} s:\n{}".format(bound, process.screen.read_text()))
    return rc, process.screen.read_text()


def one_sentence(screen, job):
    """The only line that tells the failure."""
    lines = [line for line in screen.splitlines() if "job {} failed:".format(job) in line]
    assert len(lines) == 1, screen
    assert lines[0].startswith("job {} failed:".format(job))
    return lines[0]


def assert_rerun(cluster, job):
    """The same name works again with force."""
    script = cluster.stand / "fine.py"
    script.write_text("import os\nprint('Rank', os.environ['RANK'])\n")
    done = cluster.play(script=str(script), job=job, force=True)
    assert done.rc == 0, done.stdout


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    ("mode", "peers", "expected"),
    [
        ("raise", "idle", r"rank {r} on node{r}, fault.py:\d+: ValueError: bad batch in shard 17$"),
        ("raise", "collective", r"rank {r} on node{r}, fault.py:\d+: ValueError: bad batch in shard 17$"),
        ("raise", "deaf", r"rank {r} on node{r}, fault.py:\d+: ValueError: bad batch in shard 17$"),
        ("exit", "idle", r"rank {r} on node{r} ended with exit code 3 "),
        ("kill", "collective", r"rank {r} on node{r} was killed by SIGKILL \(signal 9\)"),
        ("segv", "idle", r"rank {r} on node{r} was killed by SIGSEGV \(signal 11\)"),
        ("import", "idle", r"rank {r} on node{r}, fault.py:\d+: ModuleNotFoundError: No module named 'module_of_no_such_name'$"),
    ],
)
def test_rank_fails(cluster, mode, peers, expected, rank):
    done = cluster.play(script=FAULT, script_args=[mode, str(rank), peers], job="f")
    assert done.rc != 0
    sentence = re.compile("job f failed: " + expected.format(r=rank))
    assert len(done.messages()) == 1 and sentence.search(done.messages()[0]), done.stdout
    for host in cluster.hosts:
        assert sentence.search(cluster.read(host, "f", "result.json")["sentence"])
    cluster.assert_nothing_left()


@pytest.mark.parametrize("rank", [0, 1])
def test_rank_is_killed_from_outside(cluster, rank):
    process = in_training(cluster, "none", "9")
    os.kill(cluster.rank_pid("f", rank), signal.SIGKILL)
    rc, screen = end_of(cluster, process)
    assert rc != 0
    assert "rank {0} on node{0} was killed by SIGKILL (signal 9)".format(rank) in one_sentence(screen, "f")
    cluster.assert_nothing_left()
    assert_rerun(cluster, "f")


@pytest.mark.parametrize("rank", [0, 1])
def test_agent_is_killed(cluster, rank):
    process = in_training(cluster, "none", "9", "collective")
    host = cluster.hosts[rank]
    os.kill(cluster.read(host, "f", "state.json")["pid"], signal.SIGKILL)
    rc, screen = end_of(cluster, process)
    assert rc != 0
    assert "{} is lost: its agent".format(host) in one_sentence(screen, "f")
    cluster.assert_nothing_left()
    assert_rerun(cluster, "f")


@pytest.mark.parametrize("rank", [0, 1])
def test_torchrun_is_killed(cluster, rank):
    process = in_training(cluster, "none", "9", "collective")
    with open("/proc/{}/stat".format(cluster.rank_pid("f", rank)), encoding="utf-8") as stream:
        torchrun = int(stream.read().rpartition(")")[2].split()[1])
    os.kill(torchrun, signal.SIGKILL)
    rc, screen = end_of(cluster, process)
    assert rc != 0
    assert "torchrun on {} was killed by SIGKILL".format(cluster.hosts[rank]) in one_sentence(screen, "f")
    cluster.assert_nothing_left()


@pytest.mark.parametrize("rank", [0, 1])
def test_node_never_answers(cluster, rank):
    """The agent of one node is frozen before the roll call."""
    script = cluster.stand / "fine.py"
    script.write_text("print('never')\n")
    frozen = cluster.folder / "frozen"
    host = cluster.hosts[rank]
    # A Python that stops itself: the start succeeds, the agent never comes.
    fake = cluster.folder / "python"
    fake.write_text('#!/bin/sh\ncase "$*" in *" run "*) echo $$ > {}; kill -STOP $$;; esac\nexec {} "$@"\n'.format(
        frozen, JOB_PYTHON))  # fmt: skip
    fake.chmod(0o755)
    python = "{{{{ '{}' if inventory_hostname == '{}' else '{}' }}}}".format(fake, host, JOB_PYTHON)
    done = cluster.play(script=str(script), job="f", join_timeout=4, muster_python=python)
    assert done.rc != 0
    expected = "node1 could not reach node0" if rank == 0 else "node1 did not answer the roll call within 4 s"
    assert len(done.messages()) == 1 and expected in done.messages()[0], done.stdout
    assert frozen.exists()
    cluster.assert_nothing_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_controller_goes_during_follow(cluster, number):
    script = cluster.stand / "slow.py"
    script.write_text(
        "import time\nfor i in range(1000):\n    print('World Size step', i)\n    time.sleep(0.1)\n"
    )
    process = cluster.begin(script=str(script), job="f")
    cluster.wait_for(lambda: "step 3" in process.screen.read_text())
    screen = process.screen.read_text()
    assert "come back: ansible-playbook {}/launch.yml -e job=f\n".format(REPO) in screen
    assert "stop it:   ansible-playbook {}/playbooks/stop.yml -e job=f\n".format(REPO) in screen
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    process.wait(20)
    time.sleep(1)
    before = cluster.log("f", 0)
    # The follower is gone with its controller; the job lives on.
    cluster.wait_for(lambda: not followers(cluster), 15)
    cluster.wait_for(lambda: len(cluster.log("f", 0)) > len(before), 10)
    again = cluster.begin(job="f")
    cluster.wait_for(lambda: again.screen.read_text().count("node0:0 | World Size step") > 3)
    stopped = cluster.play("playbooks/stop.yml", job="f")
    assert stopped.rc == 0, stopped.stdout
    rc, screen = end_of(cluster, again)
    assert rc != 0 and "job f stopped:" in screen
    cluster.assert_nothing_left()


def followers(cluster):
    """Commands of ansible workers or tails that still read the cluster's jobs."""
    found = subprocess.run(["ps", "-eo", "args"], stdout=subprocess.PIPE, check=True).stdout.decode()
    mine = [line for line in found.splitlines() if str(cluster.state) in line]
    return [line for line in mine if "ansible-playbook" in line or " call " in line]


@pytest.mark.parametrize("host", ["node0", "node1"])
def test_stop_during_training_writes_a_checkpoint(cluster, host):
    """Asked on one node alone, the whole job stops; the packaged script writes its checkpoint."""
    process = cluster.begin(script="train.py", script_args=["--epochs", "1000"], job="f")
    cluster.wait_for(lambda: "epoch 2" in cluster.log("f", 0).lower())
    done = cluster.play("playbooks/stop.yml", "--limit " + host, job="f")
    assert done.rc == 0, done.stdout
    rc, screen = end_of(cluster, process)
    assert rc != 0 and "job f stopped: stop by" in screen
    assert (cluster.job_dir("node0", "f") / "work" / "checkpoint.pt").exists()
    assert [node["exits"] for node in cluster.read("node0", "f", "result.json")["nodes"]] == [
        {"0": {"code": 0}}, {"1": {"code": 0}}]  # fmt: skip
    cluster.assert_nothing_left()


def test_stop_gives_up_after_the_grace(cluster):
    """A rank that ignores SIGTERM is killed when its grace is over."""
    process = cluster.begin(script=FAULT, script_args=["none", "9", "deaf"], job="f", stop_grace=2)
    cluster.wait_for(lambda: begun(cluster, "f", 0) and begun(cluster, "f", 1))
    time.sleep(0.5)
    done = cluster.play("playbooks/stop.yml", job="f")
    assert done.rc == 0, done.stdout
    rc, screen = end_of(cluster, process)
    assert rc != 0 and "job f stopped:" in screen
    cluster.assert_nothing_left()


def test_stop_during_the_roll_call(cluster):
    process = cluster.begin(script=FAULT, script_args=["none", "9"], job="f")
    cluster.wait_for(lambda: all(cluster.read(host, "f", "state.json") for host in cluster.hosts))
    done = cluster.play("playbooks/stop.yml", job="f")
    assert done.rc == 0, done.stdout
    rc, _ = end_of(cluster, process)
    assert rc != 0
    cluster.assert_nothing_left()


def test_restart_from_the_checkpoint(cluster):
    """A rank that fails once: the whole job begins again and goes on where it was."""
    done = cluster.play(script="once.py", job="f", max_restarts=2)
    assert done.rc == 0, done.stdout
    result = cluster.read("node0", "f", "result.json")
    assert len(result["restarts"]) == 1 and "failed on purpose" in result["restarts"][0]
    assert "after 1 restart" in result["sentence"]
    assert "resumes at 5" in cluster.log("f", 0, attempt=1)
    cluster.assert_nothing_left()


def test_restarts_are_exhausted(cluster):
    done = cluster.play(script=FAULT, script_args=["exit", "1"], job="f", max_restarts=1)
    assert done.rc != 0
    assert re.search(r"rank 1 on node1 ended with exit code 3 .*\(its one restart is used up\)", done.messages()[0])
    cluster.assert_nothing_left()
