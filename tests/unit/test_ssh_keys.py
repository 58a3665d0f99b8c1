"""How the cluster's user reaches every member: host keys, ports, authorized keys, and what would keep it out."""

import copy
import os
import pwd

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.entries import merge
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_survey import ssh
from ansible_collections.muster.cluster.plugins.plugin_utils import ssh_keys

MEMBERS = {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.3"}
WISH = {"user": "muster", "everywhere": False, "from": []}
SERVER = dict.fromkeys(("allowusers", "allowgroups", "denyusers", "denygroups", "authorizedkeysfile", "pubkeyauthentication"), [])
KEY = "ssh-ed25519 AAAAhead"
NOT_LIMITED = "not in this run, and its key not yet authorised on every host of it, expected both; run the playbook once more"


def look(number, **changes):
    """All that is known of a host: the survey of one on which nothing was done, with changes in its section ssh."""
    section = {
        "ports": [22],
        "host_keys": ["ssh-ed25519 AAAA{}".format(number)],
        "known_hosts": None,
        "client_ports": None,
        "client_includes": True,
        "server": SERVER,
        "user_key": None,
        "authorized_keys": None,
        "modes": {"home": "0755", ".ssh": None, "authorized_keys": None},
    }
    survey = {"ssh": dict(section, **changes), "system": {"ssh_server_port": None}, "users": {"account": None}}
    return {"survey": survey, "port": None, "made": None}


def away(port=None):
    """A host that is not in this run."""
    return {"survey": None, "port": port, "made": None}


def cluster(**changes):
    """The three hosts, n2 at port 2222, n1 with the key; a keyword replaces a host."""
    looked = {
        "n1": look(1, user_key=KEY),
        "n2": look(2, ports=[2222]),
        "n3": look(3),
    }
    return dict(looked, **changes)


def decide(host, looked, **wish):
    return ssh_keys.decide(host, MEMBERS, dict(WISH, **wish), looked)


def applied(host, looked, **wish):
    """What is looked at after everything that is to be done on a host has been done."""
    plan = decide(host, looked, **wish)
    after = copy.deepcopy(looked)
    mine = after[host]["survey"]["ssh"]
    for kind in ("known_hosts", "authorized_keys"):
        mine[kind] = merge(kind, mine[kind] or "", {"members": plan[kind]})[0]
    mine["client_ports"] = plan["client_ports"] or None
    return after


KNOWN = (
    "n1,10.0.0.1 ssh-ed25519 AAAA1 muster:n1\n"
    "[n2]:2222,[10.0.0.2]:2222 ssh-ed25519 AAAA2 muster:n2\n"
    "n3,10.0.0.3 ssh-ed25519 AAAA3 muster:n3\n"
)
PORTS = ssh_keys.HEADING + "Host n2 10.0.0.2\n    Port 2222\n"


def test_from_a_fresh_host_to_nothing_to_do():
    looked = cluster()
    plan = decide("n3", looked)
    assert plan["todo"] == ["known_hosts", "client_ports", "authorized_keys"] and plan["notes"] == [] and plan["coming"] == []
    after = applied("n3", looked)
    assert after["n3"]["survey"]["ssh"]["known_hosts"] == KNOWN
    assert after["n3"]["survey"]["ssh"]["client_ports"] == plan["client_ports"] == PORTS
    opened = 'from="10.0.0.1",restrict,pty {} muster:n1\n'.format(KEY)
    assert after["n3"]["survey"]["ssh"]["authorized_keys"] == opened
    assert decide("n3", after)["todo"] == []
    # The same with all others away: --limit changes nothing.
    limited = dict(after, n1=away(), n2=away(22022))
    assert decide("n3", limited) == dict(decide("n3", limited), todo=[], notes=[])


def test_a_member_that_leaves_is_forgotten():
    after = applied("n3", cluster())
    members = {name: address for name, address in MEMBERS.items() if name != "n2"}
    plan = ssh_keys.decide("n3", members, WISH, after)
    assert plan["todo"] == ["known_hosts", "client_ports"] and plan["client_ports"] == ""
    assert "muster:n2" not in merge("known_hosts", KNOWN, {"members": plan["known_hosts"]})[0]


def test_a_head_whose_key_is_made_in_this_run_or_would_be():
    without = look(1)
    plan = decide("n2", cluster(n1=without))
    assert plan["coming"] == ["n1"] and plan["todo"] == ["known_hosts", "client_ports", "coming"] and plan["notes"] == []
    plan = decide("n2", cluster(n1=dict(without, made="ssh-ed25519 AAAAnew")))
    assert plan["coming"] == [] and plan["authorized_keys"] == {"n1": {"keys": ["ssh-ed25519 AAAAnew"], "from": ["10.0.0.1"]}}


def test_a_fresh_host_alone_is_told_what_to_run():
    plan = decide("n3", cluster(n1=away(), n2=away(2222)))
    assert plan["todo"] == ["known_hosts", "client_ports"] and plan["client_ports"] == PORTS
    assert plan["notes"] == ["n1: {} without --limit, or with n1 in it".format(NOT_LIMITED)]


def test_every_member_with_a_key_of_its_own():
    looked = cluster(n2=look(2, user_key="ssh-ed25519 AAAAtwo"))
    plan = decide("n3", looked, everywhere=True, **{"from": ["10.9.0.0/24"]})
    assert plan["coming"] == ["n3"]
    assert plan["authorized_keys"] == {
        "n1": {"keys": [KEY], "from": ["10.0.0.1", "10.9.0.0/24"]},
        "n2": {"keys": ["ssh-ed25519 AAAAtwo"], "from": ["10.0.0.2", "10.9.0.0/24"]},
        "n3": {"keys": None, "from": ["10.0.0.3", "10.9.0.0/24"]},
    }


def test_drift_is_seen():
    after = applied("n3", cluster())
    for name, text in (("known_hosts", KNOWN[:50]), ("client_ports", None), ("authorized_keys", "")):
        drifted = copy.deepcopy(after)
        drifted["n3"]["survey"]["ssh"][name] = text
        assert decide("n3", drifted)["todo"] == [name]
    drifted = copy.deepcopy(after)
    drifted["n3"]["survey"]["ssh"]["modes"][".ssh"] = "0770"
    assert decide("n3", drifted)["todo"] == ["authorized_keys"]


def test_a_port_that_only_the_connection_shows():
    looked = cluster(n3=look(3))
    looked["n3"]["survey"]["system"]["ssh_server_port"] = 2022
    assert decide("n1", looked)["known_hosts"]["n3"]["ports"] == [22, 2022]
    assert decide("n1", looked)["client_ports"] == PORTS


def test_no_members_are_refused():
    with pytest.raises(Refusal, match="ssh_keys_members is empty, expected the members of the cluster, the head first;"):
        ssh_keys.decide("n1", {}, WISH, cluster())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"server": dict(SERVER, allowusers=["ml", "ad*"])}, "n2: found AllowUsers ml ad* in the configuration of sshd,"),
        ({"server": dict(SERVER, allowusers=["ml", "mus*"])}, None),
        ({"server": dict(SERVER, allowusers=["muster@10.0.0.*"])}, None),
        ({"server": dict(SERVER, allowgroups=["wheel"])}, "n2: found AllowGroups wheel in"),
        ({"server": dict(SERVER, allowgroups=["muster"])}, None),
        ({"server": dict(SERVER, denyusers=["muster"])}, "n2: found DenyUsers muster in"),
        ({"server": dict(SERVER, denyusers=["muster@192.0.2.*"])}, None),
        ({"server": dict(SERVER, denygroups=["x", "*"])}, "n2: found DenyGroups x * in"),
        ({"server": dict(SERVER, pubkeyauthentication=["no"])}, "n2: found PubkeyAuthentication no in"),
        ({"server": dict(SERVER, authorizedkeysfile=["/etc/keys/%u"])}, "n2: found AuthorizedKeysFile /etc/keys/%u in"),
        ({"server": dict(SERVER, authorizedkeysfile=["/etc/keys/%u", ".ssh/authorized_keys"])}, None),
        ({"modes": {"home": "0775", ".ssh": None, "authorized_keys": None}}, "n2: found the home of muster with mode 0775,"),
        ({"client_includes": False}, "n2: found /etc/ssh/ssh_config without Include /etc/ssh/ssh_config.d/*.conf, expected it,"),
        ({"known_hosts": "n1 ssh-ed25519 AAAAold\n"}, "n2: in /etc/ssh/ssh_known_hosts line 1 has another ssh-ed25519 key"),
        ({"authorized_keys": KEY + " me\n"}, "n2: in authorized_keys of muster line 1 lets the key of n1 in from any address,"),
    ],
)  # fmt: skip
def test_what_is_told_and_not_changed(changes, sentence):
    notes = decide("n2", cluster(n2=look(2, ports=[2222], **changes)))["notes"]
    assert len(notes) == (sentence is not None)
    assert sentence is None or notes[0].startswith(sentence)


# ------------------------------------------------------------------------------------------------- the survey's section


def test_directives_of_sshd(tmp_path):
    files = {
        "sshd_config": 'Include x.d/*.conf\n# Port 1\n\tPort 2222\nport=2022 # x\nAllowUsers a "b c"\nAllowUsers d\n'
        "PubkeyAuthentication no\nMatch User x\nPort 3\n",
        "x.d/a.conf": "Port 22\nPubkeyAuthentication yes\nMatch all\nPort 4\n",
        "x.d/b.conf": "Include x.d/b.conf\nHostKey /etc/k\n",
    }
    (tmp_path / "x.d").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    def read(path):
        return open(str(path), encoding="utf-8").read()

    found = ssh.directives(read, str(tmp_path / "sshd_config"), str(tmp_path), single=("pubkeyauthentication",))
    assert [words[0] for words in found["port"]] == ["22", "2222", "2022"]
    assert found["allowusers"] == [["a", "b c"], ["d"]] and found["pubkeyauthentication"] == [["yes"]]
    assert found["hostkey"][0] == ["/etc/k"]
    assert ssh.directives(lambda path: None, "/none", "/") == {}


@pytest.mark.parametrize(
    ("server", "ports"),
    [
        ({}, [22]),
        ({"port": [["2222"], ["22"]]}, [2222, 22]),
        ({"listenaddress": [["0.0.0.0"]]}, [22]),
        ({"listenaddress": [["10.0.0.1:2222"], ["[fd00::1]:2222"]]}, [2222]),
        ({"listenaddress": [["10.0.0.1:2222"], ["fd00::1"]]}, [22, 2222]),
        ({"port": [["x"]]}, [22]),
    ],
)
def test_configured_ports(server, ports):
    assert ssh.configured_ports(server) == ports


@pytest.mark.parametrize(
    ("text", "included"),
    [
        ("", False),
        ("Include /etc/ssh/ssh_config.d/*.conf\nHost *\n", True),
        ('include = "ssh_config.d/*.conf"\n', True),
        ("# x\nHost *\n  Include ssh_config.d/*.conf\n", True),
        ("Host other\n  Include ssh_config.d/*.conf\n", False),
        ("Include /etc/ssh/other.d/*.conf\n", False),
    ],
)
def test_whether_ssh_reads_the_file_of_ports(text, included):
    assert ssh.includes(text, ssh.PORTS) is included


def test_host_keys_are_the_public_ones(tmp_path):
    (tmp_path / "a.pub").write_text("ssh-ed25519 AAAA1 root@n1\n")
    (tmp_path / "b.pub").write_text("no key\n")
    paths = [str(tmp_path / name) for name in ("a", "b", "none", "a")]
    assert ssh.host_keys(paths) == ["ssh-ed25519 AAAA1"]


def test_the_section_of_this_machine():
    found = ssh.look({"user": "no-such-user"})
    assert found["user_key"] is None and found["modes"] == {"home": None, ".ssh": None, "authorized_keys": None}
    assert all(isinstance(port, int) for port in found["ports"]) and found["ports"]
    assert set(found) == set(ssh.look({"user": "root"}))


def test_a_public_key_without_its_private_one_is_none(tmp_path, monkeypatch):
    """Else the dead key would be authorised, and none be made."""
    account = pwd.struct_passwd(("t", "x", os.getuid(), os.getgid(), "", str(tmp_path), "/bin/sh"))
    monkeypatch.setattr(ssh.pwd, "getpwnam", lambda name: account)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_ed25519.pub").write_text("ssh-ed25519 {} muster@n1\n".format("A" * 68))
    assert ssh.look({"user": "t"})["user_key"] is None
    (tmp_path / ".ssh" / "id_ed25519").write_text("")
    assert ssh.look({"user": "t"})["user_key"].startswith("ssh-ed25519 AAAA")
