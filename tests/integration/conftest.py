"""Launches on two local nodes whose state lies in a temporary folder."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import ansible_runner
import one_node
import pytest

REPO = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
JOB_PYTHON = REPO / ".muster" / "env" / "bin" / "python"
SCRIPTS = Path(__file__).parent / "scripts"


class Outcome:
    """What a playbook run left: exit code, screen, and the results of its tasks by name."""

    def __init__(self, rc, stdout, events=()):
        self.rc, self.stdout = rc, stdout
        self.events = events

    def messages(self):
        """The `msg` of every failed task."""
        return [event["event_data"]["res"].get("msg") for event in self.events if event["event"] == "runner_on_failed"]

    def changed(self):
        """Names of the tasks that changed something, with their hosts."""
        ok = [event["event_data"] for event in self.events if event["event"] == "runner_on_ok"]
        return [(data["task"], data["host"]) for data in ok if data["res"].get("changed")]

    def sentences(self):
        """Lines of the screen that end a launch badly."""
        return [line for line in self.stdout.splitlines() if re.search(r"(job \S+ (failed|stopped):|\w+ refused:)", line)]


class Cluster:
    """Two local nodes of their own: state, records and port apart from everybody else's."""

    hosts = ("node0", "node1")

    def __init__(self, folder):
        self.folder = folder
        self.state = folder / "state"
        self.runs = folder / "runs"
        self.stand = folder / "stand"
        shutil.copytree(SCRIPTS, self.stand)
        self.port = free_port()
        self.variables = {
            "muster_state_dir": str(self.state) + "/{{ inventory_hostname }}",
            "launch_runs_dir": str(self.runs),
        }

    def environment(self):
        """Environment of ansible-playbook."""
        return {
            "ANSIBLE_CONFIG": str(REPO / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "PATH": "{}:{}".format(BIN, os.environ["PATH"]),
        }

    def extra(self, options):
        """Extra variables of a launch, this cluster's own included."""
        return dict(self.variables, master_port=self.port, **options)

    def play(self, playbook="launch.yml", cmdline="", check=False, inventory=None, **options):
        """Run a playbook through ansible-runner to its end."""
        private = self.folder / "runner-{}".format(time.monotonic_ns())
        private.mkdir()
        before = os.getcwd()
        os.chdir(self.stand)
        try:
            done = ansible_runner.run(
                private_data_dir=str(private),
                project_dir=str(self.stand),
                playbook=str(REPO / playbook),
                inventory=str(inventory or REPO / "inventory" / "local"),
                extravars=self.extra(options) if playbook.endswith("launch.yml") else dict(self.variables, **options),
                cmdline=cmdline + (" --check" if check else "") or None,
                envvars=self.environment(),
                quiet=True,
                settings={"job_timeout": 150, "idle_timeout": 150},
            )
        finally:
            os.chdir(before)
        events = list(done.events)
        return Outcome(done.rc, "\n".join(event.get("stdout", "") for event in events if event.get("stdout")), events)

    def begin(self, playbook="launch.yml", **options):
        """Start ansible-playbook as a user does, in a session of its own; its screen goes to a file."""
        screen = self.folder / "screen-{}".format(time.monotonic_ns())
        argv = [str(BIN / "ansible-playbook"), str(REPO / playbook), "-e"]
        argv.append(json.dumps(self.extra(options) if playbook.endswith("launch.yml") else dict(self.variables, **options)))
        with open(screen, "wb") as output:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(os.environ, **self.environment()),
                cwd=self.stand,
                start_new_session=True,
            )
        process.screen = screen
        return process

    def job_dir(self, host, job):
        """A job's folder on a node."""
        return self.state / host / "jobs" / job

    def read(self, host, job, name):
        """A JSON file of the present run, or None."""
        try:
            return json.loads((self.job_dir(host, job) / "run" / name).read_text())
        except (OSError, ValueError):
            return None

    def log(self, job, rank, attempt=0):
        """A rank's log on its node (one rank a node)."""
        path = self.job_dir(self.hosts[rank], job) / "run" / "attempt-{}".format(attempt) / "rank-{}.log".format(rank)
        return path.read_text() if path.exists() else ""

    def rank_pid(self, job, rank):
        """Process id of a rank."""
        return self.read(self.hosts[rank], job, "attempt-0/rank-{}.json".format(rank))["pid"]

    def wait_for(self, what, bound=60):
        """Wait until the callable says true; fails with its name after ``bound`` seconds."""
        deadline = time.monotonic() + bound
        while not what():
            if time.monotonic() > deadline:
                pytest.fail("waited {} s in vain".format(bound))
            time.sleep(0.05)

    def processes(self):
        """Ids and commands of all processes that belong to jobs of this cluster."""
        found = []
        needle = ("MUSTER_JOB_DIR=" + str(self.state)).encode()
        for name in os.listdir("/proc"):
            try:
                environ = Path("/proc", name, "environ").read_bytes() if name.isdigit() else b""
                command = Path("/proc", name, "cmdline").read_bytes() if name.isdigit() else b""
                state = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[0] if name.isdigit() else "Z"
            except OSError:
                continue
            if state != "Z" and (needle in environ or str(self.state).encode() in command and b"muster_agent" in command):
                found.append((int(name), command.replace(b"\0", b" ").decode("utf-8", "replace")))
        return found

    def assert_nothing_left(self, bound=5):
        """No process, no listener."""
        deadline = time.monotonic() + bound
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.processes() == []
        for port in (self.port, self.port + 1):
            with socket.socket() as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind(("0.0.0.0", port))

    def clean(self):
        """End whatever a failed test has left."""
        for pid, _ in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def free_port():
    """A port that leads a row of free ones, below the ephemeral range."""
    base = 20000 + (os.getpid() * 37) % 8000
    for port in range(base, base + 4000, 16):
        try:
            for offset in range(4):
                with socket.socket() as sock:
                    sock.bind(("0.0.0.0", port + offset))
            return port
        except OSError:
            continue
    raise AssertionError("no free ports")


@pytest.fixture
def cluster(tmp_path):
    """A :class:`Cluster`; its processes are ended afterwards."""
    assert JOB_PYTHON.exists(), "found no {}, expected the environment of the local nodes; run make env".format(JOB_PYTHON)
    made = Cluster(tmp_path)
    yield made
    made.clean()


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """A folder of wheels to choose among."""
    return one_node.make_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="session")
def packages_cache(tmp_path_factory):
    """One cache of packages for all tests, on the disk that the prefixes are on."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def node(tmp_path, wheels, packages_cache):
    """A :class:`one_node.Node` without an environment."""
    return one_node.Node(tmp_path, wheels, packages_cache)


@pytest.fixture
def made(node):
    """A node whose environment holds probe 1.0 and probe-base 1.5."""
    assert node.run()["changed"]
    return node
