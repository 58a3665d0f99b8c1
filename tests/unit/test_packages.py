"""What apt and dnf say, of real runs, and what a user is told."""

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils import packages


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 578 (python3)\nE: Unable to acquire the dpkg "
         "frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?", "locked"),
        ("Failed to lock apt for exclusive operation: Failed to lock directory /var/lib/apt/lists/", "locked"),
        ("dnf lockfile is held by another process (pid 12)", "locked"),
        ("E: Release file for http://deb.example/InRelease is not valid yet (invalid for another 5h).",
         "clock"),
        ("E: Failed to fetch http://deb.example/t.deb  Temporary failure resolving 'deb.example'\n"
         "E: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?", "network"),
        ("Cannot initiate the connection to 10.9.9.9:80 (10.9.9.9). - connect (101: Network is unreachable)", "network"),
        ("Errors during downloading metadata for 'baseos':\n  - Curl error (6): Couldn't resolve host name", "network"),
        ("E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem.", "interrupted"),
        ("E: You don't have enough free space in /var/cache/apt/archives/.", "full"),
        ("E: There were unauthenticated packages and -y was used without --allow-unauthenticated", "unsigned"),
        ("E: Failed to fetch http://deb.example/t_1.deb  404  Not Found [IP: 192.0.2.1 80]", "stale"),
        ("No package matching 'treee' is available", "stale"),
        ("E: Unable to locate package python3-apt", "stale"),
        ("Failed to install some of the specified packages\nNo package treee available.", "stale"),
        ("The following packages have unmet dependencies:", "broken"),
        ("E: Sub-process /usr/bin/dpkg returned an error code (1)", "other"),
        ("", "other"),
    ],
)  # fmt: skip
def test_kinds_of_complaints(text, kind):
    assert packages.kind(text) == kind


def test_the_sentence_has_host_cause_and_fix():
    text = (
        "'/usr/bin/apt-get -y install tree=1' failed: E: Failed to fetch http://deb.example/t.deb  Temporary failure resolving "
        "'deb.example'\nE: Unable to fetch some archives, maybe run apt-get update"
    )
    assert packages.failure("n1", "apt", ["tree"], text) == (
        "n1: apt did not install tree (E: Failed to fetch http://deb.example/t.deb Temporary failure resolving 'deb.example'), "
        "expected it to; it reaches no mirror; see its default route, its name servers and its proxy, or name a mirror that it "
        "reaches"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "it said nothing"),
        ("Reading package lists...\nE: Sub-process returned an error\nmore", "E: Sub-process returned an error"),
        ("only this", "only this"),
        ("x" * 999, "x" * 197 + "..."),
    ],
)
def test_a_complaint_is_shortened(text, expected):
    assert packages.shortened(text) == expected


def test_who_holds_the_lock_is_named():
    lock = {"path": "/var/lib/dpkg/lock-frontend", "pid": 12, "process": "unattended-upgrade"}
    assert packages.held("n1", lock, 300) == (
        "n1: /var/lib/dpkg/lock-frontend has been held by unattended-upgrade (pid 12) for 300 s, expected it free; see ps -fp 12 "
        "there, let it end, or raise packages_lock_timeout"
    )
    assert "a process that does not show" in packages.held("n1", None, 300)


def test_all_that_a_module_says():
    answer = {"msg": "a", "stderr": "b", "stdout": "", "rc": 1, "failures": ["c"]}
    assert packages.words(answer) == "a\nb\nc" and packages.words({}) == ""


def test_what_is_missing():
    assert packages.missing(["gcc", "cmake=3.*", "acl"], ["cmake", "gcc"]) == ["acl"]
    assert packages.few(["a", "b"]) == "a, b" and packages.few(list("abcdef")) == "a, b, c, d and 2 more"
