"""What verify.yml does on a host: real listeners and connections on this machine, and what is read of it."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.action import verify_node
from ansible_collections.muster.cluster.plugins.module_utils.muster_verify import (
    bandwidth,
    cli,
    connecting,
    listening,
    logins,
    looking,
    protocol,
)
from ansible_collections.muster.cluster.plugins.plugin_utils import looking as asking
from ansible_collections.muster.cluster.plugins.plugin_utils import remote

RANGE = [29500, 29999]


def wait_until(what, bound=5.0):
    """Wait until the callable says true."""
    deadline = time.monotonic() + bound
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)  # another process is watched


def listens(address, port):
    """Whether anything takes a connection there."""
    with socket.socket() as sock:
        sock.settimeout(1)
        return sock.connect_ex((address, port)) == 0


@pytest.fixture
def free_port():
    """A port that leads sixteen free ones of the range."""
    used = set(listening.ports_in_use(*RANGE))
    return next(port for port in range(29984, 29500, -16) if not used & set(range(port, port + 16)))


@pytest.fixture
def peer(free_port):
    """A listener on 127.0.0.3 as another host knows it; it lives for some seconds."""
    told = listening.start("b", "127.0.0.3", free_port, RANGE, "nobody-has-this-name", 5)
    return {"address": "127.0.0.3", "listeners": told}


# --------------------------------------------------------------------------------------------- listening and connecting


def test_both_ports_answer_and_close_after_the_last_visit(peer):
    rendezvous, ephemeral = peer["listeners"]["rendezvous"], peer["listeners"]["ephemeral"]
    found = connecting.visit_all("a", {"b": peer}, 2, 0)
    assert {kind: outcome["state"] for kind, outcome in found["pairs"]["b"].items()} == {"rendezvous": "ok", "ephemeral": "ok"}
    assert found["pairs"]["b"]["rendezvous"]["port"] == rendezvous and found["pairs"]["b"]["ephemeral"]["port"] == ephemeral
    assert abs(found["clocks"]["b"]["offset"]) < 0.1
    assert listens("127.0.0.3", rendezvous)
    # The host's own visit says how many there are to be: four, of which it pays two.
    connecting.visit_all("b", {"b": peer}, 2, 4)
    wait_until(lambda: not listens("127.0.0.3", rendezvous) and not listens("127.0.0.3", ephemeral))


def test_a_listener_that_nobody_visits_ends_by_itself(free_port):
    told = listening.start("b", "127.0.0.4", free_port, RANGE, "nobody-has-this-name", 1)
    assert listens("127.0.0.4", told["rendezvous"])
    wait_until(lambda: not listens("127.0.0.4", told["rendezvous"]))


def test_a_port_that_a_job_uses_is_left_alone(free_port):
    with socket.socket() as job:
        job.bind(("127.0.0.1", free_port + 3))
        job.listen()
        told = listening.start("b", "127.0.0.5", free_port, RANGE, "nobody-has-this-name", 1)
    assert not free_port <= told["rendezvous"] < free_port + listening.JOB_PORTS and 29500 <= told["rendezvous"] <= 29999
    assert told["passed_over"].startswith("pid {} ".format(os.getpid())) and "\n" not in told["passed_over"]


def test_an_address_of_another_host_is_refused(free_port):
    with pytest.raises(OSError) as caught:
        listening.start("b", "192.0.2.1", free_port, RANGE, "nobody-has-this-name", 1)
    told = listening.explain("192.0.2.1", caught.value)
    assert told.startswith("has no address 192.0.2.1, found ") and told.endswith("; correct muster_address in the inventory")


@pytest.mark.parametrize(
    ("answer", "state"), [(b"SSH-2.0-OpenSSH\r\n", "foreign"), (b"{}\n", "foreign"), (b"", "foreign"), (None, "refused")]
)
def test_whoever_else_answers_is_not_mistaken(answer, state):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        if answer is not None:
            sock.listen()

            def serve():
                other, _ = sock.accept()
                with other:
                    other.sendall(answer)

            threading.Thread(target=serve, daemon=True).start()
        peer = {"address": "127.0.0.1", "listeners": {"rendezvous": port, "token": "t"}}
        outcome, clock = connecting.visit("a", peer, "rendezvous", 1)
    assert outcome["state"] == state and outcome["port"] == port and clock is None


def test_a_listener_that_says_nothing_is_no_listener():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        peer = {"address": "127.0.0.1", "listeners": {"ephemeral": sock.getsockname()[1], "token": "t"}}
        assert connecting.visit("a", peer, "ephemeral", 0.2)[0]["state"] == "foreign"


def test_a_stranger_learns_nothing(peer):
    with connecting.open_to("127.0.0.3", peer["listeners"]["rendezvous"], 2) as sock:
        channel = protocol.Channel(sock)
        channel.send(**{"from": "a", "nonce": "1", "mac": protocol.mac("guess", "ask", "a", "1")})
        assert sock.recv(10) == b""


def test_bandwidth_is_that_of_one_stream(peer):
    assert bandwidth.measure("a", peer, 2, seconds=0.1)["gbit_per_s"] > 0.01
    assert "error" in bandwidth.measure("a", dict(peer, listeners=dict(peer["listeners"], token="other")), 2, seconds=0.1)


def test_parallel_work_passes_on_what_is_raised():
    done = []
    with pytest.raises(ValueError, match="seven"):
        connecting.in_parallel(lambda job: done.append(job) if job != 7 else int("seven"), list(range(20)), 4)
    assert sorted(done) == [job for job in range(20) if job != 7]


# ------------------------------------------------------------------------------------------ the requests as they are sent


def asked(content, python=sys.executable):
    """Send a request to a shell on this machine, as a connection would."""
    stdin = remote.boot_stdin(content, asking.sources("muster_verify", verify_node.OTHERS), package="muster_verify")
    done = subprocess.run(
        ["sh", "-c", remote.first_boot_command(["/does/not/exist", python])], input=stdin, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, timeout=30, check=False,
    )  # fmt: skip
    answer = remote.parse_answer(done.stdout.decode())
    assert answer is not None, done.stderr.decode()
    return answer


PYTHONS = [sys.executable]
PYTHONS += [str(path) for path in Path(os.path.expanduser("~/.pyenv/versions")).glob("3.8.*/bin/python3.8")][:1]


@pytest.mark.parametrize("python", PYTHONS)
def test_the_two_requests_from_memory(free_port, python):
    plan = {
        "nodes": [{"name": "a", "address": "127.0.0.6"}], "lifetime": 5, "clock_wait": 0,
        "options": {"port": free_port, "port_range": RANGE, "user": "nobody-has-this-name", "timeout": 2, "ssh": True,
                    "bandwidth": True},
    }  # fmt: skip
    listened = asked(verify_node.listen_request(plan, 0), python)
    assert abs(listened["clock"] - time.time()) < 5 and listened["facts"]["account"] is None
    content = verify_node.connect_request(plan, 0, {"a": listened}, sys.executable)
    assert content["ssh"] == ["a"] and content["ring"] is None and content["visits"] == 2
    connected = asked(content, python)
    assert connected["pairs"]["a"]["ephemeral"]["state"] == "ok" and connected["ssh"] is None
    wait_until(lambda: not listens("127.0.0.6", listened["listeners"]["rendezvous"]))


def test_the_ring_and_the_visits_leave_out_who_is_lost():
    nodes = [{"name": name, "address": "10.0.0." + name[1]} for name in ("n1", "n2", "n3", "n4")]
    options = {"user": "muster", "timeout": 3, "ssh": True, "bandwidth": True}
    there = {"facts": {}, "listeners": {"token": "t"}}
    listened = {"n1": there, "n2": {"lost": "is unreachable"}, "n3": there, "n4": {"facts": {}, "refused": "has no address"}}
    requests = {
        rank: verify_node.connect_request({"nodes": nodes, "options": options}, rank, listened, "/python") for rank in (0, 2, 3)
    }
    assert [requests[rank]["ring"] for rank in (0, 2, 3)] == ["n3", "n1", None]
    assert [list(requests[rank]["peers"]) for rank in (0, 2, 3)] == [["n1", "n3"]] * 3
    assert [requests[rank]["visits"] for rank in (0, 2, 3)] == [7, 7, 6]
    assert [requests[rank]["ssh"] for rank in (0, 2, 3)] == [["n1", "n3", "n4"], [], []]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Task failed: Missing sudo password", "its sudo asks for a password, expected none or yours; run with "),
        ("Task failed: Incorrect sudo password", "its sudo refuses the password, expected the login user's; correct it"),
        ("ssh: connect to host n1 port 22: Connection timed out", "it does not answer, expected SSH to work"),
    ],
)
def test_why_ansible_could_not_ask(text, expected):
    assert verify_node.explain(text, "/usr/bin/python3").startswith(expected)


def test_without_any_python_it_says_so():
    done = subprocess.run(
        ["sh", "-c", remote.first_boot_command(["/does/not/exist", "neither-this"])], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=10, check=False,
    )  # fmt: skip
    told = remote.explain("the host's Python", {"rc": done.returncode, "stderr": done.stderr.decode(), "stdout": ""})
    assert told.startswith("the host's Python gave no answer (exit code 127): found no Python 3.8 or later")


# ------------------------------------------------------------------------------------------------------ what is read


TRACKING = "0AC7060B,10.199.6.11,11,1796125525.63,-0.000000034,-0.000001,0.000002,1.5,0.1,2.2,0.0003,0.0001,64.2,{}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TRACKING.format("Normal"),
         {"source": "10.199.6.11", "local": False, "stratum": 11, "synchronised": True, "offset": -3.4e-08}),
        (TRACKING.format("Not synchronised").replace("0AC7060B,10.199.6.11", "00000000,"),
         {"source": "", "local": False, "stratum": 11, "synchronised": False, "offset": -3.4e-08}),
        (TRACKING.format("Normal").replace("0AC7060B,10.199.6.11", "7F7F0101,"),
         {"source": "", "local": True, "stratum": 11, "synchronised": True, "offset": -3.4e-08}),
        ("506 Cannot talk to daemon\n", None),
        ("", None),
    ],
)  # fmt: skip
def test_tracking(text, expected):
    assert looking.parse_tracking(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n', "Debian GNU/Linux 12 (bookworm)"),
        ("PRETTY_NAME=Plain\n", "Plain"),
        ("", "unknown"),
    ],
)
def test_the_name_of_the_system(text, expected):
    assert looking.os_name(text) == expected


def test_an_environment_is_read_without_starting_it(tmp_path):
    prefix = tmp_path / "env"
    packages = prefix / "lib" / "python3.11" / "site-packages"
    for name in ("torch-2.13.0+cpu.dist-info", "numpy-2.4.0.dist-info", "torch"):
        (packages / name).mkdir(parents=True)
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\nversion_info = 3.11.2\n")
    (prefix / "bin").mkdir()
    python = prefix / "bin" / "python"
    assert looking.job_python(str(python)) is None
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    found = looking.job_python(str(python))
    assert found["version"] == "3.11.2" and found["torch"] == "2.13.0+cpu"
    assert found["contents"] == {"torch": ["2.13.0+cpu", "", ""], "numpy": ["2.4.0", "", ""]} and len(found["fingerprint"]) == 64
    (prefix / "pyvenv.cfg").unlink()
    assert looking.job_python(str(python)) is None


def test_a_conda_prefix_is_read_without_starting_it(tmp_path):
    (tmp_path / "conda-meta").mkdir()
    (tmp_path / "conda-meta" / "python-3.12.1-0_cpython.json").write_text('{"sha256": "%s"}' % ("ab" * 32))
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    found = looking.job_python(str(python))
    assert found["version"] == "3.12.1" and found["torch"] is None
    assert found["contents"] == {"python": ["3.12.1", "0_cpython", "ab" * 6]}


def test_a_python_that_is_no_environment_is_asked():
    found = looking.job_python(shutil.which("python3"))
    assert found["version"].startswith("3.")


def test_listening_ports_of_the_kernel_table():
    text = (
        "  sl  local_address rem_address   st\n"
        "   0: 0100007F:733C 00000000:0000 0A 00000000:00000000\n"
        "   1: 0100007F:733D 0100007F:1234 01 00000000:00000000\n"
    )
    assert listening.listening_ports(text) == {0x733C}


def test_a_login_asks_nothing_and_trusts_nobody_new():
    words = logins.argv("muster", "n2")
    assert words[0] == "ssh" and words[-5:] == ["-l", "muster", "--", "n2", "cat /etc/machine-id"]
    assert {"BatchMode=yes", "StrictHostKeyChecking=yes", "ControlPath=none"} <= set(words)


def test_a_login_that_cannot_be_is_data(tmp_path, monkeypatch):
    program = tmp_path / "ssh"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert logins.login("muster", "n2") == {"ok": False, "detail": "ssh cannot be run: No such file or directory"}
    for script, expected in [
        ("echo 'Host key verification failed.' >&2; exit 255", {"ok": False, "detail": "Host key verification failed."}),
        ("echo abc", {"ok": True, "machine": logins.machine(b"abc\n")}),
        ("exit 1", {"ok": True, "machine": None}),
    ]:
        program.write_text("#!/bin/sh\n{}\n".format(script))
        program.chmod(0o755)
        assert logins.login("muster", "n2") == expected, script


def test_the_answers_are_json(free_port):
    request = {"do": "listen", "name": "a", "address": "192.0.2.1", "port": free_port, "port_range": RANGE}
    answer = cli.call(dict(request, user="nobody-has-this-name", lifetime=1, clock_wait=0))
    assert json.loads(json.dumps(answer)) == answer and "refused" in answer and "listeners" not in answer
