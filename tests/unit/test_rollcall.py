"""The roll call's verdicts: host, found, expected, fix."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import rollcall

CONTENTS = {"numpy": ["2.4.1", "", "aa"], "torch": ["2.13.0+cpu", "", "bb"]}
HELLO = {
    "python": "3.11",
    "torch": "2.13.0+cpu",
    "fingerprint": "ab" * 32,
    "script_sha256": "aa",
    "skew": 0.0,
    "nproc": 2,
}


@pytest.fixture
def spec(make_spec):
    nodes = [{"name": "n{}".format(rank), "address": "10.0.0.{}".format(rank + 1)} for rank in range(3)]
    return make_spec(nodes=nodes, node_rank=0)


def hellos(**changes):
    """Hellos of three nodes, ``n1={...}`` changing that of rank 1."""
    return {rank: dict(HELLO, **changes.get("n{}".format(rank), {})) for rank in range(3)}


def test_equal_nodes_may_start(spec):
    assert rollcall.verdict(spec, hellos(), {}) is None
    assert rollcall.verdict(spec, hellos(), {0: [], 1: [], 2: []}) is None


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ([0, 1, 2], None),
        ([0, 2], "n1 did not answer the roll call within 60 s (2 of 3 nodes did); see that the host is up and reaches "
         "10.0.0.1:29501 on n0"),
        ([0], "n1, n2 did not answer the roll call within 60 s (1 of 3 nodes did); see that the host is up and reaches "
         "10.0.0.1:29501 on n0"),
    ],
)  # fmt: skip
def test_who_did_not_come(spec, present, expected):
    assert rollcall.absent(spec, {rank: HELLO for rank in present}, 60.0) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"n2": {"torch": "2.12.0"}},
         "torch differs: 2.13.0+cpu on n0, n1; 2.12.0 on n2; expected the same on every node; "
         "run site.yml so that every node has the same"),
        ({"n1": {"python": "3.12"}}, "Python differs: 3.11 on n0, n2; 3.12 on n1; expected the same on every node; run "
         "site.yml so that every node has the same"),
        ({"n1": {"script_sha256": "bb"}},
         "the script differs: aa on n0, n2; bb on n1; expected the same on every node; "
         "launch again so that it is shipped anew"),
        ({"n1": {"fingerprint": "cd" * 32}},
         "the environment of n1 differs from that of n0 and n2: its fingerprint is cdcdcdcdcdcd instead of abababababab; "
         "expected the same on every node; run site.yml"),
        ({"n0": {"fingerprint": "cd" * 32, "contents": dict(CONTENTS, numpy=["2.4.0", "", "aa"])},
          "n1": {"contents": CONTENTS}},
         "the environment of n0 differs from that of n1 and n2: numpy is 2.4.0 instead of 2.4.1; expected the same on every "
         "node; run site.yml"),
        ({"n0": {"contents": CONTENTS}, "n1": {"fingerprint": "cd" * 32, "contents": {"torch": CONTENTS["torch"]}},
          "n2": {"fingerprint": "ef" * 32, "contents": dict(CONTENTS, extra=["1", "", "cc"])}},
         "the environment of n1 differs from that of n0: numpy 2.4.1 is missing; the environment of n2 differs from that of "
         "n0: extra 1 should not be there; expected the same on every node; run site.yml"),
        ({"n2": {"skew": 31.4}},
         "the clock of n2 is 31 s ahead of that of n0, expected at most 30 s; set it by chrony"),
        ({"n1": {"skew": -3600}},
         "the clock of n1 is 3600 s behind that of n0, expected at most 30 s; set it by chrony"),
        ({"n1": {"skew": 30.0}, "n2": {"skew": -30.0}}, None),
        # what is asked first decides: a clock before a version, a version before the packages
        ({"n1": {"skew": 100, "torch": "1"}},
         "the clock of n1 is 100 s ahead of that of n0, expected at most 30 s; set it by chrony"),
    ],
)  # fmt: skip
def test_what_must_be_the_same(spec, changes, expected):
    assert rollcall.verdict(spec, hellos(**changes), {}) == expected


def test_many_environments_are_counted(make_spec):
    nodes = [{"name": "n{}".format(rank), "address": "10.0.0.{}".format(rank + 1)} for rank in range(9)]
    found = {rank: dict(HELLO, fingerprint=str(min(rank, 6)) * 64) for rank in range(9)}
    told = rollcall.environments(make_spec(nodes=nodes), found)
    assert told.startswith("the environment of n0 differs from that of n6, n7 and n8: its fingerprint is 000000000000 instead")
    assert told.count("the environment of") == 3 and "; and 3 more; expected the same" in told


@pytest.mark.parametrize(
    ("fingerprints", "expected"),
    [("aaa", []), ("aba", [0, 1]), ("bcc", [0, 1]), ("abc", [0, 1, 2]), ("a", []), ([None, "a", "b"], [1, 2]), ([None] * 3, [])],
)
def test_who_is_asked_for_packages(fingerprints, expected):
    assert rollcall.witnesses({rank: {"fingerprint": value} for rank, value in enumerate(fingerprints)}) == expected


def test_a_value_that_a_node_lacks_differs(spec):
    found = hellos()
    del found[1]["script_sha256"]
    assert rollcall.verdict(spec, found, {}).startswith("the script differs: aa on n0, n2; missing on n1;")


def test_two_hosts_with_one_address(spec):
    spec["nodes"][2]["address"] = "10.0.0.2"
    told = rollcall.verdict(spec, hellos(), {})
    assert told == "n1 and n2 both have the address 10.0.0.2, expected one each; correct muster_address"


def failure(rank, error="timed out"):
    return {"rank": rank, "address": "10.0.0.{}".format(rank + 1), "port": 40000 + rank, "error": error}


def test_a_blocked_pair_is_named(spec):
    told = rollcall.verdict(spec, hellos(), {1: [], 2: [failure(1, "No route to host")]})
    assert told == (
        "n2 cannot reach n1 at 10.0.0.2 on port 40001 (No route to host); expected every port open between members; "
        "open the ephemeral range in the firewall of that host"
    )


def test_many_blocked_pairs_are_counted(spec):
    told = rollcall.unreachable(spec, {1: [failure(0), failure(2)], 2: [failure(0), failure(1)]})
    assert told.count("cannot reach") == 3 and " and 1 more pairs; expected" in told


def test_versions_are_told_before_blocked_pairs(spec):
    told = rollcall.verdict(spec, hellos(n1={"torch": "2.12.0"}), {1: [failure(0)]})
    assert told.startswith("torch differs")


@pytest.mark.parametrize(
    ("hello", "expected"),
    [
        ({"shm_bytes": 64 << 20, "nofile": 1024},
         ["n1: /dev/shm has 64 MB free; DataLoader workers may die with 'No space left on device'",
          "n1: only 1024 open files are allowed; expected 4096 or more"]),
        ({"shm_bytes": 256 << 20, "nofile": 4096}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_warnings(spec, hello, expected):
    assert rollcall.warnings(spec, hellos(n1=hello)) == expected


@pytest.mark.parametrize(
    ("nprocs", "expected"),
    [([1, 1, 1], ([0, 1, 2], 3)), ([4, 1, 2], ([0, 4, 5], 7)), ([8, 8, 8], ([0, 8, 16], 24))],
)
def test_ranks_are_contiguous(spec, nprocs, expected):
    assert rollcall.rank_offsets(spec, nprocs) == expected


@pytest.mark.parametrize(
    ("key", "values", "differs"),
    [
        ("cuda", [None, None, None], False),
        ("cuda", ["12.8", "12.8", None], True),
        ("nccl", ["2.27", "2.27", "2.27"], False),
    ],
)
def test_differing(spec, key, values, differs):
    found = {rank: {key: value} for rank, value in enumerate(values)}
    assert bool(rollcall.differing(spec, found, key, "it", "mend it")) is differs
