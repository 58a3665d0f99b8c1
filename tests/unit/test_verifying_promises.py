"""Logins, clocks and versions of a verification: what is a fault, and what is told only."""

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils import verifying_promises as promises
from verify_helpers import CONTENTS, FACTS, GOOD, NAMES, NODES, PYTHON, PYTHONS

# ------------------------------------------------------------------------------------------------------------ the logins


def bad(detail):
    """A login that failed."""
    return {"ok": False, "detail": detail}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (GOOD["n2"], []),
        ({"ok": True, "machine": None}, []),
        (GOOD["n3"], ["n1 gets to another machine by the name n2, expected n2 itself; run site.yml --tags hosts_file"]),
        (bad("@@@@\nWARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification failed."),
         ["n1 cannot log in to n2 as muster without a question: its host key is not the one that is known there; run site.yml "
          "--tags ssh_keys"]),
        (bad("No ED25519 host key is known for n2 and you have requested strict checking.\r\nHost key verification failed."),
         ["n1 cannot log in to n2 as muster without a question: its host key is not known there; run site.yml --tags ssh_keys"]),
        (bad("muster@n2: Permission denied (publickey,password)."),
         ["n1 cannot log in to n2 as muster without a question: it refuses the login, expected the key of muster; run site.yml "
          "--tags ssh_keys"]),
        (bad("ssh: Could not resolve hostname n2: Name or service not known"),
         ["n1 cannot log in to n2 as muster without a question: the name does not resolve there; run site.yml --tags "
          "hosts_file"]),
        (bad("ssh: connect to host n2 port 22: Connection refused"),
         ["n1 cannot log in to n2 as muster without a question: nothing listens on its SSH port, or its firewall rejects it; run "
          "site.yml --tags ssh_keys,firewall"]),
        (bad("timed out after 10 s"),
         ["n1 cannot log in to n2 as muster without a question: it does not answer; see its sshd and its firewall, run site.yml "
          "--tags firewall"]),
        (bad("kex_exchange_identification: Connection closed by remote host"),
         ["n1 cannot log in to n2 as muster without a question: kex_exchange_identification: Connection closed by remote host; "
          "see ssh n2 there"]),
    ],
)  # fmt: skip
def test_a_login_is_one_sentence(answer, expected):
    assert promises.logins("n1", NAMES, dict(GOOD, n2=answer), FACTS, "muster", "muster") == (expected, [])


def test_logins_that_cannot_be_tried():
    strangers = dict(FACTS, n2=dict(FACTS["n2"], account=None), n3=dict(FACTS["n3"], account=None))
    assert promises.logins("n1", NAMES, GOOD, strangers, "muster", "muster")[0] == [
        "n2, n3 have no user muster, expected the cluster's (it is not set up); run site.yml --tags cluster_user, or leave it "
        "out by -e verify_ssh=false"
    ]
    assert promises.logins("n1", NAMES, None, FACTS, "muster", "alice")[0] == [
        "SSH from n1 could not be tried, since the verification runs there as alice, expected root or muster; see "
        "ansible_become_user"
    ]


# ------------------------------------------------------------------------------------------------------------ the clocks


def timed(**fields):
    """Facts of a clock."""
    return dict(FACTS["n2"]["time"], **fields)


UNSET = timed(chrony=dict(FACTS["n2"]["time"]["chrony"], synchronised=False, source=""))


@pytest.mark.parametrize(
    ("found", "faults", "leader"),
    [
        (timed(), [], "n1"),
        (timed(chrony=dict(timed()["chrony"], local=True, source="")), [], "its own clock"),
        (timed(daemons=["systemd-timesyncd"], chrony=None), [], "what systemd-timesyncd has chosen"),
        (timed(daemons=[], chrony=None, settable=False), [], "the clock of the machine underneath"),
        (timed(daemons=[], chrony=None),
         ["n2 has no time daemon that runs (it is not set up), expected chrony; run site.yml --tags chrony, or leave it out by "
          "-e verify_clocks=false"], "its own clock"),
        (UNSET,
         ["n2 follows no clock (chrony has chosen no source yet), expected one; see chronyc sources there, run site.yml --tags "
          "chrony,firewall"], "no clock yet"),
    ],
)  # fmt: skip
def test_what_a_host_follows(found, faults, leader):
    assert promises.follows_nothing("n2", found) == faults
    assert promises.leader(found, {"10.0.0.1": "n1"}) == leader


def clocks(n2=0.0, error=0.0001, bounds=(-0.1, 0.1), facts=None):
    """The judgement on three clocks, of which that of n2 is off by some seconds."""
    seen = {"n1": {"offset": 0.0, "error": 0.0}, "n2": {"offset": n2, "error": error}, "n3": {"offset": -0.0002, "error": error}}
    return promises.clocks(NODES, facts or FACTS, ("n1", seen), {"n2": bounds}, 0.5, 30.0)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, []), ({"n2": 0.4}, []), ({"n2": 0.6, "error": 0.2}, []),
        ({"n2": 0.6},
         ["the clock of n2 is 600.0 ms ahead of that of n1, expected at most 500.0 ms; run site.yml --tags chrony, and see "
          "chronyc tracking there"]),
        ({"n2": -90.04},
         ["the clock of n2 is 90.0 s behind that of n1, expected at most 500.0 ms; run site.yml --tags chrony, and see chronyc "
          "tracking there"]),
        ({"bounds": (-0.5, 40.0)}, []),
        ({"bounds": (40.0, 40.3)},
         ["the clock of n2 is 40.0 s ahead of this machine's, expected at most 30.0 s; correct the wrong one of the two"]),
        ({"bounds": (-3600.0, -3599.7)},
         ["the clock of n2 is 3599.7 s behind this machine's, expected at most 30.0 s; correct the wrong one of the two"]),
    ],
)  # fmt: skip
def test_clocks_that_differ(arguments, expected):
    assert clocks(**arguments)[0] == expected


def test_which_clock_follows_which_is_told():
    assert clocks()[1] == ["clocks: n1 follows 192.0.2.123; n2, n3 follow n1"]
    kept = {name: dict(found, time=dict(found["time"], settable=False)) for name, found in FACTS.items()}
    assert clocks(facts=kept)[1][1:] == ["clocks: n1, n2, n3 may not set their clock, which is that of the machine underneath"]


def test_the_spread_holds_the_uncertainty():
    seen = {name: {"offset": offset, "error": 0.001} for name, offset in zip(NAMES, (0.0, 0.002, -0.001), strict=True)}
    seen["n1"]["error"] = 0.5  # of the reference, which does not count
    assert promises.spread("n1", NAMES, seen) == pytest.approx(0.005)
    assert promises.spread("n1", NAMES, {}) is None and promises.spread("n1", ["n1"], seen) is None


@pytest.mark.parametrize(("value", "told"), [(0.00004, "0.04 ms"), (0.12, "120.0 ms"), (-0.6, "-600.0 ms"), (2.34, "2.3 s")])
def test_a_duration_for_people(value, told):
    assert promises.seconds(value) == told


# ---------------------------------------------------------------------------------------------------------- the versions


@pytest.mark.parametrize(
    ("pythons", "facts", "expected"),
    [
        (PYTHONS, FACTS, []),
        ({name: None for name in NAMES}, FACTS, []),
        (dict(PYTHONS, n3=dict(PYTHON, version="3.12.1")), FACTS,
         ["the jobs' Python differs: 3.11.2 on n1, n2; 3.12.1 on n3; expected the same on every node; run site.yml --tags "
          "python_env so that every node has the same"]),
        (dict(PYTHONS, n2=dict(PYTHON, fingerprint="cd", contents=dict(CONTENTS, numpy=["2.3.0", "", "cc"]))), FACTS,
         ["the environment of n2 differs from that of n1 and n3: numpy is 2.3.0 instead of 2.4.0; expected the same on every "
          "node; run site.yml --tags python_env"]),
        (PYTHONS, dict(FACTS, n2=dict(FACTS["n2"], account={"uid": 1001, "gid": 1001})),
         ["the user muster differs: uid 8600, gid 8600 on n1, n3; uid 1001, gid 1001 on n2; expected the same on every node; "
          "give it the same numbers everywhere, run site.yml --tags cluster_user"]),
    ],
)  # fmt: skip
def test_versions_that_differ(pythons, facts, expected):
    assert promises.versions(NODES, facts, pythons, "muster")[0] == expected


def test_a_host_without_python_is_named_once():
    faults = promises.versions(NODES, FACTS, dict(PYTHONS, n1=None), "muster")[0]
    assert [fault.split(":")[0] for fault in faults] == ["the jobs' Python differs", "torch differs"]


def test_other_systems_are_told_and_no_fault():
    facts = dict(FACTS, n3=dict(FACTS["n3"], system="Debian 13, Linux 6.12"))
    assert promises.versions(NODES, facts, PYTHONS, "muster") == (
        [], ["systems: Debian 12, Linux 6.1 on n1, n2; Debian 13, Linux 6.12 on n3"]
    )  # fmt: skip
    told = promises.versions(NODES, FACTS, dict.fromkeys(NAMES), "muster")[1]
    assert told == ["versions: no Python for jobs yet (it is not set up); run site.yml --tags python_env"]
    assert promises.versions(NODES, {}, {}, "muster") == ([], [])
