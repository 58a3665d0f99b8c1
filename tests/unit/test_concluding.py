"""The end of a launch, a stop, a status: one sentence, one table."""

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils import concluding

STARTED, ATTACHED = {"state": "running", "attached": False}, {"state": "running", "attached": True}


def refused(text):
    return {"refused": text}


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ({}, None),
        ({"n0": STARTED, "n1": STARTED}, None),
        ({"n0": ATTACHED, "n1": ATTACHED}, None),
        ({"n0": STARTED, "n1": refused("n1: found no torch in /p, expected it; run site.yml")},
         "launch refused: n1: found no torch in /p, expected it; run site.yml"),
        ({"n0": STARTED, "n1": refused("is full")}, "launch refused: n1: is full"),
        ({"n0": refused("n0: a"), "n1": refused("n1: b")}, "launch refused: n0: a (and 1 more host refused: n1)"),
        ({"n{}".format(rank): refused("n{}: a".format(rank)) for rank in range(6)},
         "launch refused: n0: a (and 5 more hosts refused: n1, n2, n3)"),
        ({"n0": ATTACHED, "n1": STARTED}, "launch refused: the job runs on n0 but on no other host of this launch; "
         "stop it first, or use another job name"),
        ({"n0": ATTACHED, "n1": refused("n1: full")}, "launch refused: n1: full"),
        ({"n0": STARTED, "n1": {"failed": True, "msg": "module crashed"}}, "launch refused: n1: module crashed"),
        ({"n0": STARTED, "n1": {}}, "launch refused: n1 was not asked"),
    ],
)  # fmt: skip
def test_refusals(starts, expected):
    assert concluding.refusal(starts) == expected


ERROR = {"type": "ValueError", "message": "bad", "file": "train.py", "line": 41, "traceback": "Traceback\n\x1b[31mx"}
BAD = {"kind": "exit", "host": "n1", "time": 9.0, "rank": 1, "local_rank": 0, "error": ERROR, "code": 1}
HEAD_LOST = {"kind": "lost", "host": "n0", "time": 5.0, "text": "n0 is lost: its agent ended; look there"}
NODES = [{"name": "n0", "address": "10.0.0.1"}, {"name": "n1", "address": "10.0.0.2"}]


def result(**fields):
    return dict(
        {"job": "exp7", "outcome": "finished", "sentence": "s", "cause": None, "nodes": [], "restarts": []}, **fields
    )


def test_the_heads_result_counts():
    head = result(sentence="the head's")
    collected = {"n0": {"state": "finished", "result": head}, "n1": {"state": "failed", "result": result(cause=BAD)}}
    assert concluding.result_of("exp7", collected) is head


def test_without_the_head_the_others_are_asked():
    collected = {
        "n0": {"lost": "unreachable"},
        "n1": {"result": result(outcome="failed", cause=BAD, nodes=[{"name": "n1"}])},
        "n2": {"result": result(outcome="failed", cause=HEAD_LOST, nodes=[{"name": "n2"}])},
    }
    found = concluding.result_of("exp7", collected)
    assert found["outcome"] == "failed" and found["cause"] == BAD
    assert found["sentence"] == "job exp7 failed: rank 1 on n1, train.py:41: ValueError: bad"
    assert [node["name"] for node in found["nodes"]] == ["n1", "n2"]


def test_without_the_head_a_good_end_is_a_good_end():
    other = result(sentence="all well")
    assert concluding.result_of("exp7", {"n0": {"lost": "unreachable"}, "n1": {"result": other}}) is other


@pytest.mark.parametrize(
    ("collected", "why"),
    [
        ({"n0": {"lost": "not asked"}, "n1": {"state": "lost", "result": None}}, "not asked"),
        ({"n0": {"state": "lost", "result": None}, "n1": {}}, "its agent ended without a result (state lost)"),
    ],
)
def test_without_any_result_the_head_is_lost(collected, why):
    found = concluding.result_of("exp7", collected)
    assert found["sentence"] == (
        "job exp7 failed: n0 is lost: " + why + "; see whether the host is up and what ended the agent there"
    )
    assert found["outcome"] == "failed" and found["nodes"] == [] and found["warnings"] == []


def test_the_closing_table():
    ended = result(
        outcome="failed",
        nodes=[
            {"name": "n0", "ranks": [0, 1], "exits": {"0": {"code": 0}}, "seconds": 12.345, "lost": None},
            {"name": "n1", "ranks": [2, 3], "exits": {"2": {"signal": 9}}, "seconds": None, "lost": "silence"},
        ],
    )
    assert concluding.table([*NODES, {"name": "n2"}], ended) == [
        "host  node rank  ranks  exit                      seconds",
        "n0    0          0-1    ended by Muster (rank 1)  12.3",
        "n1    1          2-3    lost                      -",
        "n2    2          -      lost                      -",
    ]


def test_the_traceback_is_marked_and_clean():
    assert concluding.quoted(BAD) == ["n1:1 | Traceback", "n1:1 | x"]
    for cause in (None, {}, HEAD_LOST, dict(BAD, error=None)):
        assert concluding.quoted(cause) == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"state": "absent"}, None),
        ({}, "n0 was not asked"),
        ({"unreachable": True, "msg": "no\n route"}, "n0 is unreachable: no route"),
        ({"failed": True, "msg": "disk full"}, "n0: disk full"),
        ({"failed": False, "state": "stopped"}, None),
    ],
)
def test_who_did_not_answer(answer, expected):
    assert concluding.unasked("n0", answer) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"n0": {"state": "stopped"}, "n1": {"state": "absent"}}, None),
        ({"n0": {"state": "absent"}, "n1": {"state": "absent"}}, "stop refused: found no job exp7 on n0, n1, expected "
         "its name; playbooks/status.yml lists what there is"),
        ({"n0": {"state": "stopped"}, "n1": {}},
         "stop failed: n1 was not asked; what ran of job exp7 there may still run"),
    ],
)  # fmt: skip
def test_stops_that_did_not_do_their_work(found, expected):
    assert concluding.stop_refusal("exp7", found) == expected


def test_how_a_stop_went():
    found = {
        "n0": {"changed": True, "state": "stopped", "sentence": "job exp7 stopped: stop"},
        "n1": {"state": "finished"},
    }
    assert concluding.stopped("exp7", found) == [
        "host  job   state",
        "n0    exp7  stopped",
        "n1    exp7  finished",
        "job exp7 stopped: stop",
    ]


def known(**fields):
    base = {
        "state": "running",
        "phase": "running",
        "attempt": 0,
        "since": 5,
        "node_rank": 0,
        "ranks": [0],
        "launched_by": "a",
    }
    return dict(base, **fields)


def test_the_status_table():
    found = {
        "n0": {"jobs": {"b": known(launched_by=None)}},
        "n1": {"jobs": {"b": known(node_rank=1, ranks=[1], attempt=2, phase="roll call"), "a": known(state="failed")}},
        "n2": {},
        "n3": {"jobs": {"b": {"state": "absent"}}},
    }
    assert concluding.status_rows(found, "b", "t{}".format) == [
        ("job", "host", "node rank", "ranks", "state", "restarts", "since", "by"),
        ("a", "n1", "0", "0", "failed", "0", "t5", "a"),
        ("b", "n0", "0", "0", "running", "0", "t5", "-"),
        ("b", "n1", "1", "1", "running (roll call)", "2", "t5", "a"),
        ("b", "n2", "-", "-", "unknown", "-", "-", "-"),
        ("b", "n3", "-", "-", "absent", "-", "-", "-"),
    ]


def test_the_heads_verdict_counts_wherever_it_lies():
    stopped = result(
        outcome="stopped",
        sentence="job exp7 stopped: stop by alice",
        nodes=[{"name": "n0"}, {"name": "n1"}, {"name": "n2"}],
    )
    collected = {
        "n0": {"lost": "x"},
        "n1": {"result": stopped},
        "n2": {"result": result(outcome="failed", cause=HEAD_LOST)},
    }
    assert concluding.result_of("exp7", collected)["sentence"] == "job exp7 stopped: stop by alice"


def test_the_status_table_keeps_the_order_of_the_inventory():
    found = {name: {"jobs": {"b": known(node_rank=rank)}} for rank, name in enumerate(["n2", "n10"])}
    assert [row[1] for row in concluding.status_rows(found, "b", str)[1:]] == ["n2", "n10"]
