"""The verdict of a verification: matrix, sentences, what is failed and what is told only."""

import json

import pytest
from ansible_collections.muster.cluster.plugins.action import verify_plan
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import verifying
from ansible_collections.muster.cluster.plugins.plugin_utils import verifying_pairs as pairs_of
from verify_helpers import FACTS, GOOD, NAMES, NODES, PYTHON

RANGES = {name: {"rendezvous": "29500:29999", "ephemeral": "32768:60999"} for name in NAMES}
OPTIONS = {
    "user": "muster", "port": 29500, "port_range": [29500, 29999], "timeout": 3, "clock_limit": 0.5,
    "ssh": True, "clocks": True, "versions": True, "bandwidth": False,
}  # fmt: skip
PLAN = {"nodes": NODES, "group": NAMES, "lost": [], "options": OPTIONS}


def outcome(state="ok", port=41234, source="10.0.0.2", detail=""):
    """What a host tells of one port."""
    return {"state": state, "port": port, "source": source, "detail": detail, "ms": 0.4}


def both(rendezvous="ok", ephemeral="ok", **kinds):
    """What a host tells of another."""
    return {"rendezvous": outcome(rendezvous, 29500, **kinds), "ephemeral": outcome(ephemeral, 41234, **kinds)}


def all_pairs(*changes):
    """``{from: {to: outcomes}}`` of three hosts that reach each other, with ``(from, to, outcomes)`` changed."""
    pairs = {one: {other: both() for other in NAMES} for one in NAMES}
    for one, other, outcomes in changes:
        pairs[one][other] = outcomes
    return pairs


# ------------------------------------------------------------------------------------------------------------- the pairs


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (both(), "."), (None, "?"), ({}, "?"),
        (both("timeout", "timeout"), "T"), (both("ok", "timeout"), "t"), (both("timeout", "ok"), "t"),
        (both("refused", "refused"), "R"), (both("ok", "refused"), "r"),
        (both("unreachable", "unreachable"), "U"), (both("ok", "foreign"), "f"), (both("error", "error"), "E"),
    ],
)  # fmt: skip
def test_one_character_per_pair(outcomes, expected):
    assert pairs_of.letter(outcomes) == expected


def test_the_matrix_of_three():
    pairs = all_pairs(("n2", "n1", both("ok", "timeout")), ("n3", "n2", both("refused", "refused")), ("n1", "n1", {}))
    del pairs["n3"]["n1"]
    assert pairs_of.matrix(NAMES, pairs) == [
        "      0 1 2",
        "0 n1  - . .",
        "1 n2  t - .",
        "2 n3  ? R -",
        "from row to column; . reached on both ports; T no answer; R refused; ? not tried; small: on one of the two ports",
    ]
    assert pairs_of.count(NAMES, pairs) == (3, 6)


def test_a_host_that_does_not_reach_itself_is_seen():
    assert pairs_of.matrix(["n1"], {"n1": {"n1": both("timeout", "timeout")}})[1] == "0 n1  T"
    assert pairs_of.matrix(["n1"], {"n1": {"n1": both()}})[1] == "0 n1  -"


def test_the_matrix_of_fifty_is_compact():
    names = ["node{}".format(number) for number in range(50)]
    lines = pairs_of.matrix(names, {one: {other: both() for other in names} for one in names})
    assert len(lines) == 2 + 50 + 1 and max(map(len, lines[:-1])) == 3 + 6 + 2 + 50
    assert lines[0].endswith("44444" + "4" * 5) and lines[1].endswith("0123456789") and lines[2].startswith(" 0 node0   -.")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("n2", "n1", both("ok", "timeout")),
         "n2 cannot reach n1 at 10.0.0.1 port 41234 (no answer within 3 s), expected it open to members: the firewall of n1 "
         "lacks tcp 32768:60999 from 10.0.0.2; run site.yml --tags firewall"),
        (("n2", "n1", both("timeout", "timeout")),
         "n2 cannot reach n1 at 10.0.0.1 ports 29500 and 41234 (no answer within 3 s), expected them open to members: the "
         "firewall of n1 lacks tcp 29500:29999 and 32768:60999 from 10.0.0.2; run site.yml --tags firewall"),
        (("n2", "n1", both("refused", "ok")),
         "n2 cannot reach n1 at 10.0.0.1 port 29500 (refused), expected it open to members: the firewall of n1 rejects tcp "
         "29500:29999 from 10.0.0.2; run site.yml --tags firewall"),
        (("n2", "n1", both("refused", "timeout")),
         "n2 cannot reach n1 at 10.0.0.1 port 29500 (refused) and port 41234 (no answer within 3 s), expected them open to "
         "members: the firewall of n1 rejects tcp 29500:29999 and 32768:60999 from 10.0.0.2; run site.yml --tags firewall"),
        (("n2", "n1", both("unreachable", "unreachable", detail="No route to host")),
         "n2 cannot reach n1 at 10.0.0.1 ports 29500 and 41234 (No route to host), expected them open to members: the firewall "
         "of n1 rejects tcp 29500:29999 and 32768:60999 from 10.0.0.2; run site.yml --tags firewall"),
        (("n2", "n1", both("unreachable", "unreachable", source=None, detail="Network is unreachable")),
         "n2 cannot reach n1 at 10.0.0.1 ports 29500 and 41234 (Network is unreachable), expected them open to members: n2 has "
         "no route there; correct the routes of n2, or muster_address of n1 in the inventory"),
        (("n2", "n1", both("error", "error", detail="Operation not permitted")),
         "n2 cannot reach n1 at 10.0.0.1 ports 29500 and 41234 (Operation not permitted), expected them open to members: n2 may "
         "not connect; see the firewall of n2 for what it lets out"),
        (("n2", "n1", both("foreign", "ok")),
         "n2 cannot reach n1 at 10.0.0.1 port 29500 (something else answers there), expected it open to members: another host or "
         "a proxy answers for 10.0.0.1; see which machines hold that address, and what holds the port"),
        (("n2", "n1", both("timeout", "timeout", source="172.17.0.2")),
         "n2 cannot reach n1 at 10.0.0.1 ports 29500 and 41234 (no answer within 3 s), expected them open to members: n2 goes "
         "there from 172.17.0.2, which is not its address in the cluster; correct its routes, or muster_address of n2 in the "
         "inventory"),
        (("n1", "n1", both("ok", "timeout", source="10.0.0.1")),
         "n1 cannot reach itself at 10.0.0.1 port 41234 (no answer within 3 s), expected it open to members: the firewall of n1 "
         "lacks tcp 32768:60999 from 10.0.0.1; run site.yml --tags firewall"),
    ],
)  # fmt: skip
def test_a_pair_that_fails_is_one_sentence(change, expected):
    assert pairs_of.sentences(NODES, all_pairs(change), RANGES, 3) == [expected]


def test_a_listener_that_is_gone_is_no_firewall():
    pairs = all_pairs(("n2", "n1", both("refused", "ok")), ("n1", "n1", both("refused", "refused")))
    told = pairs_of.sentences(NODES, pairs, RANGES, 3)[1]
    assert told.endswith(": nothing listens there any more; see what ended the listener of n1, and run verify.yml again")


def test_a_route_that_lacks_the_way_back():
    there = both("error", "error", source=None, detail="Invalid argument")
    told = pairs_of.sentences(NODES, all_pairs(("n2", "n1", both("timeout", "timeout")), ("n1", "n2", there)), RANGES, 3)
    assert told[0].endswith("n1 has no route there; correct the routes of n1, or muster_address of n2 in the inventory")
    assert told[1].endswith("n1 has no route back; correct the routes of n1, or muster_address of n2 in the inventory")


# ----------------------------------------------------------------------------------------------------------- the verdict


def answers(*changes):
    """What three good hosts answer: ``(listened, connected)``."""
    pairs = all_pairs(*changes)
    seen = {name: {"offset": 0.0, "error": 0.0002} for name in NAMES}
    ports = {"rendezvous": 29500, "passed_over": None}
    listened = {name: {"facts": FACTS[name], "bounds": [-0.1, 0.1], "listeners": ports} for name in NAMES}
    connected = {name: {"pairs": pairs[name], "clocks": seen, "user": "muster", "python": PYTHON} for name in NAMES}
    connected["n1"]["ssh"] = GOOD
    return listened, connected


def test_a_good_cluster():
    verdict = verifying.judge(PLAN, *answers())
    assert verdict["ok"] and verdict["faults"] == [] and verdict["sentence"] == (
        "cluster of 3 hosts verified: 6 of 6 pairs reach each other (0.4 ms at most), SSH from n1 to 3 of 3, clocks within 0.40 "
        "ms, Python 3.11.2, torch 2.13.0 everywhere"
    )
    assert json.loads(json.dumps(verdict["record"]))["hosts"] == NODES


def test_faults_are_counted_and_the_first_is_quoted():
    one = answers(("n2", "n1", both("ok", "timeout")))
    assert verifying.judge(PLAN, *one)["sentence"].startswith(
        "cluster of 3 hosts not verified (5 of 6 pairs reach each other (0.4 ms at most), SSH from n1 to 3 of 3, clocks within "
        "0.40 ms, Python 3.11.2, torch 2.13.0 everywhere): n2 cannot reach n1 at 10.0.0.1 port 41234 "
    )
    two = verifying.judge(PLAN, *answers(("n2", "n1", both("ok", "timeout")), ("n3", "n1", both("ok", "timeout"))))
    assert not two["ok"] and two["sentence"].endswith("(and 1 more fault, told above)") and len(two["faults"]) == 2


def test_lost_hosts_are_named():
    listened, connected = answers()
    listened["n2"], connected["n2"] = {"lost": "is unreachable: it does not answer"}, {}
    listened["n3"], connected["n3"] = {}, {}
    verdict = verifying.judge(dict(PLAN, lost=["n3"]), listened, connected)
    assert verdict["faults"][:2] == [
        "n2 is unreachable: it does not answer",
        "n3 was lost in this run, before it could be verified; mend what its own message says",
    ]
    listened, connected = answers()
    connected["n3"] = {}
    assert verifying.judge(PLAN, listened, connected)["faults"][0].startswith("n3 was lost in this run, while it was verified")
    listened["n3"] = {"facts": FACTS["n3"], "refused": "has no address 10.0.0.3, found 10.0.0.4; correct muster_address"}
    connected["n3"] = answers()[1]["n3"]
    assert verifying.judge(PLAN, listened, connected)["faults"][0].startswith("n3 has no address 10.0.0.3, found 10.0.0.4;")


def test_pairs_that_nobody_tried_are_a_fault():
    listened, connected = answers()
    connected["n2"]["pairs"] = {}
    assert verifying.judge(PLAN, listened, connected)["faults"] == ["2 of 6 pairs were not tried; run verify.yml again"]


def test_a_part_by_limit_says_so():
    plan = dict(PLAN, nodes=NODES[:2])
    listened, connected = answers()
    verdict = verifying.judge(plan, {name: listened[name] for name in NAMES[:2]}, {name: connected[name] for name in NAMES[:2]})
    assert verdict["sentence"].startswith("2 of the 3 hosts of the cluster verified: 2 of 2 pairs")
    assert "not in this run (--limit): n3" in verdict["told"]


def test_one_host_alone():
    plan = dict(PLAN, nodes=NODES[:1], group=NAMES[:1])
    listened, connected = answers()
    sentence = verifying.judge(plan, {"n1": listened["n1"]}, {"n1": connected["n1"]})["sentence"]
    assert sentence == (
        "cluster of 1 host verified: no pairs to try, SSH from n1 to 1 of 1, Python 3.11.2, torch 2.13.0 everywhere"
    )


def test_what_is_switched_off_is_told_and_fails_nothing():
    options = dict(OPTIONS, ssh=False, clocks=False, versions=False)
    listened, connected = answers()
    for name in NAMES:
        nothing = {"container": "", "settable": True, "daemons": [], "chrony": None}
        listened[name]["facts"] = dict(FACTS[name], account=None, time=nothing)
        connected[name].update(python=None, clocks={})
    verdict = verifying.judge(dict(PLAN, options=options), listened, connected)
    assert verdict["ok"] and verdict["sentence"] == "cluster of 3 hosts verified: 6 of 6 pairs reach each other (0.4 ms at most)"
    assert verdict["told"] == [
        "SSH: not tried (verify_ssh is false)", "clocks: not compared (verify_clocks is false)",
        "versions: not compared (verify_versions is false)",
    ]  # fmt: skip


def test_a_busy_port_and_bandwidth_are_told():
    listened, connected = answers()
    listened["n1"]["listeners"] = {"rendezvous": 29999, "passed_over": "pid 12 (alice: Muster's job exp7)"}
    connected["n1"]["bandwidth"] = {"to": "n2", "gbit_per_s": 9.41}
    connected["n2"]["bandwidth"] = {"to": "n3", "error": "timed out"}
    told = verifying.judge(PLAN, listened, connected)["told"]
    assert told[0] == "n1: port 29500 is held by pid 12 (alice: Muster's job exp7), 29999 was tried instead"
    assert told[-1] == "bandwidth of one TCP stream, all at once: n1 to n2 9.4 Gbit/s; n2 to n3 timed out"


def test_logins_of_a_head_that_is_lost_are_told():
    listened, connected = answers()
    listened["n1"], connected["n1"] = {"lost": "is unreachable: no answer"}, {}
    verdict = verifying.judge(PLAN, listened, connected)
    assert "SSH: not tried, since n1 could not be asked" in verdict["told"]
    assert verdict["faults"][0].startswith("n1 is unreachable")


@pytest.mark.parametrize(
    ("hosts", "forks", "expected"), [(1, 50, 38), (50, 50, 38), (51, 50, 56), (200, 5, 740), (3, 0, 74)]
)
def test_listeners_live_until_the_last_has_come(hosts, forks, expected):
    assert verifying.lifetime(hosts, forks, 3, 10) == expected


def test_check_mode_says_what_would_be_done():
    assert verifying.plan_lines(NODES[:2], NAMES, OPTIONS) == [
        "would prove 2 pairs of n1, n2", "would log in from n1 to n1, n2 as muster", "would compare the clocks",
        "would compare the versions", "not in this run (--limit): n3",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "value", "expected"),
    [
        (verify_plan.port_range, "29500:29999", [29500, 29999]), (verify_plan.port_range, "29500-29999", [29500, 29999]),
        (verify_plan.port_range, 29500, [29500, 29500]), (verify_plan.port_range, "29999:29500", "expected the lower port first"),
        (verify_plan.port_range, "a:b", "verify_port_range is 'a', expected a number from 1 to 65535; correct it"),
        (lambda value: verify_plan.number("x", value), "0.5", 0.5),
        (lambda value: verify_plan.number("x", value), 0, "x is 0, expected a number of seconds above 0; correct it"),
        (lambda value: verify_plan.number("x", value), "nan", "x is 'nan', expected a number of seconds above 0; correct it"),
        (lambda value: verify_plan.yes("x", value), "false", False),
        (lambda value: verify_plan.yes("x", value), "perhaps", "x is 'perhaps', expected true or false; correct it"),
        (lambda value: verify_plan.whole("x", value, 1, 60), "3", 3),
        (verify_plan.writable, "/proc/x", "/proc/x cannot be written .*, expected a folder for the record; set verify_runs_dir"),
        (lambda value: verify_plan.whole("x", value, 1, 60), 61, "x is 61, expected a number from 1 to 60; correct it"),
    ],
)  # fmt: skip
def test_what_the_plan_takes(check, value, expected):
    if isinstance(expected, str):
        with pytest.raises(Refusal, match=".*" + expected.replace("'", ".")):
            check(value)
    else:
        assert check(value) == expected
