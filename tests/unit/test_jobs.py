"""What a node is asked for, as far as it needs no job that runs."""

import base64
import os
import signal
import subprocess
import sys

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import files, jobs, procs
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.jobdir import JobDir

# An agent that holds the lock, says so, and ends at SIGTERM, or not.
AGENT = """
import fcntl, os, signal, sys, time
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def job(tmp_path, make_spec):
    """A job on this node that has begun its first run."""
    jobdir = JobDir(str(tmp_path), "exp7")
    jobdir.create()
    files.write_json(jobdir.at("spec.json"), make_spec(state_dir=str(tmp_path), stop_grace=1))
    jobdir.begin_run("run1")
    return jobdir


@pytest.fixture
def agent(job):
    """``agent("good" | "deaf")`` starts one."""
    begun = []

    def start(kind):
        process = subprocess.Popen([sys.executable, "-c", AGENT, job.at("lock"), kind], stdout=subprocess.PIPE)
        begun.append(process)
        process.stdout.readline()
        found = procs.stat(process.pid)
        files.write_json(os.path.join(job.run, "state.json"), {"pid": process.pid, "start": found["start"]})
        return process

    yield start
    for process in begun:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_full_disk_does_not_keep_a_job_from_being_stopped(job, agent, monkeypatch):
    process = agent("good")

    def full(path, value, mode=0o600):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(jobs.files, "write_json", full)
    assert jobs.stop(job.state_dir, "exp7")["changed"] is True
    assert process.wait(5) == -signal.SIGTERM


def test_an_agent_that_shows_no_life_is_killed_before_the_long_bound(job, agent, monkeypatch):
    process = agent("deaf")
    monkeypatch.setattr(jobs, "FROZEN_SECONDS", 1.0)
    monkeypatch.setattr(jobs, "END_SECONDS", 1000.0)
    jobs.stop(job.state_dir, "exp7")
    assert process.wait(5) == -signal.SIGKILL


def test_a_start_that_another_has_overtaken_is_refused(job, make_spec, monkeypatch):
    """Between the look and the lock somebody else has started the job under this name."""
    spec = make_spec(state_dir=job.state_dir, node_rank=1, nodes=[{"name": "a", "address": "127.0.0.1"}] * 2)
    files.write_json(os.path.join(job.run, "result.json"), {"outcome": "finished", "ended": 1})

    def overtaken(*_, **__):
        files.write_json(job.at("spec.json"), dict(spec, run_id="another"))
        return {"nproc": 1, "interface": {}}

    monkeypatch.setattr(jobs.checks, "all_local", overtaken)
    with pytest.raises(Refusal, match="being started by somebody else"):
        jobs.start(spec, {}, force=True)
    assert job.spec()["run_id"] == "another" and not job.locked()


def test_a_small_backlog_is_not_skipped_for_a_large_one(job):
    os.mkdir(job.attempt_folder(0))
    for rank, size in ((0, 300), (1, 50)):
        with open(os.path.join(job.attempt_folder(0), "rank-{}.log".format(rank)), "wb") as stream:
            stream.write(bytes([65 + rank]) * size)
    offsets, seen = {}, {}
    for _ in range(4):
        for chunk in jobs.new_bytes(job, offsets, limit=100):
            seen[chunk["rank"]] = seen.get(chunk["rank"], b"") + base64.b64decode(chunk["data"])
    assert seen == {0: b"A" * 100, 1: b"B" * 50}
