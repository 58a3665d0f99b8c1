"""What a node is asked for: start, stop, absent, info, tail, collect. Each returns a dictionary that JSON can carry.

The module, the launch's actions and the command line all come here, so that there is one behaviour.
"""

import base64
import io
import os
import shutil
import signal
import tarfile
import time

from . import backends, checks, commands, files, prefixes, procs, shipping
from . import spec as specs
from .errors import Refusal
from .jobdir import JobDir

# At most so many bytes of logs in one answer of tail, and of one log in a record.
TAIL_BYTES = 512 * 1024
RECORD_BYTES = 4 * 1024 * 1024
# How long tail waits for more once there is something new: the longest that a line is late, and the pace of its asker.
LINGER_SECONDS = 0.4
# How long an agent may take to begin, and to end beyond the grace of its ranks.
READY_SECONDS = 10.0
END_SECONDS = 15.0
# An agent beats once a second; one that has not for so long hangs.
FROZEN_SECONDS = 8.0


def when(seconds):
    """Local time for a message."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def known(jobdir, new):
    """What is here under the job's name: ``(status, text of what differs from new)``."""
    old = jobdir.spec()
    return jobdir.status(), specs.shown_differences(old, new) if old else ""


def write_agent(jobdir, sources):
    """Put the agent beside the job; ``sources`` maps file names to text."""
    folder = os.path.join(jobdir.agent, "muster_agent")
    shutil.rmtree(jobdir.agent, ignore_errors=True)
    os.makedirs(folder, mode=0o700)
    for name, text in sources.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as stream:
            stream.write(text)


def start(spec, sources, code=None, code_bytes=0, force=False, check=False, supervision="self"):
    """Start a job's agent on this node; it joins the roll call by itself.

    Args:
        spec: see :mod:`spec`.
        sources: the agent's own files, ``{name: text}``.
        code: binary stream with the tar of the shipped files, or None.
        code_bytes: its size, for the check of the disk.
        force: stop a running job of this name, start a finished one anew.
        check: only look.
        supervision: ``self`` or ``systemd``.

    Returns:
        ``{"changed", "state", "attached", "nproc", "command", "job_dir", "python", "environment"}``; raises :class:`Refusal`.
    """
    name = spec["nodes"][spec["node_rank"]]["name"]
    jobdir = JobDir(spec["state_dir"], spec["job"])
    status, different = known(jobdir, spec)
    run_before = _run_id(jobdir)
    if status == "running" and not different:
        found = jobdir.spec()
        return {
            "changed": False,
            "state": "running",
            "attached": True,
            "job_dir": jobdir.path,
            "run_id": found["run_id"],
            "python": specs.interpreter(found),
            "environment": found.get("environment"),
        }
    if status == "running" and not force:
        raise Refusal(
            "{}: job {} runs already with another specification: {}; stop it, use another job name, or force=true".format(
                name, spec["job"], different
            )
        )
    if status not in ("absent", "running") and not force:
        ended = (jobdir.result() or {}).get("ended")
        raise Refusal(
            "{}: job {} is there already, {}{}; use another job name, or force=true to start it again from what it "
            "left".format(name, spec["job"], status, " since " + when(ended) if ended else "")
        )
    if status == "running" and not check:
        stop(spec["state_dir"], spec["job"], "force=true by {}".format(spec["launched_by"]))
    _refuse_leftovers(jobdir, name, force and not check)
    looked = checks.all_local(spec, code_bytes, held_by_itself=check and status == "running")
    # Once for everything: a switch of the environment must not give the ranks, or a restart, other files than the agent.
    python = prefixes.real_python(spec["python"])
    environment = prefixes.describe(python)
    told = {
        "changed": True,
        "state": "running",
        "attached": False,
        "nproc": looked["nproc"],
        "command": commands.by_hand(spec, looked["nproc"], python),
        "job_dir": jobdir.path,
        "run_id": spec["run_id"],
        "spec_sha256": specs.digest(spec),
        "before": status,
        "python": python,
        "environment": environment,
    }
    if check:
        return told
    fresh = not os.path.isdir(jobdir.path)
    jobdir.create()
    lock = jobdir.lock()
    if lock is None or _run_id(jobdir) != run_before:
        if lock is not None:
            os.close(lock)
        raise Refusal(
            "{}: job {} is being started by somebody else at this moment; follow it with -e job={}, or launch again if it "
            "does not appear".format(name, spec["job"], spec["job"])
        )
    try:
        if code is not None:
            shipping.install(code, jobdir)
        os.makedirs(jobdir.work, mode=0o700, exist_ok=True)
        write_agent(jobdir, sources)
        jobdir.begin_run(spec["run_id"])
        if spec["node_rank"] == 0:
            prefixes.keep(python, os.path.join(jobdir.run, "environment"))
        found = {"nproc": looked["nproc"], "interface": looked["interface"], "interpreter": python, "environment": environment}
        files.write_json(jobdir.at("spec.json"), dict(spec, **found))
        jobdir.note("started", by=spec["launched_by"])
    except BaseException:
        os.close(lock)
        if fresh:
            jobdir.remove()
        raise
    try:
        backends.choose(supervision).start(jobdir, lock)  # it closes the lock
    except BaseException:
        if fresh:
            jobdir.remove()
        raise
    return told


def _run_id(jobdir):
    return (jobdir.spec() or {}).get("run_id")


def _refuse_leftovers(jobdir, name, kill):
    """Processes of a run whose agent is gone: ended where ``kill``, else a refusal that names them."""
    if jobdir.locked():
        return
    left = jobdir.leftovers()
    if left and kill:
        left = procs.sweep(procs.FOLDER_VARIABLE, jobdir.path)
    if left:
        raise Refusal(
            "{}: job {} has left {}, expected none; end it, or use force=true to have it ended".format(
                name, jobdir.job, ", ".join(procs.describe(pid) for pid in left[:3])
            )
        )


def stop(state_dir, job, reason="stop"):
    """Stop a job on all its nodes by telling this node's agent, and wait until nothing of it is left here.

    Returns:
        ``{"changed", "state", "sentence"}``.
    """
    jobdir = JobDir(state_dir, job)
    if not jobdir.exists():
        return {"changed": False, "state": "absent", "sentence": None}
    armed, running = jobdir.disarm(), jobdir.locked()
    if running:
        _ask_to_stop(jobdir, reason)
        if not _wait_for_the_end(jobdir, float((jobdir.spec() or {}).get("stop_grace", 30)) + END_SECONDS):
            _kill_agent(jobdir)
    _sweep(jobdir)
    return {"changed": running or armed, "state": jobdir.status(), "sentence": (jobdir.result() or {}).get("sentence")}


def _ask_to_stop(jobdir, reason):
    """SIGTERM to the agent once it is ready for one; an agent that never gets ready is killed."""
    deadline = time.monotonic() + READY_SECONDS
    while jobdir.locked() and time.monotonic() < deadline:
        pid = jobdir.agent_pid()
        if pid and jobdir.state():  # it has taken its signals over before it wrote that
            try:
                files.write_json(os.path.join(jobdir.run, "stop.json"), {"reason": reason})
            except OSError:
                pass  # the reason is a nicety; a full disk must not keep a job from being stopped
            procs.send(pid, signal.SIGTERM)
            return
        time.sleep(0.05)
    _kill_agent(jobdir)


def _wait_for_the_end(jobdir, bound):
    """Whether the agent ended within ``bound`` seconds; one that shows no life is not waited for that long."""
    deadline, beat, seen = time.monotonic() + bound, None, time.monotonic()
    while time.monotonic() < deadline:
        if jobdir.wait_unlocked(0.5):
            return True
        if jobdir.last_beat() != beat:
            beat, seen = jobdir.last_beat(), time.monotonic()
        elif time.monotonic() - seen > FROZEN_SECONDS:
            return False
    return False


def _kill_agent(jobdir):
    """SIGKILL to an agent that does not answer; its ranks die with it."""
    jobdir.disarm()
    pid = jobdir.agent_pid()
    if pid:
        procs.send(pid, signal.SIGKILL)
    jobdir.wait_unlocked(5)


def _sweep(jobdir):
    """End every process of the job on this node; raises :class:`Refusal` where the kernel holds one back."""
    left = procs.sweep(procs.FOLDER_VARIABLE, jobdir.path)
    if left:
        raise Refusal(
            "job {}: {} cannot be ended (it waits in the kernel); look at the disk or GPU it waits for".format(
                jobdir.job, ", ".join(procs.describe(pid) for pid in left)
            )
        )


def absent(state_dir, job, check=False):
    """Stop a job and remove everything of it from this node, its working folder included."""
    jobdir = JobDir(state_dir, job)
    there = os.path.isdir(jobdir.path)
    if there and not check:
        stop(state_dir, job, "state=absent")
        jobdir.remove()
    return {"changed": there, "state": "absent"}


def call_off(state_dir, job, run_id, reason):
    """End a launch that was refused elsewhere: the agent of this run goes, and a job that never ran leaves no trace."""
    jobdir = JobDir(state_dir, job)
    if _run_id(jobdir) != run_id:
        return {"changed": False}
    stop(state_dir, job, reason)
    if not jobdir.rank_logs():
        earlier = os.path.isdir(jobdir.at("earlier"))
        if not earlier:
            jobdir.remove()
    return {"changed": True}


def info(state_dir, job=None):
    """State of one job or of all on this node: ``{"jobs": {name: {...}}}``."""
    folder = os.path.join(state_dir, "jobs")
    names = [job] if job else sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return {"jobs": {name: job_info(JobDir(state_dir, name)) for name in names}}


def job_info(jobdir):
    """What this node knows of one job; no secrets."""
    status = jobdir.status()
    if status == "absent":
        return {"state": "absent"}
    spec, state, result = jobdir.spec() or {}, jobdir.state(), jobdir.result()
    return {
        "state": status,
        "phase": state.get("phase"),
        "attempt": state.get("attempt", 0),
        "since": (result or {}).get("ended") or state.get("since"),
        "launched_by": spec.get("launched_by"),
        "run_id": spec.get("run_id"),
        "node_rank": spec.get("node_rank"),
        "nnodes": len(spec.get("nodes", [])),
        "nodes": spec.get("nodes", []),
        "spec_sha256": specs.digest(spec),
        "python": specs.interpreter(spec) if spec else None,
        "environment": spec.get("environment"),
        "agent_pid": state.get("pid") if status == "running" else None,
        "ranks": state.get("ranks", []),
        "result": result,
        "job_dir": jobdir.path,
        "logs": [path for _, _, path in jobdir.rank_logs()],
    }


def new_bytes(jobdir, offsets, limit=TAIL_BYTES):
    """New bytes of the ranks' logs.

    Args:
        jobdir: the job's folder.
        offsets: ``{"attempt/rank": bytes already seen}``; changed in place.
        limit: bytes in one answer; of a log with a longer backlog the beginning is skipped.

    Returns:
        ``[{"attempt", "rank", "skipped", "data" (base64)}]``.
    """
    found, left = [], limit
    for attempt, rank, path in jobdir.rank_logs():
        key = "{}/{}".format(attempt, rank)
        offset = offsets.get(key, 0)
        size = os.path.getsize(path)
        if size < offset:  # truncated by the job itself
            offset = 0
        if size == offset:
            continue
        skipped = max(0, size - offset - limit)
        data = files.read_from(path, offset + skipped, left)
        offsets[key] = offset + skipped + len(data)
        left -= len(data)
        found.append(
            {"attempt": attempt, "rank": rank, "skipped": skipped, "data": base64.b64encode(data).decode("ascii")}
        )
        if left <= 0:
            break  # the rest comes with the next answer
    return found


def has_new_bytes(jobdir, offsets):
    """Whether :func:`new_bytes` would give any."""
    return any(
        os.path.getsize(path) != offsets.get("{}/{}".format(attempt, rank), 0) for attempt, rank, path in jobdir.rank_logs()
    )


def tail(state_dir, job, offsets, wait=5.0):
    """New log bytes and the state, waiting up to ``wait`` seconds for either to be new.

    Args:
        state_dir, job: the job.
        offsets: see :func:`new_bytes`.
        wait: seconds; 0 answers at once.

    Returns:
        ``{"state", "done", "chunks", "offsets", "result", "phase", "attempt", "beat"}``; a ``beat`` that stays the same for
        long belongs to an agent that hangs.
    """
    jobdir = JobDir(state_dir, job)
    deadline = time.monotonic() + wait
    lingering = False
    while True:
        # The state first: bytes that were written before a job ended are then never missed.
        status = jobdir.status()
        done = status != "running"
        if done or time.monotonic() >= deadline:
            break
        if not lingering and has_new_bytes(jobdir, offsets):
            # More lines come with the first; the asker need not pause between its calls then, nor miss the end.
            lingering, deadline = True, min(deadline, time.monotonic() + LINGER_SECONDS)
        time.sleep(0.05)
    chunks = new_bytes(jobdir, offsets)
    return {
        "state": status,
        "done": done and not has_new_bytes(jobdir, offsets),
        "chunks": chunks,
        "offsets": offsets,
        "result": jobdir.result() if done else None,
        "phase": jobdir.state().get("phase"),
        "attempt": jobdir.state().get("attempt", 0),
        "restarts": jobdir.state().get("restarts", []),
        "beat": jobdir.last_beat(),
    }


def record_names(jobdir):
    """``[(name in the record, path)]`` of what goes into the controller's record; never spec.json, which has secrets."""
    found = []
    for name in ("result.json", "timeline.jsonl", "agent.log", "facts.json"):
        found.append((name, os.path.join(jobdir.run, name)))
    for name in prefixes.KEPT:
        found.append(("environment/" + name, os.path.join(jobdir.run, "environment", name)))
    for attempt, rank, path in jobdir.rank_logs():
        found.append(("attempt-{}/rank-{}.log".format(attempt, rank), path))
        torchrun = os.path.join(os.path.dirname(path), "torchrun.log")
        pair = ("attempt-{}/torchrun.log".format(attempt), torchrun)
        if pair not in found:
            found.append(pair)
    return [(name, path) for name, path in found if os.path.isfile(path)]


def record(jobdir, limit=RECORD_BYTES):
    """A gzipped tar of the record; of longer logs the last ``limit`` bytes, with a line that says so."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=3) as archive:
        for name, path in record_names(jobdir):
            size = os.path.getsize(path)
            data = files.read_from(path, max(0, size - limit), limit)
            if size > limit:
                data = "[{} bytes before this are left out; the whole log is {}]\n".format(size - limit, path).encode() + data
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(data), 0o640, int(os.path.getmtime(path))
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def collect(state_dir, job, run_id=None, settle=6.0):
    """The record of a job that has ended, once nothing of it is left on this node.

    Args:
        state_dir, job: the job.
        run_id: the run that is meant; another one's processes are left alone.
        settle: seconds that the agent may still take to end by itself.

    Returns:
        ``{"state", "result", "tar" (base64)}``.
    """
    jobdir = JobDir(state_dir, job)
    if not jobdir.exists() or (run_id and _run_id(jobdir) != run_id):
        return {"state": "absent", "result": None, "tar": ""}
    if not jobdir.wait_unlocked(settle):
        _kill_agent(jobdir)
    _sweep(jobdir)
    return {
        "state": jobdir.status(),
        "result": jobdir.result(),
        "tar": base64.b64encode(record(jobdir)).decode("ascii"),
    }
