"""Misspelt variables of roles, and values of a type that a role does not take."""

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils import role_variables

OPTIONS = {
    "python_env_torch_backend": {"type": "str"},
    "python_env_min_free_mb": {"type": "int"},
    "python_env_verify": {"type": "bool"},
    "chrony_servers": {"type": "list", "elements": "str"},
    "chrony_mode": {"type": "str", "choices": ["auto", "none"]},
    "gpu_persistence": {"type": "bool"},
}
ROLES = ["python_env", "chrony", "gpu"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("chrony_server", "chrony_servers"),
        ("python_env_min_free", "python_env_min_free_mb"),
        ("python_env_torch", "python_env_torch_backend"),
        ("muster_adress", "muster_address"),
        ("muster_manage_host", "muster_manage_hosts"),
        ("gpu_type", None),  # somebody else's
        ("gpu_persist", None),
        ("gpu_persistance", "gpu_persistence"),
        ("chrony_unrelated", None),
    ],
)
def test_what_was_meant(name, near):
    assert role_variables.unknown([name], OPTIONS, ROLES) == {name: near}


@pytest.mark.parametrize(
    "name", ["chrony_servers", "muster_address", "launch_scirpt", "ansible_host", "__chrony_x", "chronyx", "python_version"]
)
def test_what_is_not_judged(name):
    assert role_variables.unknown([name], OPTIONS, ROLES) == {}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("python_env_min_free_mb", 5, None),
        ("python_env_min_free_mb", "5", None),  # as -e gives it
        ("python_env_min_free_mb", "lots", "a whole number"),
        ("python_env_min_free_mb", "", "a whole number"),
        ("python_env_min_free_mb", None, "a value, or nothing at all for the default"),
        ("python_env_verify", "yes", None),
        ("python_env_verify", "perhaps", "true or false"),
        ("chrony_servers", ["a"], None),
        ("chrony_servers", "a,b", "a list of texts"),  # a role would go through it letter by letter
        ("chrony_servers", {"a": 1}, "a list of texts"),
        ("chrony_mode", "auto", None),
        ("chrony_mode", "manual", "one of auto, none"),
        ("python_env_torch_backend", "cpu", None),
    ],
)
def test_types(name, value, expected):
    assert role_variables.unfit(name, value, OPTIONS[name]) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [("python_env_min_free_mb", "5", 5), ("python_env_min_free_mb", "lots", 7), ("python_env_verify", "false", False)],
)
def test_values_as_the_roles_need_them(name, value, expected):
    assert role_variables.converted(name, value, dict(OPTIONS[name], default=7)) == expected


@pytest.mark.parametrize(
    ("complaint", "expected"),
    [("'chrony_mode' is undefined", True), ("'role_path' is undefined", True), ("'nix' is undefined", False), ("a loop", False)],
)
def test_templates_that_need_the_role(complaint, expected):
    assert role_variables.waits("Error: " + complaint, OPTIONS) is expected


def test_sentences_name_all_hosts():
    unread = {("chrony_server", "chrony_servers"): ["n1", "n2"]}
    wrong = {("python_env_verify", "'perhaps'", "true or false"): ["n1"]}
    assert role_variables.sentences(unread, wrong) == [
        "n1 and n2 have the variable chrony_server, which no role reads; did you mean chrony_servers?",
        "n1 has 'perhaps' as python_env_verify, expected true or false; correct it where it is set",
    ]


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [(["a"], "a"), (["a", "b"], "a and b"), (list("abcd"), "a, b, c and d"), (list("abcdef"), "a, b, c, d and 2 more")],
)
def test_many_hosts(hosts, expected):
    assert role_variables.listed(hosts) == expected
