"""Proof that the tests see a feature go: each mutation is made in a copy of the tree, where the named test must fail."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
AGENT = "plugins/module_utils/muster_agent/"
CONTROLLER = "plugins/plugin_utils/"
COPIED = ("plugins", "library", "roles", "playbooks", "inventory", "files", "tests", "collections")
FILES = ("ansible.cfg", "launch.yml", "site.yml", "pyproject.toml")

# (what goes, file, text, what takes its place, tests of which at least one must fail)
MUTATIONS = [
    ("echoes count as causes", AGENT + "causes.py", "        return 2\n", "        return 0\n", "unit/test_causes.py"),
    ("PET_* reaches the job", AGENT + "commands.py", 'if not name.startswith("PET_")', "", "unit/test_commands.py"),
    ("signatures are not compared", AGENT + "control.py", "if not hmac.compare_digest(mark, expected.encode()):", "if False:",
     "unit/test_control.py"),
    ("every start differs", AGENT + "spec.py", '"run_id", "key", ', "", "unit/test_spec.py"),
    ("paths leave the folder", AGENT + "shipping.py", "if not safe_member(member):", "if False:", "unit/test_shipping.py"),
    ("clocks are not compared", AGENT + "rollcall.py", "        or clocks(spec, hellos)\n", "", "unit/test_rollcall.py"),
    ("--limit makes a smaller world", CONTROLLER + "planning.py", "if missing and not allow_partial:", "if False:",
     "unit/test_planning.py"),
    ("ignored files are shipped", CONTROLLER + "selection.py", ', "--exclude-standard"', "", "unit/test_selection.py"),
    ("misspelt variables pass", CONTROLLER + "options.py", "            raise Refusal(\"found the extra variable",
     "            str(\"", "unit/test_options.py"),
    ("escapes reach the screen", CONTROLLER + "screen.py", 'line = ESCAPES.sub("", line)', "pass", "unit/test_screen.py"),
    ("a failed job ends with 0", "plugins/action/launch_verdict.py", "return dict(result, failed=True, msg=ended[\"sentence\"])",
     "return result", "integration/test_faults.py::test_restarts_are_exhausted"),
    ("the controller keeps secrets", "plugins/action/launch_follow.py", "    write_json(path, planning.public(plan))", "    pass",
     "integration/test_launch.py::test_a_killed_controller_leaves_no_secret"),
    ("a held port is not seen", AGENT + "checks.py", "if not network.port_free(port):", "if False:",
     "integration/test_bad_input.py::test_port_is_held"),
    ("a refused launch leaves traces", AGENT + "jobs.py", "        if not earlier:\n            jobdir.remove()", "        pass",
     "integration/test_bad_input.py::test_port_is_held"),
    ("no restart", AGENT + "head.py", "            if not again or ", "            if True or ",
     "integration/test_faults.py::test_restart_from_the_checkpoint"),
    ("a stop kills at once", AGENT + "supervisor.py", "procs.send(pid, signal.SIGTERM)", "procs.send(pid, signal.SIGKILL)",
     "integration/test_faults.py::test_stop_during_training_writes_a_checkpoint"),
    ("a lost agent goes unnoticed", AGENT + "head.py", 'await self.inbox.put((rank, {"kind": "gone", "why": "its agent ended',
     'str((rank, {"kind": "gone", "why": "its agent ended',
     "integration/test_faults.py::test_agent_is_killed"),
]  # fmt: skip


def copy_of_the_tree(folder):
    """A copy that uses the environments of this one."""
    for name in COPIED:
        shutil.copytree(REPO / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(REPO / name, folder / name)
    (folder / ".muster").mkdir()
    (folder / ".muster" / "env").symlink_to(REPO / ".muster" / "env")
    return folder


@pytest.mark.parametrize(("name", "file", "old", "new", "tests"), MUTATIONS, ids=[mutation[0] for mutation in MUTATIONS])
def test_somebody_notices(tmp_path, name, file, old, new, tests):
    folder = copy_of_the_tree(tmp_path)
    path = folder / file
    text = path.read_text()
    assert text.count(old) == 1, "{} holds the text to mutate {} times".format(file, text.count(old))
    path.write_text(text.replace(old, new))
    argv = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/" + tests]
    done = subprocess.run(
        argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240, check=False,
        env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"),
    )  # fmt: skip
    # 1 is pytest's "some tests failed"; an error in collecting them would be 2 and prove nothing.
    assert done.returncode == 1, "{}: {} did not fail:\n{}".format(name, tests, done.stdout.decode()[-3000:])
