"""The head hands packages on: what a member lacks, and nothing else, reaches its store; what goes wrong is one sentence."""

import hashlib
import io
import subprocess
import sys

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import receiver, sharing, store
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault


def local(member, command):
    """In place of ssh: the shell command on this machine."""
    return ["sh", "-c", command]


def member(path, name="n2"):
    return {"name": name, "store": str(path), "python": sys.executable}


@pytest.fixture
def packages(tmp_path):
    """A store with three packages, one of them empty, one of several chunks: ``(cache, items)``."""
    items = []
    for name, content in (("a-1.0.conda", b"x" * (3 * store.CHUNK + 7)), ("b.whl", b"wheel"), ("empty.whl", b"")):
        digest = hashlib.sha256(content).hexdigest()
        path = tmp_path / "head" / "packages" / digest / name
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        items.append({"url": "https://packages.invalid/" + name, "sha256": digest, "file_name": name, "size": len(content)})
    return str(tmp_path / "head"), items


def names(path):
    return sorted(str(found.relative_to(path)) for found in path.rglob("*") if found.is_file())


def test_each_member_gets_what_it_lacks_once(packages, tmp_path):
    cache, items = packages
    sharer = sharing.Sharing(sharing.describe(cache, items), command=local)
    stores = [tmp_path / "n2", tmp_path / "n3"]
    found = sharer.share([member(stores[0]), member(stores[1], "n3")])
    size = sum(item["size"] for item in items)
    assert found == {"n2": {"packages": 3, "bytes": size}, "n3": {"packages": 3, "bytes": size}}
    for path in stores:
        assert names(path) == sorted("{}/{}".format(item["sha256"], item["file_name"]) for item in items)
        assert store.missing(str(path.parent), []) == []
    again = sharing.Sharing(sharing.describe(cache, items), command=local).share([member(stores[0])])
    assert again == {"n2": {"packages": 0, "bytes": 0}}


def test_a_file_that_lies_on_the_member_too_is_not_sent(packages, tmp_path):
    cache, items = packages
    path = store.locate(cache, items[1])
    items[1]["url"] = "file://" + path
    found = sharing.Sharing(sharing.describe(cache, items), command=local).share([member(tmp_path / "n2")])
    assert found["n2"]["packages"] == 2


def test_what_the_head_lacks_is_told_before_anybody_is_asked(packages):
    cache, items = packages
    with pytest.raises(Fault, match=r"found no c\.whl on this host"):
        sharing.describe(cache, items + [{"url": "https://x.invalid/c.whl", "sha256": "0" * 64, "file_name": "c.whl", "size": 1}])


def test_a_package_that_is_another_gets_no_name(packages, tmp_path):
    cache, items = packages
    described = sharing.describe(cache, items)
    described[1]["sha256"] = "0" * 64
    with pytest.raises(Fault, match=r"n2: the head could not hand it packages \(b\.whl came with another sha256\)"):
        sharing.Sharing(described, command=local).share([member(tmp_path / "n2")])
    assert not [name for name in names(tmp_path / "n2") if "b.whl" in name or "part" in name]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["sh", "-c", "head -c 1 >/dev/null; echo 'Host key verification failed.' >&2; exit 255"], "Host key verification"),
        (["sh", "-c", "exit 0"], "it ended early"),
        (["/does/not/exist"], "found no ssh on the head"),
        (["sh", "-c", "echo not json; cat >/dev/null"], "it ended early"),
    ],
)
def test_a_member_that_cannot_be_served(packages, tmp_path, command, words):
    cache, items = packages
    sharer = sharing.Sharing(sharing.describe(cache, items), command=lambda one, text: command)
    with pytest.raises(Fault, match=words):
        sharer.share([member(tmp_path / "n2")])


def test_a_member_that_hangs_is_given_up(packages, tmp_path, monkeypatch):
    cache, items = packages
    monkeypatch.setattr(sharing, "STALLED", 1.5)
    sharer = sharing.Sharing(sharing.describe(cache, items), command=lambda one, text: ["sleep", "60"])
    with pytest.raises(Fault, match="no progress in"):
        sharer.share([member(tmp_path / "n2")])


def test_the_members_that_failed_are_all_named(packages, tmp_path):
    cache, items = packages
    blocked = tmp_path / "file"
    blocked.write_text("")
    sharer = sharing.Sharing(sharing.describe(cache, items), command=local)
    with pytest.raises(Fault) as told:
        sharer.share([member(blocked, "n2"), member(tmp_path / "n3", "n3"), member(blocked, "n4")])
    assert "n2: " in str(told.value) and "n4: " in str(told.value) and "n3: " not in str(told.value)
    assert len(names(tmp_path / "n3")) == 3


def test_a_connection_that_ends_in_the_middle_leaves_no_part(packages, tmp_path):
    cache, items = packages
    request = b'{"store": "%s", "items": [{"sha256": "%s", "file_name": "a", "size": 100, "local": null}]}\n' % (
        str(tmp_path / "n2").encode(), b"0" * 64,
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-I", receiver.__file__], input=request + b"short", stdout=subprocess.PIPE, timeout=30, check=True
    )
    assert b"the connection ended in the middle of a" in done.stdout and names(tmp_path / "n2") == []


def test_ssh_asks_nothing_and_knows_the_key():
    argv = sharing.ssh_argv({"name": "n2"}, "true")
    assert argv[-3:] == ["--", "n2", "true"] and "BatchMode=yes" in argv and "StrictHostKeyChecking=yes" in argv


def test_a_damaged_package_is_wanted_again(tmp_path):
    digest = hashlib.sha256(b"wheel").hexdigest()
    stored = tmp_path / "store" / digest / "b.whl"
    stored.parent.mkdir(parents=True)
    stored.write_bytes(b"whale")
    mine = tmp_path / "b.whl"
    mine.write_bytes(b"whale")
    item = {"sha256": digest, "file_name": "b.whl", "size": 5, "local": str(mine)}
    assert receiver.wanted(str(tmp_path / "store"), [item]) == [0]
    assert not stored.exists() and mine.exists()
    mine.write_bytes(b"wheel")
    assert receiver.wanted(str(tmp_path / "store"), [item]) == []
    stored.write_bytes(b"wheel")
    assert receiver.wanted(str(tmp_path / "store"), [dict(item, local=None)]) == []


def test_the_store_may_lie_in_the_home_there(packages, tmp_path, monkeypatch):
    cache, items = packages
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    sharing.Sharing(sharing.describe(cache, items), command=local).share([member("~/cache/packages")])
    assert len(names(tmp_path / "home" / "cache" / "packages")) == 3


def test_what_is_received_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(receiver, "sync", done.append)
    replace = receiver.os.replace
    monkeypatch.setattr(receiver.os, "replace", lambda old, new: done.append("rename") or replace(old, new))
    digest = hashlib.sha256(b"wheel").hexdigest()
    receiver.receive(io.BytesIO(b"wheel"), str(tmp_path), {"sha256": digest, "file_name": "b.whl", "size": 5})
    assert [str(word).rpartition(".part")[1] or word for word in done] == [".part", "rename", str(tmp_path / digest)]
