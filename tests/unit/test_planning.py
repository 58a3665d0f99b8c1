"""Who takes part, under which name and rank; the plan, the nodes' specifications, the record."""

import json

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import planning

NOON = 1796126400  # 2026-12-01 12:00 UTC


@pytest.mark.parametrize(
    ("target", "stem"),
    [
        ("train.py", "train"),
        ("/a/b/my train.py", "my-train"),
        ("pkg.train", "pkg-train"),
        ("train.v2.py", "train-v2"),
        ("train", "train"),
        ("größe.py", "gr-e"),
        ("üü.py", "job"),
        ("_x_.py", "x"),
        ("..py", "job"),
        ("x" * 100 + ".py", "x" * 40),
    ],
)
def test_a_job_without_a_name_gets_one(target, stem):
    from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import checked

    name = planning.default_job(target, NOON)
    assert name.startswith(stem + "-20261201-") and name[len(stem) :].count("-") == 2 and len(name) == len(stem) + 16
    assert checked.job_name(name) == name


GROUP = ["n0", "n1", "n2"]


@pytest.mark.parametrize(
    ("play", "reachable", "partial", "expected"),
    [
        (GROUP, GROUP, False, GROUP),
        (GROUP, GROUP, True, GROUP),
        (["n1", "n2"], ["n1", "n2"], True, ["n1", "n2"]),
        (GROUP, ["n2", "n0"], True, ["n0", "n2"]),
        (["n0", "other"], ["n0", "other"], True, ["n0", "other"]),
    ],
)
def test_participants(play, reachable, partial, expected):
    assert planning.participants(GROUP, play, reachable, partial) == expected


@pytest.mark.parametrize(
    ("play", "reachable", "partial", "told"),
    [
        ([], [], False, "the play has no hosts, expected the group of the cluster; see the inventory and --limit"),
        ([], [], True, "the play has no hosts"),
        (GROUP, ["n0"], False, "n1, n2 failed or was unreachable before the launch, expected all 3 hosts; mend it, or "
         "launch on the others with -e allow_partial=true"),
        (["n1"], ["n1"], False, "--limit leaves out n0, n2, expected all 3 hosts of the group; launch without --limit, "
         "or on the part alone with -e allow_partial=true"),
    ],
)  # fmt: skip
def test_a_smaller_world_must_be_asked_for(play, reachable, partial, told):
    with pytest.raises(Refusal) as caught:
        planning.participants(GROUP, play, reachable, partial)
    assert str(caught.value).startswith(told)


def nodes(*addresses):
    return [{"name": "n{}".format(rank), "address": address} for rank, address in enumerate(addresses)]


@pytest.mark.parametrize(
    "addresses", [["10.0.0.1"], ["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"], ["127.0.0.1", "127.0.0.2"]]
)
def test_addresses_of_their_own(addresses):
    planning.check_addresses(nodes(*addresses))


@pytest.mark.parametrize(
    ("addresses", "told"),
    [
        (["10.0.0.1", "host.example"], "n1 has the address 'host.example', expected an IP address; set muster_address "
         "in the inventory"),
        ([""], "n0 has the address '', expected an IP address"),
        (["10.0.0.1/24"], "n0 has the address '10.0.0.1/24'"),
        (["10.0.0.1", "10.0.0.2", "10.0.0.1"], "n0 and n2 both have the address 10.0.0.1, expected one each; correct "
         "muster_address or ansible_host in the inventory"),
    ],
)  # fmt: skip
def test_addresses_that_are_refused(addresses, told):
    with pytest.raises(Refusal) as caught:
        planning.check_addresses(nodes(*addresses))
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize(
    ("options", "attaching", "told"),
    [
        ({"script": "a.py"}, False, None),
        ({"module": "a"}, False, None),
        ({"job": "exp7"}, True, None),
        ({}, False, "found neither script nor module, expected one; write -e script=train.py"),
        ({"script": "a.py", "module": "a"}, False, "found both script and module, expected one of them; leave one out"),
        ({"script": "a.py", "module": "a"}, True, "found both script and module"),
    ],
)
def test_exactly_one_target(options, attaching, told):
    if told is None:
        planning.check_target(options, attaching)
    else:
        with pytest.raises(Refusal) as caught:
            planning.check_target(options, attaching)
        assert str(caught.value).startswith(told)


@pytest.mark.parametrize("chdir", [None, "", "sub", "a/b", "/data/../x", ".", "a..b"])
def test_working_folders(chdir):
    assert planning.check_chdir(chdir) == chdir


@pytest.mark.parametrize("chdir", ["..", "../x", "a/../../b"])
def test_working_folders_that_lead_out(chdir):
    with pytest.raises(Refusal, match="leads out of the shipped folder"):
        planning.check_chdir(chdir)


OPTIONS = {
    "script": "sub/train.py", "nproc_per_node": 2, "master_port": 29500, "max_restarts": 1, "join_timeout": 60.0,
    "stop_grace": 30.0, "force": False, "wait": True, "follow": "head", "script_args": ["--x"],
}  # fmt: skip
SHIPPED = {
    "script": "sub/train.py", "code": "/tmp/code.tar", "code_sha256": "aa", "code_bytes": 10, "root": "/home/a",
    "files": 3, "origin": {"commit": None, "changed": None},
}  # fmt: skip


def plan(**changes):
    return planning.make(dict(OPTIONS, **changes), nodes("10.0.0.1", "10.0.0.2"), SHIPPED, "alice@laptop", NOON)


def test_the_plan():
    found = plan()
    kept = {name: value for name, value in found.items() if name not in ("run_id", "key", "job")}
    assert kept == {
        "nodes": nodes("10.0.0.1", "10.0.0.2"), "master_port": 29500, "control_port": 29501, "script": "sub/train.py",
        "module": None, "args": ["--x"], "chdir": None, "max_restarts": 1, "join_timeout": 60.0, "stop_grace": 30.0,
        "force": False, "wait": True, "follow": "head", "overrides": {}, "shipped": SHIPPED,
        "launched_by": "alice@laptop", "attach": False, "python_env": None,
    }  # fmt: skip
    assert found["job"].startswith("train-20261201-") and json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("pythons", "told"),
    [
        ({"n1": "/opt/x/bin/python", "n2": None}, "muster_python (/opt/x/bin/python on n1), expected one of them"),
        ({"n1": None, "n2": "/p", "n3": "/p"}, "muster_python (/p on n2 and 1 more), expected"),
    ],
)
def test_an_environment_and_a_python_are_too_much(pythons, told):
    planning.check_environment("exp", dict.fromkeys(pythons))
    planning.check_environment("exp", dict.fromkeys(pythons, ""))
    with pytest.raises(Refusal) as caught:
        planning.check_environment("exp", pythons)
    assert str(caught.value).startswith("found both python_env=exp and " + told)


def test_every_start_has_a_key_and_an_id_of_its_own():
    one, two = plan(), plan()
    assert len(one["key"]) == 64 and len(one["run_id"]) == 12
    assert one["key"] != two["key"] and one["run_id"] != two["run_id"]


def test_a_given_name_is_kept():
    assert plan(job="exp7")["job"] == "exp7"


def test_a_plan_checks_addresses_and_folder():
    with pytest.raises(Refusal, match="both have the address"):
        planning.make(OPTIONS, nodes("10.0.0.1", "10.0.0.1"), SHIPPED, "alice@laptop")
    with pytest.raises(Refusal, match="leads out"):
        plan(chdir="../x")


def test_the_specification_of_a_node(make_spec):
    made = plan(job="exp7")
    found = planning.specification(made, "n1", {"nproc_per_node": 4, "env": {"A": "1"}}, "/p", "/s", None)
    assert set(found) == set(make_spec())
    assert (found["node_rank"], found["nproc_per_node"], found["env"], found["python"], found["state_dir"]) == (
        1, 4, {"A": "1"}, "/p", "/s",
    )  # fmt: skip
    assert found["code_sha256"] == "aa" and found["key"] == made["key"] and found["control_port"] == 29501
    first = planning.specification(made, "n0", {"nproc_per_node": 4, "env": {}}, "/p", "/s", "10.1.0.0/16")
    assert first["node_rank"] == 0 and first["data_network"] == "10.1.0.0/16"


def test_the_record_holds_no_secrets():
    made = plan(job="exp7")
    made["overrides"] = {"env": {"TOKEN": "hunter2", "A": "1"}, "nproc_per_node": 2}
    text = json.dumps(planning.public(made))
    assert made["key"] not in text and "hunter2" not in text and "/tmp/code.tar" not in text
    found = json.loads(text)
    assert found["env_names"] == ["A", "TOKEN"] and found["shipped"]["code_sha256"] == "aa" and found["run_id"]
    assert "key" in made and "code" in made["shipped"]  # the plan itself is left alone


def test_a_world_of_nobody_is_refused():
    with pytest.raises(Refusal):
        planning.participants(GROUP, GROUP, [], True)


def test_loopback_and_other_addresses_do_not_mix():
    with pytest.raises(Refusal):
        planning.check_addresses(nodes("127.0.1.1", "10.0.0.2"))


def test_one_address_written_in_two_ways():
    with pytest.raises(Refusal):
        planning.check_addresses(nodes("fd00::1", "fd00:0::1"))


@pytest.mark.parametrize(
    ("playbook", "inventories", "again", "stop"),
    [
        ("launch.yml", [], "ansible-playbook launch.yml -e job=x", "ansible-playbook playbooks/stop.yml -e job=x"),
        ("../m/launch.yml", [], "ansible-playbook ../m/launch.yml -e job=x", "ansible-playbook ../m/playbooks/stop.yml -e job=x"),
        ("playbooks/launch.yml", ["inventory/lab"], "ansible-playbook -i inventory/lab playbooks/launch.yml -e job=x",
         "ansible-playbook -i inventory/lab playbooks/stop.yml -e job=x"),
        ("muster.cluster.launch", ["my hosts"], "ansible-playbook -i 'my hosts' muster.cluster.launch -e job=x",
         "ansible-playbook -i 'my hosts' muster.cluster.stop -e job=x"),
    ],
)  # fmt: skip
def test_the_way_back_is_what_this_user_would_type(playbook, inventories, again, stop):
    lines = planning.hints("x", playbook, inventories)
    assert lines[1:] == ["  come back: " + again, "  stop it:   " + stop]
