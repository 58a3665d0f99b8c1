"""Snapshots and rollbacks: what hosts tell, and what is made of it."""

import copy

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.python_env import locks
from ansible_collections.muster.cluster.plugins.plugin_utils import environment_versions

OLD, NEW, OTHER = "aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"
LOCK = {
    "format": 1, "platform": "linux-64", "python": "3.11.7", "glibc": None, "cuda": None, "torch_backend": None, "asked": "x",
    "channels": [], "conda": [],
    "wheels": [{"name": "numpy", "version": "2.4.3", "url": "file:/w/numpy.whl", "file_name": "numpy.whl", "sha256": "0" * 64}],
}  # fmt: skip


def version(lock_id, used, current=False, changes=(), users=()):
    """An entry of ``versions``."""
    return {
        "id": lock_id, "path": "/envs/.versions/exp/" + lock_id, "lock_id": lock_id, "used": used, "current": current,
        "changes": [list(change) for change in changes], "users": list(users),
    }  # fmt: skip


def report(current=NEW, kept=(NEW, OLD), **changes):
    """What a host tells that is at ``current`` and keeps ``kept``, the one used last first."""
    changed = [["torch", "2.14.0", "2.13.0"], ["six", None, "1.0"], ["nvtx", "3", None]]
    found = {
        "changed": False, "prefix": "/envs/exp", "name": "exp", "state": "there", "real": "/envs/.versions/exp/" + current,
        "lock_id": current, "lock": copy.deepcopy(LOCK), "environment_yml": "name: exp\n", "fingerprint": "f",
        "contents": {"numpy": ["2.4.3", "", "ab"]}, "drift": [],
        "versions": [version(name, 9.0 - place, name == current, [] if name == current else changed)
                     for place, name in enumerate(kept)],
    }  # fmt: skip
    return dict(found, **changes)


@pytest.mark.parametrize(
    ("extra", "purpose", "expected"),
    [
        ({}, "snapshot", ("", "")),
        ({"python_env": "exp", "muster_state_dir": "/s", "python_env_snapshot_dir": "x"}, "snapshot", ("exp", "")),
        ({"version": "3f9a6c0d1e2b"}, "rollback", ("", "3f9a6c0d1e2b")),
        ({"version": "3f9a-2"}, "rollback", ("", "3f9a-2")),
        ({"version": 1234}, "rollback", ("", "1234")),
    ],
)
def test_what_the_command_line_asks(extra, purpose, expected):
    found = environment_versions.read(extra, ["python_env"], purpose)
    assert (found["name"], found["version"]) == expected


@pytest.mark.parametrize(
    ("extra", "purpose", "told"),
    [
        ({"python_env": "../x"}, "snapshot", "python_env is '../x', expected"),
        ({"version": "3f9a"}, "snapshot", "found the extra variable 'version', which nothing reads; snapshot reads python_env"),
        ({"versoin": "3f9a"}, "rollback", "found the extra variable 'versoin', which nothing reads; did you mean version?"),
        ({"version": "../../x"}, "rollback", "version is '../../x', expected the id"),
        ({"version": True}, "rollback", "version is True, expected the id"),
        ({"version": "3f"}, "rollback", "version is '3f', expected the id"),
    ],
)
def test_what_nothing_reads_and_what_cannot_be(extra, purpose, told):
    with pytest.raises(Refusal) as caught:
        environment_versions.read(extra, ["python_env"], purpose)
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({}, "n2 was not asked"),
        ({"unreachable": True, "msg": "no route"}, "n2 is unreachable: no route"),
        ({"failed": True, "msg": "found x"}, "n2: found x"),
        (report(state="none"), "n2 has nothing at /envs/exp, expected an environment that site.yml has made"),
        (report(state="other"), "n2 has something else at /envs/exp, expected an environment"),
        (report(lock=None), "n2 has no readable lock in /envs/.versions/exp/bbbbbbbbbbbb, expected"),
    ],
)
def test_every_host_must_have_told(answer, told):
    for work in (environment_versions.snapshot, lambda reports: environment_versions.choose(reports, "")):
        with pytest.raises(Refusal) as caught:
            work({"n1": report(), "n2": answer})
        assert str(caught.value).startswith(told)


def test_a_snapshot_is_the_same_every_time():
    files, warnings = environment_versions.snapshot({"n1": report(), "n2": report()})
    assert files == {"environment.yml": "name: exp\n", "lock.json": locks.text(LOCK)} and warnings == []
    assert locks.read(files["lock.json"]) == LOCK


def test_hosts_that_differ_have_no_snapshot():
    other = report(fingerprint="g", contents={"numpy": ["2.3.0", "", "ab"], "six": ["1", "", "cd"]})
    with pytest.raises(Refusal) as caught:
        environment_versions.snapshot({"n1": report(), "n2": other, "n3": report()})
    assert str(caught.value) == (
        "the environment of n2 differs from that of n1 and n3: numpy is 2.3.0 instead of 2.4.3, six 1 should not be there; "
        "expected the same on every node; run ansible-playbook site.yml"
    )


def test_what_was_changed_by_hand_is_in_no_lock():
    files, warnings = environment_versions.snapshot({"n1": report(drift=["six 1 was added"])})
    assert list(files) == ["environment.yml"]
    assert len(warnings) == 1 and "has been changed by hand (six 1 was added), which no lock holds" in warnings[0]


@pytest.mark.parametrize(
    ("wanted", "n2", "to", "hosts"),
    [
        ("", report(), OLD, ["n1", "n2"]),
        ("aaaa", report(), OLD, ["n1", "n2"]),
        ("bbbb", report(), NEW, []),
        ("", report(current=OLD), OLD, ["n1"]),
        ("", report(kept=(NEW, OTHER, OLD)), OLD, ["n1", "n2"]),
        (NEW, report(current=OLD), NEW, ["n2"]),
    ],
)
def test_where_a_rollback_goes(wanted, n2, to, hosts):
    found = environment_versions.choose({"n1": report(), "n2": n2}, wanted)
    assert (found["to"], found["hosts"]) == (to, hosts)
    assert set(sum(found["left"].values(), [])) == set(hosts)


@pytest.mark.parametrize(
    ("n1", "n2", "wanted", "told"),
    [
        (report(kept=(NEW,)), report(), "", "n1: found no version older than the present one, expected one to go back to"),
        (report(), report(), "dddd", "n1: found no version dddd, expected one of those that are kept: aaaaaaaaaaaa; name"),
        (report(kept=(NEW, OLD, OTHER)), report(kept=(NEW, OTHER)), "", "n2 has no version aaaaaaaaaaaa, expected it on "
         "every host before any is switched; all have bbbbbbbbbbbb, cccccccccccc: name one of those by -e version=, or give"),
        (report(kept=(NEW, OLD)), report(kept=(OTHER,), current=OTHER), "", "n2 has no version aaaaaaaaaaaa, expected it on "
         "every host before any is switched; all have none in common:"),
    ],
)  # fmt: skip
def test_all_or_none(n1, n2, wanted, told):
    with pytest.raises(Refusal) as caught:
        environment_versions.choose({"n1": n1, "n2": n2}, wanted)
    assert str(caught.value).startswith(told)


def test_how_a_rollback_is_told():
    reports = {"n1": report(), "n2": report()}
    for host in reports:
        reports[host]["versions"][0]["users"] = ["job exp7"] + (["pid 7 (alice: python)"] if host == "n2" else [])
    chosen = environment_versions.choose(reports, "")
    done = dict.fromkeys(reports, {"changed": True})
    assert environment_versions.outcome("exp", chosen, done) == [
        "environment exp is back at aaaaaaaaaaaa on n1, n2; it was at bbbbbbbbbbbb on n1, n2",
        "  torch is 2.13.0 instead of 2.14.0, six 1.0 comes back, nvtx 3 is gone",
        "  job exp7 still runs on the version before, on n1, n2; it keeps its files",
        "  pid 7 (alice: python) still runs on the version before, on n2; it keeps its files",
        "  site.yml goes forward again, since python_env_spec asks for it: to stay here, give it the lock of this version "
        "(playbooks/snapshot.yml writes it) or correct the file",
    ]
    assert environment_versions.outcome("exp", chosen, done, True)[0].startswith("environment exp would go back to aaaa")


def test_a_rollback_that_finds_nothing_to_do():
    chosen = environment_versions.choose({"n1": report(), "n2": report()}, NEW)
    assert environment_versions.outcome("exp", chosen, {}) == [
        "environment exp is at bbbbbbbbbbbb on every host already; nothing was changed"
    ]


def test_a_host_that_could_not_be_switched():
    chosen = environment_versions.choose({"n1": report(), "n2": report()}, "")
    with pytest.raises(Refusal) as caught:
        environment_versions.outcome(
            "exp", chosen, {"n1": {"changed": True}, "n2": {"failed": True, "msg": "found the disk full"}}
        )
    assert str(caught.value) == "n2: found the disk full; n1 is at aaaaaaaaaaaa now; run the same command again"


def test_many_changes_are_few_words():
    assert environment_versions.few(["a"] * 9) == "a, a, a, a, a, a, a, a and 1 more"


def test_the_folder_is_named_by_what_was_asked():
    assert environment_versions.folder_name({"python_env": "exp"}, "/s/envs/default") == "exp"
    assert environment_versions.folder_name({}, "/s/envs/default/") == "default"
    for extra, prefix in (({"python_env": "../x"}, "/s/envs/default"), ({}, ""), ({}, "/s/..")):
        with pytest.raises(Refusal, match="expected an environment's name"):
            environment_versions.folder_name(extra, prefix)
