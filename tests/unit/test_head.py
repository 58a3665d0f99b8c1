"""The head's decisions: ports of attempts, its course through messages, the result and its sentence."""

import asyncio
import time

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import head as heads
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.head import (
    Head,
    Verdict,
    attempt_port,
    sentence,
)


def test_every_attempt_has_a_port_of_its_own(make_spec):
    ports = [attempt_port(make_spec(), attempt) for attempt in range(15)]
    assert ports == [29500, *range(29502, 29516)]
    assert attempt_port(make_spec(), 15) == 29502  # in turn
    assert 29501 not in [attempt_port(make_spec(), attempt) for attempt in range(100)]  # the control plane's


DONE = "job exp7 finished: every one of 4 ranks ended with 0 in 12.3 s"
CAUSE = "rank 1 on n1, train.py:41: ValueError: bad batch"


@pytest.mark.parametrize(
    ("outcome", "verdict", "restarts", "spent", "expected"),
    [
        ("finished", None, [], False, DONE),
        ("finished", None, [CAUSE], False, DONE + " after 1 restart"),
        ("finished", None, [CAUSE] * 2, False, DONE + " after 2 restarts"),
        ("failed", Verdict("failed", CAUSE), [], False, "job exp7 failed: " + CAUSE),
        ("failed", Verdict("failed", CAUSE), [], True, "job exp7 failed: " + CAUSE),
        ("failed", Verdict("failed", CAUSE), [CAUSE], True,
         "job exp7 failed: " + CAUSE + " (its one restart is used up)"),
        ("failed", Verdict("failed", CAUSE), [CAUSE] * 3, True,
         "job exp7 failed: " + CAUSE + " (all 3 restarts are used up)"),
        ("failed", Verdict("failed", "n1 is lost"), [CAUSE], False, "job exp7 failed: n1 is lost"),
        ("stopped", Verdict("stopped", "stop by alice"), [], False, "job exp7 stopped: stop by alice"),
    ],
)  # fmt: skip
def test_the_closing_sentence(make_spec, outcome, verdict, restarts, spent, expected):
    assert sentence(make_spec(), outcome, verdict, restarts, 4, 12.34, spent) == expected


class Node:
    """A channel without a wire: what the head sends lands in a list; ``plays`` answers it through the inbox."""

    def __init__(self, head, rank, plays):
        self.head, self.rank, self.plays, self.heard = head, rank, plays, []

    def send(self, kind, **fields):
        self.heard.append((kind, fields))
        for answer in self.plays(self.rank, kind, fields) or ():
            self.head.inbox.put_nowait((self.rank, answer))
            if answer["kind"] == "gone":
                asyncio.get_event_loop().call_soon(self.head.channels.pop, self.rank, None)

    def close(self):
        pass


HELLO = {
    "kind": "hello",
    "python": "3.11",
    "torch": "2.13.0",
    "fingerprint": "ab" * 32,
    "boot_id": "b",
    "nproc": 2,
    "probe_port": 40000,
}
READY = {"kind": "ready", "torch": "2.13.0", "cuda": None, "nccl": None}


def good(rank, kind, fields):
    """A node with which nothing is wrong."""
    attempt = {"attempt": fields.get("attempt")}
    if kind == "begin":
        return [dict(HELLO, clock=time.time(), **attempt), dict(READY, **attempt)]
    if kind == "probe":
        return [dict(kind="probed", failures=[], **attempt)]
    if kind == "go":
        ranks = [fields["offset"], fields["offset"] + 1]
        exits = {str(number): {"code": 0} for number in ranks}
        return [dict(kind="done", ranks=ranks, exits=exits, seconds=1.5, **attempt)]
    if kind in ("abort", "stop"):
        return [dict(kind="ended", events=[], ranks=[], exits={}, seconds=0.5, **attempt)]
    return []


def course(spec, plays=good, absent=()):
    """Run a head against nodes; returns ``(result, nodes, notes, attempts saved)``."""

    async def run():
        notes, saved = [], []
        head = Head(spec, lambda what, **fields: notes.append((what, fields)), saved.append)
        nodes = {rank: Node(head, rank, plays) for rank in range(len(spec["nodes"])) if rank not in absent}
        head.channels = dict(nodes)
        head.seen = {rank: 0.0 for rank in nodes}
        return await asyncio.wait_for(head.run(), 5), nodes, notes, saved

    return asyncio.run(run())


def failing(times):
    """Nodes of which rank 1's fails in the first ``times`` attempts."""

    def plays(rank, kind, fields):
        if kind == "go" and fields["attempt"] < times:
            return (
                [{"kind": "failed", "attempt": fields["attempt"], "event": bad(fields["attempt"])}] if rank == 1 else []
            )
        return good(rank, kind, fields)

    return plays


def bad(attempt=0):
    error = {"type": "ValueError", "message": "bad batch", "file": "train.py", "line": 41, "traceback": ""}
    return {"kind": "exit", "host": "n1", "time": 5.0 + attempt, "rank": 2, "local_rank": 0, "error": error, "code": 1}


def without_time(event):
    return {key: value for key, value in event.items() if key != "time"}


BAD = "rank 2 on n1, train.py:41: ValueError: bad batch"


def test_a_job_that_goes_well(make_spec):
    result, nodes, notes, saved = course(make_spec(node_rank=0))
    assert result["outcome"] == "finished" and result["cause"] is None and result["restarts"] == []
    assert (result["job"], result["run_id"], result["world_size"], result["attempt"]) == ("exp7", "0a1b2c3d4e5f", 4, 0)
    assert result["nodes"][1] == {
        "name": "n1", "address": "10.0.0.2", "node_rank": 1, "ranks": [2, 3],
        "exits": {"2": {"code": 0}, "3": {"code": 0}}, "seconds": 1.5, "lost": None,
    }  # fmt: skip
    assert [kind for kind, _ in nodes[1].heard] == ["begin", "probe", "go"]
    assert nodes[0].heard[1][1]["targets"] == []
    assert nodes[1].heard[1][1]["targets"] == [{"rank": 0, "address": "10.0.0.1", "port": 40000}]
    assert nodes[1].heard[2][1] == {
        "attempt": 0, "port": 29500, "rdzv_id": "0a1b2c3d4e5f-0", "offset": 2, "world_size": 4, "share": 2,
    }  # fmt: skip
    assert saved == [0] and [what for what, _ in notes] == ["roll call complete", "go"]


def differing(answers):
    """Nodes of which rank 1's has another environment, whose packages they name where ``answers`` is true."""

    def plays(rank, kind, fields):
        if kind == "name_contents":
            if not answers:
                return [{"kind": "gone", "why": "it ended"}] if rank else []
            version = "2.4.1" if rank else "2.4.0"
            return [{"kind": "contents", "attempt": fields["attempt"], "contents": {"numpy": [version, "", "aa"]}}]
        told = good(rank, kind, fields)
        return [dict(told[0], fingerprint="cd" * 32)] + told[1:] if kind == "begin" and rank == 1 else told

    return plays


def test_packages_are_asked_for_only_where_environments_differ(make_spec):
    nodes = [{"name": "n{}".format(rank), "address": "10.0.0.{}".format(rank + 1)} for rank in range(3)]
    result, channels, _, _ = course(make_spec(node_rank=0, nodes=nodes), differing(True))
    assert result["sentence"] == (
        "job exp7 failed: the environment of n1 differs from that of n0 and n2: numpy is 2.4.1 instead of 2.4.0; expected the "
        "same on every node; run site.yml"
    )
    asked = [[kind for kind, _ in channels[rank].heard].count("name_contents") for rank in range(3)]
    assert asked == [1, 1, 0]  # one for each environment


def test_a_node_that_goes_while_it_is_asked_for_packages(make_spec):
    result, _, _, _ = course(make_spec(node_rank=0), differing(False))
    assert result["sentence"].startswith("job exp7 failed: n1 is lost: it ended")


def test_a_failure_ends_it_everywhere(make_spec):
    result, nodes, notes, _ = course(make_spec(node_rank=0), failing(1))
    assert result["outcome"] == "failed" and result["sentence"] == "job exp7 failed: " + BAD
    assert without_time(result["cause"]) == without_time(bad())
    assert [kind for kind, _ in nodes[0].heard][-1] == "abort" and [kind for kind, _ in nodes[1].heard][-1] == "abort"
    assert ("first failure", {"attempt": 0, "sentence": BAD}) in notes


def test_a_restart_is_a_new_attempt_of_all(make_spec):
    result, nodes, _, saved = course(make_spec(node_rank=0, max_restarts=3), failing(2))
    assert result["outcome"] == "finished" and result["attempt"] == 2 and result["restarts"] == [BAD, BAD]
    assert saved == [0, 1, 2]
    goes = [fields for kind, fields in nodes[0].heard if kind == "go"]
    assert [go["port"] for go in goes] == [29500, 29502, 29503]
    assert [go["rdzv_id"][-2:] for go in goes] == ["-0", "-1", "-2"]


def test_restarts_are_bounded(make_spec):
    result, _, _, saved = course(make_spec(node_rank=0, max_restarts=2), failing(9))
    assert result["outcome"] == "failed" and saved == [0, 1, 2]
    assert result["sentence"] == "job exp7 failed: " + BAD + " (all 2 restarts are used up)"


def with_message(on, message, rank=1):
    """Nodes of which one says something of its own instead of answering ``on``."""

    def plays(who, kind, fields):
        if who == rank and kind == on:
            return [dict(message, attempt=fields["attempt"])]
        return [] if kind == "go" else good(who, kind, fields)

    return plays


def test_a_lost_node_is_not_restarted(make_spec):
    gone = with_message("go", {"kind": "gone", "why": "its agent ended (the connection closed)"})
    result, _, _, saved = course(make_spec(node_rank=0, max_restarts=3), gone)
    assert result["sentence"] == (
        "job exp7 failed: n1 is lost: its agent ended (the connection closed); see whether the host is up and what "
        "ended the agent there"
    )
    assert saved == [0] and result["nodes"][1]["lost"] and result["cause"]["kind"] == "lost"


def test_a_stop_is_told_to_all(make_spec):
    stop = with_message("go", {"kind": "stop", "reason": "stop by alice"})
    result, nodes, _, saved = course(make_spec(node_rank=0, max_restarts=3), stop)
    assert result["outcome"] == "stopped" and result["sentence"] == "job exp7 stopped: stop by alice"
    assert nodes[0].heard[-1] == ("stop", {"attempt": 0, "reason": "stop by alice"}) and saved == [0]


def test_a_node_that_does_not_come_is_named(make_spec):
    result, nodes, _, _ = course(make_spec(node_rank=0, join_timeout=0.05, max_restarts=3), absent=[1])
    assert result["sentence"].startswith(
        "job exp7 failed: n1 did not answer the roll call within 0.05 s (1 of 2 nodes did)"
    )
    assert [kind for kind, _ in nodes[0].heard] == ["begin", "abort"]


def test_another_torch_is_refused_before_anything_starts(make_spec):
    def plays(rank, kind, fields):
        return [dict(answer, torch="2.{}".format(rank)) for answer in good(rank, kind, fields)]

    result, nodes, _, _ = course(make_spec(node_rank=0), plays)
    assert result["sentence"].startswith("job exp7 failed: torch differs: 2.0 on n0; 2.1 on n1")
    assert "go" not in [kind for kind, _ in nodes[0].heard]


def test_words_of_an_attempt_that_is_over_are_ignored(make_spec):
    def late(rank, kind, fields):
        stale = [{"kind": "failed", "attempt": fields.get("attempt", 0) + 7, "event": bad()}] if kind == "begin" else []
        return stale + list(good(rank, kind, fields))

    assert course(make_spec(node_rank=0), late)[0]["outcome"] == "finished"


def test_the_users_exception_wins_over_what_came_first(make_spec):
    lost = {"kind": "torchrun", "host": "n0", "time": 1.0, "text": "torchrun on n0 failed"}

    def plays(rank, kind, fields):
        if kind == "go":
            return [{"kind": "failed", "attempt": 0, "event": lost}] if rank == 0 else []
        if kind == "abort" and rank == 1:
            return [dict(kind="ended", attempt=0, events=[bad()], ranks=[2, 3], exits={"2": {"code": 1}}, seconds=1.0)]
        return good(rank, kind, fields)

    result = course(make_spec(node_rank=0), plays)[0]
    assert result["sentence"] == "job exp7 failed: " + BAD and result["nodes"][1]["exits"] == {"2": {"code": 1}}


def test_a_verdict_carries_its_parts():
    verdict = Verdict("failed", "text", {"kind": "lost"}, True)
    assert (verdict.outcome, verdict.sentence, verdict.event, verdict.restartable) == (
        "failed",
        "text",
        {"kind": "lost"},
        True,
    )
    assert heads.SILENT_SECONDS > 3 * heads.BEAT_SECONDS


def test_a_job_without_restarts_has_had_none(make_spec):
    assert course(make_spec(node_rank=0), failing(1))[0]["restarts"] == []


def failing_then_gone(rank, kind, fields):
    """Rank 1's rank fails, then its node goes."""
    if kind == "abort" and rank == 1:
        return [{"kind": "gone", "why": "its agent ended"}]
    return failing(9)(rank, kind, fields)


THREE = [{"name": "n{}".format(rank), "address": "10.0.0.{}".format(rank + 1)} for rank in range(3)]


def test_a_node_lost_after_a_failure_ends_the_job(make_spec):
    result = course(make_spec(node_rank=0, nodes=THREE, max_restarts=3), failing_then_gone)[0]
    assert (
        result["attempt"] == 0
        and "ValueError" in result["sentence"]
        and result["nodes"][1]["lost"] == "its agent ended"
    )


def test_a_node_lost_last_is_noticed_before_a_restart(make_spec):
    result = course(make_spec(node_rank=0, max_restarts=3), failing_then_gone)[0]
    assert result["attempt"] == 0 and "ValueError" in result["sentence"]


def test_restarts_that_are_left_are_not_called_used_up(make_spec):
    result = course(make_spec(node_rank=0, nodes=THREE, max_restarts=3), failing_then_gone)[0]
    assert "used up" not in result["sentence"]


def test_a_node_that_joins_and_leaves_at_once(make_spec):
    async def run():
        head = Head(make_spec(node_rank=0, join_timeout=0.1), lambda what, **fields: None, lambda attempt: None)
        head.channels = {0: Node(head, 0, good)}
        head.inbox.put_nowait((1, {"kind": "join"}))
        head.inbox.put_nowait((1, {"kind": "gone", "why": "its agent ended"}))
        return await asyncio.wait_for(head.run(), 5)

    assert "n1 is lost" in asyncio.run(run())["sentence"]


def test_times_of_events_are_the_heads(make_spec):
    first, second = dict(bad(), time=time.time() + 20.0), dict(bad(), host="n0", rank=0, time=time.time() + 0.5)

    def plays(rank, kind, fields):
        if kind == "begin":
            ahead = 20.0 if rank == 1 else 0.0
            return [dict(answer, clock=time.time() + ahead) for answer in good(rank, kind, fields)]
        if kind == "go":
            return [{"kind": "failed", "attempt": 0, "event": first}] if rank == 1 else []
        if kind == "abort" and rank == 0:
            return [dict(kind="ended", attempt=0, events=[second], ranks=[0, 1], exits={}, seconds=1.0)]
        return good(rank, kind, fields)

    assert "rank 2 on n1" in course(make_spec(node_rank=0), plays)[0]["sentence"]


@pytest.mark.parametrize(("closing", "expected"), [(None, "begin"), ("stop", "stop"), ("abort", "abort")])
def test_who_joins_late_is_told_how_things_stand(make_spec, closing, expected):
    async def run():
        head = Head(make_spec(node_rank=0), lambda what, **fields: None, lambda attempt: None)
        node = Node(head, 1, lambda *_: [])
        head.channels, head.closing = {1: node}, closing
        head.inbox.put_nowait((1, {"kind": "join"}))
        await head.next(time.monotonic() + 1)
        return node.heard

    assert [kind for kind, _ in asyncio.run(run())] == [expected]
