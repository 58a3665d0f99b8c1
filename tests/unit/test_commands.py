"""The exact torchrun command and environment of a node."""

import shlex

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import commands

PAIRS = [
    ("nnodes", "2"),
    ("nproc-per-node", "2"),
    ("node-rank", "1"),
    ("master-addr", "10.0.0.1"),
    ("master-port", "29502"),
    ("rdzv-backend", "static"),
    ("rdzv-id", "0a1b-1"),
    ("rdzv-conf", "timeout=60"),
    ("local-addr", "10.0.0.2"),
    ("max-restarts", "0"),
    ("monitor-interval", "0.1"),
    ("start-method", "spawn"),
    ("log-dir", "/jobs/exp7/run/attempt-1"),
]


def test_options(make_spec):
    assert commands.options(make_spec(), 2, 29502, "0a1b-1", 60.0, "/jobs/exp7/run/attempt-1") == PAIRS


def test_options_that_this_torch_does_not_know_are_left_out():
    flags = ["--nnodes", "--node-rank", "-m", "--local-addr-of-something-else"]
    assert commands.known_only(PAIRS, flags) == [("nnodes", "2"), ("node-rank", "1")]
    assert commands.known_only(PAIRS, []) == []


def test_argv(make_spec):
    spec = make_spec(args=["--name", "two words", "--", "$HOME"])
    wrapper = ["/usr/bin/python3", "-I", "-S", "/jobs/exp7/agent/muster_agent", "rank"]
    found = commands.argv(PAIRS[:2], wrapper, "/opt/env/bin/python", spec)
    assert found == [
        "--nnodes=2", "--nproc-per-node=2", "--no-python", "/usr/bin/python3", "-I", "-S",
        "/jobs/exp7/agent/muster_agent", "rank", "/opt/env/bin/python", "-u", "train.py", "--name", "two words",
        "--", "$HOME",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"args": []}, ["train.py"]),
        ({"args": ["a", "b c"]}, ["train.py", "a", "b c"]),
        ({"script": None, "module": "pkg.train", "args": ["x"]}, ["-m", "pkg.train", "x"]),
    ],
)
def test_entry(make_spec, changes, expected):
    assert commands.entry(make_spec(**changes)) == expected


def test_the_command_by_hand(make_spec):
    assert commands.by_hand(make_spec(), 4, "/opt/env/bin/python") == (
        "/opt/env/bin/torchrun --nnodes=2 --nproc-per-node=4 --node-rank=1 --master-addr=10.0.0.1 --master-port=29500 "
        "train.py --epochs 3"
    )
    assert commands.by_hand(make_spec(), 4).startswith("torchrun --nnodes=2 ")


def test_the_command_by_hand_survives_a_shell(make_spec):
    odd = ["a b", "it's", "$HOME", "", "new\nline", "*", "grüße", "`id`"]
    words = shlex.split(commands.by_hand(make_spec(script="my train.py", args=odd), 1, "/opt/my env/bin/python"))
    assert words[0] == "/opt/my env/bin/torchrun"
    assert words[-len(odd) - 1 :] == ["my train.py", *odd]


def test_only_known_variables_are_inherited():
    inherited = {
        "HOME": "/home/alice", "LC_ALL": "C.UTF-8", "LC_NUMERIC": "de_DE", "http_proxy": "http://p:1",
        "PATH": "/usr/bin", "LD_LIBRARY_PATH": "/opt/lib", "RANK": "3", "WORLD_SIZE": "9",
        "MASTER_ADDR": "elsewhere", "PYTHONPATH": "/x", "SECRET_TOKEN": "hunter2", "PET_NNODES": "7",
        "CUDA_VISIBLE_DEVICES": "3", "OMP_NUM_THREADS": "64",
    }  # fmt: skip
    assert commands.base_environment(inherited, "/opt/env/bin/python") == {
        "HOME": "/home/alice",
        "LC_ALL": "C.UTF-8",
        "LC_NUMERIC": "de_DE",
        "http_proxy": "http://p:1",
        "LD_LIBRARY_PATH": "/opt/lib",
        "PATH": "/opt/env/bin:/usr/bin",
    }


def test_a_path_is_there_without_one():
    found = commands.base_environment({}, "/opt/env/bin/python")
    assert found == {"PATH": "/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


RUN = {"attempt": 2, "nproc": 2, "share": 1, "job_dir": "/s/jobs/exp7", "run_dir": "/s/jobs/exp7/run"}


def environment(spec, cores=8, interface=None, base=None, **run):
    return commands.environment(base or {}, spec, dict(RUN, **run), cores, interface or {})


def test_the_whole_environment(make_spec):
    found = environment(make_spec(env={"A": "1"}), base={"HOME": "/h"}, interface={"GLOO_SOCKET_IFNAME": "eth0"})
    assert found == {
        "HOME": "/h",
        "A": "1",
        "GLOO_SOCKET_IFNAME": "eth0",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "4",
        "MUSTER_JOB": "exp7",
        "MUSTER_RUN": "0a1b2c3d4e5f/1",
        "MUSTER_ATTEMPT": "2",
        "MUSTER_JOB_DIR": "/s/jobs/exp7",
        "MUSTER_RUN_DIR": "/s/jobs/exp7/run",
        "MUSTER_HOST": "n1",
    }


@pytest.mark.parametrize(
    ("cores", "nproc", "share", "expected"),
    [(8, 2, 1, "4"), (8, 1, 1, "8"), (8, 2, 2, "2"), (8, 3, 1, "2"), (2, 4, 1, "1"), (1, 1, 2, "1")],
)
def test_threads_share_the_cores(make_spec, cores, nproc, share, expected):
    assert environment(make_spec(), cores=cores, nproc=nproc, share=share)["OMP_NUM_THREADS"] == expected


def test_the_users_own_values_win(make_spec):
    env = {
        "OMP_NUM_THREADS": "7",
        "NCCL_SOCKET_IFNAME": "^lo",
        "PYTHONUNBUFFERED": "",
        "HOME": "/elsewhere",
        "PATH": "/p",
    }
    chosen = {"NCCL_SOCKET_IFNAME": "eth1", "GLOO_SOCKET_IFNAME": "eth1"}
    found = environment(make_spec(env=env), interface=chosen, base={"HOME": "/h", "PATH": "/usr/bin"})
    assert {name: found[name] for name in env} == env
    assert found["GLOO_SOCKET_IFNAME"] == "eth1"


def test_musters_own_variables_cannot_be_taken(make_spec):
    found = environment(make_spec(env={"MUSTER_RUN": "x", "MUSTER_JOB_DIR": "y"}))
    assert found["MUSTER_RUN"] == "0a1b2c3d4e5f/1" and found["MUSTER_JOB_DIR"] == "/s/jobs/exp7"


def test_nothing_steers_torchrun_from_outside(make_spec):
    found = environment(make_spec(env={"PET_NNODES": "9", "PET_": "x", "PETS": "2"}), base={"PET_MAX_RESTARTS": "3"})
    assert [name for name in found if name.startswith("PET")] == ["PETS"]


def test_the_specification_is_left_alone(make_spec):
    spec, base, chosen = make_spec(env={"A": "1"}), {"HOME": "/h"}, {"GLOO_SOCKET_IFNAME": "eth0"}
    environment(spec, base=base, interface=chosen)
    assert spec == make_spec(env={"A": "1"}) and base == {"HOME": "/h"} and chosen == {"GLOO_SOCKET_IFNAME": "eth0"}


def test_a_bare_python_puts_no_empty_entry_on_the_path():
    assert "" not in commands.base_environment({"PATH": "/usr/bin"}, "python3")["PATH"].split(":")
