"""Who logs in where, and what the cluster's user may do."""

import json

import pytest

from . import scripts

STRANGERS = ("root", "muster-stranger")
SESSION = "id -un; cat /etc/machine-id; ulimit -n; ulimit -l; cat /proc/sys/fs/nr_open"


@pytest.fixture(scope="module")
def logins(cluster):
    """``{(user, name): (exit code, output)}`` of the head's logins to all members, as the cluster's user and as strangers."""
    head = cluster.node(cluster.head)
    if not head.managed:
        pytest.skip("muster_manage_hosts is false")
    targets = [(user, member["name"]) for member in cluster.members for user in (head.user, *STRANGERS)]
    asked = head.as_user(scripts.python(scripts.LOGIN, SESSION, *("{}@{}".format(*target) for target in targets)))
    assert asked.rc == 0, "{} has no ssh, or no user {}: {}".format(head.name, head.user, asked.stderr.strip())
    found = json.loads(asked.stdout.splitlines()[-1])
    return {target: tuple(found["{}@{}".format(*target)]) for target in targets}


@pytest.mark.units("ssh", "sshd")
def test_the_head_logs_in_without_a_question(managed, cluster, logins):
    code, output = logins[managed.user, managed.name]
    assert code == 0, "{} cannot log in to {}: {}".format(cluster.head, managed.name, output.strip())
    who, machine = output.split()[:2]
    assert who == managed.user
    assert machine == managed.root("cat /etc/machine-id").stdout.strip(), "the name {} leads elsewhere".format(managed.name)


@pytest.mark.units("ssh", "sshd")
@pytest.mark.parametrize("user", STRANGERS)
def test_another_user_is_refused(managed, logins, user):
    code, output = logins[user, managed.name]
    assert code == 255 and "Permission denied" in output, "{} on {}: {}".format(user, managed.name, output)


def test_the_cluster_user_is_nobody_special(managed):
    asked = managed.as_user("id -u; touch /etc/muster-verify && echo wrote; sudo -n true && echo sudo; true")
    told = asked.stdout.split()
    assert told[0] != "0" and told[1:] == [], "{} on {}: {}".format(managed.user, managed.name, ", ".join(told))


def test_the_cluster_user_has_its_folders(managed):
    for folder in ("jobs", "envs"):
        path = "{}/{}".format(managed.state_dir, folder)
        asked = managed.as_user("rmdir $(mktemp -d %s)", path + "/.verify.XXXXXX")
        assert asked.rc == 0, "{} on {} cannot write {}: {}".format(managed.user, managed.name, path, asked.stderr.strip())


def test_private_keys_are_private(managed):
    asked = managed.root(
        "cd ~{} && stat -c '%a %U %n' .ssh .ssh/id_* 2>/dev/null; "
        "stat -c '%a %U %n' /etc/ssh/ssh_host_*_key".format(managed.user)
    )
    wrong = []
    for line in asked.stdout.splitlines():
        mode, owner, path = line.split(" ", 2)
        if path.endswith(".pub"):
            continue
        # Red Hat's host keys belong to a group of their own that may read them.
        allowed = 0o700 if path == ".ssh" else 0o640 if path.startswith("/etc/ssh/") else 0o600
        expected = "root" if path.startswith("/etc/ssh/") else managed.user
        if int(mode, 8) & ~allowed or owner != expected:
            wrong.append(line)
    assert not wrong, "{}: {}".format(managed.name, "; ".join(wrong))


def test_a_fresh_session_has_the_limits(managed, cluster, logins):
    code, output = logins[managed.user, managed.name]
    assert code == 0, output
    files, locked, most = output.split()[2:5]
    # A container may be kept from raising its own limits, which are then those of its first process.
    if not int(managed.root("grep CapBnd /proc/1/status").stdout.split()[1], 16) >> 24 & 1:
        pytest.skip("{} may not raise its limits; they are {} files and {} KB".format(managed.name, files, locked))
    wanted = min(int(managed.nofile) or cluster.nofile, int(most))
    assert files == "unlimited" or int(files) >= wanted, "{}: {} open files, expected {}".format(managed.name, files, wanted)
    assert locked == "unlimited", "{}: {} KB of locked memory, expected unlimited".format(managed.name, locked)
