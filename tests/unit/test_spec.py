"""What makes two specifications the same job."""

import json

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import spec as specs


@pytest.mark.parametrize("name", ["run_id", "key", "launched_by", "nproc", "interface"])
def test_what_belongs_to_one_start_alone_is_no_difference(make_spec, name):
    assert specs.digest(make_spec(**{name: "other"})) == specs.digest(make_spec())
    assert specs.differences(make_spec(), make_spec(**{name: "other"})) == []


@pytest.mark.parametrize(
    "name",
    ["job", "nodes", "node_rank", "nproc_per_node", "master_port", "script", "module", "args", "env", "python",
     "state_dir", "chdir", "code_sha256", "data_network", "max_restarts", "join_timeout", "stop_grace"],
)  # fmt: skip
def test_everything_else_is(make_spec, name):
    other = make_spec(**{name: {"A": "1"} if name == "env" else "other"})
    assert specs.digest(other) != specs.digest(make_spec())
    assert specs.differences(make_spec(), other) == [name if name != "env" else "env.A"]


def test_a_specification_survives_json(make_spec):
    spec = make_spec(env={"A": "grüße"}, args=["a b"])
    assert specs.digest(json.loads(json.dumps(spec))) == specs.digest(spec)
    assert specs.digest(dict(reversed(list(spec.items())))) == specs.digest(spec)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {}, ""),
        ({"nproc_per_node": 1}, {"nproc_per_node": 2}, "nproc_per_node (1, now 2)"),
        ({"env": {"A": "1", "B": "2", "C": "3"}}, {"env": {"A": "1", "B": "9", "D": "4"}}, "env.B, env.C, env.D"),
        ({"env": None}, {"env": {"A": "1"}}, "env.A"),
        ({"code_sha256": "aa"}, {"code_sha256": "bb"}, "the shipped code"),
        ({"nodes": []}, {}, "the nodes"),
        ({"args": ["--lr", "1"]}, {"args": ["--lr", "2"]}, 'args (["--lr", "1"], now ["--lr", "2"])'),
        ({"chdir": None}, {"chdir": "sub"}, 'chdir (null, now "sub")'),
        ({"stop_grace": 30.0}, {"stop_grace": 30}, ""),
    ],
)
def test_shown_differences(make_spec, old, new, expected):
    assert specs.shown_differences(make_spec(**old), make_spec(**new)) == expected


def test_secrets_are_never_shown(make_spec):
    old = make_spec(key="11" * 32, env={"TOKEN": "hunter2", "SAME": "hunter3"})
    new = make_spec(key="22" * 32, env={"TOKEN": "hunter4", "SAME": "hunter3"}, nproc_per_node=3)
    told = specs.shown_differences(old, new)
    assert told == "env.TOKEN, nproc_per_node (2, now 3)"
