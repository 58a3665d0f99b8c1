"""Who watches over a job's agent: systemd where it runs, else the agent itself in a session of its own.

Both offer ``start(jobdir, lock)``: it returns once the agent has been handed over, never waiting for the job.
"""

import fcntl
import os
import subprocess

from . import spec as specs
from .errors import Refusal

UNIT = "muster@.service"


def agent_argv(python, state_dir, job):
    """The command that runs a job's agent; isolated from PYTHON* variables and the user's site."""
    agent = os.path.join(state_dir, "jobs", job, "agent", "muster_agent")
    return [python, "-I", agent, "run", state_dir, job]


class SelfBackend:
    """The agent in a session of its own, with all descriptors away from the caller's."""

    name = "self"

    def start(self, jobdir, lock):
        """Start the agent; it inherits ``lock``, so that there is no moment in which the job seems free."""
        log = os.open(os.path.join(jobdir.run, "agent.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        argv = agent_argv(specs.interpreter(jobdir.spec()), jobdir.state_dir, jobdir.job) + ["--lock", str(lock)]
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=jobdir.path,
                pass_fds=(lock,),
                start_new_session=True,
            )
            jobdir.remember_agent(process.pid)
        finally:
            os.close(log)
            os.close(lock)


class SystemdBackend:
    """The unit ``muster@<job>.service``, installed once by site.yml; it runs for as long as the job is armed."""

    name = "systemd"

    def __init__(self, run=subprocess.run, prefix=()):
        self._run, self._prefix = run, list(prefix)

    @staticmethod
    def unit_name(job):
        """``muster@exp7.service``."""
        return "muster@{}.service".format(job)

    def argv(self, verb, job):
        """``systemctl VERB UNIT`` as a list; ``prefix`` is e.g. ``["sudo", "-n"]``."""
        return self._prefix + ["systemctl", verb, self.unit_name(job)]

    def start(self, jobdir, lock):
        """Arm the job and start its unit; a failed unit of the same name is reset first."""
        with open(jobdir.at("armed"), "w", encoding="ascii"):
            pass
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)
        try:
            self._run(self.argv("reset-failed", jobdir.job), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            begin = self.argv("start", jobdir.job) + ["--no-block"]
            done = self._run(begin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            trouble = " ".join(done.stdout.decode("utf-8", "replace").split()) if done.returncode else None
        except OSError as error:
            trouble = str(error)
        if trouble is not None:
            jobdir.disarm()
            raise Refusal(
                "systemctl could not start {} ({}); install that unit and let this user start it, or use supervision "
                "self".format(self.unit_name(jobdir.job), trouble)
            )


def _quoted(word):
    """A word of ExecStart: quoted where systemd would split it."""
    return '"{}"'.format(word) if " " in word else word


def unit_text(user, python, state_dir, stop_seconds):
    """The text of the template unit.

    Args:
        user: the unprivileged user of the jobs.
        python: a Python 3.8 or later for the agent.
        state_dir: folder of Muster's state.
        stop_seconds: the longest grace that a job may ask for; systemd waits longer than that before it kills.
    """
    quoted = state_dir.replace("%", "%%")
    return "\n".join(
        [
            "[Unit]",
            "Description=Muster job %i",
            "After=network-online.target",
            "Wants=network-online.target",
            "# The agent removes this file when the job has ended; until then a host that comes back takes part again.",
            "ConditionPathExists={}/jobs/%i/armed".format(quoted),
            "StartLimitIntervalSec=0",
            "",
            "[Service]",
            "Type=exec",
            "User={}".format(user),
            "WorkingDirectory={}/jobs/%i".format(quoted),
            "ExecStart={} -I {} run {} %i".format(
                *(_quoted(word) for word in (python, quoted + "/jobs/%i/agent/muster_agent", quoted))
            ),
            "# SIGTERM goes to the agent alone, which gives the ranks their grace; what is left dies with the cgroup.",
            "KillMode=mixed",
            "TimeoutStopSec={}".format(int(stop_seconds) + 15),
            "Restart=on-failure",
            "RestartSec=2",
            "# systemd does not read limits.conf.",
            "LimitNOFILE=1048576",
            "LimitMEMLOCK=infinity",
            "StandardOutput=append:{}/jobs/%i/run/agent.log".format(quoted),
            "StandardError=inherit",
            "",
            "[Install]",
            "WantedBy=multi-user.target",
            "",
        ]
    )


def choose(name):
    """The back end by name: ``self`` or ``systemd``."""
    return SystemdBackend() if name == "systemd" else SelfBackend()
