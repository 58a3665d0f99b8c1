"""Known hosts and authorized keys with the members in them."""

import base64
import hashlib
import hmac

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.entries import authorized_keys, known_hosts, lines, merge

ED1, ED2, RSA = "ssh-ed25519 AAAA1", "ssh-ed25519 AAAA2", "ssh-rsa AAAA3"
BY_HAND = "github.example ssh-rsa AAAAforeign\n"


def settled(kind, text, members):
    """``(text, notes)`` of a merge that a second one leaves as it is."""
    once, notes = merge(kind, text, {"members": members})
    assert merge(kind, once, {"members": members})[0] == once
    return once, notes


def member(address, *keys, ports=(22,), known=True):
    return {"address": address, "ports": list(ports), "keys": list(keys) if known else None}


N1 = "n1,10.0.0.1 {} muster:n1\n".format(ED1)
N2 = "n2,10.0.0.2 {} muster:n2\n".format(ED2)
BOTH = {"n1": member("10.0.0.1", ED1), "n2": member("10.0.0.2", ED2)}
N2_ABSENT = {"n1": member("10.0.0.1", ED1), "n2": member("10.0.0.2", known=False)}


# ---------------------------------------------------------------------------------------------------------- known hosts


@pytest.mark.parametrize(
    ("before", "members", "after"),
    [
        ("", BOTH, N1 + N2),
        (BY_HAND, BOTH, BY_HAND + N1 + N2),
        (BY_HAND[:-1], BOTH, BY_HAND + N1 + N2),
        (BY_HAND.replace("\n", "\r\n"), BOTH, BY_HAND.replace("\n", "\r\n") + N1 + N2),
        # In place, whatever of them is wrong; doubles go.
        (N2 + BY_HAND + N1, BOTH, N2 + BY_HAND + N1),
        (N1.replace("AAAA1", "AAAAold") + BY_HAND + N2 + N1, BOTH, N1 + BY_HAND + N2),
        ("\tn1\t{}\tmuster:n1\r\n".format(ED1), BOTH, N1 + N2),
        # A member that is not in this run keeps its keys, under its present address; one that is no member loses them.
        (N2 + N1, N2_ABSENT, N2 + N1),
        (N2.replace("10.0.0.2", "10.0.0.7"), N2_ABSENT, N2 + N1),
        ("", N2_ABSENT, N1),
        (N1 + N2.replace("n2", "n9") + BY_HAND, BOTH, N1 + BY_HAND + N2),
        # Comments, marks and other people's lines about members.
        ("# muster:n1\n\n@revoked * ssh-rsa A muster:n1\n", BOTH, "# muster:n1\n\n@revoked * ssh-rsa A muster:n1\n" + N1 + N2),
        ("n1 {} mine\nn1\n".format(ED1), BOTH, "n1 {} mine\nn1\n".format(ED1) + N1 + N2),
        # Several keys, in one order; a comment that a key brings along is dropped.
        ("", {"n1": member("10.0.0.1", RSA + " root@n1", ED1, ED1)}, N1 + "n1,10.0.0.1 {} muster:n1\n".format(RSA)),
        ("", {"n1": member("fd00::1", ED1)}, "n1,fd00::1 {} muster:n1\n".format(ED1)),
        ("", {"10.0.0.1": member("10.0.0.1", ED1)}, "10.0.0.1 {} muster:10.0.0.1\n".format(ED1)),
        (
            "",
            {"n2": member("fd00::2", ED2, ports=(2222, 22))},
            "[n2]:2222,[fd00::2]:2222,n2,fd00::2 {} muster:n2\n".format(ED2),
        ),
    ],
)
def test_known_hosts(before, members, after):
    assert settled("known_hosts", before, members) == (after, [])


def hashed(name):
    """A name as ``HashKnownHosts yes`` writes it."""
    salt = b"0123456789abcdefghij"
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return "|1|{}|{}".format(base64.b64encode(salt).decode(), base64.b64encode(digest).decode())


@pytest.mark.parametrize(
    ("field", "word", "meant"),
    [
        ("n1", "n1", True),
        ("N1", "n1", True),
        ("n1,10.0.0.1", "10.0.0.1", True),
        ("n10", "n1", False),
        ("n?", "n1", True),
        ("10.0.*", "10.0.0.1", True),
        ("*,!n1", "n1", False),
        ("*,!n2", "n1", True),
        ("[n1]:2222", "[n1]:2222", True),
        ("[n1]:2222", "n1", False),
        ("[n1]:*", "[n1]:2222", True),
        ("fd00::1", "fd00::1", True),
        (hashed("n1"), "n1", True),
        (hashed("n1"), "N1", True),
        (hashed("n1"), "n2", False),
        (hashed("[n1]:2222"), "[n1]:2222", True),
        ("|1|no", "n1", False),
        ("|1|%%%|x", "n1", False),
    ],
)
def test_whom_a_line_means(field, word, meant):
    assert known_hosts.matches(field, word) is meant


@pytest.mark.parametrize("field", ["n1", "x,10.0.0.1", hashed("n1"), "n*"])
def test_another_key_for_a_member_is_told_and_left_alone(field):
    line = "{} ssh-ed25519 AAAAother\n".format(field)
    after, notes = settled("known_hosts", "# first\n" + line, {"n1": member("10.0.0.1", ED1)})
    assert after == "# first\n" + line + N1
    assert notes == ["line 2 has another ssh-ed25519 key for n1 than the host itself has; remove that line"]


@pytest.mark.parametrize("line", ["n1 ssh-rsa A\n", "n1 {}\n".format(ED1), "@revoked n1 ssh-ed25519 A\n", "n3 ssh-ed25519 A\n"])
def test_what_is_no_contradiction(line):
    assert settled("known_hosts", line, {"n1": member("10.0.0.1", ED1)})[1] == []


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("", []),
        (N1, []),
        (N2, [22]),
        ("n2 {}\n[n2]:99 {}\n".format(ED1, ED1), []),
        ("[n2]:2222,[10.0.0.2]:2222 {} muster:n2\n".format(ED2), [2222]),
        ("[n2]:2222,[fd00::2]:2222,n2,fd00::2 {} muster:n2\n".format(ED2), [2222, 22]),
    ],
)
def test_the_ports_that_a_file_knows(text, ports):
    assert known_hosts.ports(text, "n2") == ports


# ------------------------------------------------------------------------------------------------------ authorized keys

OPEN = 'from="10.0.0.1",restrict,pty {} muster:n1\n'.format(ED1)
HOLDER = {"n1": {"keys": [ED1 + " muster@n1"], "from": ["10.0.0.1"]}}
ABSENT = {"n1": {"keys": None, "from": ["10.0.0.1"]}}
QUOTED = 'command="echo \\"a, b\\" # x",environment="A=1 2" {} alice laptop\n'.format(ED2)


@pytest.mark.parametrize(
    ("before", "members", "after"),
    [
        ("", HOLDER, OPEN),
        ("# mine\n" + QUOTED, HOLDER, "# mine\n" + QUOTED + OPEN),
        (QUOTED[:-1], HOLDER, QUOTED + OPEN),
        (ED2 + " alice\r\n\r\n", HOLDER, ED2 + " alice\r\n\r\n" + OPEN),
        (OPEN + QUOTED, HOLDER, OPEN + QUOTED),
        # Whatever of our line is not as it should be: the address, the options, the key, a double.
        (OPEN.replace("10.0.0.1", "10.0.0.9") + QUOTED + OPEN, HOLDER, OPEN + QUOTED),
        ("{} muster:n1\n".format(ED1), HOLDER, OPEN),
        (OPEN.replace("AAAA1", "AAAA9"), HOLDER, OPEN),
        # A holder that is not in this run keeps its key; a head that is the head no longer loses it.
        (OPEN.replace("10.0.0.1", "10.0.0.9"), ABSENT, OPEN),
        ("", ABSENT, ""),
        (OPEN.replace("n1", "n7") + QUOTED, HOLDER, QUOTED + OPEN),
        # Comments that only look like ours, and lines that are none.
        ("#{} muster:n1\n".format(ED1), HOLDER, "#{} muster:n1\n".format(ED1) + OPEN),
        (ED2 + " muster:n1 laptop\n", HOLDER, ED2 + " muster:n1 laptop\n" + OPEN),
        ("not a key muster:n1\n", HOLDER, "not a key muster:n1\n" + OPEN),
        ('command="unclosed {} muster:n1\n'.format(ED1), HOLDER, 'command="unclosed {} muster:n1\n'.format(ED1) + OPEN),
        (
            "",
            {"n1": {"keys": [ED1], "from": ["fd00::1", "10.1.0.0/16"]}},
            'from="fd00::1,10.1.0.0/16",restrict,pty {} muster:n1\n'.format(ED1),
        ),
    ],
)
def test_authorized_keys(before, members, after):
    assert settled("authorized_keys", before, members) == (after, [])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (ED1 + " me\n", True),
        ("no-pty {} me\n".format(ED1), True),
        ('command="a,from=\\"x\\"" {}\n'.format(ED1), True),
        ('from="10.0.0.0/8" {}\n'.format(ED1), False),
        ('no-pty,FROM="10.0.0.0/8" {}\n'.format(ED1), False),
        (ED2 + " me\n", False),
    ],
)
def test_the_same_key_from_anywhere_is_told_and_left_alone(line, told):
    after, notes = settled("authorized_keys", line, HOLDER)
    assert after == line + OPEN
    assert notes == ["line 1 lets the key of n1 in from any address, expected its own; remove that line"] * told


@pytest.mark.parametrize(
    ("line", "options", "key", "comment"),
    [
        (ED1, "", ED1, ""),
        (ED1 + "  two words \n", "", ED1, "two words"),
        ("\tssh-ed25519\tAAAA1\tx\r\n", "", ED1, "x"),
        ("sk-ssh-ed25519@openssh.com AAAA1 x", "", "sk-ssh-ed25519@openssh.com AAAA1", "x"),
        ("ecdsa-sha2-nistp256 AAAA1", "", "ecdsa-sha2-nistp256 AAAA1", ""),
        (QUOTED, 'command="echo \\"a, b\\" # x",environment="A=1 2"', ED2, "alice laptop"),
        ('restrict,pty \t{} x'.format(ED1), "restrict,pty", ED1, "x"),
    ],
)
def test_parts_of_a_line(line, options, key, comment):
    found = authorized_keys.parsed(line)
    assert (found["options"], found["key"], found["comment"]) == (options, key, comment)


@pytest.mark.parametrize("line", ["", "\n", "# x", "ssh-ed25519", "words and words", 'a="b ssh-ed25519 AAAA1'])
def test_no_key(line):
    assert authorized_keys.parsed(line) is None


def test_only_a_line_feed_ends_a_line():
    assert lines.split("a\x0bb\x85c\u2028d\r\ne") == ["a\x0bb\x85c\u2028d\r\n", "e"]


def test_twenty_writers_that_know_one_key_each_add_up():
    names = ["h{}".format(number) for number in range(20)]
    text = ""
    for mine in names:
        members = {name: member("10.0.1." + name[1:], "ssh-rsa AAAA" + mine, known=name == mine) for name in names}
        text = merge("known_hosts", text, {"members": members})[0]
    assert text == "".join("{0},10.0.1.{1} ssh-rsa AAAA{0} muster:{0}\n".format(name, name[1:]) for name in names)
