"""A job's folder: its states, its lock, its runs."""

import fcntl
import json
import os
import subprocess
import sys
import threading

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import files
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.jobdir import STATES, JobDir


@pytest.fixture
def job(tmp_path, make_spec):
    """A job that has begun its first run."""
    jobdir = JobDir(str(tmp_path), "exp7")
    jobdir.create()
    files.write_json(jobdir.at("spec.json"), make_spec())
    jobdir.begin_run("run1")
    return jobdir


def write_result(jobdir, **fields):
    files.write_json(os.path.join(jobdir.run, "result.json"), fields)


def test_an_unknown_job_is_absent(tmp_path):
    jobdir = JobDir(str(tmp_path), "exp7")
    assert jobdir.status() == "absent" and not jobdir.exists() and not jobdir.locked()
    assert jobdir.spec() is None and jobdir.state() == {} and jobdir.result() is None and jobdir.rank_logs() == []


def test_a_job_without_agent_and_result_is_lost(job):
    assert job.status() == "lost"


@pytest.mark.parametrize("outcome", ["finished", "failed", "stopped"])
def test_a_job_with_a_result_is_what_it_says(job, outcome):
    write_result(job, outcome=outcome)
    assert job.status() == outcome and outcome in STATES


def test_a_locked_job_runs_whatever_its_result_says(job):
    write_result(job, outcome="failed")
    descriptor = job.lock()
    assert job.status() == "running"
    os.close(descriptor)
    assert job.status() == "failed"


def test_a_half_written_result_is_none(job):
    with open(os.path.join(job.run, "result.json"), "w", encoding="utf-8") as stream:
        stream.write('{"outcome": "fini')
    assert job.status() == "lost"


def test_a_second_lock_is_refused(job):
    descriptor = job.lock()
    assert job.locked() and job.lock() is None
    os.close(descriptor)
    assert not job.locked()
    os.close(job.lock())


HOLDER = """\
import fcntl, sys
stream = open(sys.argv[1], "r+")
fcntl.flock(stream, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_ends_with_the_process_that_holds_it(job):
    os.close(job.lock())
    holder = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", HOLDER, job.at("lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        assert job.locked() and job.lock() is None and job.status() == "running"
        assert not job.wait_unlocked(0.1)
        holder.kill()
        assert job.wait_unlocked(5)
        assert not job.locked()
    finally:
        holder.kill()
        holder.communicate()


def test_no_child_inherits_the_lock(job):
    descriptor = job.lock()
    child = subprocess.Popen(["sleep", "20"], close_fds=False)
    try:
        os.close(descriptor)
        assert not job.locked()
    finally:
        child.kill()
        child.wait()


def test_only_the_owner_can_look_into_a_job(job):
    assert os.stat(job.path).st_mode & 0o777 == 0o700
    assert os.stat(job.at("spec.json")).st_mode & 0o777 == 0o600
    assert os.stat(job.run).st_mode & 0o777 == 0o700


def test_a_new_run_puts_the_one_before_aside(job):
    write_result(job, outcome="failed")
    job.begin_run("run2")
    assert job.result() is None and sorted(os.listdir(job.run)) == ["reserve", "run.json"]
    assert files.read_json(job.at("earlier", "run1", "result.json")) == {"outcome": "failed"}
    job.begin_run("run3")
    assert sorted(os.listdir(job.at("earlier"))) == ["run1", "run2"]


def test_a_run_without_a_record_is_put_aside_too(job):
    os.unlink(os.path.join(job.run, "run.json"))
    job.begin_run("run2")
    assert os.listdir(job.at("earlier")) == ["unknown"]


def test_rank_logs_are_in_order_of_numbers(job):
    for name in ("attempt-10/rank-1.log", "attempt-2/rank-10.log", "attempt-2/rank-9.log", "attempt-2/rank-9.json",
                 "attempt-2/torchrun.log", "attempt-x/rank-1.log", "other/rank-1.log"):  # fmt: skip
        path = os.path.join(job.run, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").close()
    found = job.rank_logs()
    assert [(attempt, rank) for attempt, rank, _ in found] == [(2, 9), (2, 10), (10, 1)]
    assert found[1][2] == os.path.join(job.attempt_folder(2), "rank-10.log")


def test_the_timeline_takes_one_line_each(job):
    job.note("started", by="alice")
    job.note("go", attempt=0, text="two\nlines")
    with open(os.path.join(job.run, "timeline.jsonl"), encoding="utf-8") as stream:
        lines = [json.loads(line) for line in stream]
    assert (
        [line["what"] for line in lines] == ["started", "go"] and lines[0]["by"] == "alice" and lines[0]["time"] > 1e9
    )


def test_a_note_that_cannot_be_written_ends_nothing(job):
    job.run = "/proc/nowhere"
    job.note("started")


def test_removing_a_job_leaves_the_others(job, tmp_path):
    other = JobDir(str(tmp_path), "other")
    other.create()
    job.remove()
    assert not os.path.exists(job.path) and os.path.isdir(other.path)
    other.remove()
    assert os.listdir(str(tmp_path)) == []


def test_files_are_written_whole_and_privately(tmp_path):
    path = str(tmp_path / "x.json")
    files.write_json(path, {"a": "grüße"})
    assert files.read_json(path) == {"a": "grüße"} and os.stat(path).st_mode & 0o777 == 0o600
    files.write_atomic(path, b"\xff", 0o644)
    assert files.read_json(path, "default") == "default"
    with pytest.raises(OSError):
        files.write_atomic(str(tmp_path / "no" / "x"), "y")
    assert os.listdir(str(tmp_path)) == ["x.json"]


@pytest.mark.parametrize(("offset", "limit", "expected"), [(0, 3, b"abc"), (3, 100, b"def"), (6, 1, b""), (9, 1, b"")])
def test_reading_from_an_offset(tmp_path, offset, limit, expected):
    (tmp_path / "log").write_bytes(b"abcdef")
    assert files.read_from(str(tmp_path / "log"), offset, limit) == expected
    assert files.read_from(str(tmp_path / "none"), offset, limit) == b""


def test_the_tail_of_a_file(tmp_path):
    (tmp_path / "log").write_bytes(b"ab\xc3\xbc")
    assert files.read_tail(str(tmp_path / "log"), 100) == "abü"
    assert files.read_tail(str(tmp_path / "log"), 2) == "ü"
    assert files.read_tail(str(tmp_path / "none"), 2) == ""


def test_an_armed_job_is_not_lost(job):
    with open(job.at("armed"), "w", encoding="ascii"):
        pass
    assert job.status() == "running"


def test_somebody_who_only_looks_does_not_keep_a_start_away(job):
    os.close(job.lock())
    looking = os.open(job.at("lock"), os.O_RDWR)
    fcntl.flock(looking, fcntl.LOCK_SH)  # as locked() does
    threading.Timer(0.05, os.close, [looking]).start()
    assert job.lock() is not None


def test_an_armed_job_with_a_result_has_ended(job):
    with open(job.at("armed"), "w", encoding="ascii"):
        pass
    write_result(job, outcome="finished")
    assert job.status() == "finished"
