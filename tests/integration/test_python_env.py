"""The modules python_lock and python_env on real prefixes: uv is real, the wheels are made here, no network is used."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from one_node import UV, Node, end, result, sentence, wait_for

# ---------------------------------------------------------------------------------------------- a lock, installed


def test_first_environment_and_then_no_change(node: Node) -> None:
    assert node.look()["state"] == "none"
    solved = node.solve("probe==1.0")
    lock = solved["lock"]
    assert not solved["changed"] and solved["source"] == "solved"
    assert solved["packages"] == {"probe": "1.0", "probe-base": "1.5"}
    assert all(entry["size"] and len(entry["sha256"]) == 64 for entry in lock["wheels"])

    first = node.install(lock)
    assert first["changed"] and not first["current"] and first["reasons"] == ["it is not there yet"]
    assert first["packages"] == {"probe": "1.0", "probe-base": "1.5"}
    assert first["added"] == ["probe-base==1.5", "probe==1.0"] and first["removed"] == []
    assert first["python_version"] == lock["python"] == "%d.%d.%d" % sys.version_info[:3]
    assert first["diff"]["before"] == "" and first["diff"]["after"] == "probe-base==1.5\nprobe==1.0\n"
    assert node.version() == "1.0" and node.litter() == []
    assert os.readlink(node.prefix) == ".versions/e/" + solved["lock_id"]
    assert stat.S_IMODE(node.prefix.stat().st_mode) == 0o755
    muster = node.versions / solved["lock_id"] / ".muster"
    assert json.loads((muster / "lock.json").read_text()) == lock
    assert "      - probe==1.0\n" in (muster / "environment.yml").read_text()

    # Nothing to do needs no uv at all, so neither solver nor network.
    second = node.install(lock, uv="/does/not/exist")
    assert not second["changed"] and second["current"] and second["fingerprint"] == first["fingerprint"]
    seen = node.look(uv="/does/not/exist")
    assert seen["state"] == "whole" and not seen["uv_found"] and seen["fingerprint"] == first["fingerprint"]
    assert seen["lock_id"] == solved["lock_id"] and seen["asked"] == "asked for probe==1.0"
    again = node.solve("probe==1.0", uv="/does/not/exist")
    assert again["source"] == "installed" and again["lock"] == lock


def test_other_words_for_the_same_packages_change_nothing_but_the_stamp(made: Node) -> None:
    looser = made.lock("probe>=1.0")  # versions that still satisfy are kept
    answer = made.install(looser)
    assert not answer["changed"] and answer["packages"]["probe"] == "1.0"
    assert made.look()["asked"] == "asked for probe>=1.0"
    assert made.solve("probe>=1.0", update=True)["packages"]["probe"] == "2.0"


def test_a_new_version_beside_the_old_one_which_a_process_uses(made: Node) -> None:
    old = made.look()["real"]
    running = subprocess.Popen([old + "/bin/python", "-I", "-c", "input()\nimport probe; print(probe.version)"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        answer = made.run("probe==2.0\nextra", keep=0)
        assert answer["changed"] and answer["reasons"] == ["another lock is wanted"]
        assert answer["added"] == ["extra==3.0", "probe==2.0"] and answer["removed"] == ["probe==1.0"]
        assert made.version() == "2.0" and len(made.ids()) == 2
        assert running.communicate("\n", timeout=20)[0] == "1.0\n"
    finally:
        running.kill()
        running.communicate()
    made.run("extra", keep=0)
    assert len(made.ids()) == 1 and not Path(old).exists() and made.litter() == []


def test_rollback_and_keep(made: Node) -> None:
    ids = [made.look()["lock_id"]]
    for text in ("probe==2.0", "extra", "probe==2.0\nextra"):
        ids.append(made.run(text)["lock_id"])
    assert made.ids() == [ids[3], ids[2], ids[1]]  # two old ones are kept
    back = {"state": "rolled_back"}
    foretold = result(made.start("python_env", True, **back))
    assert foretold["changed"] and foretold["lock_id"] == ids[2] and made.look()["lock_id"] == ids[3]
    answer = result(made.start("python_env", **back))
    assert answer["changed"] and answer["lock_id"] == ids[2] and answer["removed"] == ["probe-base==1.5", "probe==2.0"]
    assert result(made.start("python_env", **back))["lock_id"] == ids[1] and made.version() == "2.0"
    assert "no version older than the present one" in sentence(result(made.start("python_env", **back)))
    assert not result(made.start("python_env", to=ids[1], **back))["changed"]
    assert result(made.start("python_env", to=ids[3][:6], **back))["lock_id"] == ids[3]
    assert "no version abc" in sentence(result(made.start("python_env", to="abc", **back)))
    # What was gone back from is installed again without uv.
    result(made.start("python_env", **back))
    assert made.install(made.lock("probe==2.0\nextra"), uv="/does/not/exist")["changed"]


def test_check_mode_predicts_and_changes_nothing(node: Node) -> None:
    lock = node.lock()
    answer = node.install(lock, check=True)
    assert answer["changed"] and answer["added"] == ["probe-base==1.5", "probe==1.0"]
    assert answer["packages"] == {"probe": "1.0", "probe-base": "1.5"} and not node.prefix.parent.exists()
    # No uv yet: what is asked for is all that is known.
    unknown = node.solve("probe", check=True, uv="/does/not/exist")
    assert unknown["lock"] is None and "uv (/does/not/exist) is not there" in unknown["unknown"]
    unknown = node.solve("probe", check=True, index_url="http://127.0.0.1:9/simple")
    assert unknown["lock"] is None and "http://127.0.0.1:9/simple" in unknown["unknown"]
    assert "no version of probe==7" in sentence(node.solve("probe==7", check=True))
    answer = node.install(None, check=True, lines=["probe"])
    assert answer["changed"] and answer["added"] == ["probe"]
    assert "found no lock" in sentence(node.install(None))

    node.install(lock)
    before = node.look()
    answer = node.install(node.lock("probe==2.0"), check=True)
    assert answer["changed"] and answer["added"] == ["probe==2.0"] and answer["removed"] == ["probe==1.0"]
    assert answer["diff"]["before"] == "probe-base==1.5\nprobe==1.0\n"
    assert node.look() == before and node.litter() == []


def test_absent(made: Node) -> None:
    gone = {"state": "absent"}
    assert result(made.start("python_env", True, **gone))["removed"] == ["probe-base==1.5", "probe==1.0"]
    assert made.prefix.exists()
    assert result(made.start("python_env", **gone))["changed"]
    assert os.listdir(made.prefix.parent) == []
    assert not result(made.start("python_env", **gone))["changed"]


def test_a_prefix_with_spaces_and_a_comma(node: Node, tmp_path: Path) -> None:
    prefix = tmp_path / "my envs, all" / "the env"
    answer = node.run(prefix=str(prefix), cache_dir=str(tmp_path / "a cache, too"))
    assert answer["changed"] and node.version(python=prefix / "bin/python") == "1.0"


def test_an_environment_of_an_earlier_muster_is_replaced(node: Node) -> None:
    (node.prefix / "bin").mkdir(parents=True)
    (node.prefix / ".muster-env.json").write_text("{}")
    assert node.look()["state"] == "old"
    assert node.install(node.lock(), check=True)["reasons"] == ["it is of an earlier Muster"]
    assert node.run()["changed"] and node.version() == "1.0" and node.litter() == []


# ---------------------------------------------------------------------------------------------- drift


def site(node: Node) -> Path:
    """The site-packages of a prefix."""
    return next((node.prefix / "lib").glob("python3.*/site-packages"))


def remove_package(node: Node) -> None:
    command = [UV, "pip", "uninstall", "-q", "-p", node.prefix / "bin/python", "probe-base"]
    subprocess.run(command, env=node.environ, timeout=30, check=True)


def change_package(node: Node) -> None:
    links = (node.home / "pip.conf").read_text().split()[3]
    command = [UV, "pip", "install", "-q", "-p", node.prefix / "bin/python", "probe==2.0"]
    subprocess.run(command, env={**node.environ, "UV_FIND_LINKS": links, "UV_OFFLINE": "1"}, timeout=30, check=True)


def remove_module(node: Node) -> None:
    (site(node) / "probe.py").unlink()


def break_python(node: Node) -> None:
    (node.prefix / "bin/python").unlink()
    (node.prefix / "bin/python").symlink_to("/does/not/exist")


def remove_libraries(node: Node) -> None:
    shutil.rmtree(node.prefix / "lib")


def remove_stamp(node: Node) -> None:
    (node.prefix / ".muster/stamp.json").unlink()


def remove_version(node: Node) -> None:
    shutil.rmtree(node.prefix.resolve())


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (remove_package, "probe-base 1.5 is gone"),
        (change_package, "probe is 2.0 instead of 1.0"),
        (remove_module, "probe.py is gone from site-packages"),
        (break_python, "its Python does not start"),
        (remove_libraries, "probe 1.0 is gone"),
        (remove_stamp, "its stamp is lost"),
        (remove_version, "its folder is gone"),
    ],
)
def test_what_somebody_changed_by_hand_is_found_and_mended(made: Node, damage: Any, reason: str) -> None:
    lock = made.lock()
    damage(made)
    seen = made.look()
    assert seen["state"] == "drifted" and reason in seen["reasons"]
    answer = made.install(lock)
    assert answer["changed"] and reason in answer["reasons"], answer
    assert made.version() == "1.0" and made.litter() == [] and len(made.ids()) == 1
    assert made.install(lock, uv="/does/not/exist")["current"]


# ---------------------------------------------------------------------------------------------- killed, and two at once


def test_killed_midway_the_old_one_works_and_the_next_run_finishes(made: Node) -> None:
    lock = made.lock("probe==2.0")
    process = made.begin(lock, uv=made.slow_uv(60))
    uv_pid = int(wait_for(made.home / "uv.pid"))
    end(process)
    assert made.version() == "1.0" and made.litter()
    # Its uv goes with it, at once.
    deadline = time.monotonic() + 5
    while Path("/proc/%d" % uv_pid).exists() and time.monotonic() < deadline:
        time.sleep(0.05)  # it is no child of ours to be waited for
    assert not Path("/proc/%d" % uv_pid).exists()
    answer = made.install(lock)
    assert answer["changed"] and made.version() == "2.0" and made.litter() == []


def test_a_run_that_changes_nothing_tidies_up_after_a_killed_one(made: Node) -> None:
    lock = made.lock()
    (made.versions / "work-99999999").mkdir()
    (made.versions / "0123456789ab/bin").mkdir(parents=True)
    (made.prefix.parent / "e.new-99999999").symlink_to(".versions/e/0123456789ab")
    (made.prefix.parent / ".e.lock").write_text("process 99999999 of nobody\n")
    assert not made.install(lock, check=True)["changed"] and len(made.litter()) == 4
    assert not made.install(lock, uv="/does/not/exist")["changed"] and made.litter() == []


def test_two_at_once_make_it_once_and_the_second_says_for_whom_it_waited(node: Node) -> None:
    lock, uv = node.lock(), node.slow_uv(1)
    processes = [node.begin(lock, uv=uv), node.begin(lock, uv=uv)]
    answers = sorted(map(result, processes), key=lambda answer: answer["changed"])
    assert [answer["changed"] for answer in answers] == [False, True], answers
    assert answers[0]["fingerprint"] == answers[1]["fingerprint"]
    pids = [process.pid for process in processes]
    assert any(answers[0]["waited_for"].startswith("process %d of " % pid) for pid in pids) and not answers[1]["waited_for"]
    assert node.litter() == []


def test_waiting_ends_with_the_holder_named(node: Node) -> None:
    lock = node.lock()
    first = node.begin(lock, uv=node.slow_uv(4))
    wait_for(node.home / "uv.pid")
    told = sentence(node.install(lock, lock_timeout=1))
    assert "being changed by process %d of " % first.pid in told and "python_env_lock_timeout" in told
    assert result(first)["changed"]


@pytest.mark.parametrize("moment", [0.0, 0.15, 0.3, 0.5, 0.8])
def test_killed_at_any_moment(node: Node, moment: float) -> None:
    lock = node.lock()
    process = node.begin(lock)
    time.sleep(0.3 + moment)  # any moment has to do
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    node.install(lock)
    assert node.version() == "1.0" and node.litter() == [] and node.look()["state"] == "whole"


# ---------------------------------------------------------------------------------------------- what a version shares


def test_no_file_of_a_version_is_one_of_a_cache_and_every_wheel_is_checked_anew(made: Node) -> None:
    module = site(made) / "probe_base.py"
    assert module.stat().st_nlink == 1
    with module.open("r+") as stream:
        stream.write("version = 'poisoned'\n")
    made.run("probe==2.0")
    assert made.version("probe_base") == "1.5" and made.version() == "2.0"
    assert all(path.stat().st_nlink == 1 for path in site(made).rglob("*") if path.is_file())


def test_built_now_and_switched_to_later(made: Node) -> None:
    before = made.look()
    lock = made.lock("probe==2.0")
    built = made.install(lock, switch=False, keep=0)
    assert built["changed"] and built["built"] and not built["current"] and built["packages"]["probe"] == "2.0"
    assert built["real"] != before["real"] and made.look()["real"] == before["real"] and made.version() == "1.0"
    again = made.install(lock, switch=False, uv="/does/not/exist")
    assert again["built"] and not again["changed"] and not again["current"]
    switched = made.install(lock, keep=0, uv="/does/not/exist", verify="import")
    assert switched["changed"] and not switched["built"] and switched["real"] == built["real"]
    assert made.version() == "2.0" and len(made.ids()) == 1
    assert not made.install(lock, switch=False)["built"]


def test_absent_refuses_what_a_process_uses(made: Node) -> None:
    running = subprocess.Popen([made.look()["real"] + "/bin/python", "-I", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        said = sentence(result(made.start("python_env", state="absent")))
        assert "in use by pid %d" % running.pid in said and "expected nobody; stop it" in said
        assert made.version() == "1.0"
    finally:
        running.kill()
        running.communicate()
    assert result(made.start("python_env", state="absent"))["changed"]


def test_what_was_left_is_told_and_put_right(made: Node) -> None:
    lock = made.lock()
    assert made.look()["left"] == []
    (made.prefix.parent / ".e.lock").write_text("process 1 of nobody")
    (made.versions / "work-1").mkdir()
    left = made.look()
    assert left["state"] == "whole" and len(left["left"]) == 2 and "work-1 is not finished" in left["left"][0]
    assert not made.install(lock)["changed"] and made.look()["left"] == [] and made.litter() == []
