"""One request to a node: what is sent, how the answer is found, what is said where there is none."""

import json
import os
import shlex
import subprocess
import sys

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import cli
from ansible_collections.muster.cluster.plugins.plugin_utils import remote

ANSWER = {"state": "running", "text": "grüße \x02MUSTER \x03 \n", "offsets": {"0/1": 3}}


def answered(value=ANSWER):
    return cli.BEGIN + json.dumps(value) + cli.END


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [
        (answered(), ANSWER),
        (answered() + "\n", ANSWER),
        ("Welcome to n1!\nlast login: today\n" + answered() + "\nbye\n", ANSWER),
        ("\x1b[31mmotd\x1b[0m \x02 \x03 {}" + answered() + "\x03", ANSWER),
        (answered().replace("\n", "\r\n") + "\r\n", ANSWER),
        (answered({}) + answered(), {}),
        (answered([1]), [1]),
        ("", None),
        ("Welcome\n", None),
        (answered()[:-1], None),
        ("{}", None),
    ],
)
def test_the_answer_among_noise(stdout, expected):
    assert remote.parse_answer(stdout) == expected


def test_what_the_agent_prints_is_found(capsys):
    cli.answer(ANSWER)
    assert remote.parse_answer("noise\n" + capsys.readouterr().out + "noise") == ANSWER


PYTHON = "/opt/env/bin/python"


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"rc": 127, "stderr": "sh: 1: /opt/env/bin/python: not found\n", "stdout": ""},
         "found no usable Python at /opt/env/bin/python (sh: 1: /opt/env/bin/python: not found), expected the job's "
         "environment; run ansible-playbook site.yml, or name a Python that has torch by muster_python"),
        ({"rc": 126, "stderr": "", "stdout": "bash: /opt/env/bin/python: Permission denied\r\n"},
         "found no usable Python at /opt/env/bin/python (bash: /opt/env/bin/python: Permission denied), expected the "
         "job's environment; run ansible-playbook site.yml, or name a Python that has torch by muster_python"),
        ({"rc": 1, "stderr": "Traceback\nValueError: x\n", "stdout": ""},
         "/opt/env/bin/python gave no answer (exit code 1): ValueError: x; see whether it runs there"),
        ({"rc": 0, "stderr": None, "stdout": None},
         "/opt/env/bin/python gave no answer (exit code 0): no output; see whether it runs there"),
        ({}, "/opt/env/bin/python gave no answer (exit code None): no output; see whether it runs there"),
        ({"rc": 1, "stderr": "x" * 1000},
         "/opt/env/bin/python gave no answer (exit code 1): " + "x" * 300 + "; see whether it runs there"),
    ],
)  # fmt: skip
def test_why_there_is_no_answer(result, expected):
    assert remote.explain(PYTHON, result) == expected


class Action:
    """Stands in for ActionBase: gives a fixed result or raises."""

    def __init__(self, outcome):
        self.outcome, self.asked = outcome, None

    def _low_level_execute_command(self, command, sudoable=None, in_data=None):
        self.asked = (command, sudoable, in_data)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def test_a_request_is_one_command_with_everything_on_its_stdin():
    action = Action({"rc": 0, "stdout": answered(), "stderr": "noise"})
    assert remote.request(action, PYTHON, {"do": "info", "state_dir": "/s"}, b"tar") == ANSWER
    command, sudoable, stdin = action.asked
    assert shlex.split(command) == [PYTHON, "-I", "-c", remote.BOOT] and sudoable is True
    head, rest = stdin.split(b"\n", 1)
    head = json.loads(head)
    assert head["request"] == {"do": "info", "state_dir": "/s"} and head["code"] is True
    assert json.loads(rest[: head["agent_bytes"]]) == remote.agent_sources() and rest[head["agent_bytes"] :] == b"tar"


@pytest.mark.parametrize(
    ("outcome", "unreachable", "told"),
    [
        (
            AnsibleConnectionFailure("Failed to connect:\n no route"),
            True,
            "is unreachable: Failed to connect: no route",
        ),
        ({"rc": 255, "stdout": "", "stderr": "mux: broken pipe"}, True, "is unreachable: mux: broken pipe"),
        ({"rc": 1, "stdout": "x", "stderr": ""}, False, PYTHON + " gave no answer (exit code 1): x"),
    ],
)
def test_a_node_that_cannot_be_asked(outcome, unreachable, told):
    with pytest.raises(remote.NodeError) as caught:
        remote.ask(Action(outcome), PYTHON, "command")
    assert caught.value.unreachable is unreachable and str(caught.value).startswith(told)


def test_an_answer_counts_whatever_the_exit_code():
    assert remote.ask(Action({"rc": 255, "stdout": answered()}), PYTHON, "command") == ANSWER


def boot(request, code=b"", python=sys.executable, **kinds):
    """Send a request to a shell on this machine, as a connection would."""
    command, stdin = remote.boot_command(python), remote.boot_stdin(request, remote.agent_sources(), code)
    return subprocess.run(["sh", "-c", command], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kinds)


def test_the_agent_runs_from_memory(tmp_path):
    done = boot({"do": "info", "state_dir": str(tmp_path), "job": "exp7"}, cwd=str(tmp_path))
    assert remote.parse_answer(done.stdout.decode()) == {"jobs": {"exp7": {"state": "absent"}}}, done.stderr
    assert os.listdir(str(tmp_path)) == []


def test_a_refusal_is_an_answer(tmp_path):
    answer = remote.parse_answer(boot({"do": "dance"}).stdout.decode())
    assert answer["refused"].startswith("the agent knows no 'dance', expected one of start, stop, absent")


def test_a_login_that_talks_and_an_odd_python_do_no_harm(tmp_path):
    python = tmp_path / "my python's"
    python.write_text('#!/bin/sh\necho "Welcome to $USER"\nexec "{}" "$@"\n'.format(sys.executable))
    python.chmod(0o755)
    done = boot({"do": "info", "state_dir": str(tmp_path)}, python=str(python))
    assert done.stdout.startswith(b"Welcome") and remote.parse_answer(done.stdout.decode()) == {"jobs": {}}


def test_the_shipped_agent_is_asked_without_sending_anything():
    request = {"do": "tail", "job": "it's", "offsets": {"0/0": 1}}
    words = shlex.split(remote.shipped_command("/my env/python", "/s/jobs/exp7", request))
    assert words[:-1] == ["/my env/python", "-I", "-S", "/s/jobs/exp7/agent/muster_agent", "call"]
    assert json.loads(words[-1]) == request


def test_the_agents_files_are_all_there():
    names = set(remote.agent_sources())
    assert {"__init__.py", "__main__.py", "cli.py", "jobs.py", "supervisor.py", "rank.py"} <= names
    assert all(name.endswith(".py") for name in names)


def test_the_error_is_told_not_the_banner():
    told = remote.explain(PYTHON, {"rc": 1, "stdout": "Welcome to n1\n", "stderr": "Traceback\nValueError: x\n"})
    assert "ValueError: x" in told
