"""The head's part of a job: roll call, go, the first failure to everybody, the verdict. Runs inside rank 0's agent.

The head alone decides; nodes report and obey. Messages of a node: ``join``, ``hello``, ``contents``, ``probed``, ``ready``,
``failed``, ``done``, ``ended``, ``stop``, ``beat``. Of the head: ``begin``, ``name_contents``, ``probe``, ``go``, ``abort``,
``stop``, ``finish``, ``beat``.
"""

import asyncio
import time

from . import causes, control, network, rollcall

BEAT_SECONDS = 1.0
# A silent peer is given up after this; TCP alone would take minutes.
SILENT_SECONDS = 10.0
# How long after the first failure the others may take to say what they saw.
ENDED_SECONDS = 10.0
# torch may be imported from a slow network disk.
READY_SECONDS = 600.0
FINISH_SECONDS = 3.0
# Connections beyond one per node that may be open before they have shown the key; each may buffer a line.
STRANGERS = 16


class Verdict(Exception):
    """Ends an attempt: ``outcome`` is ``failed`` or ``stopped``; ``event`` or ``sentence`` says why."""

    def __init__(self, outcome, sentence=None, event=None, restartable=False):
        super().__init__(sentence)
        self.outcome, self.sentence, self.event, self.restartable = outcome, sentence, event, restartable


class Head:
    """Decides for all nodes.

    Args:
        spec: the head's specification.
        note: callable(what, **fields) that writes the timeline.
        save: callable(attempt) that makes the attempt's number durable before it begins.
    """

    def __init__(self, spec, note, save):
        self.spec, self.note, self.save = spec, note, save
        self.count = len(spec["nodes"])
        self.inbox = asyncio.Queue()
        self.channels, self.seen = {}, {}
        self.lost = {}
        self.attempt = 0
        self.warnings = []
        self.world_size = None
        self.stop_reason = None
        self.restarts = []
        # What a node that joins late is told: nothing yet, "stop" or "abort", or the result.
        self.closing, self.final, self.joined = None, None, set()
        self.strangers = 0
        self._reset()

    def _reset(self):
        self.hellos, self.contents, self.probes, self.ready = {}, {}, {}, {}
        self.events, self.done, self.ended = [], {}, {}

    def name(self, rank):
        """Host name of a node rank, as in the inventory."""
        return self.spec["nodes"][rank]["name"]

    async def serve(self):
        """Listen for the nodes; raises OSError where the port is taken."""
        self._server = await asyncio.start_server(
            self._accept, sock=network.listen(self.spec["nodes"][0]["address"], self.spec["control_port"]),
            limit=control.LIMIT,
        )  # fmt: skip
        self._beats = asyncio.ensure_future(self._beat())

    async def _accept(self, reader, writer):
        channel = control.Channel(reader, writer, bytes.fromhex(self.spec["key"]), "head")
        rank = None
        if self.strangers > self.count + STRANGERS:
            writer.close()
            return
        self.strangers += 1
        try:
            try:
                await channel.handshake()
                first = await asyncio.wait_for(channel.receive(), control.HANDSHAKE_SECONDS)
            finally:
                self.strangers -= 1
            rank = first.get("node_rank")
            if first["kind"] != "join" or first.get("run_id") != self.spec["run_id"] or rank in self.channels:
                self.note("refused", node_rank=rank)
                rank = None
                return
            self.channels[rank], self.seen[rank] = channel, time.monotonic()
            self.joined.add(rank)
            if self.final is not None:
                channel.send("finish", result=self.final)
            else:
                await self.inbox.put((rank, first))
            while True:
                message = await channel.receive()
                self.seen[rank] = time.monotonic()
                if message["kind"] != "beat":
                    await self.inbox.put((rank, message))
        except (control.Broken, asyncio.TimeoutError, asyncio.CancelledError):
            pass  # cancelled where the job ends while a stranger is still at the door
        finally:
            channel.close()
            if rank is not None and self.channels.get(rank) is channel:
                del self.channels[rank]
                await self.inbox.put((rank, {"kind": "gone", "why": "its agent ended (the connection closed)"}))

    async def _beat(self):
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            for rank, channel in list(self.channels.items()):
                if time.monotonic() - self.seen[rank] > SILENT_SECONDS:
                    del self.channels[rank]
                    channel.close()
                    why = "it has not been heard of for {:g} s".format(SILENT_SECONDS)
                    await self.inbox.put((rank, {"kind": "gone", "why": why}))
                else:
                    channel.send("beat")

    def tell(self, kind, **fields):
        """Send one message to every node."""
        for channel in self.channels.values():
            channel.send(kind, **fields)

    async def next(self, deadline):
        """Handle the next message; returns False where ``deadline`` (monotonic seconds) came first."""
        try:
            rank, message = await asyncio.wait_for(self.inbox.get(), max(0.0, deadline - time.monotonic()))
        except asyncio.TimeoutError:
            return False
        kind = message["kind"]
        if kind == "join":
            if rank in self.channels:  # it may have gone again
                self.channels[rank].send(self.closing or "begin", attempt=self.attempt)
        elif kind == "stop":
            self.stop_reason = self.stop_reason or message["reason"]
            raise Verdict("stopped", message["reason"])
        elif kind == "gone":
            self.lost[rank] = message["why"]
            text = "{} is lost: {}; see whether the host is up and what ended the agent there".format(
                self.name(rank), message["why"]
            )
            event = {"kind": "lost", "host": self.name(rank), "time": time.time(), "text": text}
            self.events.append(event)
            raise Verdict("failed", event=event)
        elif message.get("attempt") != self.attempt:
            return True  # of an attempt that is over
        elif kind == "hello":
            skew = message["clock"] - time.time()
            self.hellos[rank] = dict(message, skew=skew if rank else 0.0)
        elif kind == "contents":
            self.contents[rank] = self.hellos[rank]["contents"] = message["contents"]
        elif kind == "probed":
            self.probes[rank] = message["failures"]
        elif kind == "ready":
            self.ready[rank] = message
        elif kind == "failed":
            event = self._by_own_clock(rank, message["event"])
            self.events.append(event)
            raise Verdict("failed", event=event, restartable=True)
        elif kind == "done":
            self.done[rank] = message
        elif kind == "ended":
            self.ended[rank] = message
            self.events += [self._by_own_clock(rank, event) for event in message["events"]]
        return True

    def _by_own_clock(self, rank, event):
        """An event with its time by the head's clock, as far as the roll call knows the difference."""
        return dict(event, time=event["time"] - self.hellos.get(rank, {}).get("skew", 0.0))

    async def until(self, box, seconds, count=None):
        """Handle messages until every node (or ``count``) is in ``box`` or ``seconds`` have passed; whether they all are."""
        deadline = time.monotonic() + seconds
        while len(box) < (self.count if count is None else count):
            if not await self.next(deadline):
                return False
        return True

    async def roll_call(self):
        """Everybody is there, equal and reachable, or :class:`Verdict`."""
        wait = self.spec["join_timeout"]
        if not await self.until(self.hellos, wait):
            raise Verdict("failed", rollcall.absent(self.spec, self.hellos, wait))
        # Fingerprints tell that environments differ; only then is it worth asking in which packages.
        witnesses = [rank for rank in rollcall.witnesses(self.hellos) if rank in self.channels]
        for rank in witnesses:
            self.channels[rank].send("name_contents", attempt=self.attempt)
        await self.until(self.contents, wait, len(witnesses))  # without an answer the verdict names no packages
        early = rollcall.verdict(self.spec, self.hellos, {})
        if early:
            raise Verdict("failed", early)
        targets = [
            {"rank": rank, "address": self.spec["nodes"][rank]["address"], "port": hello["probe_port"]}
            for rank, hello in sorted(self.hellos.items())
        ]
        for rank, channel in self.channels.items():
            channel.send("probe", attempt=self.attempt, targets=[t for t in targets if t["rank"] < rank])
        if not await self.until(self.probes, wait):
            silent = [self.name(rank) for rank in range(self.count) if rank not in self.probes]
            raise Verdict("failed", "{} did not finish its probes within {:g} s".format(", ".join(silent), wait))
        late = rollcall.verdict(self.spec, self.hellos, self.probes)
        if late:
            raise Verdict("failed", late)
        self.warnings = rollcall.warnings(self.spec, self.hellos)
        self.note("roll call complete", attempt=self.attempt)
        if not await self.until(self.ready, READY_SECONDS):
            slow = [self.name(rank) for rank in range(self.count) if rank not in self.ready]
            raise Verdict(
                "failed", "{} could not import torch within {:g} s; see how fast its disk is".format(
                    ", ".join(slow), READY_SECONDS
                )
            )  # fmt: skip
        for key, what in (("torch", "torch"), ("cuda", "the CUDA of torch"), ("nccl", "NCCL")):
            text = rollcall.differing(self.spec, self.ready, key, what, "run site.yml so that every node has the same")
            if text:
                raise Verdict("failed", text)

    def go(self):
        """Start torchrun everywhere, each attempt on a port of its own."""
        nprocs = [self.hellos[rank]["nproc"] for rank in range(self.count)]
        offsets, self.world_size = rollcall.rank_offsets(self.spec, nprocs)
        boots = [self.hellos[rank]["boot_id"] for rank in range(self.count)]
        port = self._port()
        for rank, channel in self.channels.items():
            channel.send(
                "go", attempt=self.attempt, port=port, rdzv_id="{}-{}".format(self.spec["run_id"], self.attempt),
                offset=offsets[rank], world_size=self.world_size, share=boots.count(boots[rank]) if boots[rank] else 1,
            )  # fmt: skip
        self.note("go", attempt=self.attempt, world_size=self.world_size, port=port)

    def _port(self):
        """This attempt's rendezvous port: the first is the user's, later ones must be free by now."""
        ports = [attempt_port(self.spec, number) for number in range(self.attempt, self.attempt + 14)]
        if self.attempt == 0:
            return ports[0]
        return next((port for port in ports if network.port_free(port)), ports[0])

    async def gather_ends(self, seconds):
        """Wait until every node that is still there has said that nothing runs on it any more."""
        deadline = time.monotonic() + seconds
        while set(self.channels) - set(self.ended) or not self.inbox.empty():
            try:
                if not await self.next(deadline):
                    return
            except Verdict:
                continue

    async def one_attempt(self):
        """One attempt from roll call to end: None for success, else the :class:`Verdict`."""
        self._reset()
        self.closing = None
        self.save(self.attempt)
        try:
            self.tell("begin", attempt=self.attempt)
            await self.roll_call()
            self.go()
            await self.until(self.done, float("inf"))
            return None
        except Verdict as verdict:
            found = verdict
        if self.stop_reason:
            found.outcome = "stopped"
            self.closing = "stop"
            self.tell("stop", attempt=self.attempt, reason=self.stop_reason)
            await self.gather_ends(self.spec["stop_grace"] + ENDED_SECONDS)
            return found
        self.note("first failure", attempt=self.attempt, sentence=found.sentence or causes.sentence(found.event))
        self.closing = "abort"
        self.tell("abort", attempt=self.attempt)
        await self.gather_ends(ENDED_SECONDS)
        if found.sentence is None:
            found.event = causes.pick(self.events)
            found.sentence = causes.sentence(found.event)
        return found

    async def run(self):
        """All attempts; returns the job's result (see :func:`result`)."""
        began, restarts = time.time(), self.restarts
        while True:
            verdict = await self.one_attempt()
            again = verdict is not None and verdict.restartable and not self.stop_reason and not self.lost
            if not again or len(restarts) == self.spec["max_restarts"]:
                return self.result(verdict, began, restarts, spent=again)
            restarts.append(verdict.sentence)
            self.note("restart", number=len(restarts), cause=verdict.sentence)
            self.attempt += 1

    def result(self, verdict, began, restarts, spent):
        """What goes into result.json on every node; ``spent``: only the number of restarts forbade another one."""
        outcome = verdict.outcome if verdict else "finished"
        nodes = []
        for rank, node in enumerate(self.spec["nodes"]):
            told = self.done.get(rank) or self.ended.get(rank) or {}
            nodes.append(
                {
                    "name": node["name"],
                    "address": node["address"],
                    "node_rank": rank,
                    "ranks": told.get("ranks", []),
                    "exits": told.get("exits", {}),
                    "seconds": told.get("seconds"),
                    "lost": self.lost.get(rank),
                }
            )
        return {
            "job": self.spec["job"],
            "run_id": self.spec["run_id"],
            "outcome": outcome,
            "sentence": sentence(self.spec, outcome, verdict, restarts, self.world_size, time.time() - began, spent),
            "cause": verdict.event if verdict else None,
            "restarts": restarts,
            "attempt": self.attempt,
            "world_size": self.world_size,
            "began": began,
            "ended": time.time(),
            "seconds": round(time.time() - began, 3),
            "nodes": nodes,
            "warnings": self.warnings,
        }

    def abandon(self):
        """Leave the nodes to themselves, at once: the head itself has failed."""
        self._beats.cancel()
        self._server.close()
        for channel in self.channels.values():
            channel.close()

    async def finish(self, result):
        """Give everybody the result and wait, bounded, until they have gone."""
        self._beats.cancel()
        self.final = result
        self.tell("finish", result=result)
        deadline = time.monotonic() + FINISH_SECONDS
        while time.monotonic() < deadline and (set(self.channels) - {0} or len(self.joined) < self.count):
            await asyncio.sleep(0.01)
        self._server.close()


def attempt_port(spec, attempt):
    """The rendezvous port of an attempt: master_port first, then those above the control port, in turn."""
    if attempt == 0:
        return spec["master_port"]
    return spec["master_port"] + 2 + (attempt - 1) % 14


def sentence(spec, outcome, verdict, restarts, world_size, seconds, spent=False):
    """The closing sentence of a job; ``spent``: it failed once more than it may be restarted."""
    job = spec["job"]
    if outcome == "finished":
        again = " after {} restart{}".format(len(restarts), "" if len(restarts) == 1 else "s") if restarts else ""
        who = "its one rank" if world_size == 1 else "every one of {} ranks".format(world_size)
        return "job {} finished: {} ended with 0 in {:.1f} s{}".format(job, who, seconds, again)
    if outcome == "stopped":
        return "job {} stopped: {}".format(job, verdict.sentence)
    used_up = ""
    if spent and restarts:
        count = len(restarts)
        used_up = " (its one restart is used up)" if count == 1 else " (all {} restarts are used up)".format(count)
    return "job {} failed: {}{}".format(job, verdict.sentence, used_up)
