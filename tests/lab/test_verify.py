"""playbooks/verify.yml on real hosts, set up or not: pairs that reach each other, and one that does not."""

import json
import re
import time

import pytest

MEMBERS = ("n1", "n2", "n3")
# What an untouched host does not have; the pairs are proved all the same.
PAIRS_ALONE = {"verify_ssh": False, "verify_clocks": False, "verify_versions": False}
# New connections alone: answers to those of n1 itself come to the same ports.
DROP = "ip saddr {} tcp dport 32768-60999 tcp flags & (syn | ack) == syn drop"


@pytest.fixture(scope="module")
def open_hosts(lab):
    """The members, open to each other: by Muster's firewall, or with none where Muster has not been yet."""
    hosts = [lab.host(name) for name in MEMBERS]
    stopped = []
    for host in hosts:
        untouched = host.run("id muster", check=False).returncode != 0
        if untouched and host.run("systemctl is-active firewalld", check=False).returncode == 0:
            host.run("systemctl stop firewalld")
            stopped.append(host)
    yield hosts
    for host in stopped:
        host.run("systemctl start firewalld")


@pytest.fixture
def verify(run_playbook, lab, tmp_path):
    """``verify(options="", **variables)``: run the playbook for the pairs; gives the run, and its record as ``run.record``."""

    def run(options="", **variables):
        known = set(tmp_path.glob("runs/verify-*"))
        variables = dict(PAIRS_ALONE, verify_runs_dir=str(tmp_path / "runs"), **variables)
        where = "-i {} {}".format(lab.folder / "inventory", options)
        done = run_playbook("playbooks/verify.yml", extravars=variables, cmdline=where, timeout=60)
        new = set(tmp_path.glob("runs/verify-*")) - known
        done.record = json.loads((new.pop() / "verify.json").read_text()) if new else None
        return done

    return run


def nothing_is_left(hosts):
    """Whether no host has a listener of a verification."""
    return all(host.run("pgrep -x muster-verify", check=False).returncode == 1 for host in hosts)


def test_all_pairs_reach_each_other(verify, open_hosts, soon):
    run = verify()
    assert run.rc == 0, run.stdout[-4000:]
    assert "cluster of 3 hosts verified: 6 of 6 pairs reach each other" in run.stdout
    assert re.search(r"^1 n2 +\. - \.$", run.stdout, re.MULTILINE)
    ports = run.record["pairs"]["n2"]["n1"]
    assert 29500 <= ports["rendezvous"]["port"] <= 29999 and ports["ephemeral"]["port"] >= 32768
    assert not any(run.stats.get("changed", {}).values())
    soon(lambda: nothing_is_left(open_hosts), 10)


def test_a_part_of_the_cluster(verify, open_hosts):
    run = verify("--limit n1,n3")
    assert run.rc == 0 and "2 of the 3 hosts of the cluster verified: 2 of 2 pairs" in run.stdout, run.stdout[-4000:]
    assert "not in this run (--limit): n2" in run.stdout


def test_check_mode_connects_nothing(verify, open_hosts):
    run = verify("--check")
    assert run.rc == 0 and "would prove 6 pairs of n1, n2, n3" in run.stdout and run.record is None
    assert nothing_is_left(open_hosts)


def test_a_job_keeps_its_port(verify, open_hosts, soon):
    """The job's socket is the host's own, at all addresses, as torch's store has it."""
    n1 = open_hosts[0]
    # A plain socket, which finds the port free right after the tests before.
    program = "import socket, time; s = socket.socket(); s.bind(('', 29500)); s.listen(); time.sleep(40)"
    n1.run(["systemd-run", "--quiet", "--collect", "--unit=a-job", "python3", "-c", program])
    soon(lambda: n1.run("ss -Hltn 'sport = :29500'").stdout)
    try:
        run = verify()
        assert run.rc == 0, run.stdout[-4000:]
        assert re.search(r"n1: port 29500 is held by pid \d+ .*, 29999 was tried instead", run.stdout)
    finally:
        n1.run("systemctl stop a-job")


def test_a_pair_that_is_shut_is_named_with_the_rule(verify, lab, open_hosts, soon):
    n1, n2 = lab.host("n1"), lab.host("n2")
    n1.run("nft add table inet shut; nft add chain inet shut in '{ type filter hook input priority -300; }'")
    n1.run("nft add rule inet shut in '{}'".format(DROP.format(n2.address)))
    began = time.monotonic()
    try:
        run = verify()
    finally:
        n1.run("nft delete table inet shut")
    took = time.monotonic() - began
    assert run.rc != 0 and took < 30, took
    assert "5 of 6 pairs" in run.stdout
    assert re.search(
        r"n2 cannot reach n1 at {} port \d+ \(no answer within 3 s\), expected it open to members: the firewall of n1 lacks tcp "
        r"32768:60999 from {}; run site.yml --tags firewall".format(re.escape(n1.address), re.escape(n2.address)),
        run.stdout,
    ), run.stdout[-4000:]
    assert run.record["faults"] and len(run.record["faults"]) == 1
    # What the first run has left ends by itself, and keeps the second from nothing.
    assert verify().rc == 0
    soon(lambda: nothing_is_left(open_hosts), 45)


def test_a_host_that_is_off_is_named(verify, lab, open_hosts):
    n3 = lab.host("n3")
    n3.cut()
    try:
        run = verify("-T 3")  # ssh gives a host up after 3 s
    finally:
        n3.mend()
    assert run.rc != 0 and "n3 is unreachable" in run.stdout and "2 of 6 pairs" in run.stdout, run.stdout[-4000:]
    n3.wait_ssh(30)
