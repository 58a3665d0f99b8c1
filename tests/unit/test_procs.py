"""Processes: what /proc tells, and that a sweep ends exactly those it should."""

import os
import signal
import subprocess
import sys
import time
import uuid

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import procs

REST = " S 1 77 78 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 {start} 1000 200 18446744073709551615 1 1 0 0\n"


@pytest.mark.parametrize("name", ["python", "a b", "tmux: server", ")", ") S 9 9 9", "((x))", "ü", ""])
def test_stat_with_any_name(name):
    assert procs.parse_stat("4711 (" + name + ")" + REST.format(start=123456)) == {
        "state": "S", "ppid": 1, "pgrp": 77, "session": 78, "start": 123456,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "4711 (python", "4711 (python) S 1"])
def test_broken_stat(text):
    with pytest.raises((ValueError, IndexError)):
        procs.parse_stat(text)


def test_stat_of_this_process():
    found = procs.stat(os.getpid())
    assert found["ppid"] == os.getppid() and found["pgrp"] == os.getpgrp() and found["session"] == os.getsid(0)
    assert procs.stat(2**22 + 5) is None


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", {}),
        (b"A=1\0B=x=y\0C=\0", {"A": "1", "B": "x=y", "C": ""}),
        (b"nonsense\0A=two\nlines\0\0", {"A": "two\nlines"}),
        (b"A=\xff\0", {"A": "\ufffd"}),
    ],
)
def test_environ(data, expected):
    assert procs.parse_environ(data) == expected


@pytest.fixture
def spawn():
    """``spawn(argv, **environment)``: a child that is ended after the test."""
    children = []

    def start(argv=("sleep", "60"), env=None, **kinds):
        children.append(subprocess.Popen(list(argv), env=dict(os.environ, **(env or {})), **kinds))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream:
                stream.close()


def wait_for(condition):
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline, "waited 5 s in vain"
        time.sleep(0.01)


def test_alive(spawn):
    child = spawn()
    start = procs.stat(child.pid)["start"]
    assert procs.alive(child.pid) and procs.alive(child.pid, start)
    assert not procs.alive(child.pid, start + 1)  # another process under the same number
    child.kill()
    wait_for(lambda: procs.stat(child.pid)["state"] == "Z")
    assert not procs.alive(child.pid)
    child.wait()
    assert not procs.alive(child.pid) and not procs.send(child.pid, signal.SIGTERM)


def test_a_sweep_ends_exactly_the_processes_with_the_value(spawn):
    value = "run-" + uuid.uuid4().hex
    mine = [spawn(env={"MUSTER_RUN": value}) for _ in range(2)]
    others = [
        spawn(env={"MUSTER_RUN": value + "0"}),
        spawn(env={"MUSTER_RUN": value[:-1]}),
        spawn(env={"XMUSTER_RUN": value}),
        spawn(env={"OTHER": "MUSTER_RUN=" + value}),
        spawn(["sleep", "60", "infinity"], env={}),
    ]
    wait_for(lambda: len(procs.with_variable("MUSTER_RUN", value)) == 2)
    assert sorted(procs.with_variable("MUSTER_RUN", value)) == sorted(child.pid for child in mine)
    assert procs.sweep("MUSTER_RUN", value) == []
    assert [child.wait(5) for child in mine] == [-signal.SIGKILL] * 2
    assert [child.poll() for child in others] == [None] * len(others)


def test_a_sweep_finds_grandchildren_in_sessions_of_their_own(spawn):
    value = "run-" + uuid.uuid4().hex
    child = spawn(["sh", "-c", "setsid sleep 60 & exit 0"], env={"MUSTER_RUN": value}, stdin=subprocess.DEVNULL)
    child.wait(5)
    wait_for(lambda: procs.with_variable("MUSTER_RUN", value))
    (orphan,) = procs.with_variable("MUSTER_RUN", value)
    wait_for(lambda: procs.command_line(orphan) == "sleep 60")
    assert procs.sweep("MUSTER_RUN", value) == []
    wait_for(lambda: not procs.alive(orphan))


def test_a_sweep_spares_its_own_process():
    value = "run-" + uuid.uuid4().hex
    code = (
        "import importlib.util, sys; spec = importlib.util.spec_from_file_location('procs', sys.argv[1]); "
        "procs = importlib.util.module_from_spec(spec); spec.loader.exec_module(procs); "
        "print(procs.sweep('MUSTER_RUN', sys.argv[2]))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, procs.__file__, value], env={"MUSTER_RUN": value}, stdout=subprocess.PIPE
    )
    assert done.returncode == 0 and done.stdout == b"[]\n"


def test_a_sweep_of_nothing_is_quick():
    began = time.monotonic()
    assert procs.sweep("MUSTER_RUN", "run-" + uuid.uuid4().hex) == [] and time.monotonic() - began < 2


def test_a_sweep_looks_twice_before_it_finds_nobody(monkeypatch):
    looks, killed = [[], [4711]], []
    monkeypatch.setattr(procs, "with_variable", lambda name, value: looks.pop(0) if looks else [])
    monkeypatch.setattr(procs, "send", lambda pid, number: killed.append(pid))
    assert procs.sweep("MUSTER_RUN", "x") == [] and killed == [4711]


def test_a_sweep_gives_up_and_tells_who_is_left(monkeypatch):
    monkeypatch.setattr(procs, "with_variable", lambda name, value: [4711])
    monkeypatch.setattr(procs, "send", lambda pid, number: True)
    assert procs.sweep("MUSTER_RUN", "x", bound=0.05) == [4711]


def test_a_process_is_described(spawn):
    child = spawn(["sleep", "61"])
    wait_for(lambda: procs.command_line(child.pid) == "sleep 61")
    assert procs.describe(child.pid) == "pid {} ({}: sleep 61)".format(child.pid, procs.user_name(os.getuid()))
    assert procs.describe(2**22 + 5) == "pid 4194309"
    assert procs.command_line(2**22 + 5) == ""


def test_long_commands_are_shown_short(spawn):
    child = spawn(["sleep", "60"] + ["0"] * 200)
    wait_for(lambda: procs.command_line(child.pid).startswith("sleep 60"))
    assert len(procs.command_line(child.pid)) == 120


def test_names_of_users():
    assert procs.user_name(0) == "root" and procs.user_name(4000000) == "uid 4000000"


DIE = (
    "import importlib.util, os, sys, time; spec = importlib.util.spec_from_file_location('procs', sys.argv[1]); "
    "procs = importlib.util.module_from_spec(spec); spec.loader.exec_module(procs); "
    "procs.die_with_parent({}); print(os.getpid(), flush=True); time.sleep(60)"
)


def test_a_child_dies_with_its_parent(spawn):
    child = [sys.executable, "-I", "-c", DIE.format("os.getppid()"), procs.__file__]
    code = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"
    parent = spawn([sys.executable, "-I", "-S", "-c", code, *child], stdout=subprocess.PIPE)
    pid = int(parent.stdout.readline())
    assert procs.alive(pid)
    parent.kill()
    wait_for(lambda: not procs.alive(pid))


def test_a_child_whose_parent_is_gone_already_ends(spawn):
    child = spawn([sys.executable, "-I", "-c", DIE.format("1 if os.getppid() != 1 else 2"), procs.__file__])
    assert child.wait(5) == 1


ORPHANS = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from muster_agent import procs
procs.adopt_orphans()
read, write = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        os.write(write, str(os.getpid()).encode())
        time.sleep(float(sys.argv[2]))
    os._exit(0)
daemon = int(os.read(read, 20))
time.sleep(0.3)
print(daemon in procs.descendants(os.getpid()), procs.stat(daemon)["ppid"] == os.getpid())
procs.send(daemon, 9)
time.sleep(0.1)
procs.reap_adopted(None)
print(procs.stat(daemon))
"""


def test_orphans_are_adopted_found_and_reaped(repo):
    """A daemon that forks twice stays in sight, whatever its session and environment."""
    argv = [sys.executable, "-c", ORPHANS, str(repo / "plugins" / "module_utils"), "30"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True, timeout=20)
    assert done.stdout.decode().split() == ["True", "True", "None"]
