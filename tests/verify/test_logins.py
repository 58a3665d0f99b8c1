"""Who logs in where, and what the cluster's user may do."""

import shlex

import pytest

# The last word, since testinfra takes 255, ssh's own exit code, for a failure of its own connection.
SSH = "ssh -n -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=5 -o ControlPath=none -l {} -- {} {} || exit 1"


def login(head, user, name, command="id -un"):
    """Log in from the head as its cluster user."""
    return head.as_user(SSH.format(shlex.quote(user), shlex.quote(name), shlex.quote(command)))


@pytest.mark.units("ssh", "sshd")
def test_the_head_logs_in_without_a_question(head, managed):
    asked = login(head, head.user, managed.name, "id -un; cat /etc/machine-id")
    assert asked.rc == 0, "{} cannot log in to {}: {}".format(head.name, managed.name, asked.stderr.strip())
    who, machine = asked.stdout.split()
    assert who == managed.user
    assert machine == managed.root("cat /etc/machine-id").stdout.strip(), "the name {} leads elsewhere".format(managed.name)


@pytest.mark.units("ssh", "sshd")
@pytest.mark.parametrize("user", ["root", "muster-stranger"])
def test_another_user_is_refused(head, managed, user):
    asked = login(head, user, managed.name)
    assert asked.rc != 0 and "Permission denied" in asked.stderr, "{} on {}: {}{}".format(
        user, managed.name, asked.stdout, asked.stderr
    )


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
        "cd ~{0} && stat -c '%a %U %n' .ssh .ssh/id_* 2>/dev/null; stat -c '%a %U %n' /etc/ssh/ssh_host_*_key".format(managed.user)
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


def test_a_fresh_session_has_the_limits(head, managed, cluster):
    asked = login(head, head.user, managed.name, "ulimit -n; ulimit -l; cat /proc/sys/fs/nr_open")
    assert asked.rc == 0, asked.stderr
    files, locked, most = asked.stdout.split()
    # A container may be kept from raising its own limits, which are then those of its first process.
    status = managed.root("grep CapBnd /proc/1/status; grep -E 'open files|locked memory' /proc/1/limits").stdout
    may_raise = int(status.split()[1], 16) >> 24 & 1
    if not may_raise:
        pytest.skip("{} may not raise its limits; they are {} files and {} KB".format(managed.name, files, locked))
    wanted = min(int(managed.nofile) or cluster.nofile, int(most))
    assert files == "unlimited" or int(files) >= wanted, "{}: {} open files, expected {}".format(managed.name, files, wanted)
    assert locked == "unlimited", "{}: {} KB of locked memory, expected unlimited".format(managed.name, locked)
