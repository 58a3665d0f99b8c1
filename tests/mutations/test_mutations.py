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
ENTRIES = "plugins/module_utils/entries/"
ENVIRONMENT = "plugins/module_utils/python_env/"
FIREWALL = "plugins/module_utils/muster_firewall/"
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
    # Real hosts.
    ("the files have no lock", ENTRIES + "storing.py", "            _lock(place, folder)\n", "",
     "unit/test_entries_storing.py::test_a_lock_that_nobody_gives_back_ends_in_a_sentence"),
    ("own name stays on loopback", ENTRIES + "hosts.py",
     "if address.is_loopback and address != self.members[self.own]:", "if False:",
     "unit/test_entries_hosts.py::test_the_line_of_this_host"),
    ("--limit drops the others' host keys", ENTRIES + "known_hosts.py",
     'known = there.get(name, []) if member.get("keys") is None', 'known = [] if member.get("keys") is None',
     "unit/test_entries_keys.py::test_known_hosts"),
    ("lines of others are touched", ENTRIES + "lines.py", "out.append(line)", 'out.append(line.strip() + "\\n")',
     "unit/test_entries_keys.py::test_known_hosts"),
    ("SSH is not the first rule", FIREWALL + "rules.py", 'found += [Rule("tcp", jobs, peer) for peer in peers]',
     'found[:0] = [Rule("tcp", jobs, peer) for peer in peers]',
     "unit/test_firewall_rules.py::test_ssh_comes_first_whatever_else_is_open"),
    ("rules of others go from ufw", FIREWALL + "ufw.py", "stale = [rule for rule in own if", "stale = [rule for rule in found if",
     "unit/test_firewall_ufw.py::test_nothing_to_do"),
    ("rules of others go from firewalld", FIREWALL + "firewalld.py", 'for text in part["rules"] if parse_rich(text).own}',
     'for text in part["rules"]}', "unit/test_firewall_firewalld.py::test_nothing_to_do"),
    ("a member that has left is let in", FIREWALL + "rules.py", 'and holds(wish["keep"], rule.source)', "",
     "unit/test_firewall_firewalld.py::test_a_member_that_has_left_loses_its_rules"),
    ("the old connection confirms", FIREWALL + "guard.py",
     'if client and record["client"] and list(client) == list(record["client"]):', "if False:",
     "unit/test_firewall_guard.py::test_a_change_is_confirmed"),
    ("nothing undoes a lock-out", FIREWALL + "guard.py", 'host.must(["systemctl", "start", rollback.UNIT])', "pass",
     "unit/test_firewall_guard.py::test_a_guard_is_armed_before_the_change"),
    ("clocks are not looked at", CONTROLLER + "preflight.py", "if off is None or abs(off) <= most:", "if True:",
     "unit/test_preflight.py::test_clocks"),
    ("one address twice passes", CONTROLLER + "preflight.py", "if len(names) > 1:", "if False:",
     "unit/test_preflight.py::test_addresses"),
    ("misspelt variables of roles pass", CONTROLLER + "role_variables.py", "if prefix and name not in known:", "if False:",
     "unit/test_role_variables.py::test_what_was_meant"),
    ("two time daemons run", CONTROLLER + "chrony.py", "for name, state in daemons.items() if", "for name, state in () if",
     "unit/test_chrony.py::test_plan"),
    ("a worker follows others than the head", "roles/chrony/templates/chrony.conf.j2", "# kept: {{ line }}", "{{ line }}",
     "unit/test_chrony.py::test_a_worker_follows_the_head_alone"),
    ("a limit is lowered", CONTROLLER + "limits.py", "max(wanted, hard)", "wanted",
     "unit/test_limits.py::test_limits_that_a_host_can_give"),
    ("mixed drivers pass", CONTROLLER + "gpu.py", "if len(hosts) < 2:", "if True:",
     "unit/test_gpu.py::test_different_drivers_are_a_table"),
    ("no answer counts as reached", CONTROLLER + "verifying_pairs.py", 'if state != "ok"]', 'if state not in ("ok", "timeout")]',
     "unit/test_verifying.py::test_one_character_per_pair"),
    ("lost hosts are not named", CONTROLLER + "verifying.py", "faults = losses(plan, listened, connected) + ", "faults = ",
     "unit/test_verifying.py::test_lost_hosts_are_named"),
    # Environments.
    ("a job follows a switch", AGENT + "prefixes.py", "os.path.join(os.path.realpath(folder), name)",
     "os.path.join(folder, name)", "unit/test_prefixes.py"),
    ("a switch makes another job", AGENT + "spec.py", ', "interpreter", "environment")', ")", "unit/test_prefixes.py"),
    ("an environment and a Python go together", CONTROLLER + "planning.py", "    named = [host for",
     "    named = [] and [host for", "unit/test_planning.py::test_an_environment_and_a_python_are_too_much"),
    ("a part of the hosts goes back", CONTROLLER + "environment_versions.py", "    if lacking:", "    if False:",
     "unit/test_environment_versions.py::test_all_or_none"),
    ("hosts that differ have a snapshot", CONTROLLER + "environment_versions.py", "    if different:", "    if False:",
     "unit/test_environment_versions.py::test_hosts_that_differ_have_no_snapshot"),
    ("conda's list loses what others write", "plugins/module_utils/python_env/registering.py",
     "        if _mark(path) != before:", "        if False:",
     "unit/test_python_env_registering.py::test_what_somebody_appends_meanwhile_is_kept"),
    ("another package gets the name of one", ENVIRONMENT + "receiver.py", 'if digest.hexdigest() != item["sha256"]:', "if False:",
     "unit/test_python_env_sharing.py"),
    ("a damaged package in the store is used", ENVIRONMENT + "installing.py", 'if store.sha256(path) != item["sha256"]:',
     "if False:", "unit/test_python_env_installing.py"),
    ("a fetched package is not checked", ENVIRONMENT + "fetching.py", "if expected and found != expected:", "if False:",
     "unit/test_python_env_fetching.py"),
    ("a password follows to another host", ENVIRONMENT + "fetching.py", "request.add_unredirected_header(", "request.add_header(",
     "unit/test_python_env_fetching.py"),
    ("a version of a job that was cut off goes", ENVIRONMENT + "occupants.py", "if names or path in busy}", "if path in busy}",
     "unit/test_python_env_occupants.py"),
    ("uv's cache is shared with others", ENVIRONMENT + "installing.py", 'UV_CACHE_DIR=os.path.join(self.space, "uv")', "",
     "unit/test_python_env_installing.py"),
    ("a lock says nothing of its variables", ENVIRONMENT + "locks.py", "return dict(variables, python=", "return dict(python=",
     "unit/test_python_env_locks.py"),
    ("what cannot be removed is not told", ENVIRONMENT + "environment.py", "if not versions.remove(path):",
     "if versions.remove(path) is None:", "unit/test_python_env_environment.py"),
    ("a part of the hosts is solved for", CONTROLLER + "python_envs.py", "if solve and head not in acting:", "if False:",
     "unit/test_python_envs.py"),
    ("a lock for later hosts is handed out", CONTROLLER + "python_platform.py",
     'numbers(look["lock_" + key]) > numbers(platform[key])', "False", "unit/test_python_envs.py"),
    ("some hosts switch and some do not", "roles/python_env/tasks/environment.yml",
     "when: __python_env_lost | length > 0", "when: false",
     "integration/test_python_env_role.py::test_no_node_switches_before_all_have_the_version"),
    ("nothing is asked of the firewall", FIREWALL + "cli.py", "done = firewall.is_done()", "done = True",
     "unit/test_firewall_guard.py::test_the_look_tells_whether_all_is_as_wanted"),
    ("a file that a look needs is not sent", "plugins/action/survey.py", '"entries", "sysctls")', '"entries")',
     "unit/test_looking.py::test_all_that_a_package_imports_is_sent"),
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
