"""What the preflight says of hosts: a sentence per fault with host, found, expected and fix, and none of a good host."""

import copy

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils import preflight

WANTED = {"min_free_mb": 1000, "min_tmp_mb": 200, "max_clock_skew": 60, "other_systems": False}
FACTS = {
    "system": {
        "family": "debian",
        "distribution": "debian",
        "version": "12",
        "name": "Debian GNU/Linux 12 (bookworm)",
        "python": "3.11.2",
        "hostname": "n1",
        "machine": "m1",
        "container": "",
        "cap_sys_time": True,
        "root": True,
        "init_systemd": True,
        "disks": {
            "/": {"free_mb": 5000, "device": 1},
            "/var": {"free_mb": 5000, "device": 1},
            "/tmp": {"free_mb": 500, "device": 2},
        },
        "addresses": [["lo", "127.0.0.1"], ["lo", "::1"], ["eth0", "10.0.0.1"], ["eth0", "fe80::1"], ["docker0", "172.17.0.1"]],
    },
    "packages": {"manager": "apt"},
    "time": {"now": 1000.0, "controller": [999.0, 1001.0]},
    "firewall": {"ufw": {"installed": True, "active": True}, "firewalld": {"installed": False, "active": False}},
}


def host(number=1, system=None, **changes):
    """A good host with changes; ``system`` are those of the section system."""
    facts = copy.deepcopy(FACTS)
    name = "n{}".format(number)
    facts["system"].update(hostname=name, machine="m{}".format(number))
    facts["system"]["addresses"][2] = ["eth0", "10.0.0.{}".format(number)]
    facts["system"].update(system or {})
    fields = {"address": "10.0.0.{}".format(number), "fault": None, "unreachable": False, "python": "/usr/bin/python3"}
    facts.update({key: changes.pop(key) for key in list(changes) if key in facts})
    return dict(fields, facts=facts, **changes)


def told(*hosts, **wanted):
    """Findings about n1, n2 ..."""
    named = {"n{}".format(number): one for number, one in enumerate(hosts, 1)}
    return preflight.findings(named, dict(WANTED, **wanted))


def test_good_hosts_have_no_findings():
    assert told(host(1), host(2), host(3)) == []


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ({"distribution": "debian", "version": "11"}, None),
        ({"distribution": "debian", "version": ""}, None),  # testing
        ({"distribution": "ubuntu", "version": "20.04"}, None),
        ({"distribution": "rocky", "version": "9.4", "family": "redhat"}, None),
        ({"distribution": "fedora", "version": "40", "family": "redhat"}, None),
        ({"distribution": "debian", "version": "10", "name": "Debian 10"},
         "n1 runs Debian 10, expected Debian 11, Ubuntu 20.04, Red Hat, Rocky, AlmaLinux or CentOS 8, Fedora, or a later one; "
         "take it out of the inventory, or install it anew"),
        ({"distribution": "ubuntu", "version": "18.04", "name": "Ubuntu 18.04.6 LTS"}, "n1 runs Ubuntu 18.04.6 LTS, expected"),
        ({"distribution": "centos", "version": "7", "name": "CentOS Linux 7 (Core)", "family": "redhat"}, "n1 runs CentOS"),
        ({"distribution": "linuxmint", "version": "21", "name": "Linux Mint 21"}, "preflight_other_systems: true"),
        ({"distribution": "arch", "version": "", "name": "Arch Linux", "family": "other"}, "or install it anew"),
        ({"python": "3.6.8"}, "n1 has Python 3.6.8, expected 3.8 or later; install a newer one beside it and name it in "
                              "ansible_python_interpreter"),
        ({"root": False}, "n1 was looked at by an ordinary user, expected root; set ansible_become to true"),
        ({"init_systemd": False}, "n1 is not run by systemd, expected it"),
    ],
)  # fmt: skip
def test_the_system(system, expected):
    found = told(host(1, system))
    if expected is None:
        assert found == []
    else:
        assert len(found) == 1 and expected in found[0]


def test_other_systems_of_the_families_may_be_tried():
    mint = host(1, {"distribution": "linuxmint", "version": "21"})
    assert told(mint, other_systems=True) == []
    mint["requirements"] = {"other_systems": True}
    assert told(mint) == []
    assert len(told(host(1, {"distribution": "arch", "family": "other"}), other_systems=True)) == 1


def test_a_host_without_a_package_manager():
    assert told(host(1, packages={"manager": None})) == [
        "n1 has neither apt-get nor dnf, expected one of them; install it, or set muster_manage_hosts to false for this host"
    ]


LOWER = "make room there, or lower preflight_min_"


@pytest.mark.parametrize(
    ("root", "var", "tmp", "expected"),
    [
        ((999, 1), (999, 1), (200, 2), ["n1 has 999 MB free in /, expected 1000 MB; " + LOWER + "free_mb"]),
        ((1000, 1), (7, 3), (200, 2), ["n1 has 7 MB free in /var, expected 1000 MB; " + LOWER + "free_mb"]),
        ((1000, 1), (1000, 1), (199, 2), ["n1 has 199 MB free in /tmp, expected 200 MB; " + LOWER + "tmp_mb"]),
        ((5, 1), (5, 1), (5, 1), ["n1 has 5 MB free in /, expected 1000 MB; " + LOWER + "free_mb"]),
    ],
)  # fmt: skip
def test_free_space_is_told_once_per_disk(root, var, tmp, expected):
    disks = {path: {"free_mb": free, "device": device} for path, (free, device) in
             {"/": root, "/var": var, "/tmp": tmp}.items()}  # fmt: skip
    assert told(host(1, {"disks": disks})) == expected


def test_a_disk_that_could_not_be_read_is_no_finding():
    assert told(host(1, {"disks": {}})) == []


def test_a_host_may_have_requirements_of_its_own():
    small = {"disks": {"/": {"free_mb": 600, "device": 1}}}
    assert told(host(1, small, requirements={"min_free_mb": 500}), host(2)) == []
    assert len(told(host(1, small, requirements={"min_free_mb": 500}), host(2, small))) == 1


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (1000.0, 0),
        (1001.0, 0),
        (998.0, -1),
        (4601.0, 3600),
        (None, None),
    ],
)
def test_what_the_call_itself_took_is_no_skew(now, expected):
    assert preflight.skew({"time": {"now": now, "controller": [999.0, 1001.0]}}) == expected
    assert preflight.skew({"time": {"now": now}}) is None


def clock(seconds):
    """The section time of a host whose clock is ahead by so much."""
    return {"now": 1000.0 + seconds, "controller": [1000.0, 1000.0]}


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ([host(1, time=clock(60)), host(2, time=clock(-60))], []),
        ([host(1, time=clock(-3600)), host(2)],
         ["n1's clock is 3600 s behind this machine's, expected at most 60 s; set it there by date --set, as in: ssh n1 sudo "
          "date --utc --set @$(date +%s)"]),
        ([host(1, {"container": "lxc", "cap_sys_time": False}, time=clock(90)), host(2)],
         ["n1's clock is 90 s ahead of this machine's, expected at most 60 s; it is a container, so set the clock of the machine "
          "beneath it"]),
        ([host(1, time=clock(3600)), host(2, time=clock(3601)), host(3, time=clock(3602))],
         ["this machine's clock is 3600 s behind that of all 3 hosts that were looked at, expected at most 60 s; set the clock "
          "here"]),
    ],
)  # fmt: skip
def test_clocks(hosts, expected):
    assert told(*hosts) == expected


def test_two_hosts_may_be_wrong_each_by_itself():
    assert len(told(host(1, time=clock(3600)), host(2, time=clock(-3600)))) == 2


def test_two_firewalls():
    both = {"ufw": {"active": True}, "firewalld": {"active": True}}
    assert told(host(1, firewall=both)) == [
        "n1 has both ufw and firewalld active, expected one of them, since they undo each other's rules; stop one: ufw disable, "
        "or systemctl disable --now firewalld"
    ]
    assert told(host(1, firewall={})) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"unreachable": True, "fault": "ssh: connect to host n1 port 22: Connection timed out"},
         "n1 is unreachable: it does not answer, expected SSH to work; see whether it is up"),
        ({"fault": "Missing sudo password"}, "its sudo asks for a password, expected none or yours; run with --ask-become-pass"),
        ({"fault": "MODULE FAILURE\nsudo: a password is required\n"}, "its sudo asks for a password"),
        ({"fault": "Incorrect sudo password"}, "its sudo refuses the password"),
        ({"fault": "ml is not in the sudoers file.  This incident will be reported."}, "sudo refuses the login user"),
        ({"fault": "/bin/sh: 1: sudo: not found"}, "it has no sudo, expected it; install the package sudo"),
        ({"fault": "sudo: sorry, you must have a tty to run sudo"}, "remove requiretty"),
        ({"fault": "sudo: /usr/bin/sudo must be owned by uid 0 and have the setuid bit set"}, "cannot become root"),
        ({"fault": "Timeout (12s) waiting for privilege escalation prompt: "}, "its sudo does not answer"),
        ({"fault": "ansible-core requires a minimum of Python version 3.8. Current version: 3.6.8", "python": "/usr/bin/python3"},
         "its Python (/usr/bin/python3) is too old for Ansible, expected 3.8 or later"),
        ({"fault": "/bin/sh: 1: /usr/bin/python9: not found", "python": "/usr/bin/python9"},
         "it has no Python at /usr/bin/python9, expected 3.8 or later"),
        ({"fault": "OSError: [Errno 28] No space left on device"}, "its disk is full"),
        ({"fault": "cannot create: Read-only file system"}, "its file system is read-only"),
        ({"fault": "Task failed: Timed out after 120 second(s)."}, "see whether a disk hangs there"),
        ({"fault": "something\n else"}, "n1 cannot be set up: something else"),
        ({"fault": ""}, "n1 cannot be set up: it failed or was unreachable earlier in this run"),
    ],
)  # fmt: skip
def test_hosts_that_could_not_be_looked_at(changes, expected):
    found = told(dict(host(1), facts=None, **changes), host(2))
    assert len(found) == 1 and expected in found[0] and found[0].startswith("n1 ")


def test_a_long_fault_is_cut():
    assert len(preflight.explain("n1", {"fault": "x" * 5000})) < 400


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({"machine": "m1", "addresses": [["eth0", "10.0.0.1"]]},
         ["n1 and n2 are one host, expected two; correct ansible_host of one of them, or remove it"]),
        ({"machine": "m1"}, ["n1 and n2 have one /etc/machine-id, so one is a copy of the other, expected an id each; on n2 "
                             "remove the file, run systemd-machine-id-setup and reboot"]),
        ({"hostname": "n1"}, ["n1 and n2 both call themselves n1, expected a name each; give one another by hostnamectl "
                              "set-hostname"]),
        ({"machine": None}, []),
    ],
)  # fmt: skip
def test_twins(second, expected):
    assert told(host(1), host(2, second)) == expected


def test_two_machines_without_an_id_are_not_one():
    assert told(host(1, {"machine": None}), host(2, {"machine": None})) == []


def test_twins_of_one_address_are_left_to_the_addresses():
    assert told(host(1), dict(host(2, {"machine": "m1"}), address="10.0.0.1")) == []


@pytest.mark.parametrize(
    ("addresses", "looked", "expected"),
    [
        ({"n1": "10.0.0.1", "n2": "10.0.0.2"}, [1, 2], []),
        ({"n1": "10.0.0.1", "n2": "10.0.0.9"}, [1], []),  # n2 is not in the play
        ({"n1": "fe80::1"}, [1], []),
        ({"n1": "127.0.0.1"}, [1], []),
        ({"n1": "10.0.0.1", "n2": "10.0.0.1", "n3": "10.0.0.1"}, [],
         ["n1, n2 and n3 have one address, 10.0.0.1, expected one each; correct muster_address or ansible_host in the "
          "inventory"]),
        ({"n1": "gpu1.example"}, [1], ["n1 has the address 'gpu1.example', expected an IP address; set muster_address in the "
                                       "inventory"]),
        ({"n1": "127.0.0.1", "n2": "10.0.0.2"}, [1, 2],
         ["n1 has the address 127.0.0.1, which no other host reaches, expected one of its network; set muster_address in the "
          "inventory"]),
        ({"n1": "192.0.2.7", "n2": "10.0.0.2"}, [1, 2],
         ["n1 does not have the address 192.0.2.7 (it has 10.0.0.1), expected one of its own; set muster_address in the "
          "inventory"]),
    ],
)  # fmt: skip
def test_addresses(addresses, looked, expected):
    systems = {"n{}".format(number): host(number)["facts"]["system"] for number in looked}
    assert preflight.address_findings(addresses, systems) == expected


def test_the_message_counts():
    assert preflight.message(["a", "b"], 3) == (
        "preflight found 2 faults among 3 hosts, expected none; nothing has been changed:\n  a\n  b"
    )
    assert preflight.message(["a"], 1).startswith("preflight found 1 fault among 1 host,")
