"""The hosts file with the members in it: what is others' stays, what contradicts goes, a second merge changes nothing."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.entries import hosts, merge

BLOCK = "{}\n10.0.0.1 n1\n10.0.0.2 n2\n{}\n".format(hosts.BEGIN, hosts.END)
WISH = {"members": {"n1": {"address": "10.0.0.1"}, "n2": {"address": "10.0.0.2"}}, "own": "n1", "hostname": "n1"}


def merged(text, **changes):
    """The text after a merge, which a second merge must not change."""
    wish = dict(WISH, **changes)
    once, notes = merge("hosts", text, wish)
    assert notes == []
    assert merge("hosts", once, wish) == (once, [])
    return once


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", BLOCK),
        ("127.0.0.1 localhost\n", "127.0.0.1 localhost\n" + BLOCK),
        ("127.0.0.1 localhost", "127.0.0.1 localhost\n" + BLOCK),  # no end of the last line
        ("127.0.0.1\tlocalhost\r\n# ü\r\n", "127.0.0.1\tlocalhost\r\n# ü\r\n" + BLOCK),
        # This host's own names leave the loopback addresses; localhost does not.
        ("127.0.0.1 localhost\n127.0.1.1 n1\n", "127.0.0.1 localhost\n" + BLOCK),
        ("127.0.1.1\tn1 # by the installer\n::1 localhost ip6-localhost\n", "::1 localhost ip6-localhost\n" + BLOCK),
        ("127.0.0.1 localhost n1\n", "127.0.0.1 localhost\n" + BLOCK),
        ("127.0.0.1\tn1\tlocalhost # x\n", "127.0.0.1\tlocalhost # x\n" + BLOCK),
        ("::1 N1 localhost6 localhost6.localdomain6\n", "::1 localhost6 localhost6.localdomain6\n" + BLOCK),
        ("127.0.1.1 n10 xn1\n", "127.0.1.1 n10 xn1\n" + BLOCK),
        # Lines of others' that contradict lose the name, and the line when no name is left.
        ("10.0.0.9 n2\n", BLOCK),
        ("10.0.0.9  other\tn2\n", "10.0.0.9  other\n" + BLOCK),
        ("10.0.0.9\tn2  other # n2 was here\n", "10.0.0.9\tother # n2 was here\n" + BLOCK),
        ("10.0.0.9 n1 a n2 b n1 n2\n", "10.0.0.9 a b\n" + BLOCK),
        ("10.0.0.9 n1 n2 a\n", "10.0.0.9 a\n" + BLOCK),
        ("10.0.0.9 a n1 n2\r\n", "10.0.0.9 a\r\n" + BLOCK),
        ("127.0.0.1 N2\n", BLOCK),
        ("fd00::9 n2 a\n", "fd00::9 a\n" + BLOCK),
        # Those that do not stay as they are, and so do comments and what is no entry at all.
        ("10.0.0.2   n2 n2.lan\n", "10.0.0.2   n2 n2.lan\n" + BLOCK),
        ("10.0.0.9 n2.lan nn2 n22\n", "10.0.0.9 n2.lan nn2 n22\n" + BLOCK),
        ("# 10.0.0.9 n2\n  \n10.0.0.9\nwords n2\n", "# 10.0.0.9 n2\n  \n10.0.0.9\nwords n2\n" + BLOCK),
        ("10.0.0.7 a\n10.0.0.7 a\n", "10.0.0.7 a\n10.0.0.7 a\n" + BLOCK),
        # There is one block, where the first was.
        (BLOCK + "10.0.0.7 a\n", BLOCK + "10.0.0.7 a\n"),
        ("10.0.0.7 a\n" + BLOCK.replace("10.0.0.2", "10.0.0.3"), "10.0.0.7 a\n" + BLOCK),
        (BLOCK.replace("n2", "gone") + "10.0.0.7 a\n" + BLOCK, BLOCK + "10.0.0.7 a\n"),
        # A mark without its other half: what stands below may be anybody's.
        (hosts.BEGIN + "\n10.0.0.7 a\n10.0.0.9 n2\n", BLOCK + "10.0.0.7 a\n"),
        ("10.0.0.7 a\n" + hosts.END + "\n10.0.0.8 b\n", "10.0.0.7 a\n10.0.0.8 b\n" + BLOCK),
        (hosts.BEGIN + "\n10.0.0.7 a\n" + BLOCK, BLOCK + "10.0.0.7 a\n"),
    ],
)
def test_merge(before, after):
    assert merged(before) == after


def line_of(text, address):
    """The line that gives an address its names."""
    return next(line for line in text.splitlines() if line.startswith(address + " "))


@pytest.mark.parametrize(
    ("before", "hostname", "line"),
    [
        ("", "web", "10.0.0.1 web n1"),
        ("127.0.1.1 web\n", "web", "10.0.0.1 web n1"),
        # `hostname -f` goes on saying the full name.
        ("127.0.1.1 n1.example.org n1\n", "n1", "10.0.0.1 n1.example.org n1"),
        ("127.0.1.1 web.example.org web\n", "web", "10.0.0.1 web.example.org web n1"),
        ("127.0.1.1 n1.b n1.a\n", "n1", "10.0.0.1 n1.b n1.a n1"),
        ("", "web.example.org", "10.0.0.1 web.example.org n1"),
        # A host without a name of its own.
        ("", "localhost.localdomain", "10.0.0.1 n1"),
        ("", "", "10.0.0.1 n1"),
        # Its own name on another address that is no loopback stays there.
        ("192.0.2.5 web\n", "web", "10.0.0.1 n1"),
        # The name of another member is that member's.
        ("127.0.1.1 n2\n", "n2", "10.0.0.1 n1"),
    ],
)
def test_the_line_of_this_host(before, hostname, line):
    after = merged(before, hostname=hostname)
    assert line_of(after, "10.0.0.1") == line
    assert "127.0.1.1" not in after


def test_a_new_hostname_takes_the_place_of_the_old_one():
    first = merged("127.0.1.1 old.example.org old\n", hostname="old")
    assert line_of(first, "10.0.0.1") == "10.0.0.1 old.example.org old n1"
    assert line_of(merged(first, hostname="new"), "10.0.0.1") == "10.0.0.1 new n1"


def test_a_name_by_hand_on_the_other_address_stays_there():
    assert merged("192.0.2.5 web\n", hostname="web").startswith("192.0.2.5 web\n")


def test_addresses_of_ipv6():
    members = {"n1": {"address": "fd00::1"}, "n2": {"address": "fd00::2"}}
    after = merged("fd00:0::2 n2\n10.0.0.2 n2 b\n::1 n1 localhost\n", members=members)
    block = "{}\nfd00::1 n1\nfd00::2 n2\n{}\n".format(hosts.BEGIN, hosts.END)
    assert after == "fd00:0::2 n2\n10.0.0.2 b\n::1 localhost\n" + block


def test_an_inventory_of_bare_addresses():
    members = {"10.0.0.1": {"address": "10.0.0.1"}, "10.0.0.2": {"address": "10.0.0.2"}}
    after = merged("127.0.1.1 web\n", members=members, own="10.0.0.1", hostname="web")
    assert after == "{}\n10.0.0.1 web\n{}\n".format(hosts.BEGIN, hosts.END)


def test_a_host_that_is_no_member_keeps_its_own_names():
    assert merged("127.0.1.1 n3\n", own="n3", hostname="n3") == "127.0.1.1 n3\n" + BLOCK


def test_members_that_are_on_loopback_stay_there():
    members = {"n1": {"address": "127.0.0.1"}, "n2": {"address": "127.0.0.2"}}
    after = merged("127.0.0.1 localhost n1\n127.0.1.1 n1.lan\n", members=members)
    assert after.startswith("127.0.0.1 localhost n1\n" + hosts.BEGIN + "\n127.0.0.1 n1.lan n1\n127.0.0.2 n2\n")


def test_bytes_that_are_no_text_pass_through():
    text = b"10.0.0.7 a # \xff\n".decode("utf-8", "surrogateescape")
    assert merged(text) == text + BLOCK
