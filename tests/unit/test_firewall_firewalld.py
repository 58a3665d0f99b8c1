"""firewalld: its D-Bus answers, rich rules and listings read, the plan as exact commands."""

import shlex

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_firewall import bus, firewalld, rich, rules
from ansible_collections.muster.cluster.plugins.module_utils.muster_firewall.rules import Rule

# As busctl 252 printed it.
ANSWER = (
    'a{sv} 6 "short" s "Public" "description" s "You do \\"not\\" trust them.\\nZw\\303\\266lf." "target" s "default" '
    '"services" as 2 "ssh" "dhcpv6-client" "ports" a(ss) 2 "2222" "tcp" "8000-8010" "udp" "forward" b true '
)
LISTING = "\n".join(
    [
        "public (active)",
        "  target: default",
        "  icmp-block-inversion: no",
        "  interfaces: ens3",
        "  sources: ",
        "  services: dhcpv6-client ssh",
        "  ports: 2222/tcp 8000-8010/udp",
        "  protocols: ",
        "  forward: yes",
        "  source-ports: ",
        "  rich rules: ",
        '\trule family="ipv4" source address="192.0.2.0/24" accept',
        '\trule priority="29500" family="ipv4" source address="10.0.0.2" port port="29500-29999" protocol="tcp" accept',
        "",
    ]
)
SSH4 = Rule("tcp", ((22, 22),), "0.0.0.0/0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            ANSWER,
            [
                {
                    "short": "Public",
                    "description": 'You do "not" trust them.\nZwölf.',
                    "target": "default",
                    "services": ["ssh", "dhcpv6-client"],
                    "ports": [("2222", "tcp"), ("8000-8010", "udp")],
                    "forward": True,
                }
            ],
        ),
        ('a{sa{sas}} 1 "public" 2 "interfaces" 1 "ens3" "sources" 0\n', [{"public": {"interfaces": ["ens3"], "sources": []}}]),
        ('o "/org/fedoraproject/FirewallD1/config/zone/6"', ["/org/fedoraproject/FirewallD1/config/zone/6"]),
        ('s ""', [""]),
        ("bi false -7", [False, -7]),
        ('s "\\x2f\\tx"', ["/\tx"]),
        ("", []),
    ],
)
def test_an_answer_of_busctl(text, expected):
    assert bus.parse(text) == expected


@pytest.mark.parametrize("text", ['as 2 "one"', "s", '(ss) "one"', "a{sv} 1"])
def test_an_answer_that_ends_too_early(text):
    with pytest.raises(ValueError, match="too early"):
        bus.parse(text)


def test_settings_go_back_as_words():
    assert bus.settings_words({"services": ["ssh"], "ports": [("22", "tcp")], "rules_str": []}) == (
        "3 services as 1 ssh ports a(ss) 1 22 tcp rules_str as 0".split()
    )


def test_a_listing_is_read_like_an_answer():
    expected = dict(firewalld.settings(bus.parse(ANSWER)[0]))
    expected["rules"] = [line.strip() for line in LISTING.splitlines()[-2:]]
    expected["services"] = ["dhcpv6-client", "ssh"]
    assert firewalld.parse_listing(LISTING) == expected


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (SSH4, 'rule priority="29500" family="ipv4" port port="22" protocol="tcp" accept'),
        (Rule("tcp", ((22, 22),), "::/0"), 'rule priority="29500" family="ipv6" port port="22" protocol="tcp" accept'),
        (
            Rule("udp", ((123, 123),), "10.0.0.0/24"),
            'rule priority="29500" family="ipv4" source address="10.0.0.0/24" port port="123" protocol="udp" accept',
        ),
        (
            Rule("tcp", ((29500, 29999),), "fd00::2"),
            'rule priority="29500" family="ipv6" source address="fd00::2" port port="29500-29999" protocol="tcp" accept',
        ),
    ],
)
def test_a_rule_in_firewallds_words_and_back(rule, text):
    assert rich.rich(rule) == text
    told = rich.parse_rich(text)
    assert told.own and told.accepts and told.rule == rule and told.world == (rule.source in rules.WORLD)


@pytest.mark.parametrize(
    ("text", "own", "accepts", "world", "service"),
    [
        ('rule service name="ssh" accept', False, True, True, "ssh"),
        ('rule service name="ssh" log prefix="x" limit value="3/m" accept limit value="3/m"', False, True, True, "ssh"),
        ('rule family="ipv4" source address="192.0.2.0/24" service name="ssh" accept', False, True, False, "ssh"),
        ('rule family="ipv4" source NOT address="192.0.2.0/24" service name="ssh" accept', False, True, False, "ssh"),
        ('rule source mac="00:11:22:33:44:55" service name="ssh" accept', False, True, False, "ssh"),
        ('rule source ipset="admins" service name="ssh" accept', False, True, False, "ssh"),
        ('rule family="ipv4" destination address="10.0.0.1" service name="ssh" accept', False, True, False, "ssh"),
        ('rule service name="ssh" reject type="icmp-port-unreachable"', False, False, False, "ssh"),
        ('rule priority="29500" family="ipv4" source address="10.0.0.9" drop', True, False, False, ""),
        ('rule family="ipv4" forward-port port="80" protocol="tcp" to-port="8080"', False, False, False, ""),
        ("rule", False, False, True, ""),
        ('rule "', False, False, False, ""),
        ('rule priority="x" service name="ssh" accept', False, False, False, ""),
        ('rule port port="99999" protocol="tcp" accept', False, False, False, ""),
    ],
)
def test_rules_of_others(text, own, accepts, world, service):
    told = rich.parse_rich(text)
    assert (told.own, told.accepts, told.world, told.service) == (own, accepts, world, service)


def test_a_service_file():
    ports = """<port protocol="tcp" port="22"/>\n <port port='8000-8010'\n protocol='udp' />"""
    text = '<service>{}<include service="http"/></service>'.format(ports)
    assert firewalld.parse_service(text) == ([((22, 22), "tcp"), ((8000, 8010), "udp")], ["http"])


# -------------------------------------------------------------------------------------------------------------- the plan


def options(**changes):
    """Options of the module with changes, checked."""
    base = {
        "members": {"n1": ["10.0.0.1"], "n2": ["10.0.0.2"]},
        "keep_members_in": [],
        "admin_networks": ["0.0.0.0/0", "::/0"],
        "ssh_ports": [22],
        "rendezvous_ports": "29500:29999",
        "ephemeral_ports": "",
        "service_ports": [],
        "time_server": False,
        "rollback_seconds": 60,
    }
    return rules.check(dict(base, **changes))


def wanted(wish):
    """What is wanted on n1."""
    return rules.desired(wish, own={"10.0.0.1"})


def zone(live=(), saved=None, target="default", **more):
    """A zone that holds rich rules and others' services and ports, live and from the next start on."""
    parts = {}
    for name, texts in (("live", live), ("saved", live if saved is None else saved)):
        parts[name] = {"target": target, "services": ["ssh"], "ports": [("8088", "tcp")], "rules": list(texts)}
        parts[name].update(more)
    return dict(parts, path="/config/zone/6", wanted=True)


def plan(zones, wish=None, **state):
    """The plan of a host with these zones."""
    wish = wish or options()
    services = {"ssh": [((22, 22), "tcp")], "web": [((80, 80), "tcp")], "admin": [((22, 22), "tcp"), ((80, 80), "tcp")]}
    found = {"installed": True, "active": True, "boot": True, "zones": zones, "services": services}
    return firewalld.plan(dict(found, **state), wanted(wish), wish)


def texts(wish=None):
    """All of Muster's rich rules of n1."""
    return [rich.rich(rule) for rule in rules.split(wanted(wish or options()))]


OTHER = 'rule family="ipv4" source address="192.0.2.0/24" accept'


def test_nothing_to_do():
    made = plan({"public": zone([OTHER, *texts()])})
    assert made.steps == [] and made.before == made.after
    assert made.after[3:] == ["zone public: " + rule.text for rule in rules.split(wanted(options()))]


def test_rules_hold_at_once_and_for_good_ssh_first():
    made = plan({"public": zone([OTHER])})
    assert [step.argv for step in made.steps] == [
        ["firewall-cmd", "--zone=public", *("--add-rich-rule=" + text for text in texts())],
        bus.argv("/config/zone/6", ".config.zone", "update2", "a{sv}", "1", "rules_str", "as", "5", OTHER, *texts()),
    ]
    assert 'port="22"' in made.steps[0].argv[2] and 'port="22"' in made.steps[0].argv[3]
    assert made.steps[0].undo == [word.replace("--add", "--remove") for word in made.steps[0].argv]
    assert made.steps[1].undo == made.steps[1].argv[:-6] + ["1", OTHER]


def test_a_rule_that_holds_until_the_next_start_only():
    made = plan({"public": zone(texts(), saved=texts()[1:])})
    assert len(made.steps) == 1 and "update2" in made.steps[0].argv
    assert "zone public: allow tcp 22 from 0.0.0.0/0 (until the next start)" in made.before
    made = plan({"public": zone(texts()[1:], saved=texts())})
    assert [step.argv for step in made.steps] == [["firewall-cmd", "--zone=public", "--add-rich-rule=" + texts()[0]]]
    assert "zone public: allow tcp 22 from 0.0.0.0/0 (from the next start on)" in made.before


def test_a_member_that_has_left_loses_its_rules():
    old = rich.rich(Rule("tcp", ((29500, 29999),), "10.0.0.9"))
    made = plan({"public": zone([*texts(), old])})
    assert [step.argv for step in made.steps] == [
        bus.argv("/config/zone/6", ".config.zone", "update2", "a{sv}", "1", "rules_str", "as", "4", *texts()),
        ["firewall-cmd", "--zone=public", "--remove-rich-rule=" + old],
    ]
    keep = options(keep_members_in=["10.0.0.8/30"])
    assert plan({"public": zone([*texts(), old])}, keep).steps == []


def test_a_zone_that_is_no_longer_the_clusters_is_cleared():
    made = plan({"public": zone(texts()), "work": dict(zone([OTHER, texts()[0]]), wanted=False)})
    assert [step.argv[:3] for step in made.steps] == [
        bus.argv("/config/zone/6", ".config.zone", "update2")[:3],
        ["firewall-cmd", "--zone=work", "--remove-rich-rule=" + texts()[0]],
    ]


def test_a_firewalld_that_does_not_run_is_set_up_before_it_starts():
    wish = options(admin_networks=["192.0.2.0/24"], members={})
    stopped = dict(zone([], saved=[]), live=dict(firewalld.EMPTY))
    made = plan({"public": stopped}, wish, active=False, boot=False)
    assert [step.argv for step in made.steps] == [
        ["firewall-offline-cmd", "--zone=public", "--add-rich-rule=" + texts(wish)[0]],
        ["firewall-offline-cmd", "--zone=public", "--remove-service-from-zone=ssh"],
        ["systemctl", "enable", "firewalld.service"],
        ["systemctl", "start", "firewalld.service"],
    ]
    assert not any("start" in line and "(" in line for line in made.before)


def test_stopped_and_disabled_are_drift():
    made = plan({"public": zone(texts())}, boot=False)
    assert [step.argv for step in made.steps] == [["systemctl", "enable", "firewalld.service"]]
    made = plan({"public": zone(texts())}, active=False)
    assert [step.argv for step in made.steps] == [["systemctl", "start", "firewalld.service"]]
    assert made.before[0] == "firewalld: stopped"


def test_restricted_ssh_removes_what_opens_it_to_the_world():
    wish = options(admin_networks=["192.0.2.0/24"], members={})
    open_rule = 'rule service name="ssh" accept limit value="3/m"'
    part = {"ports": [("22", "tcp"), ("22", "udp"), ("8088", "tcp")], "services": ["ssh", "web"]}
    made = plan({"public": zone([OTHER, open_rule], **part)}, wish)
    update = bus.argv("/config/zone/6", ".config.zone", "update2", "a{sv}", "3", "rules_str", "as", "2", OTHER, *texts(wish))
    update += "services as 1 web ports a(ss) 2 22 udp 8088 tcp".split()
    assert [step.argv for step in made.steps] == [
        ["firewall-cmd", "--zone=public", "--add-rich-rule=" + texts(wish)[0]],
        update,
        ["firewall-cmd", "--zone=public", "--remove-rich-rule=" + open_rule],
        ["firewall-cmd", "--zone=public", "--remove-service=ssh"],
        ["firewall-cmd", "--zone=public", "--remove-port=22/tcp"],
    ]
    assert "zone public: service ssh (not Muster's)" in made.before and "zone public: port 22/tcp (not Muster's)" in made.before
    assert not any("Muster's" in line for line in made.after)
    lists = firewalld.guard_lists({"active": True, "boot": True}, made.steps)
    assert lists["booted"]["before"] == [] and lists["booted"]["after"] == [["firewall-cmd", "--reload"]]
    lists = lists["live"]
    assert lists["before"][0] == ["firewall-cmd", "--zone=public", "--add-port=22/tcp"]
    assert lists["before"][-1] == ["firewall-cmd", "--zone=public", "--remove-rich-rule=" + texts(wish)[0]]


@pytest.mark.parametrize(
    ("part", "named"),
    [
        ({"services": ["admin"]}, "service admin"),
        ({"services": [], "ports": [("20-30", "tcp")]}, "port 20-30/tcp"),
        ({"services": [], "rules": ['rule port port="1-1024" protocol="tcp" accept']}, "rule 'rule port port=\"1-1024\""),
    ],
)
def test_what_opens_more_than_ssh_is_refused(part, named):
    with pytest.raises(Refusal) as refusal:
        plan({"public": zone([], **part)}, options(admin_networks=["192.0.2.0/24"]))
    told = str(refusal.value)
    assert "firewalld's {}".format(named) in told and "expected SSH from firewall_admin_networks" in told


@pytest.mark.parametrize(
    ("part", "what", "option"),
    [
        ({"ports": [("1025-65535", "tcp"), ("1025-65535", "udp")]}, "port 1025-65535/tcp", "--remove-port=1025-65535/tcp"),
        ({"services": ["jobs"]}, "service jobs", "--remove-service=jobs"),
        ({"rules": ["rule service name='jobs' accept"]}, None, "rule service name='jobs' accept"),
        ({"rules": ['rule port port="29500" protocol="tcp" accept']}, None, 'rule port port="29500" protocol="tcp" accept'),
        ({"rules": ['rule family="ipv4" accept']}, None, 'rule family="ipv4" accept'),
        ({"ports": [("29500-29999", "udp"), ("http", "tcp")], "services": ["ssh", "unknown"]}, "", ""),
        ({"ports": [("40022", "tcp")]}, "", ""),  # SSH's own port
        ({"rules": [OTHER, 'rule port port="29500" protocol="udp" accept', 'rule family="ipv4" drop']}, "", ""),
        ({"rules": texts(options(ssh_ports=[30000, 40000]))}, "", ""),
    ],
)
@pytest.mark.parametrize("names", [("live", "saved"), ("live",), ("saved",)])
def test_what_others_open_of_the_ports_of_jobs_to_the_world(part, what, option, names):
    wish = options(ssh_ports=[22, 40022])
    one = {"live": firewalld.EMPTY, "saved": firewalld.EMPTY, "wanted": True}
    one.update({name: dict(firewalld.EMPTY, **part) for name in names})
    state = {"zones": {"public": one}, "services": {"ssh": [((22, 22), "tcp")], "jobs": [((29400, 29600), "tcp")]}}
    found = firewalld.exposing(state, rules.job_ports(wish), wish)
    if what is None:
        what, option = "rule '{}'".format(option), shlex.quote("--remove-rich-rule=" + option)
    command = "`firewall-cmd --zone=public {}`, and again with --permanent".format(option)
    assert found == ([(what + " in zone public", command)] if option else [])
    one["wanted"] = False
    assert firewalld.exposing(state, rules.job_ports(wish), wish) == []


def test_a_zone_that_lets_everything_in_is_refused():
    with pytest.raises(Refusal, match="zone trusted, which lets everything in, expected one that denies by default; move it"):
        plan({"trusted": zone(target="ACCEPT")})


def test_what_is_not_installed_is_told_of():
    made = plan({}, installed=False, active=False, boot=False)
    assert made.before == ["firewalld: not installed"] and "allow tcp 22 from 0.0.0.0/0" in made.after and made.steps


def test_a_firewalld_that_was_stopped_is_stopped_again():
    lists = firewalld.guard_lists({"active": False, "boot": False}, [])
    assert lists["live"]["before"] == [["systemctl", "stop", "firewalld.service"]] and lists["live"] == lists["booted"]
    assert lists["live"]["after"] == [["systemctl", "disable", "firewalld.service"]]


@pytest.mark.parametrize(
    ("members", "connection", "expected"),
    [
        (["10.0.0.1"], None, ["eth0"]),
        (["10.0.0.1", "10.1.0.1"], ("192.0.2.9", 40000, "192.0.2.1", 22), ["eth0", "eth1", "eth2"]),
        (["10.0.0.1"], ("10.0.0.9", 40000, "10.0.0.1", 22), ["eth0"]),
        (["203.0.113.1"], None, []),
        ([], ("127.0.0.1", 40000, "127.0.0.1", 22), []),
    ],
)
def test_interfaces_of_members_and_controller(members, connection, expected):
    pairs = [("lo", "127.0.0.1"), ("eth0", "10.0.0.1"), ("eth1", "10.1.0.1"), ("eth2", "192.0.2.1")]
    assert firewalld.interfaces_of(members, connection, pairs) == expected
