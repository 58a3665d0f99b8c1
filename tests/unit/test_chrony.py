"""chrony: whom a host follows, its options, which daemons give way, what is said of a clock that is not the host's."""

from pathlib import Path

import jinja2
import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_survey import time as time_section
from ansible_collections.muster.cluster.plugins.module_utils.muster_survey import units
from ansible_collections.muster.cluster.plugins.plugin_utils import chrony

TEMPLATE = Path(__file__).resolve().parents[2] / "roles" / "chrony" / "templates" / "chrony.conf.j2"
STOCK = """\
# Use Debian vendor zone.
pool 2.debian.pool.ntp.org iburst
! server commented.example.org
sourcedir   /run/chrony-dhcp
keyfile /etc/chrony/chrony.keys
"""
STOCK_SOURCES = ["pool 2.debian.pool.ntp.org iburst", "sourcedir /run/chrony-dhcp"]
CLOUD = "server 169.254.169.123 prefer iburst minpoll 4 maxpoll 4\nrefclock PHC /dev/ptp0 poll 3\nmakestep 1 3\n"


@pytest.mark.parametrize(
    ("text", "others", "expected"),
    [
        (None, {}, []),
        (STOCK, {}, STOCK_SOURCES),
        (CLOUD, {}, ["server 169.254.169.123 prefer iburst minpoll 4 maxpoll 4", "refclock PHC /dev/ptp0 poll 3"]),
        (STOCK, {"/etc/systemd/timesyncd.conf": "[Time]\n#NTP=no\nFallbackNTP=x\n"}, STOCK_SOURCES),
        (STOCK, {"/etc/systemd/timesyncd.conf.d/a.conf": "[Time]\nNTP=10.0.0.9 ntp.example.org\n"},
         ["server 10.0.0.9 iburst", "server ntp.example.org iburst", *STOCK_SOURCES]),
        (STOCK, {"/etc/ntp.conf": "server 127.127.1.0\npool 0.debian.pool.ntp.org\nserver ntp.example.org prefer\nserver\n",
                 "/etc/openntpd/ntpd.conf": "servers pool.ntp.org\n"},
         ["server ntp.example.org iburst", *STOCK_SOURCES]),
        # In a file of Muster's own only what it has kept counts, whatever the host has followed since.
        (chrony.MARK + ": x\nserver 10.0.0.1 iburst\n# kept: pool 2.debian.pool.ntp.org iburst\n"
         "# kept: sourcedir /run/chrony-dhcp\n",
         {"/etc/ntp.conf": "server ntp.example.org\n"}, STOCK_SOURCES),
        (chrony.MARK + "\nserver 10.0.0.1 iburst\n", {}, []),
    ],
)  # fmt: skip
def test_what_a_host_followed_before(text, others, expected):
    assert chrony.kept(text, others) == expected


@pytest.mark.parametrize(
    ("upstream", "isolated", "expected"),
    [
        ([], False, STOCK_SOURCES),
        ([], True, []),
        (["ntp.example.org", "10.0.0.9", "fd00::9"], False,
         ["server ntp.example.org iburst", "server 10.0.0.9 iburst", "server fd00::9 iburst"]),
        (["pool  de.pool.ntp.org  iburst", "refclock PHC /dev/ptp0"], False,
         ["pool de.pool.ntp.org iburst", "refclock PHC /dev/ptp0"]),
    ],
)  # fmt: skip
def test_whom_a_head_follows(upstream, isolated, expected):
    assert chrony.sources(upstream, isolated, STOCK_SOURCES) == expected


@pytest.mark.parametrize("entry", ["", "a b", "allow all", "server x\nallow all", "x;y"])
def test_what_is_no_source_is_refused(entry):
    with pytest.raises(Refusal, match="expected a name, an address, or a line of chrony.conf"):
        chrony.directive(entry)


def test_isolated_with_upstream_is_refused():
    with pytest.raises(Refusal, match="found both chrony_isolated and chrony_upstream"):
        chrony.sources(["a"], True, [])


@pytest.mark.parametrize(
    ("text", "free", "ours", "expected"),
    [
        ('# x\nDAEMON_OPTS="-F 1"\n', False, False, '# x\nDAEMON_OPTS="-F 1 -x"\n'),
        ('DAEMON_OPTS="-F 1 -x"\n', False, True, 'DAEMON_OPTS="-F 1 -x"\n'),
        ("DAEMON_OPTS=-x\n", False, False, "DAEMON_OPTS=-x\n"),
        ("#DAEMON_OPTS=\n", False, False, '#DAEMON_OPTS=\nDAEMON_OPTS="-x"\n'),
        ('DAEMON_OPTS=""\nDAEMON_OPTS="-4"\n', False, False, 'DAEMON_OPTS=""\nDAEMON_OPTS="-4 -x"\n'),
        ("DAEMON_OPTS=\"-4\n", False, False, 'DAEMON_OPTS="-x"\n'),
        (None, False, False, 'DAEMON_OPTS="-x"\n'),
        (None, True, False, None),
        ('DAEMON_OPTS="-F 1 -x"\n', True, False, 'DAEMON_OPTS="-F 1 -x"\n'),  # somebody else's -x
        ('DAEMON_OPTS="-F 1 -x"\n', True, True, 'DAEMON_OPTS="-F 1"\n'),
    ],
)  # fmt: skip
def test_options_of_chronyd(text, free, ours, expected):
    assert chrony.options(text, "DAEMON_OPTS", free, ours) == expected


PLACE = {
    "service": "chrony",
    "config": "/etc/chrony/chrony.conf",
    "options": "/etc/default/chrony",
    "variable": "DAEMON_OPTS",
    "dropin": "/etc/systemd/system/chrony.service.d/60-muster.conf",
}
ON = {"active": True, "enabled": True}
OFF = {"active": False, "enabled": False}


def survey(free=True, config="c", options='DAEMON_OPTS="-F 1"\n', dropin=None, **daemons):
    """A host as the survey finds it."""
    files = {PLACE["config"]: config, PLACE["options"]: options, PLACE["dropin"]: dropin}
    daemons = {name.replace("_", "-"): state for name, state in daemons.items()}
    return {"system": {"cap_sys_time": free}, "time": {"daemons": daemons, "chrony": {"files": files}}}


BOUND = {"free": False, "options": 'DAEMON_OPTS="-F 1 -x"\n', "dropin": "d"}


@pytest.mark.parametrize(
    ("found", "missing", "expected"),
    [
        (survey(chrony=ON), [], {}),
        (survey(chrony=ON, systemd_timesyncd=OFF), [], {}),
        (survey(chrony=ON, **BOUND), [], {}),
        (survey(config=None, options=None, systemd_timesyncd=ON), ["chrony"],
         {"install": ["chrony"], "stop": ["systemd-timesyncd"], "config": True, "start": True}),
        (survey(chrony=OFF), [], {"start": True}),
        (survey(chrony={"active": True, "enabled": False}), [], {"start": True}),
        (survey(chrony=ON, ntpsec={"active": False, "enabled": True}, openntpd={"active": True, "enabled": False}), [],
         {"stop": ["ntpsec", "openntpd"]}),
        (survey(config="other", chrony=ON), [], {"config": True}),
        (survey(free=False, chrony=ON), [], {"options": 'DAEMON_OPTS="-F 1 -x"\n', "dropin": "present"}),
        (survey(chrony=ON, **dict(BOUND, free=True)), [], {"options": 'DAEMON_OPTS="-F 1"\n', "dropin": "absent"}),
        (survey(chrony=ON, **dict(BOUND, dropin="old")), [], {"dropin": "present"}),
    ],
)  # fmt: skip
def test_plan(found, missing, expected):
    assert chrony.plan(found, PLACE, "c", missing, "d") == expected


def render(head, **changes):
    """The configuration as the role renders it; Ansible trims as this does."""
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True)
    environment.filters["muster.cluster.addresses"] = lambda members, hostvars: {name: hostvars[name] for name in members}
    values = {
        "__chrony_is_head": head,
        "__chrony_sources": {"kept": STOCK_SOURCES, "active": STOCK_SOURCES},
        "__chrony_place": {"driftfile": "/d", "keyfile": "/k"},
        "chrony_members": ["n1", "n2", "n3"],
        "hostvars": {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "fd00::3"},
    }
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(dict(values, **changes))


def directives(text):
    """The lines that are no comment."""
    return [line for line in text.splitlines() if line and not line.startswith("#")]


COMMON = ["makestep 1.0 3", "maxupdateskew 100.0", "rtcsync", "driftfile /d", "keyfile /k", "logdir /var/log/chrony"]


def test_the_head_serves_the_members_alone_and_follows_what_it_did():
    text = render(True)
    assert directives(text) == [*STOCK_SOURCES, "local stratum 10", "allow 10.0.0.2", "allow fd00::3", *COMMON]
    assert chrony.kept(text, {}) == STOCK_SOURCES


def test_an_isolated_head_follows_nobody_and_forgets_nothing():
    text = render(True, __chrony_sources={"kept": STOCK_SOURCES, "active": []})
    assert directives(text) == ["local stratum 10", "allow 10.0.0.2", "allow fd00::3", *COMMON]
    assert chrony.kept(text, {}) == STOCK_SOURCES


def test_a_host_alone_serves_nobody():
    assert directives(render(True, chrony_members=[])) == [*STOCK_SOURCES, "local stratum 10", *COMMON]


def test_a_worker_follows_the_head_alone():
    text = render(False)
    assert directives(text) == ["server 10.0.0.1 iburst", *COMMON]
    assert chrony.kept(text, {}) == STOCK_SOURCES


def test_a_clock_that_is_not_the_hosts_is_told_once():
    free, bound = {"cap_sys_time": True}, {"cap_sys_time": False}
    assert chrony.report({}) == chrony.report({"n1": free}) == ""
    assert chrony.report({"n1": free, "n2": bound}).startswith("n2 may not set its clock, so chronyd serves and compares time")
    told = chrony.report({"n1": bound, "n2": bound, "n3": bound})
    assert told.startswith("n1, n2 and n3 may not set their clock") and "synchron" not in told


SHOWN = """\
ExecStart={ path=/usr/sbin/chronyd ; argv[]=/usr/sbin/chronyd $DAEMON_OPTS ; ignore_errors=no ; start_time=[n/a] ; pid=0 }
Id=chrony.service
LoadState=loaded
ActiveState=active
UnitFileState=enabled

Id=systemd-timesyncd.service
LoadState=loaded
ActiveState=inactive
UnitFileState=disabled

Id=chrony.service
LoadState=loaded
ActiveState=active
UnitFileState=enabled

Id=ntpd.service
LoadState=not-found
ActiveState=inactive
UnitFileState=

Id=ntp.service
LoadState=masked
ActiveState=inactive
UnitFileState=masked
"""


def test_states_of_units():
    found = units.parse(SHOWN)
    assert found == {
        "chrony": {"active": True, "enabled": True, "state": "enabled", "command": ""},
        "systemd-timesyncd": {"active": False, "enabled": False, "state": "disabled", "command": ""},
        "ntp": {"active": False, "enabled": False, "state": "masked", "command": ""},
    }
    assert units.parse(SHOWN.split("\n\n", 1)[0])["chrony"]["command"] == "/usr/sbin/chronyd $DAEMON_OPTS"
    assert units.parse("") == {}


def test_no_process_is_started_where_no_unit_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(units.reading, "output", lambda argv: pytest.fail("started {}".format(argv)))
    monkeypatch.setattr(units, "existing", lambda names: [])
    assert units.states(["chrony"]) == {}
    (tmp_path / "chrony.service").write_text("")
    (tmp_path / "gone.service").symlink_to(tmp_path / "nothing")
    monkeypatch.undo()
    assert units.existing(["chrony", "gone", "ntp"], [str(tmp_path)]) == ["chrony"]


def test_the_section_time_reads_what_is_there(tmp_path, monkeypatch):
    config = tmp_path / "chrony.conf"
    config.write_text(STOCK)
    (tmp_path / "timesyncd.conf").write_text("[Time]\n")
    monkeypatch.setattr(time_section, "CHRONY", (str(config), str(tmp_path / "none")))
    monkeypatch.setattr(time_section, "OTHERS", (str(tmp_path / "timesync*.conf"),))
    monkeypatch.setattr(time_section.units, "states", lambda names: {})
    found = time_section.look({})
    assert found["chrony"]["files"] == {str(config): STOCK, str(tmp_path / "none"): None}
    assert found["others"] == {str(tmp_path / "timesyncd.conf"): "[Time]\n"} and found["now"] > 1.7e9
