"""Which firewall a host has, what the survey tells of it, and from where the members come."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_survey import firewall as survey
from ansible_collections.muster.cluster.plugins.plugin_utils import firewall

NONE = {"installed": False, "active": False, "enabled": False}
THERE = {"installed": True, "active": False, "enabled": False}
ACTIVE = {"installed": True, "active": True, "enabled": True}


def facts(ufw, firewalld, family="debian"):
    """What the survey found."""
    return {"firewall": {"ufw": ufw, "firewalld": firewalld}, "system": {"family": family}}


@pytest.mark.parametrize(
    ("found", "wish", "expected"),
    [
        (facts(NONE, NONE), "auto", "ufw"),
        (facts(NONE, NONE, "redhat"), "auto", "firewalld"),
        (facts(THERE, NONE, "redhat"), "auto", "ufw"),
        (facts(NONE, THERE), "auto", "firewalld"),
        (facts(THERE, THERE), "auto", "ufw"),
        (facts(THERE, THERE, "redhat"), "auto", "firewalld"),
        (facts(THERE, ACTIVE), "auto", "firewalld"),
        (facts(ACTIVE, THERE, "redhat"), "auto", "ufw"),
        (facts(ACTIVE, NONE, "other"), "auto", "ufw"),
        (facts(NONE, NONE, "redhat"), "firewalld", "firewalld"),
        (facts(NONE, THERE), "firewalld", "firewalld"),
        (facts(NONE, THERE), "ufw", "ufw"),
    ],
)
def test_the_firewall_of_a_host(found, wish, expected):
    assert firewall.backend(found, wish, "n1") == expected


@pytest.mark.parametrize(
    ("found", "wish", "words"),
    [
        (facts(ACTIVE, ACTIVE), "auto", "n1: found ufw and firewalld both active, expected one of them; stop one"),
        (facts(NONE, NONE, "other"), "auto", "n1: found neither ufw nor firewalld, expected one of them; install one"),
        (facts(NONE, ACTIVE), "ufw", "n1: found firewalld active while firewall_backend is ufw, expected one firewall; stop it"),
        (facts(NONE, NONE), "firewalld", "n1: found no firewalld while firewall_backend is firewalld, expected it installed"),
        (facts(NONE, NONE), "iptables", "n1: firewall_backend is 'iptables', expected auto, ufw or firewalld; correct it"),
    ],
)
def test_a_host_whose_firewall_cannot_be_chosen(found, wish, words):
    with pytest.raises(Refusal) as refusal:
        firewall.backend(found, wish, "n1")
    assert str(refusal.value).startswith(words)


@pytest.mark.parametrize(
    ("others", "named", "command"),
    [
        (["nftables"], "nftables", "nftables"),
        (["iptables", "ip6tables"], "iptables and ip6tables", "iptables ip6tables"),
    ],
)
@pytest.mark.parametrize("ufw", [NONE, ACTIVE])
@pytest.mark.parametrize("wish", ["auto", "ufw"])
def test_a_host_with_a_third_firewall(others, named, command, ufw, wish):
    found = facts(ufw, NONE)
    found["firewall"]["others"] = others
    with pytest.raises(Refusal) as refusal:
        firewall.backend(found, wish, "n1")
    assert str(refusal.value) == (
        "n1: found {} active or started at boot, expected none beside ufw or firewalld, since they undo each other's rules; move "
        "its rules there and disable it with `systemctl disable --now {}`, or set firewall_enabled to false".format(
            named, command
        )
    )
    found["firewall"]["others"] = []
    assert firewall.backend(found, wish, "n1") == "ufw"


def looked_at(*addresses):
    """Facts of a host with these addresses."""
    return {"muster": {"system": {"addresses": [["eth{}".format(at), address] for at, address in enumerate(addresses)]}}}


@pytest.mark.parametrize(
    ("hostvars", "expected"),
    [
        (
            {"n1": {"muster_address": "10.0.0.1"}, "n2": {"ansible_host": "10.0.0.2"}},
            {"members": {"n1": ["10.0.0.1"], "n2": ["10.0.0.2"]}, "keep": []},
        ),
        (
            {
                "n1": {"muster_address": "10.0.0.1", "muster_data_network": "10.1.0.0/16",
                       "ansible_facts": looked_at("10.0.0.1", "10.1.0.1", "172.17.0.1", "fe80::1%eth1")},
                "n2": {"muster_address": "10.1.0.2", "muster_data_network": "10.1.0.0/16",
                       "ansible_facts": looked_at("10.1.0.2", "10.1.0.3")},
            },
            {"members": {"n1": ["10.0.0.1", "10.1.0.1"], "n2": ["10.1.0.2", "10.1.0.3"]}, "keep": []},
        ),
        (  # n2 and n3 are left out by --limit
            {
                "n1": {"muster_address": "10.0.0.1", "muster_data_network": "10.1.0.0/16",
                       "ansible_facts": looked_at("10.1.0.1")},
                "n2": {"muster_address": "10.0.0.2", "muster_data_network": "10.1.0.9/16"},
                "n3": {"muster_address": "10.0.0.3", "muster_data_network": "10.1.0.0/16", "ansible_facts": {}},
            },
            {"members": {"n1": ["10.0.0.1", "10.1.0.1"], "n2": ["10.0.0.2"], "n3": ["10.0.0.3"]}, "keep": ["10.1.0.0/16"]},
        ),
    ],
)  # fmt: skip
def test_from_where_members_come(hostvars, expected):
    assert firewall.peers(list(hostvars), hostvars) == expected


def test_a_data_network_that_is_none():
    with pytest.raises(Refusal, match="n1 has muster_data_network 'ib0', expected a network like"):
        firewall.peers(["n1"], {"n1": {"muster_address": "10.0.0.1", "muster_data_network": "ib0"}})


SHOWN = """Id=ufw.service
ActiveState=active
UnitFileState=enabled

Id=firewalld.service
ActiveState=inactive
UnitFileState=disabled
"""


@pytest.mark.parametrize(
    ("installed", "shown", "conf", "expected"),
    [
        ((), SHOWN, "", {"ufw": NONE, "firewalld": NONE}),
        (("ufw",), SHOWN, "ENABLED=yes\n", {"ufw": ACTIVE, "firewalld": NONE}),
        (("ufw",), SHOWN, "# ENABLED=yes\nENABLED=no\n", {"ufw": THERE, "firewalld": NONE}),
        (("ufw", "firewalld"), SHOWN, "", {"ufw": THERE, "firewalld": THERE}),
        (
            ("firewalld",),
            SHOWN.replace("=inactive", "=active").replace("disabled", "enabled"),
            "",
            {"ufw": NONE, "firewalld": ACTIVE},
        ),
        (("firewalld",), None, "", {"ufw": NONE, "firewalld": THERE}),
    ],
)
def test_what_the_survey_tells(monkeypatch, installed, shown, conf, expected):
    monkeypatch.setattr(survey, "is_installed", lambda name: name in installed)
    monkeypatch.setattr(survey.reading, "output", lambda argv: shown)
    monkeypatch.setattr(survey.reading, "text", lambda path: conf)
    assert survey.look({}) == dict(expected, others=[])


def unit(name, active, enabled):
    """What systemctl tells of a unit."""
    return "Id={}.service\nActiveState={}\nUnitFileState={}\n".format(name, active, enabled)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ([unit("nftables", "inactive", "disabled")], []),  # as Debian's package leaves it
        ([unit("nftables", "inactive", "enabled")], ["nftables"]),
        ([unit("nftables", "active", "disabled")], ["nftables"]),
        ([unit("iptables", "inactive", ""), unit("ip6tables", "inactive", "masked")], []),
        ([unit("iptables", "active", "enabled"), unit("ip6tables", "failed", "enabled")], ["iptables", "ip6tables"]),
        ([unit("netfilter-persistent", "active", "enabled")] * 3, ["netfilter-persistent"]),  # Debian's iptables is its alias
    ],
)
@pytest.mark.parametrize("installed", [(), ("ufw",)])
def test_the_survey_tells_of_a_third_firewall(monkeypatch, shown, expected, installed):
    asked = []
    monkeypatch.setattr(survey, "is_installed", lambda name: name in installed)
    monkeypatch.setattr(survey.reading, "output", lambda argv: asked.append(argv) or SHOWN + "\n" + "\n".join(shown))
    monkeypatch.setattr(survey.reading, "text", lambda path: "")
    assert survey.look({})["others"] == expected
    assert len(asked) == 1
