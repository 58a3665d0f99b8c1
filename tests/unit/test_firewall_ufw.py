"""ufw: its rules read from its files, the plan as exact commands."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_firewall import rules, ufw

SSH, PEERS, TIME = "6d757374657220737368", "6d7573746572207065657273", "6d75737465722074696d65"
WORLD4 = "### tuple ### allow tcp 22 0.0.0.0/0 any 0.0.0.0/0 in comment=" + SSH
WORLD6 = "### tuple ### allow tcp 22 ::/0 any ::/0 in comment=" + SSH
PEER2 = "### tuple ### allow tcp 29500:29999,32768:60999 0.0.0.0/0 any 10.0.0.2 in comment=" + PEERS
PEER3 = PEER2.replace("10.0.0.2", "10.0.0.3")
DONE = [WORLD4, WORLD6, PEER2, PEER3]
# As ufw 0.36 wrote them.
FOREIGN = """
### tuple ### limit_log tcp 22 0.0.0.0/0 any 0.0.0.0/0 in comment=62792068616e64
### tuple ### allow tcp 22 0.0.0.0/0 any 0.0.0.0/0 OpenSSH - in
-A ufw-user-input -p tcp --dport 22 -j ACCEPT -m comment --comment 'dapp_OpenSSH'
### tuple ### allow any 22 0.0.0.0/0 any 0.0.0.0/0 in_eth1
### tuple ### route:allow any any 0.0.0.0/0 any 0.0.0.0/0 in_eth0!out_eth1
### tuple ### allow udp 60000:61000 0.0.0.0/0 any 0.0.0.0/0 in comment=6d6f7368
### tuple ### allow any any 0.0.0.0/0 any 192.0.2.7 in
### tuple ### allow udp any 0.0.0.0/0 53 192.0.2.9 in
### tuple ### allow tcp 80 10.199.9.11 any 0.0.0.0/0 in
### tuple ### allow tcp 80,443 0.0.0.0/0 any 0.0.0.0/0 WWW%20Full - in
### tuple ### allow tcp 80 0.0.0.0/0 any 0.0.0.0/0
"""
JOBS = ["proto", "tcp", "from", "10.0.0.2", "to", "any", "port", "29500:29999,32768:60999"]


def options(**changes):
    """Options of the module with changes, checked."""
    base = {
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
    return rules.check(dict(base, **changes))


def plan(lines, wish=None, **state):
    """The plan on a host whose files have these lines."""
    wish = wish or options()
    found = {"installed": True, "enabled": True, "active": True, "loaded": True, "boot": True, "policy": "DROP", "v6": True}
    found.update(state, rules=ufw.parse_rules("\n".join(lines)))
    return ufw.plan(found, rules.desired(wish, own={"10.0.0.1"}), wish)


def commands(made):
    """The plan's commands as lines."""
    return [" ".join(step.argv) for step in made.steps]


def test_rules_are_read_as_ufw_writes_them():
    found = ufw.parse_rules(FOREIGN)
    assert [rule.action for rule in found] == ["limit_log", "allow", "allow", "route:allow"] + ["allow"] * 6
    assert [rule.app for rule in found if rule.app != "-"] == ["OpenSSH", "WWW Full"]
    assert [rule.direction for rule in found if rule.direction != "in"] == ["in_eth1", "in_eth0!out_eth1"]
    assert [rule.comment for rule in found if rule.comment] == ["by hand", "mosh"]
    assert not any(rule.own for rule in found)
    plain = [rule.rule.text for rule in found if rule.plain]
    assert plain == ["allow tcp 22 from 0.0.0.0/0", "allow udp 60000-61000 from 0.0.0.0/0", "allow tcp 80 from 0.0.0.0/0"]


@pytest.mark.parametrize(
    "line",
    [
        "### tuple ### allow tcp 22 0.0.0.0/0",
        "### tuple ### allow tcp ssh 0.0.0.0/0 any 0.0.0.0/0 in",
        "### tuple ### allow tcp 22 0.0.0.0/0 any nowhere in",
        "### tuple ### allow tcp 22 0.0.0.0/0 any 0.0.0.0/0 in comment=zz",
        "-A ufw-user-input -p tcp --dport 22 -j ACCEPT",
        "",
    ],
)
def test_a_line_that_is_no_rule_is_passed_over(line):
    assert ufw.parse_rules(line) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("limit_log tcp 22 0.0.0.0/0 any 0.0.0.0/0 in", "delete limit log proto tcp from 0.0.0.0/0 to any port 22"),
        ("allow tcp 22 ::/0 any ::/0 OpenSSH - in", "delete allow from ::/0 to any app OpenSSH"),
        ("allow any 22 0.0.0.0/0 any 0.0.0.0/0 in", "delete allow from 0.0.0.0/0 to any port 22"),
        ("allow any any 0.0.0.0/0 any 192.0.2.0/24 in", "delete allow from 192.0.2.0/24 to any"),
        ("allow tcp 22 10.0.0.9 any 0.0.0.0/0 in", "delete allow proto tcp from 0.0.0.0/0 to 10.0.0.9 port 22"),
        (PEER2[14:].partition(" comment")[0], "delete allow " + " ".join(JOBS)),
    ],
)
def test_a_rule_is_removed_by_the_words_that_mean_it_alone(line, expected):
    assert ufw.removing(ufw.parse_tuple(line.split())) == expected.split()


def test_from_nothing_to_everything():
    made = plan([], options(time_server=True), enabled=False, active=False, loaded=False, boot=False, policy="ACCEPT")
    assert commands(made) == [
        "ufw allow proto tcp from 0.0.0.0/0 to any port 22 comment muster ssh",
        "ufw allow proto tcp from ::/0 to any port 22 comment muster ssh",
        "ufw allow proto tcp from 10.0.0.2 to any port 29500:29999,32768:60999 comment muster peers",
        "ufw allow proto tcp from 10.0.0.3 to any port 29500:29999,32768:60999 comment muster peers",
        "ufw allow proto udp from 10.0.0.2 to any port 123 comment muster time",
        "ufw allow proto udp from 10.0.0.3 to any port 123 comment muster time",
        "ufw default deny incoming",
        "ufw --force enable",
        "systemctl enable ufw.service",
    ]
    assert made.steps[0].argv[-1] == "muster ssh"
    assert made.before == ["ufw: stopped", "started at boot: no", "incoming by default: allow"]
    assert made.after[:4] == ["ufw: running", "started at boot: yes", "incoming by default: deny", "allow tcp 22 from 0.0.0.0/0"]


def test_services_are_open_to_administrators():
    made = plan([], options(admin_networks=["192.0.2.0/24"], service_ports=["6006"], members={}))
    assert commands(made) == [
        "ufw allow proto tcp from 192.0.2.0/24 to any port 22 comment muster ssh",
        "ufw allow proto tcp from 192.0.2.0/24 to any port 6006 comment muster service",
    ]


def test_nothing_to_do():
    made = plan(DONE + FOREIGN.splitlines())
    assert made.steps == [] and made.before == made.after


def test_what_is_not_installed_is_told_of():
    made = plan([], installed=False, enabled=False, active=False, loaded=False, boot=False, policy="")
    assert made.before == ["ufw: not installed"] and len(made.after) == 7 and made.steps


@pytest.mark.parametrize(
    ("lines", "state", "expected"),
    [
        ([WORLD4, WORLD6, PEER3], {}, ["ufw allow {} comment muster peers".format(" ".join(JOBS))]),
        (DONE, {"boot": False}, ["systemctl enable ufw.service"]),
        (DONE, {"enabled": False, "active": False, "loaded": False}, ["ufw --force enable"]),
        (DONE, {"active": False, "loaded": False}, ["ufw --force enable"]),
        (DONE, {"active": False}, ["ufw reload"]),  # somebody has flushed or changed what is in force
        (DONE, {"policy": "ACCEPT"}, ["ufw default deny incoming"]),
        (DONE, {"policy": "REJECT"}, []),
        (
            DONE + [PEER2.replace("10.0.0.2", "10.0.0.9")],  # a member that has left
            {},
            ["ufw delete allow proto tcp from 10.0.0.9 to any port 29500:29999,32768:60999"],
        ),
        (
            [line.replace("29999", "29599") for line in DONE],  # other ports: the new ones first
            {},
            ["ufw allow {} comment muster peers".format(" ".join(JOBS))]
            + ["ufw allow {} comment muster peers".format(" ".join(JOBS)).replace("0.2", "0.3")]
            + ["ufw delete allow {}".format(" ".join(JOBS)).replace("29999", "29599")]
            + ["ufw delete allow {}".format(" ".join(JOBS)).replace("29999", "29599").replace("0.2", "0.3")],
        ),
        ([line.replace(" any 22 ", " tcp 22 ").partition(" comment")[0] for line in DONE], {}, []),  # the same, by somebody else
        ([WORLD4.replace("allow", "limit").replace(SSH, "62")] + DONE[1:], {}, []),  # more careful, and by somebody else
        (
            DONE + ["### tuple ### deny tcp 99 0.0.0.0/0 any 10.0.0.7 in comment=" + PEERS],
            {},
            ["ufw delete deny proto tcp from 10.0.0.7 to any port 99"],
        ),
    ],
)
def test_what_differs_is_mended_and_nothing_else(lines, state, expected):
    made = plan(lines + FOREIGN.splitlines()[3:], **state)
    assert commands(made) == expected
    assert (made.before != made.after) == bool(expected)


def test_a_deleted_rule_is_named_in_the_difference():
    made = plan([WORLD4, WORLD6, PEER3])
    assert [line for line in made.after if line not in made.before] == ["allow tcp 29500-29999,32768-60999 from 10.0.0.2"]


def test_restricted_ssh_removes_what_opens_it_to_the_world_and_sets_its_own_first():
    wish = options(admin_networks=["192.0.2.0/24"], members={})
    made = plan([WORLD4, WORLD6, *FOREIGN.splitlines(), "### tuple ### allow any 22 ::/0 any ::/0 in"], wish)
    assert commands(made) == [
        "ufw allow proto tcp from 192.0.2.0/24 to any port 22 comment muster ssh",
        "ufw delete allow proto tcp from 0.0.0.0/0 to any port 22",
        "ufw delete allow proto tcp from ::/0 to any port 22",
        "ufw delete limit log proto tcp from 0.0.0.0/0 to any port 22",
        "ufw delete allow from 0.0.0.0/0 to any app OpenSSH",
        "ufw delete allow from ::/0 to any port 22",
    ]
    assert "allow from 0.0.0.0/0 to any app OpenSSH (not Muster's)" in made.before
    assert not any("OpenSSH" in line for line in made.after)


def test_a_family_that_the_user_leaves_open_stays_open():
    wish = options(admin_networks=["192.0.2.0/24", "::/0"], members={})
    lines = ["### tuple ### allow tcp 22 {0} any {0} OpenSSH - in".format(world) for world in rules.WORLD]
    assert commands(plan(lines, wish))[2:] == ["ufw delete allow from 0.0.0.0/0 to any app OpenSSH"]


@pytest.mark.parametrize("line", ["allow tcp 22,80 0.0.0.0/0 any 0.0.0.0/0 in", "allow any any 0.0.0.0/0 any 0.0.0.0/0 in"])
def test_a_rule_that_opens_more_than_ssh_is_refused(line):
    with pytest.raises(Refusal, match="opens SSH and more to the whole world, expected .*; delete it with `ufw delete allow "):
        plan(["### tuple ### " + line], options(admin_networks=["192.0.2.0/24"]))


def test_a_rule_of_somebody_else_that_shuts_out_a_member_is_refused():
    with pytest.raises(Refusal, match="`deny proto tcp from 10.0.0.2 .*expected no rule that shuts out .*; delete it with"):
        plan([PEER2.replace("allow", "deny").replace(PEERS, "62")])


def test_without_ipv6_in_ufw():
    assert commands(plan([], v6=False))[1].startswith("ufw allow proto tcp from 10.0.0.2 ")
    with pytest.raises(Refusal, match="IPV6=no in /etc/default/ufw while the member n2 has an IPv6 address, expected IPV6=yes; "):
        plan([], options(members={"n2": ["fd00::2"]}), v6=False)


def test_rules_stay_in_a_network_whose_members_this_run_does_not_know():
    data = PEER2.replace("10.0.0.2", "10.1.0.2")
    wish = options(keep_members_in=["10.1.0.0/16"])
    made = plan(DONE + [data], wish)
    assert made.steps == [] and made.before == made.after and made.after[-1].endswith("from 10.1.0.2")
    assert commands(plan(DONE + [data])) == ["ufw delete allow " + " ".join(JOBS).replace("10.0.0.2", "10.1.0.2")]
    # One of them is known after all, and held by a network that stays.
    wide = PEER2.replace("10.0.0.2", "10.1.0.0/30")
    wish = options(keep_members_in=["10.1.0.0/16"], members={"n2": ["10.0.0.2", "10.1.0.2"], "n3": ["10.0.0.3"]})
    assert plan(DONE + [wide], wish).steps == []


JOB_RULE = "allow proto tcp from {} to any port 29500:29999"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("allow tcp 29500:29999 0.0.0.0/0 any 0.0.0.0/0 in", JOB_RULE.format("0.0.0.0/0")),
        ("allow tcp 29500:29999 ::/0 any ::/0 in", JOB_RULE.format("::/0")),
        ("limit_log any 80,40000 0.0.0.0/0 any 0.0.0.0/0 in", "limit log from 0.0.0.0/0 to any port 80,40000"),
        ("allow any any 0.0.0.0/0 any 0.0.0.0/0 in", "allow from 0.0.0.0/0 to any"),
        ("allow tcp 50000 0.0.0.0/0 any 0.0.0.0/0 My%20App - in", "allow from 0.0.0.0/0 to any app 'My App'"),
        ("allow tcp 29500:29999 0.0.0.0/0 any 192.0.2.0/24 in", None),
        ("deny tcp 29500:29999 0.0.0.0/0 any 0.0.0.0/0 in", None),
        ("allow udp 60000:61000 0.0.0.0/0 any 0.0.0.0/0 in", None),
        ("allow tcp 80,443 0.0.0.0/0 any 0.0.0.0/0 in", None),
        ("allow tcp 40022 0.0.0.0/0 any 0.0.0.0/0 in", None),  # SSH's own port
        ("allow tcp 29500 0.0.0.0/0 any 0.0.0.0/0 in comment=" + PEERS, None),
        ("route:allow any any 0.0.0.0/0 any 0.0.0.0/0 in_eth0!out_eth1", None),
    ],
)
def test_others_rules_that_open_ports_of_jobs_to_the_world(line, expected):
    wish = options(ssh_ports=[22, 40022])
    found = ufw.exposing({"rules": ufw.parse_rules("### tuple ### " + line)}, rules.job_ports(wish), wish)
    assert found == ([("rule `{}`".format(expected), "`ufw delete {}`".format(expected))] if expected else [])


LIVE = """-P INPUT DROP
-P FORWARD DROP
-N ufw-user-input
-A INPUT -j ufw-before-input
-A ufw-before-input -j ufw-user-input
-A ufw-user-input -p tcp -m tcp --dport 22 -j ACCEPT
-A ufw-user-input -s 10.0.0.2/32 -p tcp -m multiport --dports 29500:29999,32768:60999 -j ACCEPT
-A ufw-user-input -i eth1 -s 10.9.0.0/16 -p tcp -m tcp --dport 22 -j DROP
"""


@pytest.mark.parametrize(
    ("text", "loaded", "denies"),
    [
        (LIVE, True, True),
        (LIVE.replace("-P INPUT DROP", "-P INPUT ACCEPT"), True, False),
        (LIVE.replace("-A INPUT -j ufw-before-input\n", ""), True, False),
        ("-P INPUT ACCEPT\n-P FORWARD ACCEPT\n", False, False),
    ],
)
def test_what_is_in_force(text, loaded, denies):
    expected = {"loaded": loaded, "denies": denies, "sources": {"10.0.0.2", "10.9.0.0/16"} if loaded else set()}
    assert ufw.parse_live(text, False) == expected
    assert ufw.parse_live(text.replace("ufw-", "ufw6-"), True) == expected


def test_settings_are_read_as_a_shell_reads_them():
    text = '# IPV6=no\nIPV6=yes\nDEFAULT_INPUT_POLICY="DROP"\nIPT_MODULES=""\nENABLED=no # off\n'
    assert ufw.parse_settings(text) == {"IPV6": "yes", "DEFAULT_INPUT_POLICY": "DROP", "IPT_MODULES": "", "ENABLED": "no"}
