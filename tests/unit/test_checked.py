"""Single values that a user gives: what is taken, and what is said of the rest."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import checked
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal


@pytest.mark.parametrize("name", ["a", "exp7", "train-20261201-093000", "A.b_c-9", "7", "x" * 63])
def test_job_names_that_are_taken(name):
    assert checked.job_name(name) == name


def test_a_number_is_a_job_name():
    assert checked.job_name(7) == "7"


@pytest.mark.parametrize(
    "name",
    [
        "", " ", "a/b", "../a", "a..b", "..", ".", ".hidden", "-rf", "_a", "a b", "a\n", "a\tb", "a;b", "a$b", "ä",
        "a\0b", "x" * 64, "x" * 200,
    ],
)  # fmt: skip
def test_job_names_that_are_refused(name):
    with pytest.raises(Refusal) as caught:
        checked.job_name(name)
    told = str(caught.value)
    assert "({} characters)".format(len(name)) in told and "expected 1 to 63" in told and len(told) < 300
    assert "\n" not in told


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1), (1024, 1024), ("4", 4), (" 8 ", 8), ("auto", "auto"), (" gpu ", "gpu"), ("cpu", "cpu")],
)
def test_nproc_that_is_taken(value, expected):
    assert checked.nproc(value) == expected


@pytest.mark.parametrize(
    "value", [0, -1, 1.5, 2.0, "many", True, False, None, "", "0", "-1", "1.5", 1025, [2], "2 3", "0x4"]
)
def test_nproc_that_is_refused(value):
    with pytest.raises(Refusal) as caught:
        checked.nproc(value)
    assert str(caught.value) == (
        "nproc_per_node is {!r}, expected a whole number from 1 to 1024, or auto, gpu or cpu; correct it".format(value)
    )


@pytest.mark.parametrize(("value", "expected"), [(1024, 1024), (29500, 29500), ("29500", 29500), (65520, 65520)])
def test_master_port_that_is_taken(value, expected):
    assert checked.master_port(value) == expected


@pytest.mark.parametrize("value", [0, 80, 1023, 65521, 65535, 70000, -1, "http", True, None, 29500.0])
def test_master_port_that_is_refused(value):
    with pytest.raises(Refusal, match="expected a port from 1024 to 65520"):
        checked.master_port(value)


def test_all_ports_of_a_job_are_ports():
    assert checked.master_port(65536 - checked.PORTS_PER_JOB) + checked.PORTS_PER_JOB - 1 == 65535


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True), (False, False), ("true", True), ("False", False), ("yes", True), ("no", False), (" On ", True),
        ("off", False), (1, True), (0, False), ("1", True), ("0", False),
    ],
)  # fmt: skip
def test_booleans(value, expected):
    assert checked.boolean("wait", value) is expected


@pytest.mark.parametrize("value", ["", "maybe", 2, None, [], "truee", 0.5])
def test_booleans_that_are_refused(value):
    with pytest.raises(Refusal, match="^wait is .*, expected true or false"):
        checked.boolean("wait", value)


@pytest.mark.parametrize(("value", "expected"), [(1, 1.0), ("2.5", 2.5), (0, 0.0), ("1e3", 1000.0)])
def test_seconds(value, expected):
    found = checked.seconds("join_timeout", value)
    assert found == expected and isinstance(found, float)


@pytest.mark.parametrize("value", [-1, "soon", None, True, float("nan"), float("inf"), "nan", "", [1], 1e9])
def test_seconds_that_are_refused(value):
    with pytest.raises(Refusal, match="^join_timeout is .*, expected a number of seconds from 0 to"):
        checked.seconds("join_timeout", value)


def test_seconds_keep_to_their_bounds():
    with pytest.raises(Refusal, match="from 1 to 86400"):
        checked.seconds("join_timeout", 0.5, 1, 86400)


@pytest.mark.parametrize(("value", "expected"), [(0, 0), ("+3", 3), (1000, 1000)])
def test_integers(value, expected):
    assert checked.integer("max_restarts", value, 0, 1000) == expected


@pytest.mark.parametrize("value", [-1, 1001, "", "3.0", 3.0, True, None, "9" * 30, "1_0"])
def test_integers_that_are_refused(value):
    with pytest.raises(Refusal, match="^max_restarts is .*, expected a whole number from 0 to 1000"):
        checked.integer("max_restarts", value, 0, 1000)


def test_environment_values_become_strings():
    given = {"A": 1, "B_2": 0.5, "_c": "x y=z $HOME \"'\nü", "D": ""}
    assert checked.environment(given) == {"A": "1", "B_2": "0.5", "_c": "x y=z $HOME \"'\nü", "D": ""}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("A=1", 'env is of type str, expected a dictionary; write it as -e \'{"env": {"NAME": "value"}}\''),
        ([("A", "1")], "env is of type list"),
        (None, "env is of type NoneType"),
        ({"A=B": "1"}, "env has the key 'A=B'"),
        ({"": "1"}, "env has the key ''"),
        ({"1A": "1"}, "env has the key '1A'"),
        ({"A B": "1"}, "env has the key 'A B'"),
        ({"A\n": "1"}, "env has the key 'A\\n'"),
        ({"Ä": "1"}, "env has the key 'Ä'"),
        ({3: "1"}, "env has the key 3"),
        ({"A": True}, "env.A is of type bool, expected a string or a number; put it in quotes"),
        ({"A": None}, "env.A is of type NoneType"),
        ({"A": ["x"]}, "env.A is of type list"),
        ({"A": {"b": "c"}}, "env.A is of type dict"),
        ({"A": "x\0y"}, "env.A holds a NUL character"),
    ],
)
def test_environments_that_are_refused(value, told):
    with pytest.raises(Refusal) as caught:
        checked.environment(value)
    assert str(caught.value).startswith(told)


def test_a_refused_environment_does_not_show_its_values():
    with pytest.raises(Refusal) as caught:
        checked.environment({"TOKEN": ["hunter2"], "OTHER": "hunter3"})
    assert "hunter" not in str(caught.value)


ODD = ["a b", "", "it's", 'say "x"', "$HOME", "`id`", "new\nline", "grüße", "*", "-", "--", "--x=1", "a\\b", "\t", "🙂"]


def test_arguments_of_a_list_are_untouched():
    assert checked.arguments(ODD) == ODD
    assert checked.arguments(("--lr", 0.1, "--epochs", 3)) == ["--lr", "0.1", "--epochs", "3"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, []),
        ("", []),
        ("--epochs 3", ["--epochs", "3"]),
        ("--name 'two words' \"$HOME\" a\\ b", ["--name", "two words", "$HOME", "a b"]),
        ("--x='' #no comment", ["--x=", "#no", "comment"]),
        ("a\nb", ["a", "b"]),
    ],
)
def test_arguments_of_a_string_are_split_as_a_shell_does(text, expected):
    assert checked.arguments(text) == expected


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (
            "--name 'two",
            'script_args cannot be split as a shell would (No closing quotation): "--name \'two"; give a list',
        ),
        ("ends with \\", "script_args cannot be split as a shell would (No escaped character)"),
        (["a", None], "script_args holds None"),
        (["a", ["b"]], "script_args holds ['b']"),
        ([{"a": 1}], "script_args holds {'a': 1}"),
        (3, 'script_args is of type int, expected a list or a string; write it as -e \'{"script_args": ["--epochs"'),
        ({"a": 1}, "script_args is of type dict"),
        (["a\0"], "script_args holds a NUL character"),
        ("a\0", "script_args holds a NUL character"),
    ],
)
def test_arguments_that_are_refused(value, told):
    with pytest.raises(Refusal) as caught:
        checked.arguments(value)
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize("name", ["train", "pkg.train", "a.b.c_1", "_x"])
def test_module_names(name):
    assert checked.module_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "pkg.", ".pkg", "a..b", "pkg/train", "train.py ", "a-b", "1a", "a b", 3, None]
)
def test_module_names_that_are_refused(name):
    with pytest.raises(Refusal, match="expected a dotted name like pkg.train"):
        checked.module_name(name)


def test_long_values_are_shown_short():
    assert checked.shown("x" * 500) == "'" + "x" * 56 + "..."
    assert checked.shown("x") == "'x'"


@pytest.mark.parametrize("value", ["", "x/y", "~/muster", "./a", None, 3])
def test_a_state_folder_is_absolute(value):
    with pytest.raises(Refusal, match="expected an absolute path"):
        checked.state_dir(value)
    assert checked.state_dir("/var/lib/muster") == "/var/lib/muster"
