"""What the unit tests share."""

import copy

import pytest

SPEC = {
    "job": "exp7",
    "run_id": "0a1b2c3d4e5f",
    "key": "ab" * 32,
    "nodes": [{"name": "n0", "address": "10.0.0.1"}, {"name": "n1", "address": "10.0.0.2"}],
    "node_rank": 1,
    "nproc_per_node": 2,
    "master_port": 29500,
    "control_port": 29501,
    "script": "train.py",
    "module": None,
    "args": ["--epochs", "3"],
    "env": {},
    "python": "/opt/env/bin/python",
    "state_dir": "/var/lib/muster",
    "chdir": None,
    "code_sha256": "00" * 32,
    "data_network": None,
    "max_restarts": 0,
    "join_timeout": 60.0,
    "stop_grace": 30.0,
    "launched_by": "alice@laptop",
}


@pytest.fixture
def make_spec():
    """``make_spec(name=value, ...)``: a specification of node rank 1 of two, with changes."""

    def make(**changes):
        return dict(copy.deepcopy(SPEC), **changes)

    return make
