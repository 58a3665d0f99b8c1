"""One node's agent while a job runs: torchrun as its child, the head at the other end of a channel, nothing left after.

Nodes obey the head. Where the head is gone, a node ends its own ranks and writes the result itself.
"""

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
import time

from . import causes, cli, commands, control, facts, files, network, prefixes, procs
from . import spec as specs
from .head import BEAT_SECONDS, SILENT_SECONDS, Head
from .jobdir import JobDir

# A rank that only says "connection closed by peer" is reported this much later, so that the cause comes first.
ECHO_SECONDS = 0.7
LOG_BYTES = 64 * 1024
CONNECT_SECONDS = 0.1
# A stop that comes before the head can be reached is brought to it, if it comes up within this time.
STOP_SECONDS = 5.0


class HeadGone(Exception):
    """The head cannot be reached or fell silent; the text says which."""


class Attempt:
    """One torchrun on this node: the child, its ranks, and what was seen of them.

    Args:
        supervisor: the node's :class:`Supervisor`.
        number: the attempt.
    """

    def __init__(self, supervisor, number):
        self.supervisor, self.number = supervisor, number
        self.folder = supervisor.jobdir.attempt_folder(number)
        self.process = None
        self.exits, self.events = {}, []
        self.ranks = []
        self.running = self.over = self.stopping = False
        self.oom_kills = facts.oom_kills()
        self._tasks = []

    async def spawn(self):
        """Start the child, which imports torch at once and then waits for :meth:`go`."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        supervisor = self.supervisor
        os.makedirs(supervisor.jobdir.work, mode=0o700, exist_ok=True)  # a job may have removed it
        read_end, write_end = os.pipe()
        log = os.open(os.path.join(self.folder, "torchrun.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        env = supervisor.environment({"attempt": self.number, "nproc": supervisor.spec["nproc"], "share": 1})
        self.process = await asyncio.create_subprocess_exec(
            supervisor.spec["python"], "-u", supervisor.agent, "torchrun", str(write_end), str(os.getpid()),
            stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log, env=env, cwd=supervisor.jobdir.work,
            pass_fds=(write_end,), start_new_session=True,
        )  # fmt: skip
        os.close(log)
        os.close(write_end)
        reader = asyncio.StreamReader(limit=control.LIMIT)
        loop = asyncio.get_event_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", 0))
        self._tasks.append(asyncio.ensure_future(self._listen(reader)))

    async def _listen(self, reader):
        """Reports of the child, until it ends; a fault in here must not leave the others waiting."""
        try:
            await self._hear(reader)
        except Exception as error:
            await self._fail("the agent on {} failed: {}: {}".format(self.supervisor.name, type(error).__name__, error))
            raise

    async def _hear(self, reader):
        ended = None
        while True:
            line = await reader.readline()
            if not line.endswith(b"\n"):
                break
            message = json.loads(line.decode())
            if message["kind"] == "ready":
                self.flags = message.pop("flags")
                self.supervisor.jobdir.note("torch imported", attempt=self.number)
                self.supervisor.send("ready", attempt=self.number, **_without_kind(message))
            elif message["kind"] == "exit":
                self._rank_ended(message)
            elif message["kind"] == "broken":
                ended = message
                await self._fail("torch cannot be imported on {}: {}".format(self.supervisor.name, message["text"]))
            elif message["kind"] == "end":
                ended = message
                for failure in message["failures"]:
                    self._rank_ended(failure)
                if message["ok"]:
                    self._all_ended_well()
        if self.over or ended and ended.get("ok"):
            return
        if not self.events:
            code = await self.process.wait()
            log = files.read_tail(os.path.join(self.folder, "torchrun.log"), LOG_BYTES)
            if code < 0:
                told = "was killed by {}".format(causes.signal_name(-code))
            else:
                text = " ".join((ended or {}).get("text", "").split())[:300]
                told = "failed: {}".format(text or causes.last_line(log) or "exit code {}".format(code))
            await self._fail("torchrun on {} {}".format(self.supervisor.name, told))

    async def _fail(self, text):
        event = {"kind": "torchrun", "host": self.supervisor.name, "time": time.time(), "text": text}
        self._report(event)

    def records(self):
        """``{pid: record}`` of the ranks that have begun here."""
        found = {}
        for name in os.listdir(self.folder):
            if name.startswith("rank-") and name.endswith(".json"):
                record = files.read_json(os.path.join(self.folder, name))
                if record:
                    found[record["pid"]] = record
        return found

    def _rank_ended(self, message):
        """A rank's exit, from whichever source saw it first."""
        record = self.records().get(message["pid"])
        if record is None and message.get("local_rank") is not None and self.ranks:  # it ended before it could write one
            record = {"rank": self.ranks[message["local_rank"]], "local_rank": message["local_rank"]}
        if record is None or record["rank"] in self.exits or self.over:
            return
        rank = record["rank"]
        status = {key: message[key] for key in ("code", "signal") if key in message}
        self.exits[rank] = status
        self.supervisor.jobdir.note("rank ended", rank=rank, attempt=self.number, **status)
        if status.get("code") == 0:
            if len(self.exits) == self.supervisor.spec["nproc"] and not self.events:
                self.supervisor.send("done", **self.summary())
            return
        if self.stopping:
            return
        log = files.read_tail(os.path.join(self.folder, "rank-{}.log".format(rank)), LOG_BYTES)
        event = {
            "kind": "exit",
            "host": self.supervisor.name,
            "time": message["time"],
            "rank": rank,
            "local_rank": record["local_rank"],
            "error": causes.parse_log(log, os.path.realpath(self.supervisor.jobdir.work)),
            "last_line": causes.last_line(log),
        }
        event.update(status)
        if status.get("signal") == signal.SIGKILL:
            event["oom"] = facts.oom_kills() > self.oom_kills
        self._report(event)

    def _all_ended_well(self):
        """torchrun says that every rank ended with 0, whether or not each one's end was seen."""
        for pid, record in self.records().items():
            self._rank_ended({"pid": pid, "rank": record["rank"], "code": 0, "time": time.time()})

    def _report(self, event):
        self.events.append(event)
        if causes.weight(event) < 2:
            self.supervisor.send("failed", attempt=self.number, event=event)
        else:
            self._tasks.append(asyncio.ensure_future(self._report_later(event)))

    async def _report_later(self, event):
        await asyncio.sleep(ECHO_SECONDS)
        if not self.over:
            self.supervisor.send("failed", attempt=self.number, event=event)

    def go(self, message):
        """Hand the child its command; torchrun begins."""
        supervisor, spec = self.supervisor, self.supervisor.spec
        nproc = spec["nproc"]
        self.ranks = list(range(message["offset"], message["offset"] + nproc))
        pairs = commands.options(spec, nproc, message["port"], message["rdzv_id"], spec["join_timeout"], self.folder)
        wrapper = [sys.executable, "-I", "-S", supervisor.agent, "rank"]
        argv = commands.argv(commands.known_only(pairs, self.flags), wrapper, spec["python"], spec)
        env = supervisor.environment({"attempt": self.number, "nproc": nproc, "share": message["share"]})
        line = json.dumps({"argv": argv, "env": env, "cwd": supervisor.working_folder()})
        self.process.stdin.write(line.encode() + b"\n")
        self.running = True
        supervisor.state("running", attempt=self.number, ranks=self.ranks)
        supervisor.jobdir.note("rendezvous", attempt=self.number, port=message["port"], ranks=self.ranks)
        self._tasks.append(asyncio.ensure_future(self._watch_first_lines()))

    async def _watch_first_lines(self):
        """Note when a rank began and when it first printed something."""
        waiting = {rank: ("rank-{}.json".format(rank), "rank-{}.log".format(rank)) for rank in self.ranks}
        begun = set()
        while waiting:
            await asyncio.sleep(0.2)
            for rank, (record, log) in list(waiting.items()):
                if rank not in begun and os.path.exists(os.path.join(self.folder, record)):
                    begun.add(rank)
                    self.supervisor.jobdir.note("rank began", rank=rank, attempt=self.number)
                path = os.path.join(self.folder, log)
                if os.path.exists(path) and os.path.getsize(path):
                    del waiting[rank]
                    self.supervisor.jobdir.note("first line", rank=rank, attempt=self.number)

    def summary(self):
        """This node's part of the result."""
        return {
            "attempt": self.number,
            "ranks": self.ranks,
            "exits": {str(rank): status for rank, status in self.exits.items()},
            "seconds": round(time.time() - self.supervisor.since, 3),
        }

    async def stop(self, grace):
        """SIGTERM to the ranks, then up to ``grace`` seconds, then the end of everything."""
        self.stopping = True
        for pid, record in self.records().items():
            if record["rank"] not in self.exits and procs.alive(pid, record["start"]):
                procs.send(pid, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while len(self.exits) < len(self.records()) and time.monotonic() < deadline and self.process.returncode is None:
            await asyncio.sleep(0.05)
        await self.end()

    async def end(self):
        """SIGKILL whatever still runs of this attempt; returns when nothing does."""
        self.over = True
        if self.process is not None and self.process.returncode is None:
            try:
                self.process.kill()
            except ProcessLookupError:
                pass
        for pid, record in self.records().items() if os.path.isdir(self.folder) else ():
            if procs.alive(pid, record["start"]):
                procs.send(pid, signal.SIGKILL)
        spec = self.supervisor.spec
        value = "{}/{}".format(spec["run_id"], spec["node_rank"])
        deadline = time.monotonic() + 5.0
        while time.monotonic() < deadline:
            # By descent as well: a daemon may have cleared its environment.
            below = [pid for pid in procs.descendants(os.getpid()) if procs.send(pid, signal.SIGKILL) and procs.alive(pid)]
            if not procs.sweep(procs.RUN_VARIABLE, value, 0.0) and not below:
                break
            await asyncio.sleep(0.02)
        if self.process is not None:
            await self.process.wait()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()


class Supervisor:
    """The agent of one job on one node.

    Args:
        jobdir: the job's :class:`JobDir`, whose lock this process holds.
    """

    def __init__(self, jobdir):
        self.jobdir = jobdir
        self.spec = jobdir.spec()
        self.spec["python"] = specs.interpreter(self.spec)
        self.spec["env"] = dict(prefixes.recorded(self.spec["python"]), **self.spec["env"])
        self.name = self.spec["nodes"][self.spec["node_rank"]]["name"]
        self.agent = os.path.join(jobdir.agent, "muster_agent")
        if os.path.isabs(self.spec.get("chdir") or "") and self.spec["code_sha256"]:
            # The ranks start outside the shipped copy, so it must be named.
            self.spec["script"] = self.spec["script"] and os.path.join(jobdir.work, self.spec["script"])
            self.spec["env"] = dict({"PYTHONPATH": jobdir.work}, **self.spec["env"])
        self.channel = self.attempt = self.head = None
        self.heard = time.monotonic()
        self.since = time.time()
        self._stop = None
        self._unsent = []
        self._contents = {}

    def working_folder(self):
        """Where the ranks start."""
        return os.path.join(self.jobdir.work, self.spec.get("chdir") or "")

    def environment(self, run):
        """Environment of torchrun and the ranks; ``run`` as in :func:`commands.environment`, without the folders."""
        base = commands.base_environment(os.environ, self.spec["python"])
        base.update(prefixes.variables(self.spec["python"]))
        run = dict(run, job_dir=self.jobdir.path, run_dir=self.jobdir.run)
        return commands.environment(base, self.spec, run, facts.cores(), self.spec["interface"])

    def state(self, phase, **fields):
        """Write what this agent is doing, for status, tail and stop."""
        own = procs.stat(os.getpid()) or {}
        kept = {"phase": phase, "pid": os.getpid(), "start": own.get("start"), "since": self.since, "attempt": 0}
        kept["restarts"] = self.head.restarts if self.head else []
        self._tell_disk("state.json", dict(kept, **fields))

    def _tell_disk(self, name, value):
        """Write for whoever looks; a full disk must not end a training that still runs."""
        try:
            files.write_json(os.path.join(self.jobdir.run, name), value)
        except OSError as error:
            print("{} cannot be written: {}".format(name, error), file=sys.stderr)

    def send(self, kind, **fields):
        """Send to the head; what there is to say before the first ``begin`` waits until this node's hello is out."""
        if self._unsent is not None:
            self._unsent.append((kind, fields))
        else:
            self.channel.send(kind, **fields)

    def request_stop(self):
        """SIGTERM has come: have the head stop the job on every node."""
        asked = files.read_json(os.path.join(self.jobdir.run, "stop.json"), {})
        self._stop = asked.get("reason") or "a SIGTERM to its agent on {}".format(self.name)
        self._stop_at = time.monotonic()
        if self.channel is not None:
            self.channel.send("stop", reason=self._stop)

    async def connect(self):
        """A channel to the head; tried until the roll call's time is over."""
        head = self.spec["nodes"][0]
        mine = self.spec["nodes"][self.spec["node_rank"]]["address"]
        source = mine if network.is_local(mine) else None
        deadline = time.monotonic() + self.spec["join_timeout"]
        while True:
            try:
                channel = await asyncio.wait_for(
                    control.connect(head["address"], self.spec["control_port"], bytes.fromhex(self.spec["key"]), source),
                    5.0,
                )
                channel.send("join", node_rank=self.spec["node_rank"], run_id=self.spec["run_id"])
                return channel
            except (OSError, control.Broken, asyncio.TimeoutError) as error:
                if self._stop and time.monotonic() > self._stop_at + STOP_SECONDS:
                    raise HeadGone("the job was stopped before it began") from None
                if time.monotonic() > deadline:
                    raise HeadGone(
                        "{} could not reach {} at {}:{} within {:g} s ({}); see that the host is up and its firewall "
                        "lets members in".format(
                            self.name, head["name"], head["address"], self.spec["control_port"],
                            self.spec["join_timeout"], error or "no answer",
                        )
                    ) from None  # fmt: skip
            await asyncio.sleep(CONNECT_SECONDS)

    async def show_life(self):
        """Beat for whoever watches this node's files."""
        while True:
            self.jobdir.beat()
            procs.reap_adopted(self.attempt.process.pid if self.attempt and self.attempt.process else None)
            await asyncio.sleep(BEAT_SECONDS)

    async def watch_head(self):
        """Beat, and close the channel when the head has been silent for too long."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self.channel.send("beat")
            if time.monotonic() - self.heard > SILENT_SECONDS:
                self.silent = True
                self.channel.close()
                return

    def job_facts(self):
        """Facts of the job's Python, which need not be the agent's."""
        python = self.spec["python"]
        if python == sys.executable:
            return facts.gather()
        command = [python, "-I", self.agent, "facts"]
        text = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=True).stdout.decode()
        return json.loads(text[text.index(cli.BEGIN) + len(cli.BEGIN) : text.rindex(cli.END)])

    def hello(self, probe_port):
        """What this node tells at the roll call."""
        told = self.job_facts()
        told.update(nproc=self.spec["nproc"], probe_port=probe_port, interface=self.spec["interface"])
        script = os.path.join(self.working_folder(), self.spec.get("script") or "")
        if os.path.isfile(script):
            with open(script, "rb") as stream:
                told["script_sha256"] = hashlib.sha256(stream.read()).hexdigest()
        # The head compares fingerprints; it asks for this only where they differ.
        self._contents = told.pop("contents")
        self._tell_disk("facts.json", told)
        del told["packages"]
        return told

    async def probe(self, targets):
        """Connect to each target's probe port; returns the failures."""

        async def one(target):
            try:
                _, writer = await asyncio.wait_for(
                    asyncio.open_connection(target["address"], target["port"]), min(5.0, self.spec["join_timeout"])
                )
                writer.close()
                return None
            except (OSError, asyncio.TimeoutError) as error:
                return dict(target, error=str(error) or "no answer")

        return [failure for failure in await asyncio.gather(*map(one, targets)) if failure]

    async def begin(self, number):
        """A new attempt: its child (already there for the first) and this node's hello."""
        if self.attempt is None or self.attempt.number != number:
            self.attempt = Attempt(self, number)
            await self.attempt.spawn()
        address = self.spec["nodes"][self.spec["node_rank"]]["address"]
        self.close_listener()
        self._listener = network.listen(address if network.is_local(address) else "0.0.0.0", 0)
        self.state("roll call", attempt=number)
        self.channel.send("hello", attempt=number, **self.hello(self._listener.getsockname()[1]))
        unsent, self._unsent = self._unsent or [], None
        for kind, fields in unsent:
            self.send(kind, **fields)

    def close_listener(self):
        """Close the probe port."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def obey(self):
        """Do what the head says until it gives the result; raises :class:`HeadGone`."""
        while True:
            try:
                message = await self.channel.receive()
            except control.Broken as error:
                head = self.spec["nodes"][0]["name"]
                why = "has been silent for {:g} s".format(SILENT_SECONDS) if self.silent else "ended ({})".format(error)
                raise HeadGone(
                    "{} is lost: its agent, which leads the job, {}; see whether the host is up and what ended the agent "
                    "there".format(head, why)
                ) from None
            self.heard = time.monotonic()
            kind = message["kind"]
            if kind == "begin":
                if self._stop:
                    self.channel.send("stop", reason=self._stop)
                await self.begin(message["attempt"])
            elif kind == "name_contents":
                self.send("contents", attempt=message["attempt"], contents=self._contents)
            elif kind == "probe":
                failures = await self.probe(message["targets"])
                self.send("probed", attempt=message["attempt"], failures=failures)
            elif kind == "go":
                self.close_listener()
                self.attempt.go(message)
            elif kind in ("abort", "stop"):
                self.state("stopping" if kind == "stop" else "ending", attempt=message["attempt"])
                if kind == "stop" and self.attempt.running:
                    await self.attempt.stop(self.spec["stop_grace"])
                else:
                    await self.attempt.end()
                self.jobdir.note("stopped", attempt=message["attempt"])
                self._unsent = None  # a hello is not asked for any more
                self.send("ended", events=self.attempt.events, **self.attempt.summary())
            elif kind == "finish":
                return message["result"]

    async def own_verdict(self, error):
        """The result where the head cannot give one."""
        events = list(self.attempt.events) if self.attempt else []
        events.append({"kind": "lost", "host": self.spec["nodes"][0]["name"], "time": time.time(), "text": str(error)})
        cause = causes.pick(events)
        outcome = "stopped" if self._stop else "failed"
        text = self._stop or causes.sentence(cause)
        summary = self.attempt.summary() if self.attempt else {}
        me = self.spec["nodes"][self.spec["node_rank"]]
        return {
            "job": self.spec["job"],
            "run_id": self.spec["run_id"],
            "outcome": outcome,
            "sentence": "job {} {}: {}".format(self.spec["job"], outcome, text),
            "cause": cause,
            "restarts": [],
            "attempt": summary.get("attempt", 0),
            "world_size": None,
            "began": self.since,
            "ended": time.time(),
            "seconds": round(time.time() - self.since, 3),
            "nodes": [dict(summary, name=me["name"], address=me["address"], node_rank=self.spec["node_rank"])],
            "warnings": [],
        }

    async def run(self):
        """From the roll call to the result, which is written last of all."""
        loop = asyncio.get_event_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.request_stop)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._listener, self.silent = None, False
        self.state("roll call")
        beats = asyncio.ensure_future(self.show_life())
        watcher = None
        try:
            self.attempt = Attempt(self, 0)
            await self.attempt.spawn()
            if self.spec["node_rank"] == 0:
                self.head = Head(self.spec, self.jobdir.note, lambda number: self.state("roll call", attempt=number))
                await self.head.serve()
                leading = asyncio.ensure_future(self.lead(self.head))
            self.channel = await self.connect()
            self.heard = time.monotonic()
            watcher = asyncio.ensure_future(self.watch_head())
            result = await self.obey()
        except HeadGone as error:
            if self.attempt:
                await self.attempt.end()
            result = await self.own_verdict(error)
        finally:
            if watcher:
                watcher.cancel()
        beats.cancel()
        self.close_listener()
        if self.attempt:
            await self.attempt.end()
        self.jobdir.note("ended", outcome=result["outcome"])
        self.jobdir.conclude(result)
        if self.channel:
            self.channel.close()
        if self.head:
            await asyncio.wait_for(leading, 10)
        return 0

    async def lead(self, head):
        """The head's own course beside this node's."""
        try:
            result = await head.run()
        except Exception:
            head.abandon()
            raise
        await head.finish(result)


def main(state_dir, job, lock):
    """Run the agent of ``job`` until the job has ended; ``lock`` is the inherited descriptor of its lock, or None."""
    os.umask(0o077)
    procs.adopt_orphans()
    jobdir = JobDir(state_dir, job)
    held = jobdir.lock() if lock is None else lock
    if held is None:
        print("job {} has an agent already".format(job), file=sys.stderr)
        return 1
    os.set_inheritable(held, False)
    if lock is None and (jobdir.result() or not jobdir.armed()):
        jobdir.disarm()  # stopped before it began, or killed after its last word
        return 0
    try:
        asyncio.run(Supervisor(jobdir).run())
    except Exception as error:  # the last word of an agent: a job must never end without a sentence
        try:
            jobdir.conclude(broken(jobdir.spec(), error))
        except OSError:
            pass  # the first error is the one to be read in agent.log
        raise
    finally:
        jobdir.disarm()
    return 0


def broken(spec, error):
    """The result of an agent that failed itself."""
    name = spec["nodes"][spec["node_rank"]]["name"]
    text = "the agent on {} failed: {}: {}; see run/agent.log in its job folder".format(name, type(error).__name__, error)
    return {
        "job": spec["job"],
        "run_id": spec["run_id"],
        "outcome": "failed",
        "sentence": "job {} failed: {}".format(spec["job"], text),
        "cause": {"kind": "lost", "host": name, "time": time.time(), "text": text},
        "restarts": [],
        "attempt": 0,
        "world_size": None,
        "ended": time.time(),
        "nodes": [],
        "warnings": [],
    }


def _without_kind(message):
    return {key: value for key, value in message.items() if key != "kind"}
