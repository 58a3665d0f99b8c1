"""One look at a host by a raw command: what is sent, and what is made of the answer."""

import json
import os
import subprocess
import sys
from unittest import mock

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.muster.cluster.plugins.action import firewall as firewall_action
from ansible_collections.muster.cluster.plugins.action import python_env as python_env_action
from ansible_collections.muster.cluster.plugins.action import survey as survey_action
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import cli
from ansible_collections.muster.cluster.plugins.plugin_utils import looking, remote

LOOK = {name: option.get("default") for name, option in python_env_action.ARGUMENTS.items()}


def action(outcome):
    """An action whose raw command gives a result or raises."""
    made = mock.Mock()
    made._templar.template = lambda value: value
    made._low_level_execute_command = mock.Mock(side_effect=[outcome])
    return made


def test_the_answer_is_that_of_the_package():
    told = {"rc": 0, "stdout": "motd\n" + cli.BEGIN + json.dumps({"a": 1}) + cli.END, "stderr": ""}
    assert looking.look(action(told), {}, "muster_survey", {}, survey_action.OTHERS) == {"a": 1}


@pytest.mark.parametrize(
    ("outcome", "expected", "words"),
    [
        ({"rc": 1, "stdout": "", "stderr": "sudo: a password is required\n"}, looking.Fault, "sudo: a password is required"),
        ({"rc": 127, "stdout": "", "stderr": "found no Python 3.8 or later"}, looking.Fault, "found no Python 3.8 or later"),
        ({"rc": 3, "stdout": "", "stderr": ""}, looking.Fault, "no answer .exit code 3."),
        ({"rc": 255, "stdout": "", "stderr": "Connection timed out"}, AnsibleConnectionFailure, "does not answer"),
        (AnsibleConnectionFailure("x"), AnsibleConnectionFailure, "x"),
        (AnsibleError("Missing sudo password"), looking.Fault, "Missing sudo password"),
    ],
)
def test_a_host_that_cannot_be_looked_at(outcome, expected, words):
    with pytest.raises(expected, match=words):
        looking.look(action(outcome), {}, "muster_survey", {}, survey_action.OTHERS)


@pytest.mark.parametrize(
    ("package", "others", "request_"),
    [
        ("muster_survey", survey_action.OTHERS, {"user": "nobody", "state_dir": "/nonexistent"}),
        ("muster_firewall", firewall_action.OTHERS, {"backend": "ufw", "options": {}}),
        ("python_env", python_env_action.OTHERS, {"options": dict(LOOK, prefix="/nonexistent/envs/x")}),
    ],
)
def test_all_that_a_package_imports_is_sent(package, others, request_):
    stdin = remote.boot_stdin(dict(request_, do="look"), looking.sources(package, others), package=package)
    done = subprocess.run(
        [sys.executable, "-I", "-c", remote.BOOT], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
        check=False, cwd="/", env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    if package == "muster_firewall" and os.geteuid() == 0:  # an empty wish is no wish; the imports are what is tried
        assert b"ImportError" not in done.stderr and b"ModuleNotFoundError" not in done.stderr
        return
    assert remote.parse_answer(done.stdout.decode()) is not None, done.stderr


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (looking.Fault("sudo: a password is required"), {"fault": "sudo: a password is required", "fault_unreachable": False}),
        (AnsibleConnectionFailure("gone"), {"fault": "gone", "fault_unreachable": True}),
    ],
)
def test_a_survey_tells_a_fault_as_data(given, expected):
    task = mock.Mock(async_val=0, check_mode=False, diff=False, args={"fault_as_data": True})
    made = survey_action.ActionModule(task, mock.Mock(), mock.Mock(), mock.Mock(), mock.Mock(), mock.Mock())
    with mock.patch.object(looking, "look", mock.Mock(side_effect=given)):
        result = made.run(None, {"inventory_hostname": "n1"})
    assert {key: result[key] for key in expected} == expected and not result.get("failed")
    task.args = {}
    with mock.patch.object(looking, "look", mock.Mock(side_effect=given)):
        if isinstance(given, AnsibleConnectionFailure):
            with pytest.raises(AnsibleConnectionFailure):
                made.run(None, {"inventory_hostname": "n1"})
        else:
            assert made.run(None, {"inventory_hostname": "n1"})["msg"].startswith("n1 could not be looked at: ")


def test_the_interpreter_is_the_one_that_modules_get():
    assert looking.interpreters("/opt/python") == ["/opt/python"]
    found = looking.interpreters("auto_silent")
    assert len(found) > 2 and "/usr/bin/python3" in found and found[0].startswith("python3.")
