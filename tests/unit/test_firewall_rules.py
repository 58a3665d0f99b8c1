"""What a host's firewall is to let in, whichever it is: checks of the options, and the rules in their order."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_firewall import rules
from ansible_collections.muster.cluster.plugins.module_utils.muster_firewall.rules import Rule

OPTIONS = {
    "members": {"n1": ["10.0.0.1"], "n2": ["10.0.0.2"], "n3": ["10.0.0.3"]},
    "keep_members_in": [],
    "admin_networks": ["0.0.0.0/0", "::/0"],
    "ssh_ports": [22],
    "rendezvous_ports": "29500:29999",
    "ephemeral_ports": "",
    "service_ports": [],
    "time_server": False,
    "rollback_seconds": 60,
}
JOBS = "29500-29999,32768-60999"


def texts(own="10.0.0.1", ephemeral=rules.EPHEMERAL, v6=True, **changes):
    """The rules that follow from changed options, as people read them."""
    wish = rules.check(dict(OPTIONS, **changes))
    return [rule.text for rule in rules.desired(wish, ephemeral, {own}, v6)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {},
            ["allow tcp 22 from 0.0.0.0/0", "allow tcp 22 from ::/0"]
            + ["allow tcp {} from {}".format(JOBS, peer) for peer in ("10.0.0.2", "10.0.0.3")],
        ),
        (  # members may log in at each other although they are no administrators
            {"admin_networks": ["192.0.2.0/24"], "ssh_ports": [2222, 22]},
            ["allow tcp 22,2222 from 192.0.2.0/24", "allow tcp 22,2222 from 10.0.0.2", "allow tcp 22,2222 from 10.0.0.3"]
            + ["allow tcp {} from {}".format(JOBS, peer) for peer in ("10.0.0.2", "10.0.0.3")],
        ),
        (
            {"admin_networks": ["10.0.0.0/24"], "members": {"n2": ["10.0.0.2"]}, "time_server": True, "service_ports": ["6006"]},
            ["allow tcp 22 from 10.0.0.0/24", "allow tcp {} from 10.0.0.2".format(JOBS), "allow udp 123 from 10.0.0.2"]
            + ["allow tcp 6006 from 10.0.0.0/24"],
        ),
        ({"members": {}}, ["allow tcp 22 from 0.0.0.0/0", "allow tcp 22 from ::/0"]),
        ({"members": {}, "v6": False}, ["allow tcp 22 from 0.0.0.0/0"]),
        (
            {"members": {"n2": ["fd00::2", "10.1.0.2", "fd00:0::2"]}, "admin_networks": ["fd00::/64", "192.0.2.9"]},
            ["allow tcp 22 from fd00::/64", "allow tcp 22 from 192.0.2.9", "allow tcp 22 from 10.1.0.2"]
            + ["allow tcp {} from {}".format(JOBS, peer) for peer in ("fd00::2", "10.1.0.2")],
        ),
        (  # a range of the host that is wider, or narrower, or holds the rendezvous
            {"members": {"n2": ["10.0.0.2"]}, "ephemeral": (15000, 61000)},
            ["allow tcp 22 from 0.0.0.0/0", "allow tcp 22 from ::/0", "allow tcp 15000-61000 from 10.0.0.2"],
        ),
        (  # the range that is about to be set counts more than the one in force
            {"members": {"n2": ["10.0.0.2"]}, "ephemeral": (15000, 61000), "ephemeral_ports": "40000:50000"},
            ["allow tcp 22 from 0.0.0.0/0", "allow tcp 22 from ::/0", "allow tcp 29500-29999,40000-50000 from 10.0.0.2"],
        ),
        (
            {"members": {"n2": ["10.0.0.2"]}, "ephemeral": (40000, 50000), "rendezvous_ports": "1234"},
            ["allow tcp 22 from 0.0.0.0/0", "allow tcp 22 from ::/0", "allow tcp 1234,32768-60999 from 10.0.0.2"],
        ),
    ],
)
def test_the_rules_in_their_order(changes, expected):
    assert texts(**changes) == expected


def test_ssh_comes_first_whatever_else_is_open():
    found = texts(admin_networks=["192.0.2.0/24"], service_ports=["6006", "8000:8010"], time_server=True)
    ssh = [" tcp 22 " in text for text in found]
    assert ssh == sorted(ssh, reverse=True) and any(ssh)


def test_many_members_become_few_networks_that_hold_nobody_else():
    members = {"n{}".format(number): ["10.0.0.{}".format(number)] for number in range(10, 210)}
    found = texts(members=members, admin_networks=["192.0.2.0/24"])
    sources = [text.rpartition(" ")[2] for text in found if JOBS in text]
    assert len(sources) < 16
    held = {str(host) for source in sources for host in rules.ipaddress.ip_network(source)}
    assert held == {"10.0.0.{}".format(number) for number in range(10, 210)}


def test_more_ports_than_one_rule_can_carry():
    services = [str(6000 + 10 * number) for number in range(20)]
    wish = rules.check(dict(OPTIONS, members={}, admin_networks=["192.0.2.0/24"], service_ports=services))
    found = rules.desired(wish)
    assert all(2 * len(rule.ports) <= rules.MOST_PORTS for rule in found)
    assert sorted(low for rule in found[1:] for low, _ in rule.ports) == [int(port) for port in services]


def test_one_range_at_a_time():
    rule = Rule("tcp", ((22, 22), (2222, 2222)), "10.0.0.0/24")
    assert [one.text for one in rules.split([rule])] == ["allow tcp 22 from 10.0.0.0/24", "allow tcp 2222 from 10.0.0.0/24"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"admin_networks": []}, ["firewall_admin_networks is []", "expected a list of networks", "correct it"]),
        ({"admin_networks": "10.0.0.0/8"}, ["firewall_admin_networks is '10.0.0.0/8'", "expected a list"]),
        ({"admin_networks": ["10.0.0.0/33"]}, ["firewall_admin_networks holds '10.0.0.0/33'", "expected a network"]),
        ({"admin_networks": ["office"]}, ["holds 'office'"]),
        ({"rendezvous_ports": "29500:"}, ["firewall_rendezvous_ports holds '29500:'", "29500:29999"]),
        ({"rendezvous_ports": "29999:29500"}, ["firewall_rendezvous_ports"]),
        ({"rendezvous_ports": "0"}, ["from 1 to 65535"]),
        ({"service_ports": ["65536"], "admin_networks": ["10.0.0.0/8"]}, ["firewall_service_ports holds '65536'"]),
        ({"service_ports": [True], "admin_networks": ["10.0.0.0/8"]}, ["firewall_service_ports holds True"]),
        ({"service_ports": ["6006"]}, ["firewall_service_ports holds 6006", "whole world", "firewall_admin_networks"]),
        ({"service_ports": ["6006"], "admin_networks": ["0.0.0.0/1", "128.0.0.0/1"]}, ["whole world"]),
        ({"service_ports": ["6006"], "admin_networks": ["10.0.0.0/8", "::/0"]}, ["whole world"]),
        ({"members": {"n2": ["n2.example"]}}, ["member n2", "'n2.example'", "muster_address"]),
        ({"members": {"n2": ["127.0.1.1"]}}, ["member n2", "'127.0.1.1'", "expected an IP address"]),
        ({"members": {"n2": ["fe80::1"]}}, ["member n2"]),
        ({"rollback_seconds": 4}, ["firewall_rollback_seconds is 4", "from 5 to 3600"]),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(changes, words):
    with pytest.raises(Refusal) as refusal:
        rules.check(dict(OPTIONS, **changes))
    text = str(refusal.value)
    assert all(word in text for word in words) and "\n" not in text and "expected" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1/32", "10.0.0.1"),
        ("10.0.0.7/24", "10.0.0.0/24"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("FD00::0:1/128", "fd00::1"),
        ("::/0", "::/0"),
    ],
)
def test_one_way_to_write_a_network(text, expected):
    assert rules.network(text) == expected


@pytest.mark.parametrize(
    ("networks", "source", "expected"),
    [
        (["10.0.0.0/24"], "10.0.0.9", True),
        (["10.0.0.0/24"], "10.0.0.0/23", False),
        (["0.0.0.0/0"], "fd00::1", False),
        (["::/0", "10.0.0.0/8"], "fd00::/64", True),
        ([], "10.0.0.1", False),
    ],
)
def test_holds(networks, source, expected):
    assert rules.holds(networks, source) is expected


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(5, 9), (1, 2)], ((1, 2), (5, 9))),
        ([(1, 4), (5, 9)], ((1, 9),)),
        ([(1, 9), (3, 4), (9, 12)], ((1, 12),)),
        ([], ()),
    ],
)
def test_merged(pairs, expected):
    assert rules.merged(pairs) == expected


@pytest.mark.parametrize(
    ("ports", "others", "is_within", "do_meet"),
    [
        (((22, 22),), ((22, 22),), True, True),
        (((20, 30),), ((22, 22),), False, True),
        (((22, 22), (80, 80)), ((22, 22),), False, True),
        (((80, 80),), ((22, 22),), False, False),
        (((22, 23),), ((22, 22), (23, 23)), True, True),
    ],
)
def test_within_and_meets(ports, others, is_within, do_meet):
    assert (rules.within(ports, others), rules.meets(ports, others)) == (is_within, do_meet)


def test_families_that_are_open_by_the_users_word():
    assert rules.open_families(rules.check(OPTIONS)) == [False, True]
    assert rules.open_families(rules.check(dict(OPTIONS, admin_networks=["10.0.0.0/8", "::/0"]))) == [True]
