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
    assert remote.start(action, PYTHON, {"do": "start", "spec": {"state_dir": "/s"}}, b"tar") == ANSWER
    command, sudoable, stdin = action.asked
    assert shlex.split(command) == [PYTHON, "-I", "-c", remote.BOOT] and sudoable is True
    head, rest = stdin.split(b"\n", 1)
    head = json.loads(head)
    assert head["request"] == {"do": "start", "spec": {"state_dir": "/s"}} and head["code"] is True
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
    assert words[0] == "p=/my env/python;"
    assert words[-6:-1] == ["$p", "-I", "-S", "/s/jobs/exp7/agent/muster_agent", "call"]
    assert json.loads(words[-1]) == request


@pytest.mark.parametrize("python", ["/gone/bin/python", "no-such-python", "python3", sys.executable])
def test_any_python_will_do_to_ask_about_a_job(tmp_path, python):
    action = Action({"rc": 0, "stdout": answered()})
    remote.request(action, python, {"do": "info", "state_dir": str(tmp_path)})
    command, _, stdin = action.asked
    done = subprocess.run(["sh", "-c", command], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert remote.parse_answer(done.stdout.decode()) == {"jobs": {}}, done.stderr


@pytest.mark.parametrize(
    ("python", "name"),
    [
        ("/s/envs/exp/bin/python", "exp"),
        ("/s/envs/default/bin/python", "default"),
        ("/s/envs/exp/bin/python3", None),
        ("/other/envs/exp/bin/python", None),
        ("/s/envs/bin/python", None),
        ("/s/envs/a/b/bin/python", None),
        ("python3", None),
    ],
)
def test_which_environment_a_python_belongs_to(python, name):
    assert remote.environment_of(python, "/s") == name


@pytest.mark.parametrize(
    ("there", "name", "told"),
    [
        ([], "exp", "found no environments below {}, expected the environment exp; make it by"),
        (["default"], "exp", "found default alone below {}, expected the environment exp; make it by"),
        (["default", "exp 1"], "exp1", "found the environments default, exp 1 below {}, expected the environment exp1 (did you "
                                       "mean exp 1?); make it by ansible-playbook site.yml -e python_env_name=exp1 -e"),
    ],
)  # fmt: skip
def test_an_environment_that_is_not_there(tmp_path, there, name, told):
    state = tmp_path / "my state"
    for found in there:
        (state / "envs" / found / "bin").mkdir(parents=True)
        (state / "envs" / found / "bin" / "python").symlink_to(sys.executable)
    (state / "envs" / "empty").mkdir(parents=True)
    python = str(state / "envs" / name / "bin" / "python")

    class Shell(Action):
        def _low_level_execute_command(self, command, sudoable=None, in_data=None):
            done = subprocess.run(["sh", "-c", command], input=in_data, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            return {"rc": done.returncode, "stdout": done.stdout.decode(), "stderr": done.stderr.decode()}

    request = {"do": "start", "spec": {"state_dir": str(state)}}
    with pytest.raises(remote.NodeError) as caught:
        remote.start(Shell(None), python, request, b"")
    assert str(caught.value).startswith(told.format(state / "envs")) and "\n" not in str(caught.value)
    if there:
        python = str(state / "envs" / "default" / "bin" / "python")
        assert "refused" in remote.start(Shell(None), python, {"do": "dance", "spec": request["spec"]}, b"")


def test_the_agents_files_are_all_there():
    names = set(remote.agent_sources())
    assert {"__init__.py", "__main__.py", "cli.py", "jobs.py", "supervisor.py", "rank.py"} <= names
    assert all(name.endswith(".py") for name in names)


def test_the_error_is_told_not_the_banner():
    told = remote.explain(PYTHON, {"rc": 1, "stdout": "Welcome to n1\n", "stderr": "Traceback\nValueError: x\n"})
    assert "ValueError: x" in told
