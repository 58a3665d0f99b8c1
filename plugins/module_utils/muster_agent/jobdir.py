"""The folder of one job on one node, and its lock.

::

    <state_dir>/jobs/<job>/        0700
        lock                       held (flock) by the job's agent for as long as it lives
        spec.json                  0600; the only place of the job's key and environment
        agent/muster_agent/        the agent that runs this job
        work/                      the shipped files and whatever the job writes: its working folder
        shipped.json               names of the shipped files
        run/                       the present run: state.json, result.json, timeline.jsonl, agent.log, attempt-N/
        earlier/<run id>/          runs before it
"""

import fcntl
import json
import os
import re
import shutil
import time

from . import files, procs

# Who only looks whether the lock is held (see locked) holds it for a moment.
LOOK_SECONDS = 0.3
STATES = ("absent", "running", "finished", "failed", "stopped", "lost")


class JobDir:
    """Paths and small reads and writes of one job's folder."""

    def __init__(self, state_dir, job):
        self.state_dir, self.job = state_dir, job
        self.path = os.path.join(state_dir, "jobs", job)
        self.run = os.path.join(self.path, "run")
        self.work = os.path.join(self.path, "work")
        self.agent = os.path.join(self.path, "agent")

    def at(self, *names):
        """A path inside the job's folder."""
        return os.path.join(self.path, *names)

    def create(self):
        """Make the folder, readable by its owner alone."""
        # One by one: makedirs gives its mode to the last folder alone.
        os.makedirs(self.state_dir, mode=0o755, exist_ok=True)
        os.makedirs(os.path.dirname(self.path), mode=0o755, exist_ok=True)
        os.makedirs(self.path, mode=0o700, exist_ok=True)

    def exists(self):
        """Whether this node knows the job."""
        return os.path.isfile(self.at("spec.json"))

    def lock(self):
        """Take the job's lock: a descriptor, or None where its agent (or another start) holds it."""
        descriptor = os.open(self.at("lock"), os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + LOOK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(descriptor)
                    return None
            time.sleep(0.02)

    def locked(self):
        """Whether somebody holds the lock, that is: whether the job's agent lives."""
        try:
            descriptor = os.open(self.at("lock"), os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)

    def armed(self):
        """Whether systemd is to run the agent, though it may not do so at this moment."""
        return os.path.exists(self.at("armed"))

    def disarm(self):
        """The agent is not to be started any more; whether it was to be."""
        try:
            os.unlink(self.at("armed"))
            return True
        except FileNotFoundError:
            return False

    def wait_unlocked(self, bound):
        """Wait up to ``bound`` seconds for the agent to end; whether it did."""
        deadline = time.monotonic() + bound
        while self.locked():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def spec(self):
        """The job's specification, or None."""
        return files.read_json(self.at("spec.json"))

    def result(self):
        """The present run's result, or None while it runs."""
        return files.read_json(os.path.join(self.run, "result.json"))

    def conclude(self, result):
        """Write the run's result, its last word."""
        files.write_last(os.path.join(self.run, "result.json"), result, os.path.join(self.run, "reserve"))

    def state(self):
        """What the agent last wrote of itself: ``phase``, ``attempt``, ``pid``, ``start``, ``since``."""
        return files.read_json(os.path.join(self.run, "state.json"), {})

    def remember_agent(self, pid):
        """Write down who the agent is, for whoever must end it though it never said a word."""
        found = procs.stat(pid)
        if found:
            files.write_json(os.path.join(self.run, "agent.json"), {"pid": pid, "start": found["start"]})

    def agent_pid(self):
        """Process id of the living agent, or None."""
        for known in (self.state(), files.read_json(os.path.join(self.run, "agent.json"), {})):
            if known.get("pid") and procs.alive(known["pid"], known.get("start")):
                return known["pid"]
        return None

    def beat(self):
        """Called every second by a healthy agent; the lock's time shows it."""
        os.utime(self.at("lock"))

    def last_beat(self):
        """Nanoseconds of the last beat: only whether it changes means something."""
        try:
            return os.stat(self.at("lock")).st_mtime_ns
        except OSError:
            return 0

    def status(self):
        """One of :data:`STATES`: ``lost`` is an agent that ended without a result."""
        if not self.exists():
            return "absent"
        if self.locked():
            return "running"
        result = self.result()
        if self.armed() and not result:
            return "running"
        return result["outcome"] if result else "lost"

    def begin_run(self, run_id):
        """Put the run before aside and make room for a new one."""
        if os.path.isdir(self.run):
            before = files.read_json(os.path.join(self.run, "run.json"), {}).get("run_id", "unknown")
            os.makedirs(self.at("earlier"), mode=0o700, exist_ok=True)
            target = self.at("earlier", before)
            if os.path.exists(target):
                target += "-{:.0f}".format(time.time() * 1000)
            os.rename(self.run, target)
        os.mkdir(self.run, 0o700)
        files.write_json(os.path.join(self.run, "run.json"), {"run_id": run_id})
        files.reserve(os.path.join(self.run, "reserve"))

    def attempt_folder(self, attempt):
        """Folder of one attempt's logs."""
        return os.path.join(self.run, "attempt-{}".format(attempt))

    def rank_logs(self):
        """``[(attempt, rank, path)]`` of the present run, in order."""
        found = []
        for name in os.listdir(self.run) if os.path.isdir(self.run) else []:
            match = re.fullmatch(r"attempt-(\d+)", name)
            for log in os.listdir(os.path.join(self.run, name)) if match else []:
                rank = re.fullmatch(r"rank-(\d+)\.log", log)
                if rank:
                    found.append((int(match.group(1)), int(rank.group(1)), os.path.join(self.run, name, log)))
        return sorted(found)

    def note(self, what, **fields):
        """Append one line to the run's timeline."""
        line = json.dumps(dict(fields, time=round(time.time(), 3), what=what), sort_keys=True)
        try:
            with open(os.path.join(self.run, "timeline.jsonl"), "a", encoding="utf-8") as stream:
                stream.write(line + "\n")
        except OSError:
            pass  # a full disk must not end a training that still runs

    def leftovers(self):
        """Ids of processes that carry this job's folder though no agent of it may live."""
        return procs.with_variable(procs.FOLDER_VARIABLE, self.path)

    def remove(self):
        """Remove every trace of the job."""
        shutil.rmtree(self.path, ignore_errors=True)
        try:
            os.rmdir(os.path.dirname(self.path))
        except OSError:
            pass  # other jobs live there
