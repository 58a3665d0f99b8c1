"""Files that are written by several at once, in folders that belong to somebody else."""

import errno
import fcntl
import os
import pwd
import subprocess
import sys
from types import SimpleNamespace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.entries import storing

KEY = "ssh-ed25519 AAAA1"
HOLDER = {"members": {"n1": {"keys": [KEY], "from": ["10.0.0.1"]}}}
LINE = 'from="10.0.0.1",restrict,pty {} muster:n1\n'.format(KEY)
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root has other users' rights")


def account_at(home, uid=None, gid=None):
    """An account as the module ``pwd`` gives it."""
    name = pwd.getpwuid(os.geteuid() if uid is None else uid).pw_name
    return SimpleNamespace(
        pw_name=name, pw_uid=os.geteuid() if uid is None else uid, pw_gid=os.getegid() if gid is None else gid, pw_dir=str(home)
    )


@pytest.fixture
def place(tmp_path):
    """authorized_keys in a home."""
    return storing.of_user(account_at(tmp_path), "authorized_keys")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file(place, tmp_path):
    done = storing.edit(place, "authorized_keys", HOLDER)
    assert (done["before"], done["after"], done["notes"], done["tightened"]) == ("", LINE, [], [])
    assert (tmp_path / ".ssh" / "authorized_keys").read_text() == LINE
    assert (tmp_path / ".ssh").stat().st_mode & 0o7777 == 0o700
    assert (tmp_path / ".ssh" / "authorized_keys").stat().st_mode & 0o7777 == 0o600
    assert names(tmp_path / ".ssh") == ["authorized_keys"]
    assert storing.peek(place) == (LINE, 0o700, 0o600)


def test_check_mode_writes_nothing(place, tmp_path):
    assert storing.edit(place, "authorized_keys", HOLDER, check=True)["after"] == LINE
    assert names(tmp_path) == []
    (tmp_path / ".ssh").mkdir(mode=0o700)
    (tmp_path / ".ssh" / "authorized_keys").write_text("# mine\n")
    assert storing.edit(place, "authorized_keys", HOLDER, check=True)["after"] == "# mine\n" + LINE
    assert (tmp_path / ".ssh" / "authorized_keys").read_text() == "# mine\n"
    assert names(tmp_path / ".ssh") == ["authorized_keys"]


def test_mode_and_bytes_stay_and_what_a_killed_writer_left_goes(tmp_path):
    path = tmp_path / "hosts"
    path.write_bytes(b"10.0.0.7 a # \xff\r\n")
    path.chmod(0o640)
    (tmp_path / ".hosts.muster").write_text("half")
    done = storing.edit(storing.of_root(str(path)), "hosts", {"members": {"n1": {"address": "10.0.0.1"}}})
    assert path.read_bytes().startswith(b"10.0.0.7 a # \xff\r\n# BEGIN") and done["before"] == "10.0.0.7 a # \ufffd\r\n"
    assert path.stat().st_mode & 0o7777 == 0o640
    assert names(tmp_path) == ["hosts"]


def test_nothing_to_do_writes_nothing(place, tmp_path):
    storing.edit(place, "authorized_keys", HOLDER)
    inode = (tmp_path / ".ssh" / "authorized_keys").stat().st_ino
    storing.edit(place, "authorized_keys", HOLDER)
    assert (tmp_path / ".ssh" / "authorized_keys").stat().st_ino == inode


def test_a_file_of_roots_may_be_a_link(tmp_path):
    (tmp_path / "real").write_text("")
    (tmp_path / "hosts").symlink_to("real")
    storing.edit(storing.of_root(str(tmp_path / "hosts")), "hosts", {"members": {"n1": {"address": "10.0.0.1"}}})
    assert (tmp_path / "hosts").is_symlink() and "10.0.0.1 n1" in (tmp_path / "real").read_text()


def test_links_and_other_things_in_a_home_are_refused(place, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "authorized_keys").write_text("secret\n")
    ssh = tmp_path / ".ssh"
    ssh.symlink_to(secret)
    with pytest.raises(storing.Fault, match="to be a link or a file, expected a folder; put one there"):
        storing.edit(place, "authorized_keys", HOLDER)
    assert storing.peek(place) == (None, None, None)
    ssh.unlink()
    ssh.mkdir(mode=0o700)
    (ssh / "authorized_keys").symlink_to(secret / "authorized_keys")
    for check in (True, False):
        with pytest.raises(storing.Fault, match="to be a link, expected a file; put one there"):
            storing.edit(place, "authorized_keys", HOLDER, check)
    assert storing.peek(place) == (None, 0o700, None)
    (ssh / "authorized_keys").unlink()
    os.mkfifo(str(ssh / "authorized_keys"))
    with pytest.raises(storing.Fault, match="something else than a file"):
        storing.edit(place, "authorized_keys", HOLDER)
    assert storing.peek(place) == (None, 0o700, None)
    assert (secret / "authorized_keys").read_text() == "secret\n"


def test_a_link_where_the_new_file_is_written_is_not_followed(place, tmp_path):
    (tmp_path / ".ssh").mkdir(mode=0o700)
    (tmp_path / "victim").write_text("safe")
    (tmp_path / ".ssh" / ".authorized_keys.muster").symlink_to(tmp_path / "victim")
    storing.edit(place, "authorized_keys", HOLDER)
    assert (tmp_path / "victim").read_text() == "safe" and (tmp_path / ".ssh" / "authorized_keys").read_text() == LINE


def test_what_others_could_write_is_tightened(place, tmp_path):
    storing.edit(place, "authorized_keys", HOLDER)
    (tmp_path / ".ssh").chmod(0o777)
    (tmp_path / ".ssh" / "authorized_keys").chmod(0o664)
    expected = [(str(tmp_path / ".ssh"), 0o777, 0o755), (str(tmp_path / ".ssh" / "authorized_keys"), 0o664, 0o644)]
    assert storing.edit(place, "authorized_keys", HOLDER, check=True)["tightened"] == expected
    assert storing.peek(place)[1:] == (0o777, 0o664)
    assert storing.edit(place, "authorized_keys", HOLDER)["tightened"] == expected
    assert storing.peek(place)[1:] == (0o755, 0o644)


@AS_ROOT
def test_in_a_home_root_has_the_users_rights_alone(tmp_path):
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    os.chown(str(home), 65534, 65534)
    place = storing.of_user(account_at(home, 65534, 65534), "authorized_keys")
    before = (os.geteuid(), os.getegid(), os.getgroups())
    storing.edit(place, "authorized_keys", HOLDER)
    found = (home / ".ssh" / "authorized_keys").stat()
    assert (found.st_uid, found.st_gid) == (65534, 65534)
    # What the user could not do, root does not do for it.
    (home / ".ssh").chmod(0o500)
    with pytest.raises(PermissionError):
        storing.edit(place, "authorized_keys", {"members": {}})
    assert (os.geteuid(), os.getegid(), os.getgroups()) == before
    os.chown(str(home / ".ssh"), 0, 0)
    (home / ".ssh").chmod(0o700)
    assert storing.peek(place) == (None, None, None)


def test_a_mount_in_the_files_place_is_written_into(tmp_path, monkeypatch):
    path = tmp_path / "hosts"
    path.write_text("10.0.0.7 a\n" + "# long\n" * 100)
    inode = path.stat().st_ino

    def busy(*_args, **_options):
        raise OSError(errno.EBUSY, "busy")

    monkeypatch.setattr(os, "rename", busy)
    after = storing.edit(storing.of_root(str(path)), "hosts", {"members": {"n1": {"address": "10.0.0.1"}}})["after"]
    assert path.read_text() == after and path.stat().st_ino == inode and names(tmp_path) == ["hosts"]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(place, tmp_path, monkeypatch):
    storing.edit(place, "authorized_keys", HOLDER)

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        storing.edit(place, "authorized_keys", {"members": {}})
    assert (tmp_path / ".ssh" / "authorized_keys").read_text() == LINE and names(tmp_path / ".ssh") == ["authorized_keys"]


def test_a_lock_that_nobody_gives_back_ends_in_a_sentence(place, tmp_path, monkeypatch):
    (tmp_path / ".ssh").mkdir(mode=0o700)
    monkeypatch.setattr(storing, "SECONDS_TO_WAIT", 0.1)
    folder = os.open(str(tmp_path / ".ssh"), os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(storing.Fault, match="locked by another process for 0.1 s, expected it to be free; see `lslocks`"):
            storing.edit(place, "authorized_keys", HOLDER)
    finally:
        os.close(folder)


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from module_utils.entries import storing
place = storing.of_root(sys.argv[2])
names = ["h%d" % number for number in range(20)]
sys.stdin.readline()
for mine in sys.argv[3:]:
    members = {name: {"address": "10.0.1.1", "ports": [22], "keys": None} for name in names}
    members[mine]["keys"] = ["ssh-rsa AAAA" + mine]
    storing.edit(place, "known_hosts", {"members": members})
"""


def test_ten_writers_at_once_lose_no_line(tmp_path, repo):
    path = tmp_path / "known_hosts"
    path.write_text("# mine\n")
    argv = [sys.executable, "-c", WRITER, str(repo / "plugins"), str(path)]
    writers = [
        subprocess.Popen([*argv, "h{}".format(number), "h{}".format(number + 10)], stdin=subprocess.PIPE) for number in range(10)
    ]
    for writer in writers:
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
    assert [writer.wait(30) for writer in writers] == [0] * 10
    for writer in writers:
        writer.stdin.close()
    found = path.read_text().splitlines()
    assert found[0] == "# mine"
    assert sorted(found[1:]) == sorted("{0},10.0.1.1 ssh-rsa AAAA{0} muster:{0}".format("h%d" % number) for number in range(20))
    assert names(tmp_path) == ["known_hosts"]
