"""Who solves, who installs, for which platform, and what keeps one environment from fitting all hosts."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import locks
from ansible_collections.muster.cluster.plugins.plugin_utils import environments, python_envs, python_platform

FACTS = {"arch": "x86_64", "glibc": "2.36", "gpu": False, "cuda": "", "python": "3.11.2", "python_path": "/usr/bin/python3",
         "tool_python": "/usr/bin/python3"}  # fmt: skip
WHEELS = dict(environments.NOTHING, kind="requirements", pip=["torch==2.13.0", "numpy"])
CONDA = dict(environments.NOTHING, kind="environment", channels=["conda-forge"], conda=["python 3.11.*"], pip=["torch"])
SETTINGS = {"torch_backend": "auto", "python": ""}
LOCK = {
    "format": 1, "platform": "linux-64", "python": "3.11.2", "glibc": "2.36", "cuda": None, "torch_backend": "cpu", "asked": "ab",
    "channels": [], "conda": [],
    "wheels": [{"name": "six", "version": "1.17", "url": "https://h/s.whl", "file_name": "s.whl", "sha256": "a" * 64, "size": 1}],
}  # fmt: skip
GPU = {"gpu": True, "cuda": "12.8"}


def given(**changes):
    """The specification that is a lock, with changes to the lock."""
    return dict(environments.NOTHING, kind="lock", lock=dict(LOCK, **changes))


def asked_of(spec, settings=SETTINGS, kind="cpu"):
    return environments.asked(spec, dict(settings, gpu=kind if settings["torch_backend"] == "auto" else ""))


def looks(spec=WHEELS, names=("n1", "n2", "n3"), settings=SETTINGS, kind="cpu", **changes):
    """What hosts tell that are as wanted; ``n2={"state": "none"}`` changes one, keys of facts too."""
    found = {}
    for name in names:
        change = changes.get(name, {})
        facts = {key: value for key, value in change.items() if key in FACTS or key == "place"}
        base = {"state": "whole", "asked": asked_of(spec, settings, kind), "lock_id": "aaaaaaaaaaaa", "reasons": [],
                "torch_backend": "cu128" if kind == "gpu" else "cpu"}  # fmt: skip
        if change.get("state") in ("none", "foreign"):
            base.update(asked="", lock_id="", torch_backend="")
        own = {key: value for key, value in change.items() if key not in facts}
        found[name] = dict(base, **own, facts=dict(FACTS, **facts))
    return found


def decide(found, spec=WHEELS, head="n1", settings=SETTINGS, **more):
    return python_envs.decide(found, dict(more, spec=spec, settings=settings), head)


NONE = {"state": "none"}


def test_hosts_that_are_as_wanted_need_nothing():
    plan = decide(looks())
    assert plan == {
        "faults": [], "notes": [], "asked": asked_of(WHEELS), "torch_backend": "auto", "current": ["n1", "n2", "n3"],
        "install": [], "same": {}, "head": "n1", "head_seen": True, "solve": False, "conda": False, "reasons": {}, "spec": WHEELS,
        "platform": {"subdir": "linux-64", "glibc": "2.36", "own_glibc": "2.36", "gpu": False, "cuda": ""},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "more", "solve", "install"),
    [
        # nothing is there yet, or on some only: what the head has is handed out
        ({"n1": NONE, "n2": NONE, "n3": NONE}, {}, True, ["n1", "n2", "n3"]),
        ({"n3": NONE}, {}, False, ["n3"]),
        ({"n2": {"lock_id": "bbbbbbbbbbbb"}}, {}, False, ["n2"]),
        ({"n2": {"asked": "older"}}, {}, False, ["n2"]),
        # a run was killed after it had switched
        ({"n2": {"left": ["conda does not know it"]}}, {}, False, ["n2"]),
        # the head itself has to be made: the others follow, since its lock is not known yet
        ({"n1": NONE}, {}, True, ["n1", "n2", "n3"]),
        ({"n1": {"asked": "older"}}, {}, True, ["n1", "n2", "n3"]),
        ({"n1": {"state": "old", "asked": "", "lock_id": ""}}, {}, True, ["n1", "n2", "n3"]),
        # what somebody has changed is repaired from the head's lock
        ({"n2": {"state": "drifted", "reasons": ["numpy is 1 instead of 2"]}}, {}, False, ["n2"]),
        ({"n1": {"state": "drifted", "reasons": ["numpy is 1 instead of 2"]}}, {}, False, ["n1"]),
        ({"n1": {"state": "drifted", "reasons": ["its lock is lost"]}}, {}, True, ["n1", "n2", "n3"]),
        ({"n1": {"state": "drifted", "reasons": ["its stamp is lost"], "asked": "", "lock_id": ""}}, {}, True,
         ["n1", "n2", "n3"]),
        # asked to
        ({}, {"update": True}, True, ["n1", "n2", "n3"]),
        # only some may act
        ({"n2": NONE, "n3": NONE}, {"hosts": ["n3"]}, False, ["n3"]),
        ({"n2": NONE}, {"hosts": ["n3"]}, False, []),
    ],
)  # fmt: skip
def test_who_solves_and_who_installs(changes, more, solve, install):
    plan = decide(looks(**changes), **more)
    assert (plan["faults"], plan["solve"], plan["install"]) == ([], solve, install)
    assert set(plan["current"]) == set(more.get("hosts", ["n1", "n2", "n3"])) - set(install)


def test_something_else_is_asked_for():
    plan = decide(looks(), spec=dict(WHEELS, pip=["numpy"]))
    assert plan["solve"] and plan["install"] == ["n1", "n2", "n3"]
    assert plan["reasons"] == {name: ["something else is asked for"] for name in ("n1", "n2", "n3")}
    assert decide(looks(), settings=dict(SETTINGS, torch_backend="cpu"))["solve"]


def test_a_run_without_the_head():
    found = looks(names=("n2", "n3"))
    assert decide(found)["install"] == [] and decide(found)["head_seen"] is False
    found = looks(names=("n2", "n3", "n4"), n3={"lock_id": "bbbbbbbbbbbb"}, n4={"lock_id": "bbbbbbbbbbbb"})
    assert decide(found)["install"] == ["n2"]
    plan = decide(looks(names=("n3",), n3=NONE))
    assert (plan["solve"], plan["head"], plan["install"]) == (True, "n1", ["n3"])
    assert len(plan["faults"]) == 1 and plan["faults"][0].startswith("found n1 left out of this run, expected it")
    # The head has looked without being one of those that act: its lock is handed out, and nothing is solved for a part.
    plan = decide(looks(n3=NONE), hosts=["n3"])
    assert (plan["solve"], plan["install"], plan["faults"]) == (False, ["n3"], [])
    assert decide(looks(), spec=dict(WHEELS, pip=["numpy"]), hosts=["n3"])["faults"]


def test_a_lock_is_installed_where_it_is_not():
    spec = given()
    own = locks.lock_id(spec["lock"])
    same = {"asked": asked_of(spec), "lock_id": own}
    plan = decide(looks(spec, n1=same, n2=dict(same, lock_id="bbbbbbbbbbbb"), n3=NONE), spec)
    assert (plan["faults"], plan["solve"], plan["install"], plan["conda"]) == ([], False, ["n2", "n3"], False)


def test_what_somebody_has_changed_is_named():
    why = ["p{} is 1 instead of 2".format(number) for number in range(7)]
    plan = decide(looks(n2={"state": "drifted", "reasons": why}, n3={"state": "drifted", "reasons": ["six 1 is gone"]}))
    assert plan["notes"] == [
        "n2 is not as it was installed, and is repaired: p0 is 1 instead of 2, p1 is 1 instead of 2, p2 is 1 instead of 2, "
        "p3 is 1 instead of 2, p4 is 1 instead of 2 and 2 more",
        "n3 is not as it was installed, and is repaired: six 1 is gone",
    ]


def test_notes_of_the_specification_come_first():
    assert decide(looks(), dict(WHEELS, notes=["a note"]))["notes"] == ["a note"]


def test_hosts_that_are_one_machine_share_a_prefix():
    same = dict(NONE, place="boot:1:2")
    plan = decide(looks(n1=same, n2=same, n3=dict(NONE, place="boot:1:3")))
    assert (plan["install"], plan["same"], plan["current"]) == (["n1", "n3"], {"n2": "n1"}, [])
    plan = decide(looks(n1=same, n2=dict(same, **{"state": "whole"}), n3=NONE))
    assert plan["install"] == ["n1", "n3"]


ALL = {"n1": NONE, "n2": NONE, "n3": NONE}


def every(**change):
    """The same change for all hosts, on which nothing is there yet."""
    return {name: dict(NONE, **change) for name in ("n1", "n2", "n3")}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (every(glibc="2.36"), {"glibc": "2.36", "own_glibc": "2.36"}),
        (dict(every(), n2=dict(NONE, glibc="2.9"), n3=dict(NONE, glibc="2.41")), {"glibc": "2.9", "own_glibc": "2.36"}),
        (every(arch="aarch64"), {"subdir": "linux-aarch64"}),
        (every(**GPU), {"gpu": True, "cuda": "12.8"}),
        (dict(every(**GPU), n3=dict(NONE, gpu=True, cuda="12.4")), {"gpu": True, "cuda": "12.4"}),
        (dict(every(**GPU), n3=dict(NONE, gpu=True, cuda="")), {"gpu": True, "cuda": "12.8"}),
    ],
)
def test_the_common_platform(changes, expected):
    plan = decide(looks(**changes))
    assert {key: plan["platform"][key] for key in expected} == expected and plan["faults"] == []


@pytest.mark.parametrize(
    ("changes", "backend", "expected"),
    [
        (every(), "auto", "auto"),
        (every(**GPU), "auto", "auto"),
        (every(), "cu126", "cu126"),
        (every(), "none", "none"),
        (every(), "", "auto"),
        # the head's driver is newer than another's
        (dict(every(gpu=True, cuda="13.0"), n3=dict(NONE, **GPU)), "auto", "cu126"),
        (dict(every(gpu=True, cuda="12.9"), n3=dict(NONE, **GPU)), "auto", "auto"),
        (dict(every(gpu=True, cuda="12.2"), n3=dict(NONE, gpu=True, cuda="13.0")), "auto", "auto"),
        (dict(every(gpu=True, cuda="12.2"), n3=dict(NONE, gpu=True, cuda="11.8")), "auto", "cu118"),
    ],
)
def test_the_build_of_torch_is_decided_once(changes, backend, expected):
    plan = decide(looks(**changes), settings={"torch_backend": backend})
    assert (plan["faults"], plan["torch_backend"]) == ([], expected)


NO_GPU_HERE = "set python_env_torch_backend to cpu for all, or take {} out of the group"


@pytest.mark.parametrize(
    ("changes", "settings", "spec", "expected"),
    [
        (dict(every(), n3=dict(NONE, arch="aarch64")), {}, WHEELS,
         ["n3: found aarch64, expected x86_64 as on n1 and n2; give hosts of another architecture a cluster of their own"]),
        (dict(every(), n2=dict(NONE, glibc="")), {}, WHEELS,
         ["n2: found no glibc, expected it, since packages are built for it; install a Debian or Red Hat there, or take it out "
          "of the group"]),
        (dict(every(**GPU), n3=NONE), {}, WHEELS,
         ["n3: found no NVIDIA GPU, expected one as on n1 and n2; " + NO_GPU_HERE.format("it")]),
        (dict(every(), n2=dict(NONE, **GPU)), {}, WHEELS,
         ["n1 and n3: found no NVIDIA GPU, expected one as on n2; " + NO_GPU_HERE.format("them")]),
        (dict(every(), n2=dict(NONE, **GPU)), {"torch_backend": "none"}, WHEELS, []),
        (dict(every(), n3=dict(NONE, python="3.13.5")), {}, WHEELS,
         ["n3: found Python 3.13.5, expected 3.11.2 as on n1 and n2; name one that all have by python_env_python, or use an "
          "environment.yml with a python line"]),
        (dict(every(), n1=dict(NONE, python="3.13.5")), {}, WHEELS,
         ["n2 and n3: found Python 3.11.2, expected 3.13.5 as on n1; name one that all have by python_env_python, or use an "
          "environment.yml with a python line"]),
        (dict(every(), n3=dict(NONE, python="3.13.5")), {}, CONDA, []),
        (dict(every(), n3=dict(NONE, python="")), {"python": "3.12"}, WHEELS,
         ["n3: found no Python 3.12, expected one to make the environment of; install it there, or set python_env_python to one "
          "that all hosts have"]),
        (every(python=""), {}, WHEELS,
         ["n1, n2 and n3: found no Python, expected one to make the environment of; install it there, or set python_env_python "
          "to one that all hosts have"]),
        (dict(every(), n2=dict(NONE, tool_python="")), {}, CONDA,
         ["n2: found no Python 3.10 or later, expected one for the tools that install conda packages; install one there, such as "
          "python3.11, and name it in python_env_tool_python"]),
        (dict(every(), n2=dict(NONE, tool_python="")), {}, WHEELS, []),
        (dict(every(**GPU), n3=dict(NONE, **GPU)), {}, dict(WHEELS, pip=["torch==2.13.0+cpu"]),
         ["the specification asks for torch 2.13.0+cpu, a build without CUDA, but n1, n2 and n3 have each an NVIDIA GPU; write "
          "torch==2.13.0, or set python_env_torch_backend to cpu"]),
        (every(), {}, dict(WHEELS, pip=["torch==2.13.0+cu128"]),
         ["the specification asks for torch 2.13.0+cu128, but no host has an NVIDIA GPU; write torch==2.13.0, or set "
          "python_env_torch_backend to cu128"]),
        (every(**GPU), {}, dict(CONDA, conda=["python", "cpuonly"]),
         ["the specification asks for cpuonly, torch without CUDA, but n1, n2 and n3 have each an NVIDIA GPU; remove it, or set "
          "python_env_torch_backend to cpu"]),
        (dict(every(**GPU), n2=dict(NONE, gpu=True, cuda="12.4")), {"torch_backend": "cu130"}, WHEELS,
         ["n1 and n3: found a driver for CUDA 12.8 at most, expected 13.0 for cu130; update it there, or set "
          "python_env_torch_backend to cu126",
          "n2: found a driver for CUDA 12.4 at most, expected 13.0 for cu130; update it there, or set python_env_torch_backend "
          "to cu126"]),
        (dict(every(**GPU), n2=dict(NONE, gpu=True, cuda="12.4")), {"torch_backend": "cu128"}, WHEELS, []),
        (dict(every(), n2={"state": "foreign", "reasons": []}), {}, WHEELS,
         ["n2: found something at /envs/a that Muster has not made, expected nothing there; move it away, or set "
          "python_env_prefix"]),
    ],
)  # fmt: skip
def test_what_keeps_one_environment_from_fitting_all(changes, settings, spec, expected):
    settings = dict(SETTINGS, **settings)
    assert decide(looks(spec, **changes), spec, settings=settings, prefix="/envs/a")["faults"] == expected


@pytest.mark.parametrize(
    ("lock", "changes", "settings", "expected"),
    [
        ({}, every(), {}, []),
        ({"platform": "linux-aarch64"}, every(), {},
         ["the lock is for linux-aarch64, expected linux-64, which the hosts are; solve anew from its specification"]),
        ({}, dict(every(), n3=dict(NONE, glibc="2.31")), {},
         ["n3: found glibc 2.31, expected 2.36 or later, for which the lock was made; solve anew from its specification"]),
        ({}, every(glibc="2.41"), {}, []),
        ({"cuda": "12.8", "torch_backend": "cu128"}, every(), {},
         ["n1, n2 and n3: found no NVIDIA GPU, expected one for CUDA 12.8, for which the lock was made; solve anew from its "
          "specification"]),
        ({"cuda": "12.8", "torch_backend": "cu128"}, dict(every(**GPU), n2=dict(NONE, gpu=True, cuda="12.4")), {},
         ["n2: found a driver for CUDA 12.4 at most, expected 12.8, for which the lock was made; update it there, or solve anew "
          "from its specification"]),
        ({}, every(**GPU), {},
         ["n1, n2 and n3: found an NVIDIA GPU, expected none, since torch in the lock is a build without CUDA; solve anew from "
          "its specification, or set python_env_torch_backend to cpu"]),
        ({}, every(**GPU), {"torch_backend": "cpu"}, []),
        ({"torch_backend": None}, every(**GPU), {}, []),
        ({"python": "3.12.1"}, dict(every(), n2=dict(NONE, python="3.12.1")), {},
         ["n1 and n3: found Python 3.11.2, expected 3.12.1 as in the lock; name that one by python_env_python, or solve anew "
          "from the lock's specification"]),
    ],
)  # fmt: skip
def test_locks_that_were_made_for_other_hosts(lock, changes, settings, expected):
    spec = given(**lock)
    assert decide(looks(spec, **changes), spec, settings=dict(SETTINGS, **settings))["faults"] == expected


def test_a_fault_of_hosts_that_need_nothing_ends_no_run():
    found = looks(n2={"python": "3.13.5"}, n3={"arch": "aarch64", "glibc": ""})
    assert decide(found)["faults"] == [] and decide(found)["install"] == []


def test_the_cpu_build_on_hosts_with_gpus_is_the_users_choice():
    plan = decide(looks(**every(**GPU)), settings={"torch_backend": "cpu"})
    assert plan["faults"] == []
    assert plan["notes"] == [
        "n1, n2 and n3 have each an NVIDIA GPU that torch will not use, since python_env_torch_backend is cpu"
    ]


def test_a_gpu_that_has_appeared_asks_for_another_build():
    found = looks(n1=GPU, n2=GPU, n3=GPU)
    plan = decide(found)
    assert plan["faults"] == [] and plan["solve"] and plan["install"] == ["n1", "n2", "n3"]


def test_another_driver_asks_for_nothing():
    assert decide(looks(kind="gpu", n1=GPU, n2=GPU, n3=dict(GPU, cuda="13.0")))["install"] == []


def test_a_gpu_that_has_gone_is_no_reason_to_touch_what_works():
    found = looks(kind="gpu", n1=GPU, n2=GPU, n3={"gpu": False, "torch_backend": "cu128"})
    plan = decide(found)
    assert (plan["faults"], plan["install"]) == ([], [])
    assert plan["notes"] == ["n3 shows no NVIDIA GPU now, though the environment was made for one"]
    found["n2"] = dict(found["n2"], state="none")
    assert decide(found)["faults"] == [
        "n3: found no NVIDIA GPU, expected one as when the environment was made; repair the driver there, or set "
        "python_env_torch_backend to cpu"
    ]


def test_a_cluster_of_one():
    plan = decide(looks(names=("n1",), n1=NONE))
    assert (plan["faults"], plan["solve"], plan["install"]) == ([], True, ["n1"])


@pytest.mark.parametrize(
    ("backend", "expected"), [("cu128", [12, 8]), ("cu92", [9, 2]), ("cpu", None), ("rocm6.4", None), ("auto", None), ("", None)]
)
def test_the_cuda_of_a_build(backend, expected):
    assert python_platform.build_cuda(backend) == expected


def test_the_filters(tmp_path):
    from ansible.errors import AnsibleFilterError
    from ansible_collections.muster.cluster.plugins.filter import python_env_drift, python_env_plan, python_env_spec

    path = tmp_path / "environment.yml"
    path.write_text("dependencies: [python=3.11]\n")
    read = python_env_spec.FilterModule().filters()["python_env_spec"]
    spec = read(str(path))
    assert spec["conda"] == ["python 3.11.*"]
    with pytest.raises(AnsibleFilterError, match="none.yml, which is not there, expected a file; correct the path"):
        read(str(tmp_path / "none.yml"))
    plan = python_env_plan.FilterModule().filters()["python_env_plan"](looks(spec, **ALL), {"spec": spec}, "n1")
    assert plan["conda"] and plan["solve"]
    own = python_env_plan.FilterModule().filters()["python_env_plan"](looks(spec, **ALL), {"file": str(path)}, "n1")
    assert own == dict(plan, spec=spec)
    wrong = python_env_plan.FilterModule().filters()["python_env_plan"](looks(spec, **ALL), {"file": str(tmp_path)}, "n1")
    assert wrong == {"faults": ["python_env_spec: found the folder {}, expected a file in it; name the file".format(tmp_path)]}
    told = python_env_drift.FilterModule().filters()["python_env_drift"](
        [{"name": "n1", "fingerprint": "a"}, {"name": "n2", "fingerprint": "b"}]
    )
    assert len(told) == 1 and told[0].startswith("the environment of n2 differs from that of n1")


@pytest.mark.parametrize(
    ("changes", "solve"),
    [
        ({"n1": {"lock_glibc": "2.36"}, "n3": NONE}, False),
        ({"n1": {"lock_glibc": "2.36"}, "n3": dict(NONE, glibc="2.28")}, True),
        ({"n1": {"lock_glibc": "2.9"}, "n3": dict(NONE, glibc="2.28")}, False),
        ({"n3": dict(NONE, glibc="2.28")}, False),  # the look does not tell
    ],
)
def test_a_host_with_an_older_c_library_joins(changes, solve):
    plan = decide(looks(**changes))
    assert (plan["solve"], plan["install"]) == (solve, ["n1", "n2", "n3"] if solve else ["n3"])


def test_a_host_with_an_older_driver_joins():
    found = {"n1": dict(GPU, lock_cuda="12.8"), "n2": GPU, "n3": dict(NONE, gpu=True, cuda="12.4")}
    plan = decide(looks(kind="gpu", **found))
    assert (plan["faults"], plan["solve"], plan["install"], plan["platform"]["cuda"]) == ([], True, ["n1", "n2", "n3"], "12.4")
    assert decide(looks(kind="gpu", **dict(found, n3=dict(NONE, **GPU))))["install"] == ["n3"]


def test_without_the_head_an_old_host_is_not_given_what_the_others_have():
    found = looks(names=("n2", "n3"), n2={"lock_glibc": "2.36"}, n3=dict(NONE, glibc="2.28"))
    assert decide(found)["faults"][0].startswith("found n1 left out of this run")


@pytest.mark.parametrize(
    ("second", "backend", "cuda"), [(GPU, "auto", "12.8"), (GPU, "cpu", ""), ({}, "auto", ""), ({}, "cu128", "")]
)
def test_the_driver_counts_where_all_have_one_and_it_is_used(second, backend, cuda):
    hosts = python_platform.Hosts({"n1": dict(FACTS, **GPU), "n2": dict(FACTS, **second)}, "n1")
    assert python_platform.common(hosts, "n1", backend)["cuda"] == cuda
    plan = decide(looks(n1=GPU, n2=second, n3=second), settings=dict(SETTINGS, torch_backend=backend))
    assert plan["platform"]["cuda"] == cuda
