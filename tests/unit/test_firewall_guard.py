"""The guard against a lock-out, on the host and on the controller."""

import json
import os
import time
from types import SimpleNamespace
from unittest import mock

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.muster.cluster.plugins.action.firewall import ActionModule
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_firewall import change, cli, guard, host, rollback
from ansible_collections.muster.cluster.plugins.plugin_utils import looking

CLIENT = ("192.0.2.9", 40000, "10.0.0.1", 22)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A guard in a folder of its own, whose commands are only written down; ``place.failing`` names those that fail."""
    made = SimpleNamespace(commands=[], failing=set(), folder=tmp_path, rules=tmp_path / "user.rules")
    for name, value in (("FOLDER", "guard"), ("UNIT_FILE", "unit"), ("WANTS", "wants/unit"), ("LOCK", "lock")):
        monkeypatch.setattr(rollback, name, str(tmp_path / value))

    def command(argv, timeout=0):
        made.commands.append(" ".join(argv))
        return argv[0] not in made.failing

    monkeypatch.setattr(rollback, "command", command)
    monkeypatch.setattr(host, "must", command)
    monkeypatch.setattr(host, "run", lambda argv, timeout=0: (0 if command(argv) else 1, "", ""))
    monkeypatch.setattr(host, "unit", lambda name: {"active": False, "enabled": False})
    monkeypatch.setattr(rollback, "write", _as_this_user(rollback.write))
    monkeypatch.setattr(guard, "_see_it_watch", lambda: None)
    made.rules.write_text("before\n")
    made.rules.chmod(0o640)
    return made


def _as_this_user(write):
    def wrapped(path, content, mode=0o600, uid=None, gid=None):
        write(path, content, mode, os.getuid(), os.getgid())

    return wrapped


LISTS = {
    "live": {"before": [["undo", "1"]], "after": [["reload"]], "fallback": [["open"]]},
    "booted": {"before": [], "after": [["restart"]], "fallback": [["open"]]},
}


def arm(place, seconds=60.0):
    """Arm a guard and make the change."""
    record = guard.arm("token", [str(place.rules), str(place.folder / "new")], LISTS, seconds, CLIENT)
    place.rules.write_text("after\n")
    (place.folder / "new").write_text("new\n")
    return record


def traces(place):
    """What is left of a guard."""
    return sorted(path.name for path in place.folder.rglob("*") if path.is_file() or path.is_symlink())


def test_a_guard_is_armed_before_the_change(place):
    arm(place)
    assert traces(place) == ["deadline", "guard.json", "new", "rollback.py", "unit", "unit", "user.rules"]
    assert place.commands == ["systemctl daemon-reload", "systemctl start muster-firewall-rollback.service"]
    for name in ("guard.json", "rollback.py", "deadline"):
        assert (place.folder / "guard" / name).stat().st_mode & 0o777 == 0o600
    assert (place.folder / "guard").stat().st_mode & 0o777 == 0o700
    compile((place.folder / "guard" / "rollback.py").read_text(), "rollback.py", "exec")
    assert "ExecStart=" in (place.folder / "unit").read_text()


@pytest.mark.parametrize(
    ("token", "client", "expected", "left"),
    [
        ("token", (*CLIENT[:1], 40001, *CLIENT[2:]), {"confirmed": True, "fresh": True}, ["new", "user.rules"]),
        ("token", None, {"confirmed": True, "fresh": True}, ["new", "user.rules"]),  # no SSH at all
        ("token", CLIENT, {"confirmed": False, "fresh": False}, None),  # the connection of before proves nothing
        ("other", (*CLIENT[:1], 40001, *CLIENT[2:]), {"confirmed": False, "fresh": True}, None),
    ],
)
def test_a_change_is_confirmed(place, token, client, expected, left):
    arm(place)
    before = traces(place)
    assert guard.confirm(token, client) == expected
    assert traces(place) == (before if left is None else left)
    assert place.rules.read_text() == "after\n"


def test_a_change_that_is_undone_already_is_not_confirmed(place):
    assert guard.confirm("token", None) == {"confirmed": False, "fresh": True}


def test_a_change_is_undone_when_its_time_is_over(place):
    arm(place, 0.3)
    place.commands.clear()
    began = time.monotonic()
    assert rollback.watch() == 0
    assert 0.2 < time.monotonic() - began < 3
    assert place.rules.read_text() == "before\n" and place.rules.stat().st_mode & 0o777 == 0o640
    assert traces(place) == ["user.rules"]
    assert place.commands == ["undo 1", "reload", "systemctl daemon-reload"]


def test_a_change_is_undone_after_a_reboot_at_once(place, monkeypatch):
    arm(place, 3000)
    place.commands.clear()
    monkeypatch.setattr(rollback, "boot_id", lambda: "another")
    assert rollback.watch() == 0
    assert place.commands == ["restart", "systemctl daemon-reload"]
    assert place.rules.read_text() == "before\n" and traces(place) == ["user.rules"]


def test_the_guard_waits_longer_for_a_module_that_works(place, monkeypatch):
    arm(place, 0.2)
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 1:
            guard.put_off(0.5)
        real(seconds)

    real = time.sleep
    monkeypatch.setattr(rollback.time, "sleep", sleep)
    began = time.monotonic()
    assert rollback.watch() == 0 and time.monotonic() - began > 0.4


def test_a_guard_without_a_record_has_nothing_to_do(place):
    arm(place)
    (place.folder / "guard" / "guard.json").unlink()
    assert rollback.watch() == 0 and traces(place) == ["new", "user.rules"]
    assert place.rules.read_text() == "after\n"


def test_an_open_host_is_better_than_one_that_nobody_reaches(place):
    arm(place, 0)
    place.commands.clear()
    place.failing = {"reload"}
    assert rollback.watch() == 0
    assert place.commands[:3] == ["undo 1", "reload", "open"]


def test_a_guard_that_fails_keeps_what_it_saved(place):
    arm(place, 0)
    place.failing = {"reload", "open"}
    assert rollback.watch() == 1
    assert json.loads((place.folder / "guard" / "guard.json").read_text())["token"] == "token"


def test_the_next_run_finishes_what_a_dead_guard_has_left(place):
    arm(place)
    with guard.alone(1):
        assert place.rules.read_text() == "before\n"
    assert traces(place) == ["user.rules"]
    arm(place)
    place.failing = {"undo", "open"}
    with pytest.raises(Refusal, match="could not be undone, expected none; see `journalctl"):
        with guard.alone(1):
            pass


def test_a_run_waits_for_the_change_of_another(place, monkeypatch):
    arm(place)
    monkeypatch.setattr(host, "unit", lambda name: {"active": True, "enabled": False})
    monkeypatch.setattr(guard, "PATIENCE", 0)
    with pytest.raises(Refusal, match="another run's change of the firewall unconfirmed, expected none; wait"):
        with guard.alone(0.2):
            pass
    with rollback.lock():
        with pytest.raises(Refusal, match="another run at work on the firewall, expected none; wait"):
            with guard.alone(0.1):
                pass
    assert not (place.folder / "lock").exists()


# -------------------------------------------------------------------------------------------------------- the change itself


class Backend:
    """A firewall with one number in place of rules; ``stuck``: it takes commands and does nothing."""

    def __init__(self, stuck=False, failing=False):
        self.now, self.stuck, self.failing = 0, stuck, failing

    def look(self):
        """As ``change.Host.look``."""
        step = SimpleNamespace(argv=["set", "1"], undo=None, size=1)
        lines = ["set {}".format(self.now)]
        return {"installed": True}, SimpleNamespace(steps=[] if self.now else [step], before=lines, after=["set 1"])

    def run(self, argv, timeout=0):
        """In place of ``host.run``."""
        if argv[0] == "set" and not self.failing:
            self.now = 0 if self.stuck else 1
        return (1, "", "cannot") if self.failing and argv[0] == "set" else (0, "", "")

    def guard_lists(self, state, steps):
        """As those of the firewalls."""
        return LISTS

    def guard_files(self, state):
        """As those of the firewalls."""
        return []


@pytest.fixture
def changing(place, monkeypatch):
    """``changing(backend)``: a ``change.Host`` of it."""

    def make(backend):
        made = object.__new__(change.Host)
        made.name, made.backend, made.client, made.wish = "ufw", backend, None, {"rollback_seconds": 60}
        made.look = backend.look
        monkeypatch.setattr(host, "run", backend.run)
        monkeypatch.setattr(host, "has_systemd", lambda: True)
        return made

    return make


def test_a_change_under_the_guard(changing, place):
    plan, guarded = changing(Backend()).ensure("token", False)
    assert guarded and [step.argv for step in plan.steps] == [["set", "1"]]
    assert rollback.load()["token"] == "token"
    assert 50 < rollback.seconds_left(rollback.load()) <= 60


def test_nothing_to_change_needs_no_guard(changing, place):
    backend = Backend()
    backend.now = 1
    assert changing(backend).ensure("token", False)[1] is False
    assert place.commands == [] and traces(place) == ["user.rules"]


def test_the_look_tells_whether_all_is_as_wanted(changing, place, monkeypatch):
    backend = Backend()
    made = changing(backend)
    made.exposed = []
    request = {"do": "look", "backend": "ufw", "options": {}}
    monkeypatch.setattr(change, "Host", lambda name, options: made)
    monkeypatch.setattr(cli.os, "geteuid", lambda: 0)
    assert cli.call(request)["done"] is False and backend.now == 0
    backend.now = 1
    assert cli.call(request) == {"done": True, "warnings": [], "client": ""}
    arm(place)  # another run's change, which nobody has confirmed yet
    assert cli.call(request)["done"] is False
    monkeypatch.setattr(cli.os, "geteuid", lambda: 1000)
    assert cli.call(request) == {"done": False}


def test_check_mode_changes_nothing(changing, place):
    backend = Backend()
    plan, guarded = changing(backend).ensure("token", True)
    assert plan.steps and not guarded and backend.now == 0 and traces(place) == ["user.rules"]


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        (Backend(failing=True), "set 1 ended with 1 .cannot., expected it to work; run it by hand"),
        (Backend(stuck=True), "took every command and still lacks 'set 1' .*, expected it to hold; run `set 1`"),
    ],
)
def test_a_change_that_fails_is_undone_at_once(changing, place, backend, words):
    with pytest.raises(Refusal, match=words):
        changing(backend).ensure("token", False)
    assert "undo 1" in place.commands and traces(place) == ["user.rules"]


# --------------------------------------------------------------------------------------------------- what the host tells


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([b"A=1", b"SSH_CONNECTION=192.0.2.9 40000 10.0.0.1 22"], ("192.0.2.9", 40000, "10.0.0.1", 22)),
        ([b"SSH_CONNECTION=fe80::1%eth0 40000 fe80::2%eth0 2222"], ("fe80::1", 40000, "fe80::2", 2222)),
        ([b"SSH_CONNECTION="], None),
        ([b"SSH_CONNECTION=UNKNOWN 65535 UNKNOWN x"], None),
        ([b"XSSH_CONNECTION=192.0.2.9 40000 10.0.0.1 22", b""], None),
    ],
)
def test_the_connection_of_this_run(words, expected):
    assert host.parse_connection(words) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("iptables v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied", "nf_tables; load"),
        ("iptables: can't initialize iptables table `filter': Table does not exist", "firewall_enabled to false"),
        ("Extension multiport revision 0 not supported, missing kernel module?", "kernel without the packet filter"),
        ("ERROR: Bad port", "ended with 1 (ERROR: Bad port), expected it to work; run it by hand"),
    ],
)
def test_a_command_that_fails_is_explained(text, words):
    assert words in host.explain(["ufw", "x"], 1, text)


# ------------------------------------------------------------------------------------------------------- on the controller


def act(answers, looked=None, **arguments):
    """Run the action; ``answers``: what its module calls give, an exception being raised; ``looked``: what the look does.

    Returns result and mocks.
    """
    task = mock.Mock(async_val=0, check_mode=False, diff=False, args=dict({"backend": "ufw", "rollback_seconds": 8}, **arguments))
    connection = mock.Mock()
    made = ActionModule(task, connection, mock.Mock(), mock.Mock(), mock.Mock(), mock.Mock())
    made._execute_module = mock.Mock(side_effect=answers)
    made.validate_argument_spec = lambda spec: (None, {name: task.args.get(name, of.get("default")) for name, of in spec.items()})
    told = mock.Mock(side_effect=looked) if isinstance(looked, Exception) else mock.Mock(return_value=looked or {})
    with mock.patch("time.sleep"), mock.patch.object(looking, "look", told):
        result = made.run(None, {"inventory_hostname": "n1"})
    return result, made._execute_module, connection


CHANGED = {"changed": True, "guarded": True, "client": "192.0.2.9"}
LOST = AnsibleConnectionFailure("ssh: connect to host n1 port 22: Connection timed out")
UNDONE = {"confirmed": False, "fresh": True}


def test_nothing_to_do_needs_no_module():
    result, module, _ = act([], looked={"done": True, "warnings": ["n1: found"], "client": "192.0.2.9"})
    assert not result["changed"] and result["warnings"] == ["n1: found"] and not module.called


def test_a_look_that_fails_is_the_modules_to_explain():
    result, module, _ = act([{"failed": True, "msg": "found IPV6=no"}], looked=looking.Fault("Traceback"))
    assert result["msg"] == "n1: found IPV6=no" and module.call_count == 1


def test_a_host_that_dies_during_the_look_is_unreachable_at_once():
    with pytest.raises(AnsibleConnectionFailure):
        act([], looked=LOST)


def test_no_change_is_one_call():
    result, module, connection = act([{"changed": False, "guarded": False}])
    assert not result["changed"] and not result.get("failed")
    assert module.call_count == 1 and not connection.reset.called


def test_a_change_is_confirmed_over_a_new_connection():
    result, module, connection = act([CHANGED, {"confirmed": True, "fresh": True}])
    assert result["changed"] and result["confirmed"] and not result.get("failed")
    token = module.call_args_list[0].args[1]["guard"]
    assert module.call_args_list[1].args[1] == {"state": "confirm", "guard": token} and len(token) == 16
    assert connection.reset.call_count == 1


@pytest.mark.parametrize(
    ("answers", "arguments", "expected"),
    [
        (
            [CHANGED, LOST, LOST, UNDONE],
            {"admin_networks": ["203.0.113.0/24"]},
            "n1: the new rules shut out the controller (192.0.2.9 as n1 sees it), expected firewall_admin_networks "
            "(203.0.113.0/24) to contain it; they were undone after 8 s: add 192.0.2.9 to firewall_admin_networks",
        ),
        (
            [CHANGED, LOST, UNDONE],
            {"admin_networks": ["203.0.113.0/24"], "members": {"n0": ["192.0.2.9"]}},
            "n1: the new rules shut out the controller (192.0.2.9 as n1 sees it), although firewall_admin_networks "
            "(203.0.113.0/24) lets it in; they were undone after 8 s: see what else filters SSH on the host",
        ),
        (
            [dict(CHANGED, client=""), LOST, UNDONE],
            {"admin_networks": ["203.0.113.0/24"]},
            "n1: the new rules shut out the controller, expected firewall_admin_networks (203.0.113.0/24) to contain it; they "
            "were undone after 8 s: add the controller's address to firewall_admin_networks",
        ),
        ([CHANGED, UNDONE], {}, "n1: the change of the firewall was undone after 8 s, before it could be confirmed, expected "),
        ([CHANGED, {"confirmed": False, "fresh": False}], {}, "n1: found the old SSH connection in place of a new one, "),
        ([CHANGED, {"failed": True, "msg": "no space"}], {}, "n1: no space; the change is undone after 8 s"),
        ([LOST, LOST, UNDONE], {}, "n1: the SSH connection broke while the firewall was changed (it does not answer, "),
        ([{"failed": True, "msg": "found IPV6=no"}], {}, "n1: found IPV6=no"),
    ],
)
def test_what_went_wrong_is_one_sentence(answers, arguments, expected):
    result, _, _ = act(answers, **arguments)
    assert result["failed"] and not result.get("changed") and result["msg"].startswith(expected)
    assert "\n" not in result["msg"]


def test_a_broken_connection_may_have_made_its_change():
    result, _, _ = act([LOST, {"confirmed": True, "fresh": True}])
    assert result["changed"] and result["confirmed"] and not result.get("failed")


def test_a_host_that_does_not_come_back():
    times = iter([0.0, 10.0, 60.0])
    with mock.patch("time.monotonic", lambda: next(times)):
        result, _, _ = act([CHANGED, LOST, LOST])
    assert result["msg"].startswith("n1: no new connection within 53 s after the change of the firewall (it does not answer")
    assert "expected it to be undone after 8 s" in result["msg"]


def test_an_unreachable_host_is_unreachable():
    times = iter([0.0, 60.0])
    with mock.patch("time.monotonic", lambda: next(times)), pytest.raises(AnsibleConnectionFailure):
        act([LOST, LOST])
