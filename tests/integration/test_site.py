"""site.yml and the module python_env on real prefixes: uv is real, the wheels are made here, no network is used."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any, Callable

import pytest

REPO = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).parent / "uv"
STAMP = ".muster-env.json"


def results(run: Any, task: str) -> dict[str, dict[str, Any]]:
    """Each host's result of a task."""
    ends = [event["event_data"] for event in run.events if event["event"].startswith("runner_on_")]
    return {data["host"]: data["res"] for data in ends if data.get("task") == task and "res" in data}


def make_wheel(folder: Path, name: str, version: str, needs: tuple[str, ...] = (), body: str = "") -> None:
    """Write a pure Python wheel with one module that holds its version."""
    stem = "%s-%s" % (name.replace("-", "_"), version)
    meta = "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version)
    files = {
        "%s.py" % name.replace("-", "_"): body or "version = %r\n" % version,
        stem + ".dist-info/METADATA": meta + "".join("Requires-Dist: %s\n" % need for need in needs),
        stem + ".dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join("%s,,\n" % path for path in [*files, stem + ".dist-info/RECORD"])
    with zipfile.ZipFile(folder / (stem + "-py3-none-any.whl"), "w") as archive:
        for path, text in {**files, stem + ".dist-info/RECORD": record}.items():
            archive.writestr(path, text)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of wheels: probe 1 and 2, what they need, and an accelerated package that needs NVIDIA's libraries."""
    folder = tmp_path_factory.mktemp("wheels")
    make_wheel(folder, "probe", "1.0", ("probe-base>=1",))
    make_wheel(folder, "probe", "2.0", ("probe-base>=1",))
    make_wheel(folder, "probe-base", "1.5")
    make_wheel(folder, "extra", "3.0")
    make_wheel(folder, "fast", "1.0", ("nvidia-fake-cu13",))
    make_wheel(folder, "nvidia-fake-cu13", "13.0")
    make_wheel(folder, "torch", "9.0", ("nvidia-fake-cu13",), "raise SystemExit('the CUDA build')\n")
    make_wheel(folder, "torch", "9.0+cpu")
    make_wheel(folder, "torch", "8.0+cpu", (), "raise ImportError('libfake.so is missing')\n")
    return folder


class Node:
    """A machine to run the module on: this one, with settings and a cache of its own and no index.

    Args:
        home: its home, which holds the prefix too.
        wheels: the folder that pip's settings name.
    """

    def __init__(self, home: Path, wheels: Path, cache: Path) -> None:
        self.home = home
        self.prefix = home / "envs" / "e"
        (home / "pip.conf").write_text(
            "[global]\nfind-links = %s /does/not/exist\nno-index = true\nconstraint = /does/not/exist\n" % wheels
        )
        keep = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "UV_"))}
        self.environ = {
            **keep,
            "HOME": str(home),
            "PIP_CONFIG_FILE": str(home / "pip.conf"),
            "UV_CACHE_DIR": str(cache),
            "PYTHONPATH": str(REPO / "collections"),
        }

    def start(self, text: str | None = "probe==1.0", check: bool = False, **options: Any) -> subprocess.Popen:
        """Start the module, without waiting for it."""
        arguments = {
            "prefix": str(self.prefix),
            "uv": str(UV),
            "min_free_mb": 0,
            "_ansible_check_mode": check,
            "_ansible_diff": True,
            **options,
        }
        if text is not None:
            arguments["requirements_content"] = text
        return subprocess.Popen(
            [sys.executable, str(REPO / "library/python_env.py"), json.dumps({"ANSIBLE_MODULE_ARGS": arguments})],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, text: str | None = "probe==1.0", check: bool = False, **options: Any) -> dict[str, Any]:
        """Run the module and give its result."""
        return result(self.start(text, check, **options))

    def fail(self, text: str | None = "probe==1.0", **options: Any) -> str:
        """Run the module, which has to fail, and give its one sentence."""
        answer = self.run(text, **options)
        assert answer.get("failed"), answer
        assert "\n" not in answer["msg"]
        return answer["msg"]

    def slow_uv(self, seconds: float) -> str:
        """A uv that takes its time before it installs; it notes its process id while it does."""
        script = self.home / ("uv-%s" % seconds)
        script.write_text(
            '#!/bin/sh\ncase "$*" in\n  *--dry-run*) ;;\n  *"pip install"*) echo $$ > %s/uv.pid; sleep %s ;;\nesac\n'
            'exec %s "$@"\n' % (self.home, seconds, UV)
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return str(script)

    def litter(self) -> list[str]:
        """What lies beside the prefix."""
        return sorted(name for name in os.listdir(self.prefix.parent) if name != self.prefix.name)

    def version(self, name: str = "probe") -> str:
        """The version of a package, as the prefix's own Python sees it."""
        code = "import %s; print(%s.version)" % (name, name)
        done = subprocess.run(
            [self.prefix / "bin/python", "-I", "-c", code], capture_output=True, text=True, timeout=30, check=True
        )
        return done.stdout.strip()


def result(process: subprocess.Popen) -> dict[str, Any]:
    """What a module answered."""
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert out.strip(), err
    return json.loads(out)


def wait_for(path: Path, seconds: float = 20) -> str:
    """The text of a file, once there is some."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and path.read_text().strip():
            return path.read_text().strip()
        time.sleep(0.05)
    raise AssertionError("%s did not come within %d s" % (path, seconds))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One uv cache for all tests, on the disk that the prefixes are on."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def node(tmp_path: Path, wheels: Path, cache: Path) -> Node:
    """A machine without an environment."""
    return Node(tmp_path, wheels, cache)


@pytest.fixture
def made(node: Node) -> Node:
    """A machine whose environment holds probe 1.0 and probe-base 1.5."""
    assert node.run()["changed"]
    return node


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, wheels: Path, cache: Path) -> Node:
    """As `made`, for tests that must not change it."""
    machine = Node(tmp_path_factory.mktemp("kept"), wheels, cache)
    assert machine.run()["changed"]
    return machine


# ---------------------------------------------------------------------------------------------- make, keep, change


def test_first_run_makes_it_and_the_second_changes_nothing(node: Node) -> None:
    first = node.run()
    assert first["changed"] and not first["current"]
    assert first["packages"] == {"probe": "1.0", "probe-base": "1.5"}
    assert first["added"] == ["probe-base==1.5", "probe==1.0"] and first["removed"] == []
    assert first["python"] == str(node.prefix / "bin/python")
    assert first["python_version"] == "%d.%d.%d" % sys.version_info[:3]
    assert first["diff"]["after"] == "probe==1.0\nprobe-base==1.5\n"
    assert node.version() == "1.0"
    assert node.litter() == []
    assert stat.S_IMODE(node.prefix.stat().st_mode) == 0o755

    # Nothing to do needs no uv at all, so neither resolver nor network; other comments are no other requirements.
    second = node.run("# pinned\nprobe==1.0  # yes\n", uv="/does/not/exist")
    assert not second["changed"] and second["current"]
    assert second["fingerprint"] == first["fingerprint"]
    assert second["diff"]["before"] == second["diff"]["after"]


def test_changed_requirements_bring_exactly_what_they_name(made: Node) -> None:
    answer = made.run("probe==2.0\nextra")
    assert answer["changed"] and answer["reasons"] == ["the requirements have changed"]
    assert answer["added"] == ["extra==3.0", "probe==2.0"] and answer["removed"] == ["probe==1.0"]
    assert made.version() == "2.0"
    assert made.run("extra")["removed"] == ["probe-base==1.5", "probe==2.0"]
    assert made.litter() == []


def test_versions_that_still_satisfy_are_kept(made: Node) -> None:
    looser = made.run("probe>=1.0")
    assert not looser["changed"] and looser["packages"]["probe"] == "1.0"
    assert made.run("probe>=1.0", uv="/does/not/exist")["current"]


def test_check_mode_predicts_and_changes_nothing(node: Node) -> None:
    node.environ["UV_HTTP_RETRIES"] = "0"
    answer = node.run(check=True)
    assert answer["changed"] and answer["added"] == ["probe-base==1.5", "probe==1.0"]
    assert not node.prefix.parent.exists()
    # No uv yet: the requirements are all that is known.
    answer = node.run("probe\n# why\nextra\n", check=True, uv="/does/not/exist")
    assert answer["changed"] and answer["added"] == ["probe", "extra"] and answer["fingerprint"] == ""
    assert "warnings" not in answer
    answer = node.run("probe", check=True, index_url="http://127.0.0.1:9/simple")
    assert answer["changed"] and answer["added"] == ["probe"]
    assert "cannot be foretold, since the package index http://127.0.0.1:9/simple" in str(answer["warnings"])
    assert "no version of probe==7" in node.fail("probe==7", check=True)
    assert not node.prefix.parent.exists()

    node.run()
    before = (node.prefix / STAMP).read_text()
    answer = node.run("probe==2.0", check=True)
    assert answer["changed"] and answer["added"] == ["probe==2.0"] and answer["removed"] == ["probe==1.0"]
    assert not node.run("probe<2", check=True)["changed"]
    assert (node.prefix / STAMP).read_text() == before and node.version() == "1.0" and node.litter() == []


def test_absent(made: Node) -> None:
    assert made.run(None, check=True, state="absent")["removed"] == ["probe-base==1.5", "probe==1.0"]
    assert made.prefix.exists()
    assert made.run(None, state="absent")["changed"]
    assert not made.prefix.exists() and made.litter() == []
    assert not made.run(None, state="absent")["changed"]


def test_scripts_and_python_work_in_their_final_place(made: Node) -> None:
    config = (made.prefix / "pyvenv.cfg").read_text()
    assert ".new-" not in config
    code = "import sys; print(sys.prefix)"
    done = subprocess.run(
        [made.prefix / "bin/python", "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.strip() == str(made.prefix)


def told_at_the_roll_call(python: Path) -> dict[str, Any]:
    """What the agent tells of an interpreter's packages."""
    command = [python, "-I", REPO / "plugins/module_utils/muster_agent", "facts"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    return json.loads(done.stdout.partition("\x02MUSTER")[2].partition("\x03")[0])


def test_module_and_roll_call_agree_on_packages_and_fingerprint(kept: Node) -> None:
    answer = kept.run()
    told = told_at_the_roll_call(kept.prefix / "bin/python")
    assert told["packages"] == answer["packages"]
    assert told["fingerprint"] == answer["fingerprint"]


# ---------------------------------------------------------------------------------------------- drift


def site(node: Node) -> Path:
    """The site-packages of a prefix."""
    return next((node.prefix / "lib").glob("python3.*/site-packages"))


def remove_package(node: Node) -> None:
    subprocess.run(
        [UV, "pip", "uninstall", "-q", "-p", node.prefix / "bin/python", "probe-base"],
        env=node.environ,
        timeout=30,
        check=True,
    )


def change_package(node: Node) -> None:
    subprocess.run(
        [UV, "pip", "install", "-q", "-p", node.prefix / "bin/python", "probe==2.0"],
        env={**node.environ, "UV_FIND_LINKS": (node.home / "pip.conf").read_text().split()[3], "UV_OFFLINE": "1"},
        timeout=30,
        check=True,
    )


def remove_module(node: Node) -> None:
    (site(node) / "probe.py").unlink()


def break_python(node: Node) -> None:
    (node.prefix / "bin/python").unlink()
    (node.prefix / "bin/python").symlink_to("/does/not/exist")


def remove_libraries(node: Node) -> None:
    for path in sorted((node.prefix / "lib").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def remove_stamp(node: Node) -> None:
    (node.prefix / STAMP).unlink()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (remove_package, "probe-base 1.5 is gone"),
        (change_package, "probe is 2.0 instead of 1.0"),
        (remove_module, "probe.py is gone from site-packages"),
        (break_python, "its Python does not start"),
        (remove_libraries, "probe 1.0 is gone"),
        (remove_stamp, "its stamp is lost"),
    ],
)
def test_what_somebody_changed_by_hand_is_found_and_mended(made: Node, damage: Any, reason: str) -> None:
    damage(made)
    predicted = made.run(check=True)
    assert predicted["changed"] and reason in predicted["reasons"]
    answer = made.run()
    assert answer["changed"] and reason in answer["reasons"], answer
    assert answer["packages"] == {"probe": "1.0", "probe-base": "1.5"} and made.version() == "1.0"
    assert made.run(uv="/does/not/exist")["current"] and made.litter() == []


def test_mending_brings_the_very_versions_back(made: Node) -> None:
    made.run("probe>=1.0")
    remove_package(made)
    assert made.run("probe>=1.0")["packages"]["probe"] == "1.0"


# ---------------------------------------------------------------------------------------------- killed, and two at once


def test_killed_midway_the_old_one_works_and_the_next_run_finishes(made: Node) -> None:
    process = made.start("probe==2.0", uv=made.slow_uv(60))
    uv_pid = int(wait_for(made.home / "uv.pid"))
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    assert made.version() == "1.0"
    assert made.litter() == ["e.lock", "e.new-%d" % process.pid]
    # Its uv goes with it, at once.
    end = time.monotonic() + 5
    while Path("/proc/%d" % uv_pid).exists() and time.monotonic() < end:
        if Path("/proc/%d/stat" % uv_pid).read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        assert not Path("/proc/%d" % uv_pid).exists()
    answer = made.run("probe==2.0")
    assert answer["changed"] and made.version() == "2.0" and made.litter() == []


def test_a_run_that_changes_nothing_tidies_up_after_a_killed_one(made: Node) -> None:
    (made.prefix.parent / "e.new-99999999/env").mkdir(parents=True)
    (made.prefix.parent / "e.lock").write_text("process 99999999 on nowhere\n")
    assert not made.run(check=True)["changed"] and len(made.litter()) == 2
    assert not made.run(uv="/does/not/exist")["changed"] and made.litter() == []


def test_two_at_once_make_it_once(node: Node) -> None:
    uv = node.slow_uv(1)
    answers = [result(process) for process in [node.start(uv=uv), node.start(uv=uv)]]
    assert sorted(answer["changed"] for answer in answers) == [False, True], answers
    assert answers[0]["fingerprint"] == answers[1]["fingerprint"]
    assert node.litter() == []


def test_waiting_ends_with_the_holder_named(node: Node) -> None:
    first = node.start(uv=node.slow_uv(4))
    wait_for(node.home / "uv.pid")
    sentence = node.fail(lock_timeout=1)
    assert "is being worked on by process %d on" % first.pid in sentence and "python_env_lock_timeout" in sentence
    assert result(first)["changed"]


# ---------------------------------------------------------------------------------------------- faults


def test_a_foreign_folder_is_left_alone(node: Node) -> None:
    node.prefix.mkdir(parents=True)
    (node.prefix / "thesis.txt").write_text("three years")
    assert "was not made by Muster, so it is left alone" in node.fail()
    assert "was not made by Muster" in node.fail(None, state="absent")
    assert os.listdir(node.prefix) == ["thesis.txt"] and node.litter() == []


def test_an_empty_folder_and_a_link_are_taken(node: Node) -> None:
    target = node.home / "big-disk"
    target.mkdir()
    node.prefix.parent.mkdir()
    node.prefix.symlink_to(target)
    assert node.run()["changed"]
    assert node.prefix.is_symlink() and node.version() == "1.0" and not node.run()["changed"]


@pytest.mark.parametrize(
    ("requirements", "options", "parts"),
    [
        ("nosuch==1", {}, ["hold no package nosuch", "correct its name"]),
        ("probe==7", {}, ["there is no version of probe==7 and you require probe==7"]),
        ("probe==1.0\nprobe-base<1", {}, ["probe<=1.0 depends on probe-base>=1", "you require probe-base<1"]),
        ("probe=1.0", {}, ["(probe=1.0)", "name==version"]),
        ("# nothing\n", {}, ["name no package"]),
        ("-r other.txt", {}, ["take in other.txt"]),
        (None, {"requirements": "/does/not/exist.txt"}, ["/does/not/exist.txt is not there"]),
        ("probe", {"uv": "/does/not/exist"}, ["uv (/does/not/exist) is not there", "python_env_uv"]),
        ("probe", {"uv": str(REPO / "ansible.cfg")}, ["ansible.cfg) is not there or cannot be run"]),
        ("probe", {"python": "/does/not/exist"}, ["/does/not/exist is not there or does not start"]),
        ("probe", {"python": "3.99"}, ["no Python 3.99 on this host"]),
        ("probe", {"ca_bundle": "/does/not/exist.pem"}, ["/does/not/exist.pem is not there"]),
        (
            "torch==9.0",
            {"min_free_mb": 10**9},
            ["MB free, but about 1000000000 MB are needed", "python_env_min_free_mb"],
        ),
        (
            "fast",
            {},
            ["no NVIDIA GPU, but the requirements bring nvidia-fake-cu13", "python_env_torch_backend to none"],
        ),
        ("torch==8.0", {}, ["torch 8.0+cpu does not import on this host (ImportError: libfake.so is missing)"]),
        ("probe", {"index_url": "http://127.0.0.1:9/simple"}, ["http://127.0.0.1:9/simple/", "cannot be reached"]),
    ],
)
def test_a_fault_is_one_sentence_and_spoils_nothing(
    kept: Node, requirements: str | None, options: dict[str, Any], parts: list[str]
) -> None:
    # A second package makes each case differ from what is there, whatever else is right in it.
    text = requirements if requirements is None or requirements.startswith("#") else requirements + "\nextra"
    kept.environ["UV_HTTP_RETRIES"] = "0"
    sentence = kept.fail(text, **options)
    for part in parts:
        assert part in sentence
    assert kept.version() == "1.0" and kept.litter() == []
    assert kept.run(uv="/does/not/exist")["current"]


def test_a_place_that_will_not_do_is_one_sentence(node: Node) -> None:
    assert "cannot be made" in node.fail(prefix="/proc/nowhere/e")
    assert "is a file: choose another prefix" in node.fail(prefix=str(node.home / "pip.conf"))


def test_a_tmpdir_of_no_use_does_no_harm(node: Node) -> None:
    node.environ["TMPDIR"] = "/does/not/exist"
    assert node.run()["changed"]


def test_uv_for_another_processor_is_one_sentence(node: Node) -> None:
    alien = node.home / "uv"
    alien.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xf3\x00" + bytes(100))
    alien.chmod(0o755)
    assert "is not a program for this machine" in node.fail(uv=str(alien))


# ---------------------------------------------------------------------------------------------- torch


@pytest.mark.skipif(any(Path("/dev").glob("nvidia[0-9]*")), reason="for hosts without an NVIDIA GPU")
def test_a_local_cpu_wheel_of_torch_is_taken_without_an_index(node: Node) -> None:
    answer = node.run("torch==9.0")
    assert answer["packages"] == {"torch": "9.0+cpu"}
    assert json.loads((node.prefix / STAMP).read_text())["torch_backend"] == ""


@pytest.mark.skipif(any(Path("/dev").glob("nvidia[0-9]*")), reason="for hosts without an NVIDIA GPU")
def test_without_a_local_wheel_the_cpu_index_is_asked(node: Node) -> None:
    """The index itself is out of reach here, so a uv that notes its arguments stands in for it."""
    script = node.home / "uv"
    script.write_text('#!/bin/sh\necho "$@" >> %s/argv\nexec %s "$@"\n' % (node.home, UV))
    script.chmod(0o755)
    folder = node.home / "none"
    folder.mkdir()
    (node.home / "pip.conf").write_text("[global]\nno-index = true\nfind-links = %s\nconstraint = /gone\n" % folder)
    node.fail("torch==9.0", uv=str(script))
    calls = [line.split() for line in (node.home / "argv").read_text().splitlines()]
    assert calls and all("--torch-backend cpu" in " ".join(call) for call in calls if "install" in call)
    assert all("--dry-run" in call for call in calls if "install" in call)


# ---------------------------------------------------------------------------------------------- the role


@pytest.fixture
def play(tmp_path: Path, run_playbook: Callable, wheels: Path, cache: Path) -> Callable:
    """`play(cmdline=None, **extra)`: run site.yml for a prefix in tmp_path/nodes, without a network."""
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("probe==1.0\n")
    (tmp_path / "pip.conf").write_text("[global]\nno-index = true\n")
    variables = {
        "python_env_prefix": str(tmp_path / "nodes/e"),
        "python_env_requirements": str(requirements),
        "python_env_cache_dir": str(cache),
        "python_env_min_free_mb": 0,
    }
    environ = {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "PIP_FIND_LINKS": str(wheels)}

    def play(cmdline: str | None = None, **extra: Any) -> Any:
        return run_playbook("site.yml", {**variables, **extra}, cmdline=cmdline, env=environ)

    return play


def test_site_checks_makes_and_keeps(tmp_path: Path, play: Callable) -> None:
    prefix = tmp_path / "nodes/e"
    checked = play("--check")
    assert checked.status == "successful", checked.stdout
    assert set(checked.stats["changed"]) == {"node0", "node1"}
    assert not prefix.parent.exists()

    first = play()
    assert first.status == "successful", first.stdout
    # Both nodes share the prefix: one makes it, the other waits and finds it made.
    assert len(first.stats["changed"]) == 1
    assert prefix.joinpath("bin/python").exists()

    second = play()
    assert second.status == "successful" and second.stats["changed"] == {}
    assert sorted(os.listdir(prefix.parent)) == ["e"]


def test_site_copies_uv_where_the_connection_is_not_local(tmp_path: Path, play: Callable) -> None:
    state = tmp_path / "state"
    remote = {"muster_state_dir": str(state), "__python_env_local": False}
    run = play("--limit node0", **remote)
    assert run.status == "successful", run.stdout
    assert stat.S_IMODE((state / "tools/uv").stat().st_mode) == 0o755
    again = play("--limit node0", **remote)
    assert again.status == "successful" and again.stats["changed"] == {}


def test_site_names_a_requirements_file_that_is_not_there(play: Callable) -> None:
    run = play(python_env_requirements="/does/not/exist.txt")
    assert run.status == "failed"
    answers = results(run, "Look at the environment")
    assert "/does/not/exist.txt is not on the controller" in answers["node0"]["msg"]


def test_the_embedded_default_makes_torch_and_then_changes_nothing(run_playbook: Callable) -> None:
    first = run_playbook("site.yml", timeout=600)
    assert first.status == "successful", first.stdout
    second = run_playbook("site.yml")
    assert second.status == "successful" and second.stats["changed"] == {}
    answer = results(second, "Look at the environment")["node0"]
    assert answer["packages"]["torch"].startswith("2.13.0")
    assert Path(answer["python"]) == REPO / ".muster/env/bin/python"
    assert answer["fingerprint"] == told_at_the_roll_call(Path(answer["python"]))["fingerprint"]
