"""The firewall of real hosts: what answers whom, drift, and that nobody is shut out for good."""

import json
import os
import re
import subprocess
import sys
import time

import pytest

from . import processes
from .scan import connects, scan

MEMBERS = ("n1", "n2", "n3")
PLAY = """---
- hosts: torch_nodes
  gather_facts: false
  vars: {ansible_become: true, ansible_become_user: root}
  roles:
    - role: muster.cluster.firewall
      vars: {firewall_members: "{{ groups['torch_nodes'] }}"}
"""
# Every trace that the guard could leave.
TRACES = (
    "ls -d /var/lib/muster-firewall /run/muster-firewall.lock /etc/systemd/system/muster-firewall-rollback.service"
    " /etc/systemd/system/*.wants/muster-firewall-rollback.service 2>/dev/null;"
    " systemctl list-units --all --plain --no-legend 'muster-firewall*'"
)
STATE = {
    "ufw": "grep -h tuple /etc/ufw/user.rules /etc/ufw/user6.rules; grep ENABLED /etc/ufw/ufw.conf; iptables -S; ip6tables -S",
    "firewalld": "firewall-cmd --list-all | tr ' ' '\\n' | sort; firewall-cmd --permanent --list-all; cat /etc/firewalld/zones/*",
}
AGAIN = {
    "ufw": "if grep -q ^ENABLED=yes /etc/ufw/ufw.conf; then ufw reload; else ufw --force disable; fi",
    "firewalld": "firewall-cmd --reload",
}
NOBODY = ["203.0.113.0/24"]


@pytest.fixture
def play(run_playbook, lab, tmp_path):
    """``play(options="", bad=False, **variables)``: the role on all members; ``bad``: it must fail."""
    book = tmp_path / "firewall.yml"
    book.write_text(PLAY)

    def run(options="", bad=False, **variables):
        where = "-i {} {}".format(lab.folder / "inventory", options)
        done = run_playbook(book, extravars=variables or None, cmdline=where, timeout=180)
        assert (done.rc != 0) == bad, done.stdout[-6000:]
        return done

    return run


@pytest.fixture(scope="module", autouse=True)
def as_before(lab):
    """What the tests do to the hosts' firewalls is undone in the end, the rules of Muster included where they were not there."""
    kept = {}
    for name in MEMBERS:
        script = "tar -C /etc -cf - $(cd /etc && ls -d ufw default/ufw firewalld 2>/dev/null) 2>/dev/null | base64 -w0; true"
        kept[name] = lab.host(name).run(script).stdout
    yield
    for name in MEMBERS:
        host = lab.host(name)
        if kept[name].strip() and kind(host):
            host.run("base64 -d | tar -C /etc -xf -", input=kept[name])
            host.run(AGAIN[kind(host)])


def controller(lab):
    """The controller's address as the hosts see it."""
    return lab.host("n1").address.rpartition(".")[0] + ".1"


def kind(host):
    """Which firewall a host has."""
    found = host.run("command -v firewall-cmd; command -v ufw", check=False).stdout
    return "firewalld" if "firewall-cmd" in found else "ufw" if "ufw" in found else ""


def state(host):
    """All that makes up a host's firewall, as text."""
    return host.run(STATE[kind(host)]).stdout


def only_ssh(lab, host):
    """Whether SSH alone answers the host outside; rules of others may let it through where nobody listens."""
    found = scan(lab.host("out"), host.address)
    assert found["open"] == {host.port}, (host.name, found)
    assert not [port for port in found["refused"] if port > 10000] and len(found["refused"]) < 5, (host.name, found)
    return True


def traces(host):
    """What is left of the guard."""
    return host.run(TRACES, check=False).stdout.strip()


def changed(run):
    """Changed tasks per host, those without any left out."""
    return {host: count for host, count in run.stats.get("changed", {}).items() if count}


def added(run):
    """Lines that a difference adds."""
    return [line[1:] for line in run.stdout.splitlines() if re.match(r"\+[^+]", line)]


# ------------------------------------------------------------------------------------------------------- rules that hold


def test_converge_and_again(play, lab):
    play()
    run = play("--check --diff")
    assert not changed(run) and not added(run)
    assert not any(traces(lab.host(name)) for name in MEMBERS)


def test_from_outside_ssh_alone_answers(lab):
    assert all(only_ssh(lab, lab.host(name)) for name in MEMBERS)


LISTEN = "systemd-run --quiet --collect --unit=muster-test-listener python3 -c '{}' {}"
SERVE = (
    "import socket, sys, time; "
    "held = [socket.create_server((\"\", int(port))) for port in sys.argv[1:]]; "
    "time.sleep(120)"
)  # fmt: skip


def test_members_reach_each_others_jobs_and_nobody_else_does(lab, soon):
    ports = (29500, 29999, 32768, 60999)
    inside, outside = (29400, 30000), lab.host("out")
    hosts = [lab.host(name) for name in MEMBERS]
    for host in hosts:
        host.run(LISTEN.format(SERVE, " ".join(map(str, ports + inside))))
    try:
        for host, asker in zip(hosts, hosts[1:] + hosts[:1]):
            soon(lambda host=host: all(":{} ".format(port) in host.run("ss -tln").stdout for port in ports + inside))
            assert [port for port in ports if connects(asker, host.address, port)] == list(ports), host.name
            assert connects(asker, host.address, host.port), host.name
            assert not any(connects(asker, host.address, port, 0.5) for port in inside), host.name
            assert not any(connects(outside, host.address, port, 0.5) for port in ports), host.name
    finally:
        for host in hosts:
            host.run("systemctl stop muster-test-listener", check=False)


def test_drift_is_named_and_mended_and_what_others_made_stays(play, lab):
    n1, n2 = lab.host("n1"), lab.host("n2")
    n1.run("ufw allow 8088/tcp comment theirs && ufw allow from 192.0.2.77")
    n1.run("ufw delete allow proto tcp from {} to any port 29500:29999,32768:60999".format(n2.address))
    n2.run("firewall-cmd --permanent --add-port=8088/tcp")
    n2.run("firewall-cmd --permanent --add-rich-rule='rule service name=nfs drop'")
    n2.run("systemctl disable --now firewalld")
    run = play("--check --diff")
    assert set(changed(run)) == {"n1", "n2"}
    lines = added(run)
    assert "allow tcp 29500-29999,32768-60999 from {}".format(n2.address) in lines
    assert {"firewalld: running", "started at boot: yes", "incoming by default: deny"} <= set(lines)
    assert not any("8088" in line or "192.0.2.77" in line for line in lines)
    assert set(changed(play())) == {"n1", "n2"}
    assert "8088/tcp" in n1.run("ufw status").stdout and "192.0.2.77" in n1.run("ufw status").stdout
    assert "8088/tcp" in n2.run("firewall-cmd --list-ports").stdout and "nfs" in n2.run("firewall-cmd --list-rich-rules").stdout


# -------------------------------------------------------------------------------------------------- nobody is shut out for good


def test_a_change_that_shuts_out_the_controller_is_undone(play, lab):
    for command in ("ufw allow OpenSSH", "ufw limit 22/tcp"):
        lab.host("n1").run(command)
    before = {name: state(lab.host(name)) for name in MEMBERS}
    began = time.monotonic()
    run = play("--diff", bad=True, firewall_admin_networks=NOBODY, firewall_rollback_seconds=8)
    spent = time.monotonic() - began
    for name in MEMBERS:
        host = lab.host(name)
        told = (
            "{0}: the new rules shut out the controller ({1} as {0} sees it), expected firewall_admin_networks ({2}) to contain "
            "it; they were undone after 8 s: add {1} to firewall_admin_networks"
        )
        assert told.format(name, controller(lab), NOBODY[0]) in run.stdout, run.stdout[-4000:]
        assert state(host) == before[name]
        assert not traces(host)
    assert host.answers() and spent < 60


def test_ssh_for_administrators_alone(play, lab):
    networks = {"firewall_admin_networks": [controller(lab)], "firewall_service_ports": ["6006"]}
    lab.host("n1").run("ufw allow OpenSSH")
    n2 = lab.host("n2")
    n2.run("firewall-cmd --permanent --add-port=2222/tcp && firewall-cmd --add-port=2222/tcp --add-port=8099/tcp")
    run = play("--diff", **networks)
    assert "OpenSSH (not Muster's)" in run.stdout and "service ssh (not Muster's)" not in run.stdout
    assert "port 2222/tcp (not Muster's)" in run.stdout
    # What others have set until the next start outlives a change.
    assert "8099/tcp" in n2.run("firewall-cmd --list-ports").stdout
    assert "8099/tcp" not in n2.run("firewall-cmd --permanent --list-ports").stdout
    assert not changed(play("--check", **networks))
    out, hosts = lab.host("out"), [lab.host(name) for name in MEMBERS]
    for host, asker in zip(hosts, hosts[1:] + hosts[:1]):
        assert host.answers() and connects(asker, host.address, host.port)
        assert not connects(out, host.address, host.port, 1.5) and not connects(out, host.address, 6006, 0.5)
    play()
    assert all(connects(out, host.address, host.port) for host in hosts)


@pytest.fixture
def start(lab, tmp_path, repo):
    """``start(host, **variables)``: a run on one host, as a process of its own."""
    book = tmp_path / "started.yml"
    book.write_text(PLAY)
    running = []

    def run(host, **variables):
        argv = [os.path.join(os.path.dirname(sys.executable), "ansible-playbook"), "-i", str(lab.folder / "inventory"), str(book)]
        argv += ["--limit", host.name, "-e", json.dumps(variables)]
        running.append(subprocess.Popen(
            argv, cwd=str(repo), env=dict(os.environ, ANSIBLE_CONFIG=str(repo / "ansible.cfg"), ANSIBLE_NOCOLOR="1"),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ))  # fmt: skip
        return running[-1]

    yield run
    for process in running:
        kill(process)
        process.communicate()


def kill(process):
    """End a run with its workers, which are in sessions of their own, as a controller's end does."""
    found = [process.pid] if process.poll() is None else []
    for pid in found:
        found += processes.children(pid)
    processes.kill(found)


def guarded(host):
    """Whether a change of the host awaits its confirmation."""
    return host.run("test -e /var/lib/muster-firewall/watching", check=False).returncode == 0


def test_a_change_whose_controller_is_killed_is_undone_and_the_next_run_waits_for_that(start, lab, soon):
    host = lab.host("n3")
    before = state(host)
    first = start(host, firewall_rendezvous_ports="29400:29999", firewall_rollback_seconds=8)
    soon(lambda: guarded(host), 30)
    kill(first)
    second = start(host)
    assert second.wait(120) == 0
    assert "29400" not in state(host) and state(host) == before
    assert not traces(host) and "it is undone" in host.journal("muster-firewall-rollback")


def test_a_change_that_a_power_loss_interrupts_is_undone_at_boot(start, lab, soon):
    host = lab.host("n2")
    before = host.run("firewall-cmd --permanent --list-all").stdout
    run = start(host, firewall_admin_networks=NOBODY, firewall_rollback_seconds=600)
    soon(lambda: guarded(host) and NOBODY[0] in host.run("firewall-cmd --permanent --list-rich-rules").stdout, 40)
    kill(run)
    host.power_off()
    host.power_on()
    host.wait_ssh(60)
    soon(lambda: not traces(host), 30)
    assert host.run("firewall-cmd --permanent --list-all").stdout == before
    assert NOBODY[0] not in host.run("firewall-cmd --list-rich-rules").stdout


def test_after_a_reboot_it_still_holds(play, lab):
    host = lab.host("n2")
    host.reboot()
    host.wait_ssh(60)
    assert not changed(play("--check --diff --limit n2"))
    assert only_ssh(lab, host)
