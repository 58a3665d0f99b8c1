"""Limits and sysctls: what a host takes of them, the files, what is said of the rest; the module on a folder."""

import json

import pytest
from ansible_collections.muster.cluster.plugins.module_utils import sysctls
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_survey import limits as section
from ansible_collections.muster.cluster.plugins.plugin_utils import limits


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("net.core.somaxconn", "/proc/sys/net/core/somaxconn"),
        ("net.ipv4.conf.eth0/1.rp_filter", "/proc/sys/net/ipv4/conf/eth0.1/rp_filter"),
    ],
)
def test_path(name, path):
    assert sysctls.path_of(name) == path and sysctls.NAME.match(name)


@pytest.mark.parametrize("name", ["", "somaxconn", "../etc.passwd", "net core.x", "net..x", ".net.x", "net.x="])
def test_what_is_no_name(name):
    assert not sysctls.NAME.match(name)


@pytest.mark.parametrize(
    ("wanted", "found", "expected"),
    [
        ("4096", "128", "4096"),
        ("4096", "65535", "65535"),
        ("4096 131072 16777216", "8192 65536 33554432", "8192 131072 33554432"),
        ("4096", "4096 131072 6291456", "4096"),
        ("x", "5", "x"),
    ],
)
def test_the_greater_value(wanted, found, expected):
    assert sysctls.at_least(wanted, found) == expected


def is_(value, writable=True):
    """A sysctl in force."""
    return {"value": value, "writable": writable}


@pytest.mark.parametrize(
    ("name", "wanted", "state", "expected"),
    [
        ("net.core.somaxconn", 4096, is_("128"), {"value": "4096", "do": "set"}),
        ("net.core.somaxconn", 4096, is_("4096"), {"value": "4096", "do": "keep"}),
        ("net.core.somaxconn", 4096, is_("65535"), {"value": "65535", "do": "keep"}),
        ("vm.max_map_count", 262144, is_("65530", False), {"value": "262144", "do": "leave"}),
        ("vm.max_map_count", 262144, is_("1048576", False), {"value": "1048576", "do": "keep"}),
        ("net.core.rmem_max", 16777216, is_(None, False), {"value": "16777216", "do": "leave"}),
        # What is no size is set as it is stated, the range of ports above all.
        ("net.ipv4.ip_local_port_range", "32768  60999", is_("1024 65535"), {"value": "32768 60999", "do": "set"}),
        ("net.ipv4.tcp_slow_start_after_idle", 0, is_("1"), {"value": "0", "do": "set"}),
        ("vm.swappiness", 10, is_("60"), {"value": "10", "do": "set"}),
    ],
)
def test_what_becomes_of_a_sysctl(name, wanted, state, expected):
    assert sysctls.decide({name: wanted}, {name: state}) == {name: expected}


def test_an_empty_value_takes_a_sysctl_away():
    assert sysctls.decide({"a.b": "", "c.d": None}, {}) == {}


WANTED = {"vm.max_map_count": 262144, "net.core.somaxconn": 4096, "net.core.rmem_max": 16777216}
STATES = {"vm.max_map_count": is_("65530", False), "net.core.somaxconn": is_("4096"), "net.core.rmem_max": is_(None, False)}
NOTES = {"net.core.somaxconn": "Why.\nAnd more.", "other": "x"}
FILE = """\
# Muster keeps this file (role limits): what is changed here is changed back by the next run.

# left: net.core.rmem_max = 16777216

# Why.
# And more.
net.core.somaxconn = 4096

# left: vm.max_map_count = 262144

# What is left is not there or not this host's to set: in a container it is the machine's beneath it.
"""


def test_the_file_names_what_is_left_too():
    text = sysctls.render(sysctls.decide(WANTED, STATES), NOTES)
    assert text == FILE and sysctls.named(text) == sorted(WANTED)
    assert sysctls.named(None) == sysctls.named("# a comment = x\n") == []


def found(**changes):
    """The section limits of a host that is as wanted."""
    base = {
        "files": {limits.LIMITS_FILE: "l", limits.SYSCTL_FILE: FILE},
        "sysctls": STATES,
        "hard": {"nofile": 524288, "memlock": -1},
        "nr_open": 1048576,
        "may_raise": True,
    }
    return dict(base, **changes)


@pytest.mark.parametrize(
    ("section_limits", "wanted", "expected"),
    [
        (found(), WANTED, {}),
        (found(files={}), WANTED, {"limits": True, "sysctls": True}),
        (found(files={limits.LIMITS_FILE: "l", limits.SYSCTL_FILE: FILE + "\n"}), WANTED, {"sysctls": True}),
        (found(sysctls=dict(STATES, **{"net.core.somaxconn": is_("128")})), WANTED, {"sysctls": True}),
        (found(sysctls=dict(STATES, **{"net.core.somaxconn": is_("8192")})), WANTED, {"sysctls": True}),  # the file follows
        (found(), dict(WANTED, **{"vm.swappiness": 10}), {"sysctls": True}),  # nobody has looked at it yet
        (found(), dict(WANTED, **{"vm.swappiness": ""}), {}),
    ],
)
def test_plan(section_limits, wanted, expected):
    assert limits.plan(section_limits, "l", wanted, NOTES) == expected


@pytest.mark.parametrize(
    ("nofile", "memlock", "changes", "expected"),
    [
        (524288, "unlimited", {}, ("524288", "unlimited")),
        (524288, 8192, {"hard": {"nofile": 1048576, "memlock": 1 << 30}}, ("1048576", "1048576")),
        (524288, "unlimited", {"hard": {"nofile": 4096, "memlock": 65536}}, ("524288", "unlimited")),
        (4194304, "unlimited", {}, ("1048576", "unlimited")),  # fs.nr_open
        ("unlimited", 64, {"hard": {"nofile": -1, "memlock": 65536}}, ("1048576", "64")),
        (524288, "unlimited", {"nr_open": None}, ("524288", "unlimited")),
        # pam_limits would refuse the login.
        (524288, "unlimited", {"may_raise": False, "hard": {"nofile": 20000, "memlock": 8388608}}, ("20000", "8192")),
    ],
)
def test_limits_that_a_host_can_give(nofile, memlock, changes, expected):
    given = limits.resource_limits(nofile, memlock, found(**changes))
    assert (given["nofile"], given["memlock"]) == expected


def test_a_limit_that_is_no_number_is_refused():
    with pytest.raises(Refusal, match="limits_memlock is '64M', expected a number or unlimited"):
        limits.resource_limits(1024, "64M", found())


def test_what_hosts_do_not_let_be_set_is_told_once():
    bound = found(may_raise=False, hard={"nofile": 20000, "memlock": -1})
    left = {
        "n1": {"vm.max_map_count": {"wanted": "262144", "found": "65530"}},
        "n2": {"vm.max_map_count": {"wanted": "262144", "found": "65530"}, "net.core.rmem_max": {"wanted": "9", "found": None}},
    }
    assert limits.report(left, {"n1": bound, "n2": bound, "n3": found()}, 524288, "unlimited") == [
        "found vm.max_map_count = 65530 on n1 and n2, expected 262144; set it on the machine beneath",
        "found no net.core.rmem_max on n2, expected 9; the kernel has no such setting, or keeps it from a container",
        "found the limit nofile = 20000 on n1 and n2, expected 524288; raise it where the container is started, which may not do "
        "so itself",
    ]
    assert limits.report({}, {"n3": found()}, 524288, "unlimited") == []


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("Name:\tsystemd\nCapBnd:\t000001ffffffffff\n", True),
        ("CapBnd:\t00000000fcecbfff\n", False),
        ("", False),
        (None, False),
    ],
)
def test_the_right_to_raise_limits(status, expected):
    assert not section.may_raise(status, "0 100000 65536\n") and not section.may_raise(status, None)
    assert section.may_raise(status, "         0          0 4294967295\n") is expected


def test_the_section_looks_at_what_the_file_names(tmp_path, monkeypatch):
    path = tmp_path / "60-muster.conf"
    path.write_text("# left: vm.max_map_count = 9\n\nkernel.ostype = x\n")
    monkeypatch.setattr(section, "SYSCTL_FILE", str(path))
    found_there = section.look({})
    assert sorted(found_there["sysctls"]) == ["kernel.ostype", "vm.max_map_count"]
    assert found_there["sysctls"]["kernel.ostype"]["value"] == "Linux"
    assert found_there["files"][str(path)] == path.read_text() and found_there["nr_open"] > 0
    assert json.dumps(found_there)


class Left(Exception):
    """The module has ended."""


@pytest.fixture
def run_module(tmp_path, monkeypatch):
    """``run_module(values, check=False)``: the module on a folder that stands for /proc/sys; gives its result."""
    from ansible_collections.muster.cluster.plugins.modules import sysctls as module

    root, path = tmp_path / "sys", tmp_path / "60-muster.conf"
    (root / "net" / "core").mkdir(parents=True)
    (root / "net" / "core" / "somaxconn").write_text("128\n")
    real_path, real_state = sysctls.path_of, sysctls.state
    monkeypatch.setattr(sysctls, "path_of", lambda name, root=str(root): real_path(name, root))
    monkeypatch.setattr(sysctls, "state", lambda name: real_state(name, str(root)))

    class Module:
        tmpdir = str(tmp_path)
        _diff = True

        def __init__(self, **spec):
            self.check_mode = Module.check
            self.params = {"path": str(path), "values": Module.values, "notes": {}}

        def atomic_move(self, source, target):
            module.os.rename(source, target)

        def exit_json(self, **result):
            raise Left(result)

        def fail_json(self, **result):
            raise Left(dict(result, failed=True))

    monkeypatch.setattr(module, "AnsibleModule", Module)

    def run(values, check=False):
        Module.values, Module.check = values, check
        with pytest.raises(Left) as caught:
            module.main()
        return caught.value.args[0]

    run.root, run.path = root, path
    return run


def test_the_module_sets_now_and_at_boot(run_module):
    values = {"net.core.somaxconn": 4096, "net.core.none": 1}
    would = run_module(values, check=True)
    assert would["changed"] and would["set"] == {"net.core.somaxconn": "4096"} and not run_module.path.exists()
    done = run_module(values)
    assert done["changed"] and done["diff"] == would["diff"]
    assert done["left"] == {"net.core.none": {"wanted": "1", "found": None}}
    assert (run_module.root / "net" / "core" / "somaxconn").read_text() == "4096"
    assert "\nnet.core.somaxconn = 4096\n" in run_module.path.read_text() and run_module.path.stat().st_mode & 0o777 == 0o644
    again = run_module(values)
    assert not again["changed"] and not again["set"]


def test_the_module_refuses_what_is_no_name(run_module):
    told = run_module({"somaxconn": 1})
    assert told["failed"] and told["msg"].startswith("found 'somaxconn', expected the name of a sysctl such as")


def test_a_value_that_the_kernel_refuses_is_told(run_module, monkeypatch):
    from ansible_collections.muster.cluster.plugins.modules import sysctls as module

    def refuse(path, mode="r", **more):
        if mode == "w" and path.endswith("somaxconn"):
            raise OSError(22, "Invalid argument")
        return open(path, mode, **more)

    monkeypatch.setattr(module, "open", refuse, raising=False)
    told = run_module({"net.core.somaxconn": "many"})
    assert told["failed"]
    assert told["msg"] == (
        "found net.core.somaxconn = 128, expected many, which the kernel refuses (Invalid argument); correct limits_sysctls"
    )


def test_what_turns_out_to_be_read_only_is_left(run_module, monkeypatch):
    from ansible_collections.muster.cluster.plugins.modules import sysctls as module

    def refuse(path, mode="r", **more):
        if mode == "w" and path.endswith("somaxconn"):
            raise OSError(30, "Read-only file system")
        return open(path, mode, **more)

    monkeypatch.setattr(module, "open", refuse, raising=False)
    done = run_module({"net.core.somaxconn": 4096})
    assert done["left"] == {"net.core.somaxconn": {"wanted": "4096", "found": "128"}} and not done["set"]
    assert "# left: net.core.somaxconn = 4096\n" in run_module.path.read_text()
