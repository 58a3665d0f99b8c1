"""Who watches over an agent: exact command lines, the exact unit, and what happens when systemd does not start it."""

import fcntl
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import backends, files
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.jobdir import JobDir

UNIT = """\
[Unit]
Description=Muster job %i
After=network-online.target
Wants=network-online.target
# The agent removes this file when the job has ended; until then a host that comes back takes part again.
ConditionPathExists=/var/lib/muster/jobs/%i/armed
StartLimitIntervalSec=0

[Service]
Type=exec
User=muster
WorkingDirectory=/var/lib/muster/jobs/%i
ExecStart=/usr/bin/python3 -I /var/lib/muster/jobs/%i/agent/muster_agent run /var/lib/muster %i
# SIGTERM goes to the agent alone, which gives the ranks their grace; what is left dies with the cgroup.
KillMode=mixed
TimeoutStopSec=315
Restart=on-failure
RestartSec=2
# systemd does not read limits.conf.
LimitNOFILE=1048576
LimitMEMLOCK=infinity
StandardOutput=append:/var/lib/muster/jobs/%i/run/agent.log
StandardError=inherit

[Install]
WantedBy=multi-user.target
"""


def test_the_unit():
    assert backends.unit_text("muster", "/usr/bin/python3", "/var/lib/muster", 300) == UNIT


def test_percent_signs_are_doubled_for_systemd():
    text = backends.unit_text("muster", "/usr/bin/python3", "/data/50%", 30.5)
    assert "run /data/50%% %i\n" in text and "/data/50%/" not in text and "TimeoutStopSec=45\n" in text


def test_systemctl():
    backend = backends.SystemdBackend(prefix=("sudo", "-n"))
    assert backend.argv("start", "exp7") == ["sudo", "-n", "systemctl", "start", "muster@exp7.service"]
    assert backends.SystemdBackend().argv("stop", "a.b") == ["systemctl", "stop", "muster@a.b.service"]


def test_the_agents_command():
    assert backends.agent_argv("/opt/env/bin/python", "/s", "exp7") == [
        "/opt/env/bin/python", "-I", "/s/jobs/exp7/agent/muster_agent", "run", "/s", "exp7",
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), [("self", "self"), ("systemd", "systemd"), ("", "self")])
def test_the_choice(name, kind):
    assert backends.choose(name).name == kind


@pytest.fixture
def job(tmp_path, make_spec):
    jobdir = JobDir(str(tmp_path), "exp7")
    jobdir.create()
    jobdir.begin_run("run1")
    files.write_json(jobdir.at("spec.json"), make_spec(python=sys.executable))
    return jobdir


class Systemctl:
    """Stands in for subprocess.run; remembers what it was given, and whether the job was armed and free then."""

    def __init__(self, job, code=0, output=b""):
        self.job, self.code, self.output = job, code, output
        self.calls = []

    def __call__(self, argv, **kinds):
        self.calls.append((argv[1:], os.path.exists(self.job.at("armed")), self.job.locked()))
        return SimpleNamespace(returncode=self.code if "start" in argv else 1, stdout=self.output)


def test_systemd_gets_an_armed_job_that_is_free(job):
    systemctl = Systemctl(job)
    backends.SystemdBackend(run=systemctl).start(job, job.lock())
    assert systemctl.calls == [
        (["reset-failed", "muster@exp7.service"], True, False),
        (["start", "muster@exp7.service", "--no-block"], True, False),
    ]
    assert os.path.exists(job.at("armed"))


def test_a_systemctl_that_fails_is_a_refusal_and_disarms(job):
    systemctl = Systemctl(job, 1, b"Failed to start muster@exp7.service: Access denied\n")
    lock = job.lock()
    with pytest.raises(Refusal) as caught:
        backends.SystemdBackend(run=systemctl).start(job, lock)
    told = "systemctl could not start muster@exp7.service (Failed to start muster@exp7.service: Access denied); install "
    assert str(caught.value).startswith(told)
    assert not os.path.exists(job.at("armed")) and not job.locked()
    with pytest.raises(OSError):
        fcntl.flock(lock, fcntl.LOCK_UN)


AGENT = """\
import fcntl, os, sys
lock = int(sys.argv[sys.argv.index("--lock") + 1])
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
print(sys.argv[1:3], os.getsid(0) == os.getpid(), os.getcwd(), sys.stdin.read() == "", flush=True)
print(sorted(int(name) for name in os.listdir("/proc/self/fd"))[:3], file=sys.stderr, flush=True)
open(os.path.join(os.getcwd(), "begun"), "w").close()
while not os.path.exists(os.path.join(os.getcwd(), "go")):
    pass
"""


def wait_for(condition):
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline, "waited 5 s in vain"
        time.sleep(0.01)


def test_the_agent_inherits_the_lock_and_nothing_else_of_its_starter(job):
    os.makedirs(os.path.join(job.agent, "muster_agent"))
    with open(os.path.join(job.agent, "muster_agent", "__main__.py"), "w", encoding="utf-8") as stream:
        stream.write(AGENT)
    lock = job.lock()
    backends.SelfBackend().start(job, lock)
    try:
        assert job.locked()  # at once, before the agent has done anything
        with pytest.raises(OSError):
            os.fstat(lock)
        wait_for(lambda: os.path.exists(job.at("begun")))
        assert job.locked()
    finally:
        open(job.at("go"), "w").close()
    assert job.wait_unlocked(5)
    log = files.read_tail(os.path.join(job.run, "agent.log"), 1000)
    assert log.splitlines() == ["['run', '{}'] True {} True".format(job.state_dir, job.path), "[0, 1, 2]"]


def test_a_host_without_systemctl_is_a_refusal_and_disarms(job):
    def run(argv, **kinds):
        return subprocess.run(["/nowhere/systemctl"], **kinds)

    with pytest.raises(Refusal):
        backends.SystemdBackend(run=run).start(job, job.lock())
    assert not os.path.exists(job.at("armed"))


def test_a_state_folder_with_a_space_is_quoted():
    assert '"/data/my state/jobs/%i/agent/muster_agent"' in backends.unit_text(
        "m", "/usr/bin/python3", "/data/my state", 30
    )
