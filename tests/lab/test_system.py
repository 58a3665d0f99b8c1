"""One clock, limits and GPUs on two real hosts that stand alone; what is changed is put back."""

import json
import re
import socket
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[1] / "unit" / "data"
HEAD, WORKER = "n4", "out"
SMI = "/usr/local/bin/nvidia-smi"
FILES = "/etc/sysctl.d/60-muster.conf /etc/security/limits.d/60-muster.conf"
SECOND = "/etc/systemd/system/ntpd.service"
SYSCTLS = "net.ipv4.tcp_slow_start_after_idle net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.core.somaxconn"
PUT_BACK = (
    "DEBIAN_FRONTEND=noninteractive apt-get -qq -y install systemd-timesyncd && dpkg --purge chrony && "
    "rm -rf /etc/systemd/system/chrony.service.d {} {} && systemctl daemon-reload && systemctl start systemd-timesyncd"
).format(FILES, SMI)


@pytest.fixture(scope="module")
def pair(lab):
    """The head and the worker, whose limits, sysctls and time daemon are put back at the end."""
    hosts = [lab.host(HEAD), lab.host(WORKER)]
    before = [host.run("sysctl " + SYSCTLS).stdout for host in hosts]
    yield hosts
    for host, values in zip(hosts, before, strict=True):
        host.run(PUT_BACK)
        host.run("sysctl -q -p -", input=values)


@pytest.fixture
def play(run_playbook, lab, tmp_path):
    """``play(options="", bad=False)``: the three roles on the pair; its finished run."""
    plays = [
        {
            "hosts": [HEAD, WORKER],
            "gather_facts": False,
            "vars": {"ansible_become": True, "ansible_become_user": "root"},
            "roles": [
                {"role": "muster.cluster.chrony", "tags": "chrony", "vars": {"chrony_members": [HEAD, WORKER]}},
                {"role": "muster.cluster.limits", "tags": "limits"},
                {"role": "muster.cluster.gpu", "tags": "gpu"},
            ],
        }
    ]
    (tmp_path / "system.yml").write_text(json.dumps(plays))

    def run(options="", bad=False):
        where = "-i {} {}".format(lab.folder / "inventory", options)
        done = run_playbook(tmp_path / "system.yml", cmdline=where, timeout=300)
        assert (done.rc != 0) == bad, done.stdout[-6000:]
        return done

    return run


def changed(run):
    """Names of the changed tasks per host."""
    found = {}
    for event in run.events:
        data = event.get("event_data", {})
        if event["event"] == "runner_on_ok" and data["res"].get("changed"):
            found.setdefault(data["host"], set()).add(data["task"])
    return found


def calls(run):
    """The modules that were run, those of the controller alone left out."""
    asked = {event["event_data"]["task_action"] for event in run.events if event["event"] == "runner_on_ok"}
    return {name for name in asked if not re.fullmatch(r"ansible\.builtin\.(include_\w+|validate_argument_spec)", name)}


def test_one_clock_and_the_limits_come_and_stay(play, pair, soon):
    head, worker = pair
    run = play()
    assert run.stdout.count("may not set their clock, so chronyd serves and compares time") == 1
    again = play()
    assert not changed(again) and calls(again) == {"muster.cluster.survey"}
    for host in pair:
        assert "-x" in host.run("ps -o args= -C chronyd").stdout
        assert host.run("systemctl is-enabled chrony").stdout == "enabled\n"
        assert host.run("test ! -e /lib/systemd/system/systemd-timesyncd.service").returncode == 0
        assert host.run("sysctl -n net.ipv4.tcp_slow_start_after_idle net.ipv4.ip_local_port_range").stdout == "0\n32768\t60999\n"
    soon(lambda: "^* " + head.address in worker.run("chronyc -n sources").stdout, 20)
    assert worker.run("chronyc -n sources").stdout.count("^") == 1
    # A member gets an answer, this machine, which is none, gets none.
    assert worker.address in head.run("chronyc -n clients").stdout
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(1)
        asking.sendto(b"\x23" + bytes(47), (head.address, 123))
        with pytest.raises(TimeoutError):
            asking.recv(64)


def test_drift_is_named_and_put_right(play, pair):
    head, worker = pair
    worker.run("systemctl stop chrony; echo 'server 192.0.2.9' >>/etc/chrony/chrony.conf")
    worker.run("sysctl -w net.ipv4.tcp_slow_start_after_idle=1")
    unit = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
    head.run("cat >{} && systemctl daemon-reload && systemctl enable --now ntpd".format(SECOND), input=unit)
    try:
        predicted = play("--check --diff")
        expected = {
            HEAD: {"Stop other time daemons"},
            WORKER: {"Write the configuration", "Start chrony and enable it", "Set the sysctls now and at boot"},
        }
        assert changed(predicted) == expected
        assert "-server 192.0.2.9" in predicted.stdout and "+net.ipv4.tcp_slow_start_after_idle = 0" in predicted.stdout
        assert head.run("systemctl is-active ntpd").stdout == "active\n"
        assert changed(play()) == expected
        assert head.run("systemctl is-active ntpd; systemctl is-enabled ntpd", check=False).stdout == "inactive\ndisabled\n"
        assert worker.run("systemctl is-active chrony").stdout == "active\n"
        assert "192.0.2.9" not in worker.run("chronyc -n sources").stdout
    finally:
        head.run("systemctl disable --now ntpd; rm -f {}; systemctl daemon-reload".format(SECOND))


def put_smi(host, name, code=0):
    """Give a host an nvidia-smi that prints a recorded output."""
    text = (DATA / name).read_text(encoding="utf-8").split("\n", 1)[1]
    host.run("cat >{0} && chmod 755 {0}".format(SMI), input="#!/bin/sh\ncat <<'EOF'\n{}EOF\nexit {}\n".format(text, code))


def test_different_drivers_are_refused_by_a_table(play, pair):
    for host, name in zip(pair, ("nvidia-smi-h100.txt", "nvidia-smi-rtx.txt"), strict=True):
        put_smi(host, name)
    try:
        run = play("--tags gpu", bad=True)
        (refusal,) = [event["event_data"]["res"]["msg"] for event in run.events if event["event"] == "runner_on_failed"]
        assert refusal.startswith("found 2 different NVIDIA drivers, expected one on all hosts")
        assert refusal.splitlines()[1:] == ["  driver      hosts", "  550.90.07   out", "  535.161.08  n4"]
    finally:
        for host in pair:
            host.run("rm -f " + SMI)
