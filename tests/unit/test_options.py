"""The launch's public variables: which are taken, what a misspelt one is told, how inventory and command line merge."""

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import options

ROLES = ["python_env", "firewall"]


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({}, {}),
        ({"script": "train.py", "nproc_per_node": "4"}, {"script": "train.py", "nproc_per_node": "4"}),
        ({"launch_script": "train.py"}, {"script": "train.py"}),
        ({"script_args": ["--x", "{{ 6*7 }}"], "job": "{{ lookup('pipe', 'id') }}"},
         {"script_args": ["--x", "{{ 6*7 }}"], "job": "{{ lookup('pipe', 'id') }}"}),
        ({"env": {"A": "{% raw %}", 1: 2}}, {"env": {"A": "{% raw %}", "1": 2}}),
        ({"ansible_user": "root", "muster_python": "/x", "awx_job_id": 1, "tower_job_id": 1}, {}),
        ({"python_env_name": "other", "firewall_zone": "x"}, {}),
        ({"launch_runs_dir": "/tmp/runs", "launch_group": [], "launch_supervision": "self"}, {}),
    ],
)  # fmt: skip
def test_extra_variables_that_are_taken(extra, expected):
    assert options.from_extra_variables(extra, ROLES) == expected


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("scirpt", "did you mean script?"),
        ("nproc", "did you mean nproc_per_node?"),
        ("nprocs_per_node", "did you mean nproc_per_node?"),
        ("nproc-per-node", "did you mean nproc_per_node?"),
        ("args", "did you mean script_args?"),
        ("max_restart", "did you mean max_restarts?"),
        ("launch_scrpt", "did you mean script?"),
        ("Script", "did you mean script?"),
        ("master", "did you mean master_port?"),
        ("xyzzy", "the launch reads script, module, script_args, nproc_per_node, env, job,"),
        ("firewallzone", "the launch reads script,"),
        ("launch_", "the launch reads script,"),
    ],
)
def test_a_misspelt_variable_is_told_the_right_one(name, hint):
    with pytest.raises(Refusal) as caught:
        options.from_extra_variables({"script": "train.py", name: "x"}, ROLES)
    assert str(caught.value).startswith("found the extra variable {!r}, which nothing reads; {}".format(name, hint))


def test_text_outside_any_variable_is_refused():
    with pytest.raises(Refusal) as caught:
        options.from_extra_variables({"script_args": "--name two", "_raw_params": "words here"}, ROLES)
    assert str(caught.value).startswith("the extra variables hold 'words here' outside any name=value, which is lost;")


class Tagged(str):
    """A str of Ansible's, as far as this matters."""


def test_values_are_plain():
    found = options.plain({Tagged("a"): [Tagged("b"), 1, 0.5, True, None, (Tagged("c"),)]})
    assert found == {"a": ["b", 1, 0.5, True, None, ["c"]]}
    assert type(next(iter(found))) is str and type(found["a"][0]) is str and type(found["a"][5][0]) is str
    assert found["a"][3] is True and type(found["a"][1]) is int


def test_the_command_line_wins_and_the_environment_is_merged():
    inventory = {
        "script": "old.py",
        "nproc_per_node": "auto",
        "env": {"A": "1", "B": 2},
        "wait": True,
        "job": "",
        "chdir": None,
    }
    extra = {"script": "train.py", "env": {"B": "3"}, "wait": "false"}
    assert options.merge(inventory, extra) == {
        "script": "train.py", "nproc_per_node": "auto", "env": {"A": "1", "B": "3"}, "wait": False,
    }  # fmt: skip
    assert inventory["env"] == {"A": "1", "B": 2} and extra["env"] == {"B": "3"}


@pytest.mark.parametrize(
    ("inventory", "extra", "name", "expected"),
    [
        ({}, {"nproc_per_node": "4"}, "nproc_per_node", 4),
        ({}, {"script_args": "--a 'b c'"}, "script_args", ["--a", "b c"]),
        ({"script_args": []}, {}, "script_args", []),
        ({"script_args": ["a"]}, {"script_args": []}, "script_args", []),
        ({}, {"max_restarts": "3"}, "max_restarts", 3),
        ({}, {"join_timeout": "5"}, "join_timeout", 5.0),
        ({}, {"stop_grace": 0}, "stop_grace", 0.0),
        ({}, {"master_port": "30000"}, "master_port", 30000),
        ({}, {"follow": "all"}, "follow", "all"),
        ({}, {"ship": "train.py, src/**"}, "ship", ["train.py", "src/**"]),
        ({}, {"ship": ["a b.py"]}, "ship", ["a b.py"]),
        ({}, {"job": 7}, "job", "7"),
        ({"python_env": "exp"}, {}, "python_env", "exp"),
        ({"python_env": "exp"}, {"python_env": 7}, "python_env", "7"),
        ({"python_env": ""}, {"python_env": "cu12_4.b-1"}, "python_env", "cu12_4.b-1"),
        ({}, {"force": "yes"}, "force", True),
        ({}, {"script": "{{ 6*7 }}"}, "script", "{{ 6*7 }}"),
    ],
)
def test_each_option_is_read(inventory, extra, name, expected):
    assert options.merge(inventory, extra) == {name: expected}


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"script": ""}, "script is '', expected text"),
        ({"script": "  "}, "script is '  ', expected text"),
        ({"script": ["a"]}, "script is ['a'], expected text"),
        ({"chdir": 3}, "chdir is 3, expected text"),
        ({"job": ""}, "job is '' (0 characters)"),
        ({"python_env": "a/b"}, "python_env is 'a/b', expected an environment's name"),
        ({"python_env": ".versions"}, "python_env is '.versions', expected"),
        ({"python_env": ""}, "python_env is '', expected"),
        ({"python_env": "-x"}, "python_env is '-x', expected"),
        ({"python_env": "two words"}, "python_env is 'two words', expected"),
        ({"python_env": True}, "python_env is True, expected"),
        ({"python_env": "x" * 64}, "python_env is 'x"),
        ({"follow": "none"}, "follow is 'none', expected head or all"),
        ({"follow": True}, "follow is True, expected head or all"),
        ({"ship": ""}, "ship is '', expected a list of paths or globs"),
        ({"ship": "a,,b"}, "ship is 'a,,b', expected a list"),
        ({"ship": [1]}, "ship is [1], expected a list"),
        ({"ship": {"a": 1}}, "ship is {'a': 1}, expected a list"),
        ({"max_restarts": -1}, "max_restarts is -1, expected a whole number from 0 to 1000"),
        ({"join_timeout": 0}, "join_timeout is 0, expected a number of seconds from 1 to 86400"),
        ({"stop_grace": -1}, "stop_grace is -1, expected a number of seconds from 0 to 86400"),
        ({"wait": "perhaps"}, "wait is 'perhaps', expected true or false"),
        ({"allow_partial": "x"}, "allow_partial is 'x', expected true or false"),
        ({"force": "x"}, "force is 'x', expected true or false"),
        ({"env": "A=1"}, "env is of type str"),
        ({"module": "a-b"}, "module is 'a-b'"),
        ({"nonsense": 1}, "found the option nonsense, expected one of script, module"),
    ],
)
def test_options_that_are_refused(extra, told):
    with pytest.raises(Refusal) as caught:
        options.merge({}, extra)
    assert str(caught.value).startswith(told)


def test_a_default_that_an_inventory_has_emptied_is_named(repo):
    defaults = yaml.safe_load((repo / "roles/launch/defaults/main.yml").read_text(encoding="utf-8"))
    plain = {
        name[len("launch_") :]: value for name, value in defaults.items() if name[len("launch_") :] in options.OPTIONS
    }
    options.complete(options.merge(plain, {}))
    for name in ("max_restarts", "nproc_per_node", "wait", "master_port", "stop_grace"):
        with pytest.raises(Refusal, match="launch_{} is empty, expected a value".format(name)):
            options.complete(options.merge(dict(plain, **{name: ""}), {}))


def test_a_bad_environment_of_the_inventory_is_refused():
    with pytest.raises(Refusal, match="env is of type list"):
        options.merge({"env": ["A=1"]}, {"env": {"B": "1"}})


def test_every_option_has_a_default_in_the_role(repo):
    defaults = yaml.safe_load((repo / "roles/launch/defaults/main.yml").read_text(encoding="utf-8"))
    assert {name[len("launch_") :] for name in defaults} - {"runs_dir", "supervision", "group"} == set(options.OPTIONS)
    plain = {
        name[len("launch_") :]: value for name, value in defaults.items() if name[len("launch_") :] in options.OPTIONS
    }
    merged = options.merge(plain, {})
    assert (merged["nproc_per_node"], merged["master_port"], merged["wait"], merged["env"]) == ("auto", 29500, True, {})
