"""The lab itself: its hosts are as ordinary as other people's, faults are real ones, and nothing is left of it."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from . import network, processes
from .common import STATE, Busy, call
from .host import KINDS
from .lab import Lab

REPO = Path(__file__).resolve().parents[2]


def cli(*words, timeout=120):
    """Run the lab's command line as a user does."""
    argv = [sys.executable, "-m", "tests.lab", *words]
    return subprocess.run(argv, cwd=str(REPO), capture_output=True, text=True, timeout=timeout)


def connects(host, address, port, timeout=2):
    """What Python on a host says about a TCP connection: connected, refused, silent, or another error's name."""
    code = (
        "import socket\ntry: socket.create_connection(({!r}, {}), {}); print('connected')\n"
        "except ConnectionRefusedError: print('refused')\n"
        "except (TimeoutError, socket.timeout): print('silent')\nexcept OSError as e: print(e.errno)"
    ).format(address, port, timeout)
    return host.run(["python3", "-c", code]).stdout.strip()


def test_ansible_reaches_every_host_by_the_inventory(lab):
    ansible = str(Path(sys.executable).with_name("ansible"))
    # The cluster's user, whom the group's variables name, is not there yet.
    argv = [ansible, "-i", str(lab.folder / "inventory"), "all", "-m", "ping", "-o", "-e", "ansible_become=false"]
    done = subprocess.run(argv, cwd=str(REPO), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.count("SUCCESS") == 5, done.stdout + done.stderr
    argv[3:] = ["torch_nodes", "--list-hosts"]
    done = subprocess.run(argv, cwd=str(REPO), capture_output=True, text=True, timeout=60)
    assert done.stdout.split()[2:] == ["n1", "n2", "n3"]


@pytest.mark.parametrize("name", KINDS)
def test_a_host_is_an_ordinary_one(lab, name):
    host = lab.host(name)
    assert host.run("systemctl is-system-running --wait", timeout=60).stdout.strip() == "running"
    assert "172.17.0.1/16" in host.run("ip -4 -br address show docker0").stdout
    assert host.address + "/24" in host.run("ip -4 -br address show " + host.interface).stdout
    assert "127.0.1.1 " + name in host.run("cat /etc/hosts").stdout.splitlines()
    assert host.run("hostname").stdout.strip() == name
    assert host.run("systemctl is-active systemd-timesyncd").stdout.strip() == "active"
    assert host.run("ls /usr/lib/python3*/EXTERNALLY-MANAGED").stdout
    for absent in ("setfacl", "gcc", "chronyd", "pip", "nmap"):
        assert host.run(["sh", "-c", "command -v " + absent], check=False).returncode != 0, absent
    assert host.run("python3 -c 'import ensurepip'", check=False).returncode != 0
    assert host.run("ls /var/lib/apt/lists/*_Packages").stdout, "apt has its lists"
    # Its administrator logs in as ml and uses sudo; root has no way in.
    assert host.ssh("sudo -n id -u").stdout.strip() == "0"
    assert host.run("passwd -S ml").stdout.split()[1] == "L"
    refused = host.ssh("true", user="root", check=False)
    assert refused.returncode == 255 and "Permission denied" in refused.stderr
    # The clock is the controller's: neither a host nor `run` may set it.
    assert host.run("date -s @0", check=False).returncode != 0
    assert host.ssh("sudo date -s @0", check=False).returncode != 0


def test_firewalls_are_as_their_packages_leave_them(lab):
    assert lab.host("n1").run("ufw status").stdout.strip() == "Status: inactive"
    assert lab.host("n2").run("firewall-cmd --state").stdout.strip() == "running"
    assert lab.host("n2").run("firewall-cmd --list-ports").stdout.strip() == "2222/tcp"
    for name, absent in (("n3", "ufw firewall-cmd"), ("n4", "ufw firewall-cmd nft iptables"), ("out", "ufw nft")):
        for program in absent.split():
            assert lab.host(name).run(["sh", "-c", "command -v " + program], check=False).returncode != 0


def test_firewalls_work(lab):
    n1, out = lab.host("n1"), lab.host("out")
    n1.run("ufw allow 22/tcp && ufw --force enable", timeout=60)
    try:
        assert connects(out, n1.address, 22) == "connected"
        assert connects(out, n1.address, 23, 1) == "silent"
        assert connects(out, lab.host("n2").address, 22, 1) in ("refused", "113"), "firewalld rejects or nobody listens"
    finally:
        n1.run("ufw --force reset && rm /etc/ufw/*.rules.2*", timeout=60)
    assert connects(out, n1.address, 23) == "refused"
    n3 = lab.host("n3")
    n3.run("nft -f -", input="table inet t {\n chain i {\n type filter hook input priority 0;\n tcp dport 24 drop\n }\n}\n")
    try:
        assert connects(out, n3.address, 24, 1) == "silent"
        assert connects(out, n3.address, 25) == "refused"
    finally:
        n3.run("nft delete table inet t")


def test_sudo_of_ask_wants_the_password(lab):
    n1 = lab.host("n1")
    assert n1.ssh("sudo -n true", user="ask", check=False).returncode != 0
    done = n1.ssh("sudo -S id -u", user="ask", input=lab.password() + "\n")
    assert done.stdout.strip() == "0"


def test_packages_come_in(lab):
    n4 = lab.host("n4")
    n4.run("apt-get update", timeout=120)
    n4.run("apt-get install -y --download-only tree", timeout=120)


def test_nothing_but_packages_goes_out(lab, soon):
    # A stranger beyond the controller, in a network that ends there: from the lab the way to it is the way out.
    code = "import socket, time; keep = [socket.create_server(('', port)) for port in (80, 29500)]; time.sleep(60)"
    stranger = subprocess.Popen(["unshare", "--net", sys.executable, "-c", code])
    inside = ["nsenter", "-t", str(stranger.pid), "-n", "ip"]
    try:
        soon(lambda: os.readlink("/proc/{}/ns/net".format(stranger.pid)) != os.readlink("/proc/self/ns/net"))
        call(["ip", "link", "add", "mlabtest", "type", "veth", "peer", "name", "far", "netns", stranger.pid])
        call(["ip", "address", "add", "198.51.100.1/30", "dev", "mlabtest"])
        call(["ip", "link", "set", "mlabtest", "up"])
        call([*inside, "address", "add", "198.51.100.2/30", "dev", "far"])
        call([*inside, "link", "set", "far", "up"])
        soon(lambda: connects(lab.host("n4"), "198.51.100.2", 80) == "connected")
        assert connects(lab.host("n4"), "198.51.100.2", 29500, 1) == "silent"
    finally:
        stranger.kill()
        stranger.wait(10)


def test_a_cut_cable_is_silence_and_is_mended(lab):
    n4 = lab.host("n4")
    n4.cut()
    try:
        assert not n4.answers(timeout=2)
        assert n4.run("true").returncode == 0
    finally:
        n4.mend()
    assert n4.wait_ssh(20) < 20


def test_a_reboot_comes_back_with_its_journal(lab):
    n3 = lab.host("n3")
    before = n3.run("cat /proc/sys/kernel/random/boot_id").stdout
    n3.run("logger before-the-reboot; nft add table inet gone")
    n3.reboot()
    n3.wait_ssh(30)
    assert n3.run("cat /proc/sys/kernel/random/boot_id").stdout != before
    assert "before-the-reboot" in n3.journal()
    assert "gone" not in n3.run("nft list tables").stdout, "a new kernel has no rules"


def test_a_host_without_power_is_silent_and_comes_back(lab):
    n4 = lab.host("n4")
    n4.power_off()
    assert n4.pid() is None
    with pytest.raises((socket.timeout, OSError)) as caught:
        socket.create_connection((n4.address, 22), 1)
    assert not isinstance(caught.value, ConnectionRefusedError)
    n4.power_on()
    n4.wait_ssh(30)


def test_what_a_killed_up_left_is_removed_by_the_next(lab_possible, soon):
    name = "test-leftovers"
    Lab(name).down()
    argv = [sys.executable, "-m", "tests.lab", "up", "--name", name, "--hosts", "n4"]
    process = subprocess.Popen(argv, cwd=str(REPO), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        soon(lambda: Lab(name).hosts and Lab(name).host("n4").pid(), 60)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    first, number = Lab(name).host("n4").pid(), Lab(name).number
    assert processes.alive(first), "the host outlives who started it"
    again = Lab(name)
    again.up(["n4"])
    assert not processes.alive(first)
    assert again.host("n4").pid() not in (None, first)
    with pytest.raises(Busy, match="held by another live process"):
        Lab(name).up(["n4"])
    refused = cli("up", "--name", name, "--hosts", "n4")
    assert refused.returncode == 1 and refused.stdout == "" and len(refused.stderr.splitlines()) == 1
    folder, bridge = again.folder, network.bridge(again.number)
    again.down()
    assert not folder.exists() and not (STATE / (name + ".lock")).exists()
    for pid in os.listdir("/proc"):
        if pid.isdigit() and int(pid) != os.getpid():
            try:
                assert str(folder).encode() not in Path("/proc", pid, "cmdline").read_bytes()
            except OSError:
                continue
    links = call(["ip", "-o", "link"]).stdout
    assert bridge + ":" not in links and "ml{}-".format(number) not in links
    assert "muster_lab_{}\n".format(again.number or number) not in call(["nft", "list", "tables"]).stdout
    assert str(folder) not in Path("/proc/mounts").read_text()
    assert not any(group.exists() for group in processes.cgroups(name, ""))


def test_the_last_line_of_up_is_the_inventory(lab_possible):
    name = "test-cli"
    try:
        done = cli("up", "--name", name, "--hosts", "--workers", "1")
        assert done.returncode == 0, done.stderr
        path = Path(done.stdout.splitlines()[-1])
        assert path == STATE / name / "inventory" and '"w1"' in (path / "hosts.yml").read_text()
        assert cli("run", "--name", name, "w1", "--", "hostname").stdout == "w1\n"
    finally:
        assert cli("down", "--name", name).returncode == 0
