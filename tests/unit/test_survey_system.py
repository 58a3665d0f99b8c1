"""What the survey makes of files of the system; the texts are those of real hosts."""

import os

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_survey import reading, system

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'
ROCKY = 'NAME="Rocky Linux"\nVERSION_ID="9.4"\nID="rocky"\nID_LIKE="rhel centos fedora"\n'


@pytest.mark.parametrize(
    ("text", "family"),
    [
        (DEBIAN, "debian"),
        ("ID=ubuntu\nID_LIKE=debian\n", "debian"),
        ("ID=linuxmint\nID_LIKE='ubuntu debian'\n", "debian"),
        (ROCKY, "redhat"),
        ("ID=fedora\n", "redhat"),
        ('ID="rhel"\nID_LIKE="fedora"\n', "redhat"),
        ("ID=arch\n", "other"),
        ("# nothing\n", "other"),
        ("", "other"),
    ],
)
def test_family(text, family):
    assert system.family(system.os_release(text)) == family


def test_os_release_without_quotes():
    assert system.os_release(ROCKY)["VERSION_ID"] == "9.4" and system.os_release(DEBIAN)["ID"] == "debian"


@pytest.mark.parametrize(
    ("mask", "expected"),
    [("000001ffffffffff", True), ("00000000fdecafff", False), ("0000000002000000", True), ("0", False)],
)
def test_the_right_to_set_the_clock(mask, expected):
    assert system.has_capability("Name:\tsystemd\nCapBnd:\t{}\n".format(mask), system.CAP_SYS_TIME) is expected


def test_no_status_is_no_right():
    assert system.has_capability("", system.CAP_SYS_TIME) is False


HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
LINE = "{}\t{}\t{}\t{}\t0\t0\t{}\t{}\t0\t0\t0\n"
ETH0 = LINE.format("eth0", "00000000", "0102C80A", "0003", 100, "00000000")
WLAN = LINE.format("wlan0", "00000000", "0101A8C0", "0003", 600, "00000000")
NET = LINE.format("eth0", "0002C80A", "00000000", "0001", 100, "00FFFFFF")
DOWN = LINE.format("eth9", "00000000", "0102C80A", "0002", 0, "00000000")
REFUSED = LINE.format("lo", "00000000", "00000000", "0201", 0, "00000000")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (ETH0 + NET, {"interface": "eth0", "via": "10.200.2.1"}),
        (WLAN + ETH0, {"interface": "eth0", "via": "10.200.2.1"}),
        (DOWN + REFUSED + WLAN, {"interface": "wlan0", "via": "192.168.1.1"}),
        (NET, None),
        ("", None),
    ],
)
def test_the_default_route_is_the_best_that_is_up(lines, expected):
    assert system.default_route(HEAD + lines) == expected


def test_no_routes_at_all():
    assert system.default_route("") is None and system.default_route6("") is None


def test_the_default_route_by_ipv6():
    zero, via = "0" * 32, "fe80" + "0" * 27 + "1"
    line = "{} 00 {} 00 {} {} 00000001 00000000 {} {}\n"
    text = line.format(zero, zero, zero, "ffffffff", "00200200", "lo") + line.format(
        zero, zero, via, "00000400", "00000003", "eth0"
    )
    assert system.default_route6(text) == {"interface": "eth0", "via": "fe80::1"}


@pytest.mark.parametrize(("text", "expected"), [("1024\t65535\n", [1024, 65535]), ("", [1, 2]), ("a b", [1, 2])])
def test_numbers(text, expected):
    assert system.numbers(text, [1, 2]) == expected


def test_the_nearest_folder_that_is_there(tmp_path):
    assert system.existing(str(tmp_path / "a" / "b")) == str(tmp_path)
    assert system.existing("/does/not/exist") == "/" and system.existing("") == "/"


def test_disks_that_cannot_be_read_are_left_out(tmp_path):
    found = system.disks([str(tmp_path), "/does/not/exist"])
    assert list(found) == [str(tmp_path)]
    disk = found[str(tmp_path)]
    assert 0 < disk["free_mb"] <= disk["total_mb"] and disk["device"] == os.stat(str(tmp_path)).st_dev


def test_the_port_of_sshd_is_asked_of_the_processes_above(monkeypatch):
    files = {
        "/proc/30/environ": "HOME=/root\0",
        "/proc/30/stat": "30 (a) b)) S 20 30",
        "/proc/20/environ": "SSH_CONNECTION=10.0.0.1 50000 10.0.0.2 2222\0LANG=C\0",
    }
    monkeypatch.setattr(reading, "text", files.get)
    assert system.ssh_server_port(30) == 2222
    files["/proc/20/environ"] = ""
    assert system.ssh_server_port(30) is None
    files["/proc/30/environ"] = "SSH_CONNECTION=\0"
    assert system.ssh_server_port(30) is None


def test_the_section_of_this_machine():
    found = system.look({"state_dir": "/var/lib/muster/of/nobody"})
    assert found["family"] in ("debian", "redhat", "other") and found["root"] == (os.geteuid() == 0)
    assert ["lo", "127.0.0.1"] in found["addresses"] and {"/", "/tmp", "/var"} <= set(found["disks"])
    assert "." not in found["hostname"] and found["ephemeral"][0] < found["ephemeral"][1]


def test_reading_never_raises(tmp_path):
    assert reading.text("/does/not/exist") is None and reading.text(str(tmp_path)) is None
    assert reading.output(["/does/not/exist"]) is None and reading.output(["false"]) is None
    assert reading.output(["sleep", "9"], 0.05) is None
    assert reading.output(["sh", "-c", "echo $LC_ALL"]) == "C\n"


@pytest.mark.parametrize(
    ("command", "comm", "expected"),
    [
        ("/usr/bin/apt-get\0install\0gcc\0", "apt-get", "apt-get"),
        ("/usr/bin/python3\0/usr/bin/unattended-upgrade\0--download-only\0", "unattended-upgr", "unattended-upgrade"),
        ("/usr/libexec/platform-python\0-c\0pass\0", "platform-python", "platform-python"),
        ("python3.11\0-c\0pass\0", "python3.11", "python3.11"),
        ("/bin/sh\0/var/lib/dpkg/info/x.postinst\0configure\0", "x.postinst", "x.postinst"),
        ("", "kworker/0:1\n", "kworker/0:1"),
        (None, None, "?"),
    ],
)
def test_a_process_is_called_by_what_it_does(monkeypatch, command, comm, expected):
    monkeypatch.setattr(reading, "text", {"/proc/7/cmdline": command, "/proc/7/comm": comm}.get)
    assert reading.process(7) == expected
