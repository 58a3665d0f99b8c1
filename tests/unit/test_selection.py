"""Which files are shipped, and that the tar depends on them alone."""

import hashlib
import io
import os
import subprocess
import tarfile
import time

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import selection


def write(folder, *names):
    """Files below ``folder``, each holding its own name."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def git(folder, *arguments):
    base = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
    subprocess.run([*base, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(autouse=True)
def no_settings_of_the_user(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path_factory.getbasetemp()))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def plain(tmp_path):
    """A folder outside any git work tree."""
    folder = (tmp_path / "plain").resolve()
    write(folder, "train.py", "other.py", "pkg/__init__.py", "pkg/train.py", "sub/train.py", "../beside.py")
    return folder


@pytest.fixture
def tree(tmp_path):
    """A git work tree with a bit of everything."""
    folder = (tmp_path / "tree").resolve()
    write(folder, "train.py", "lib/a.py", "gone.py")
    (folder / ".gitignore").write_text("*.pt\nout/\n__pycache__/\n")
    (folder / "link").symlink_to("lib")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")
    (folder / "gone.py").unlink()
    write(folder, "new.py", "weights.pt", "out/log", "lib/__pycache__/a.pyc")
    return folder


def choose(folder, script="train.py", module=None, ship=None, stands=None, packaged="/nowhere"):
    path = os.path.join(str(folder), script) if script else None
    return selection.choose(path, module, ship, str(stands or folder), str(packaged))


def test_a_work_tree_ships_what_git_would_keep(tree):
    expected = [".gitignore", "lib/a.py", "link", "new.py", "train.py"]
    assert choose(tree) == (str(tree), expected)
    assert choose(tree, "lib/a.py") == (str(tree), expected)


def test_an_ignored_script_is_shipped_nevertheless(tree):
    write(tree, "out/train.py")
    assert choose(tree, "out/train.py")[1] == [".gitignore", "lib/a.py", "link", "new.py", "out/train.py", "train.py"]


def test_odd_names_are_names(tree):
    names = ["a b.py", "new\nline.py", "grüße.py", '"quoted".py', "-dash.py", "tab\t.py"]
    write(tree, *names)
    broken = os.fsencode(str(tree)) + b"/latin\xe9.py"
    open(broken, "w").close()
    found = choose(tree)[1]
    assert set(names) | {os.fsdecode(b"latin\xe9.py")} <= set(found)
    with tarfile.open(fileobj=io.BytesIO(packed(tree, found)[0])) as archive:
        assert archive.getnames() == found


def test_submodules_are_shipped_with_their_files(tree):
    inner = tree / "inner"
    write(inner, "mod.py", "big.bin")
    (inner / ".gitignore").write_text("*.bin\n")
    git(inner, "init", "-q")
    git(inner, "add", "-A")
    git(inner, "commit", "-q", "-m", "x")
    assert [name for name in choose(tree)[1] if name.startswith("inner")] == ["inner/.gitignore", "inner/mod.py"]
    git(tree, "add", "inner")
    assert [name for name in choose(tree)[1] if name.startswith("inner")] == ["inner/.gitignore", "inner/mod.py"]


def test_outside_git_the_script_goes_alone(plain):
    assert choose(plain) == (str(plain), ["train.py"])
    assert choose(plain, "sub/train.py") == (str(plain / "sub"), ["train.py"])


def test_outside_git_a_module_goes_with_its_package(plain):
    assert choose(plain, None, "pkg.train") == (str(plain), ["pkg/__init__.py", "pkg/train.py"])
    assert choose(plain, None, "other") == (str(plain), ["other.py"])
    with pytest.raises(Refusal, match="found no module nothing.x .*; stand in the folder that holds it"):
        choose(plain, None, "nothing.x")


def test_a_module_of_a_work_tree(tree):
    assert choose(tree, None, "lib.a") == (str(tree), [".gitignore", "lib/a.py", "link", "new.py", "train.py"])
    with pytest.raises(Refusal, match="found no module lib.b "):
        choose(tree, None, "lib.b")


def test_packaged_files_are_shipped_together(tree, tmp_path):
    packaged = (tmp_path / "tree" / "files").resolve()
    write(packaged, "train.py", "digits.csv", "__pycache__/x.pyc", "sub/y.py")
    assert choose(packaged, packaged=packaged) == (str(packaged), ["digits.csv", "sub/y.py", "train.py"])


@pytest.mark.parametrize(
    ("ship", "expected"),
    [
        (["train.py"], ["train.py"]),
        (["other.py"], ["other.py", "train.py"]),
        (["sub"], ["sub/train.py", "train.py"]),
        (["sub/"], ["sub/train.py", "train.py"]),
        (["*.py"], ["other.py", "train.py"]),
        (["**/*.py"], ["other.py", "pkg/__init__.py", "pkg/train.py", "sub/train.py", "train.py"]),
        (["pkg", "o*.py"], ["other.py", "pkg/__init__.py", "pkg/train.py", "train.py"]),
        (["sub/../other.py"], ["other.py", "train.py"]),
    ],
)
def test_ship_names_files_folders_and_globs(plain, ship, expected):
    assert choose(plain, ship=ship) == (str(plain), expected)


def test_ship_overrides_git(tree):
    assert choose(tree, ship=["*.pt"]) == (str(tree), ["train.py", "weights.pt"])
    assert choose(tree, ship=["link"]) == (str(tree), ["link", "train.py"])


@pytest.mark.parametrize("pattern", ["nothing*", "none.py", "sub/none"])
def test_a_pattern_that_matches_nothing_is_refused(plain, pattern):
    with pytest.raises(Refusal, match="which matches nothing below"):
        choose(plain, ship=[pattern])


@pytest.mark.parametrize("pattern", ["../*", "/etc/passwd", "sub/../../*", ".."])
def test_a_pattern_that_leads_outside_is_refused(plain, pattern):
    with pytest.raises(Refusal, match="which lies outside"):
        choose(plain, ship=[pattern])


def test_a_script_is_found_where_the_user_stands_then_among_the_packaged(plain, tmp_path):
    packaged = tmp_path / "files"
    write(packaged, "train.py", "bench.py")
    assert selection.find_script("train.py", str(plain), str(packaged)) == str(plain / "train.py")
    assert selection.find_script("bench.py", str(plain), str(packaged)) == os.path.realpath(str(packaged / "bench.py"))
    assert selection.find_script(str(plain / "other.py"), "/", str(packaged)) == str(plain / "other.py")
    (plain / "alias.py").symlink_to("other.py")
    assert selection.find_script("alias.py", str(plain), str(packaged)) == str(plain / "other.py")


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (
            "none.py",
            "found no script 'none.py' on this machine, looked at {0}/none.py and /packaged/none.py; correct the path",
        ),
        ("/none.py", "found no script '/none.py' on this machine, looked at /none.py; correct the path"),
        ("sub", "{0}/sub is a directory, expected a Python script; name the file in it"),
    ],
)
def test_scripts_that_are_refused(plain, script, told):
    with pytest.raises(Refusal) as caught:
        selection.find_script(script, str(plain), "/packaged")
    assert str(caught.value) == told.format(plain)


def test_a_script_that_cannot_be_read(plain, monkeypatch):
    def closed(path, mode):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", closed)
    with pytest.raises(Refusal, match=r"train.py cannot be read \(Permission denied\); chmod it"):
        selection.find_script("train.py", str(plain), "/packaged")


def test_too_much_must_be_asked_for(plain, monkeypatch):
    assert selection.check_size(str(plain), ["train.py", "other.py"], None) == 16
    monkeypatch.setattr(selection, "MAX_FILES", 1)
    with pytest.raises(
        Refusal, match="holds 2 files with 0 MB, expected at most 1 and 200 MB; say what the job needs by ship"
    ):
        selection.check_size(str(plain), ["train.py", "other.py"], None)
    assert selection.check_size(str(plain), ["train.py", "other.py"], ["*.py"]) == 16
    monkeypatch.setattr(selection, "MAX_FILES", 20000)
    monkeypatch.setattr(selection, "MAX_BYTES", 1)
    with pytest.raises(Refusal, match="holds 2 files"):
        selection.check_size(str(plain), ["train.py", "other.py"], None)


def packed(folder, names):
    """``(bytes, sha256)`` of the tar."""
    output = io.BytesIO()
    digest = selection.pack(str(folder), names, output)
    return output.getvalue(), digest


def members(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {m.name: (m.type, m.mode, m.linkname, m.uid, m.uname, m.mtime) for m in archive.getmembers()}


def test_the_digest_is_that_of_the_bytes(plain):
    data, digest = packed(plain, ["other.py", "train.py"])
    assert digest == hashlib.sha256(data).hexdigest()


def test_times_owners_and_rights_that_do_not_matter_change_nothing(plain, monkeypatch):
    before = packed(plain, ["other.py", "train.py"])
    os.utime(str(plain / "train.py"), (time.time() - 1e6, time.time() - 1e6))
    (plain / "train.py").chmod(0o600)
    info = tarfile.TarFile.gettarinfo

    def of_somebody_else(archive, *arguments, **names):
        found = info(archive, *arguments, **names)
        found.uid, found.gid, found.uname, found.gname = 4711, 4712, "alice", "users"
        return found

    monkeypatch.setattr(tarfile.TarFile, "gettarinfo", of_somebody_else)
    assert packed(plain, ["other.py", "train.py"]) == before


def test_content_names_and_the_right_to_execute_do_matter(plain):
    digests = {
        packed(plain, ["train.py"])[1],
        packed(plain, ["other.py"])[1],
        packed(plain, ["other.py", "train.py"])[1],
    }
    (plain / "train.py").chmod(0o755)
    digests.add(packed(plain, ["train.py"])[1])
    (plain / "train.py").write_text("changed")
    digests.add(packed(plain, ["train.py"])[1])
    assert len(digests) == 5


def test_links_and_rights_are_kept(plain):
    (plain / "run.sh").write_text("x")
    (plain / "run.sh").chmod(0o775)
    (plain / "dangling").symlink_to("/no/where")
    os.link(str(plain / "train.py"), str(plain / "twin.py"))
    data, _ = packed(plain, ["dangling", "run.sh", "train.py", "twin.py"])
    file, link = tarfile.REGTYPE, tarfile.SYMTYPE
    assert members(data) == {
        "dangling": (link, 0o755, "/no/where", 0, "", 0),
        "run.sh": (file, 0o755, "", 0, "", 0),
        "train.py": (file, 0o644, "", 0, "", 0),
        "twin.py": (file, 0o644, "", 0, "", 0),
    }
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert archive.extractfile("twin.py").read() == b"train.py"


def test_what_is_neither_file_nor_link_is_refused(plain):
    os.mkfifo(str(plain / "pipe"))
    with pytest.raises(Refusal, match="pipe is neither a file nor a link, so it cannot be shipped"):
        packed(plain, ["pipe"])


def test_where_the_code_comes_from(plain, tree):
    assert selection.origin(str(plain)) == {"commit": None, "changed": None}
    found = selection.origin(str(tree))
    assert len(found["commit"]) == 40 and found["changed"] is True
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "y")
    assert selection.origin(str(tree))["changed"] is False


def test_without_git_the_script_goes_alone(tree, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert choose(tree) == (str(tree), ["train.py"])
    assert selection.origin(str(tree)) == {"commit": None, "changed": None}


@pytest.mark.parametrize("ship", [["**"], ["*"], [".git"]])
def test_gits_own_folder_is_never_shipped(tree, ship):
    try:
        names = choose(tree, ship=ship)[1]
    except Refusal:
        return
    assert not [name for name in names if name.startswith(".git/")]


def test_nothing_below_a_shipped_link_is_shipped(tree):
    assert choose(tree, ship=["**/*.py", "link"])[1] == ["lib/a.py", "link", "new.py", "train.py"]


def test_a_module_is_found_where_the_user_stands(tree):
    write(tree, "sub/pkg/train.py")
    assert "sub/pkg/train.py" in choose(tree, None, "pkg.train", stands=tree / "sub")[1]


def test_ship_helps_where_git_does_not_trust_the_owner(plain, monkeypatch):
    def distrusting(argv, **kinds):
        text = b"fatal: detected dubious ownership in repository"
        return subprocess.CompletedProcess(argv, 128, b"", text)

    monkeypatch.setattr(selection.subprocess, "run", distrusting)
    with pytest.raises(Refusal, match="or say what to ship by ship"):
        choose(plain)
    assert choose(plain, ship=["*.py"]) == (str(plain), ["other.py", "train.py"])


def test_git_is_asked_in_english(plain, monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    seen = []

    def asked(argv, **kinds):
        seen.append(kinds)
        return subprocess.CompletedProcess(argv, 1, b"", b"")

    monkeypatch.setattr(selection.subprocess, "run", asked)
    selection.git(str(plain), "status")
    assert seen[0]["env"]["LC_ALL"] == "C"


def test_a_git_that_hangs_is_a_refusal(plain, monkeypatch):
    def hanging(argv, **kinds):
        raise subprocess.TimeoutExpired(argv, kinds["timeout"])

    monkeypatch.setattr(selection.subprocess, "run", hanging)
    with pytest.raises(Refusal):
        choose(plain)


def test_a_file_that_cannot_be_packed_is_a_refusal(plain):
    with pytest.raises(Refusal):
        packed(plain, ["vanished.py"])
