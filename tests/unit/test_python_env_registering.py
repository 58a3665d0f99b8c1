"""conda's list of environments: one line more or less, whatever else is in it and whoever else writes it."""

import os
import pwd
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import registering
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault

REPO = Path(__file__).resolve().parents[2]
P = "/var/lib/muster/envs/exp"


@pytest.mark.parametrize(
    ("text", "there", "expected"),
    [
        ("", True, P + "\n"),
        ("/opt/conda\n", True, "/opt/conda\n" + P + "\n"),
        ("/opt/conda", True, "/opt/conda\n" + P + "\n"),
        (P + "\n/opt/conda\n", True, P + "\n/opt/conda\n"),
        (P, True, P),
        (P + "/\n", True, P + "/\n"),
        (P + "\n\n/a b\n" + P + "\n", True, P + "\n\n/a b\n"),
        (P + "2\n/x" + P + "\n", True, P + "2\n/x" + P + "\n" + P + "\n"),
        ("/a\r\n", True, "/a\r\n" + P + "\n"),
        ("/a\n" + P + "\n/b\n" + P + "\n", False, "/a\n/b\n"),
        ("/a\n\n/b", False, "/a\n\n/b"),
        ("", False, ""),
    ],
)
def test_lines(text, there, expected):
    assert registering.lines_with(text, P, there) == expected
    assert registering.lines_with(expected, P, there) == expected


def test_the_list_is_made_changed_once_and_left_in_order(tmp_path):
    path = tmp_path / ".conda" / "environments.txt"
    assert not registering.is_registered(P, str(path)) and not registering.register(P, False, str(path))
    assert not path.parent.exists()
    assert registering.register(P, path=str(path)) and path.read_text() == P + "\n"
    path.chmod(0o600)
    with open(path, "ab") as stream:
        stream.write(b"/home/\xff\xfe\r\n")
    before = path.stat().st_mtime_ns
    assert not registering.register(P, path=str(path)) and path.stat().st_mtime_ns == before
    assert registering.is_registered(P, str(path))
    assert registering.register("/other", path=str(path)) and path.stat().st_mode & 0o777 == 0o600
    assert registering.register(P, False, str(path)) and path.read_bytes() == b"/home/\xff\xfe\r\n/other\n"
    assert os.listdir(path.parent) == ["environments.txt"]


def test_the_list_lies_in_the_users_own_home(tmp_path, monkeypatch):
    own = pwd.getpwuid(os.geteuid()).pw_dir
    monkeypatch.setenv("HOME", str(tmp_path))
    assert registering.own_list() == str(tmp_path / ".conda" / "environments.txt")
    monkeypatch.setattr(registering.os, "geteuid", lambda: os.getuid() + 1)
    monkeypatch.setattr(registering.pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir="/home/other"))
    assert registering.own_list() == "/home/other/.conda/environments.txt"
    monkeypatch.undo()
    monkeypatch.setenv("HOME", "relative")
    assert registering.own_list() == own + "/.conda/environments.txt"


def test_a_link_stays_one(tmp_path):
    (tmp_path / "list").write_text("/a\n")
    (tmp_path / "environments.txt").symlink_to("list")
    registering.register(P, path=str(tmp_path / "environments.txt"))
    assert (tmp_path / "environments.txt").is_symlink() and (tmp_path / "list").read_text() == "/a\n" + P + "\n"


def test_many_at_once_lose_no_line(tmp_path):
    path = tmp_path / "environments.txt"
    path.write_text("/first\n")
    code = (
        "import sys; from ansible_collections.muster.cluster.plugins.module_utils.python_env import registering\n"
        "for i in range(10): registering.register('/env/%s-%d' % (sys.argv[2], i), path=sys.argv[1])"
    )
    environ = dict(os.environ, PYTHONPATH=str(REPO / "collections"))
    running = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)], env=environ) for n in range(4)]
    assert [process.wait(60) for process in running] == [0] * 4
    found = path.read_text().splitlines()
    assert found[0] == "/first" and sorted(found[1:]) == sorted("/env/%d-%d" % (n, i) for n in range(4) for i in range(10))


def test_what_somebody_appends_meanwhile_is_kept(tmp_path, monkeypatch):
    path = tmp_path / "environments.txt"
    path.write_text("/a\n")
    real, appended = registering.tempfile.mkstemp, []

    def mkstemp(**options):
        if not appended:
            appended.append(True)
            with open(path, "a", encoding="utf-8") as stream:
                stream.write("/conda/wrote/this\n")
        return real(**options)

    monkeypatch.setattr(registering.tempfile, "mkstemp", mkstemp)
    assert registering.register(P, path=str(path))
    assert path.read_text() == "/a\n/conda/wrote/this\n" + P + "\n"


def test_a_folder_in_its_place_is_one_sentence(tmp_path):
    with pytest.raises(Fault, match="found conda's list .*, which cannot be written"):
        registering.register(P, path=str(tmp_path))
