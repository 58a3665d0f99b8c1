"""site.yml from untouched hosts to a proven cluster, in the order in which a user meets it; the tests build on each other."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .playing import changed, pairs, player

REPO = Path(__file__).resolve().parents[2]
ROLES = ("hosts_file", "cluster_user", "build_tools", "chrony", "firewall", "ssh_keys", "limits", "gpu", "verify")
MEMBERS = ("n1", "n2", "n3")
FILES = "cat /etc/hosts /etc/ssh/ssh_known_hosts /home/muster/.ssh/authorized_keys /etc/chrony/chrony.conf"


@pytest.fixture
def play(run_playbook, lab):
    """See :func:`player`."""
    return player(run_playbook, lab)


def suite(lab, *options, hosts="ansible://torch_nodes", inventory=None):
    """Run tests/verify as a user would; its finished process."""
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/verify", "--hosts=" + hosts]
    argv += ["--ansible-inventory={}".format(inventory or lab.folder / "inventory"), *options]
    return subprocess.run(argv, cwd=REPO, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=300, check=False)  # fmt: skip


# ----------------------------------------------------------------------------------- syntax, check, converge, again, verify


def test_syntax(play):
    for playbook in ("site.yml", "playbooks/verify.yml"):
        play(playbook, "--syntax-check")


def test_check_on_untouched_hosts(play, lab):
    before = {name: lab.host(name).run("cat /etc/hosts /etc/passwd; dpkg -l | wc -l").stdout for name in MEMBERS}
    run = play(options="--check --diff")
    assert all(run.stats["changed"].get(name) for name in MEMBERS)
    for word in ("chrony", "muster", "/etc/hosts"):
        assert word in run.stdout
    assert before == {name: lab.host(name).run("cat /etc/hosts /etc/passwd; dpkg -l | wc -l").stdout for name in MEMBERS}


def test_converge(play, lab):
    run = play()
    assert all(run.stats["changed"].get(name) for name in MEMBERS)
    assert pairs(run) == (6, 6)
    program = "cd $(mktemp -d) && echo '#include <Python.h>' >a.c && gcc -c $(python3-config --includes) a.c && pwd"
    built = lab.host("n1").run(program)
    lab.host("n1").run(["rm", "-r", built.stdout.strip()])


def test_again_changes_nothing(play):
    run = play()
    assert not changed(run)
    assert pairs(run) == (6, 6)


def test_verify_leaves_a_record(play, tmp_path, lab):
    run = play("playbooks/verify.yml", extravars={"verify_runs_dir": str(tmp_path)})
    assert pairs(run) == (6, 6)
    record = next(tmp_path.glob("verify-*"))
    assert json.loads((record / "verify.json").read_text())
    assert "n1" in (record / "matrix.txt").read_text()


# --------------------------------------------------------------------------------------------- the suite for users' clusters


def test_the_suite_passes(lab):
    done = suite(lab)
    assert done.returncode == 0, done.stdout[-6000:]


def other_inventory(folder, lab, **variables):
    """An inventory of another shape than the lab's own, in INI, with further variables for all."""
    lines = ["[torch_nodes]"]
    for name in MEMBERS:
        host = lab.host(name)
        lines.append("{} ansible_host={} ansible_port={}".format(name, host.address, host.port))
    lines += ["[torch_nodes:vars]", "ansible_user=ml", "ansible_ssh_private_key_file={}".format(lab.folder / "key")]
    lines += ["ansible_python_interpreter=/usr/bin/python3"]
    variables.setdefault("ansible_ssh_common_args", lab.ssh_options())
    lines += ["{}={}".format(name, json.dumps(value)) for name, value in variables.items()]
    path = folder / "hosts.ini"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_suite_by_a_jump_host_and_another_inventory(lab, tmp_path):
    out = lab.host("out")
    proxy = "ssh -W %h:%p -i {} {} ml@{}".format(lab.folder / "key", lab.ssh_options(), out.address)
    args = '{} -o ProxyCommand="{}"'.format(lab.ssh_options(), proxy)
    inventory = other_inventory(tmp_path, lab, ansible_ssh_common_args=args)
    done = suite(lab, inventory=inventory)
    assert done.returncode == 0, done.stdout[-6000:]


def test_the_suite_and_the_playbook_with_a_sudo_password(lab, tmp_path, play):
    inventory = tmp_path / "hosts.ini"
    other_inventory(tmp_path, lab)
    inventory.write_text(inventory.read_text().replace(
        "[torch_nodes:vars]", "[torch_nodes:vars]\n").replace(
        "n1 ansible_host", "n1 ansible_user=ask ansible_become_password={} ansible_host".format(lab.password())))  # fmt: skip
    run = play(options="--limit n1 --tags hosts_file", inventory=inventory)
    assert not changed(run)
    done = suite(lab, inventory=inventory)
    assert done.returncode == 0, done.stdout[-6000:]


def test_the_suite_prints_the_journal_of_what_failed(lab):
    host = lab.host("n3")
    host.run("systemctl stop chrony")
    try:
        done = suite(lab, "-k", "clocks")
        assert done.returncode == 1
        assert re.search(r"n3.*chrony", done.stdout)
        assert "Stopped chrony" in done.stdout or "chronyd exiting" in done.stdout
    finally:
        host.run("systemctl start chrony")


# ------------------------------------------------------------------------------------------------- limit, joining, rebooting


def test_limit_leaves_the_others_alone(play, lab):
    before = {name: lab.host(name).run("{}; stat -c %Y /etc/hosts".format(FILES)).stdout for name in MEMBERS}
    lab.host("n3").run("sed -i /n1/d /etc/hosts")
    run = play(options="--limit n3")
    assert set(changed(run)) == {"n3"}
    after = {name: lab.host(name).run("{}; stat -c %Y /etc/hosts".format(FILES)).stdout for name in MEMBERS}
    assert {name: before[name] for name in ("n1", "n2")} == {name: after[name] for name in ("n1", "n2")}
    assert before["n3"].splitlines()[:-1] == after["n3"].splitlines()[:-1]


def test_a_rebooted_host_still_holds(play, lab):
    host = lab.host("n2")
    host.reboot()
    host.wait_ssh(60)
    run = play(options="--tags always,verify")
    assert pairs(run) == (6, 6)
    assert not changed(play())


def test_drift_is_named_and_put_right(play, lab):
    n1, n2, n3 = (lab.host(name) for name in MEMBERS)
    foreign = "ufw allow from 192.0.2.77 to any port 8088 proto tcp"
    n1.run(foreign)
    n1.run("sed -i 's/^{}.*/192.0.2.9 n2/' /etc/hosts".format(n2.address))
    n1.run(["ufw", "--force", "delete", "1"])  # the rule of SSH, or a peer's
    n2.run("rm -f /home/muster/.ssh/authorized_keys")
    n2.run("firewall-cmd --permanent --zone=public --add-port=8088/tcp && firewall-cmd --zone=public --add-port=8088/tcp")
    n3.run("systemctl stop chrony")
    run = play(options="--check --diff")
    assert set(changed(run)) == set(MEMBERS)
    for word in ("/etc/hosts", "authorized_keys", "chrony"):
        assert word in run.stdout
    assert re.search(r"^\+.*muster", run.stdout, re.MULTILINE)
    assert "8088" not in re.sub(r"^ .*$", "", run.stdout, flags=re.MULTILINE)
    assert set(changed(play())) == set(MEMBERS)
    assert not changed(play())
    assert "8088" in n1.run(["ufw", "status"]).stdout
    for options in ([], ["--permanent"]):
        assert "8088/tcp" in n2.run(["firewall-cmd", *options, "--zone=public", "--list-ports"]).stdout
    n1.run("ufw delete allow from 192.0.2.77 to any port 8088 proto tcp")
    for options in ("", "--permanent"):
        n2.run("firewall-cmd {} --zone=public --remove-port=8088/tcp".format(options))


def test_a_role_runs_alone_by_its_tag(play, lab):
    host = lab.host("n3")
    host.run("systemctl stop chrony && sed -i /n1/d /etc/hosts")
    for tag in ("chrony", "hosts_file"):
        assert changed(play(options="--limit n3 --tags " + tag)) == {"n3": 1}
    assert host.run(["systemctl", "is-active", "chrony"]).stdout.strip() == "active"


def test_a_role_runs_alone_by_include_role(play, tmp_path):
    """Each without preflight and the facts of the one before it; on the cluster none has anything to do."""
    members = "{{ groups['torch_nodes'] }}"
    plays = [
        {
            "hosts": "torch_nodes", "gather_facts": False, "vars": {"ansible_become": True, "ansible_become_user": "root"},
            "tasks": [
                {"ansible.builtin.meta": "clear_facts"},
                {"ansible.builtin.include_role": {"name": "muster.cluster." + role}, "vars": {role + "_members": members}},
            ],
        }
        for role in ROLES
    ]  # fmt: skip
    book = tmp_path / "alone.yml"
    book.write_text(json.dumps(plays))
    assert not changed(play(str(book)))


def test_a_host_that_dies_in_the_middle(play, lab, tmp_path):
    """The others end clean and are named; a rerun completes."""
    # Between two roles of the same play, when preflight has seen all hosts well.
    middle = "    - name: Make the clocks agree\n"
    cut = {
        "name": "Take the power of n2 away", "delegate_to": "localhost", "run_once": True,
        "vars": {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable},
        "ansible.builtin.command": {
            "argv": [sys.executable, "-m", "tests.lab", "power-off", "--name", lab.name, "n2"], "chdir": str(REPO)},
    }  # fmt: skip
    plays = (REPO / "playbooks" / "site.yml").read_text()
    assert plays.count(middle) == 1
    site = tmp_path / "site.yml"
    verify = str(REPO / "playbooks" / "verify.yml")
    plays = plays.replace(middle, "    - {}\n\n{}".format(json.dumps(cut), middle))
    site.write_text(plays.replace("playbook: verify.yml", "playbook: " + verify))
    lab.host("n1").run("sed -i /n2/d /etc/hosts; systemctl stop chrony")
    try:
        # A host that is lost while its firewall is looked at is waited for as long as it may take to undo a change.
        run = play(str(site), bad=True, extravars={"firewall_rollback_seconds": 10})
        assert run.stats["dark"].get("n2") or run.stats["failures"].get("n2"), run.stdout[-3000:]
        assert "n2 was lost" in run.stdout
        assert lab.host("n1").run(["systemctl", "is-active", "chrony"]).stdout.strip() == "active"
    finally:
        lab.host("n2").power_on()
        lab.host("n2").wait_ssh(60)
    play()
    assert not changed(play())
