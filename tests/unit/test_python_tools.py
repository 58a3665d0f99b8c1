"""The tools for nodes: their name, how they are built, and how a node takes them."""

import fcntl
import gzip
import hashlib
import io
import os
import tarfile

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_tools import cli, receiving
from ansible_collections.muster.cluster.plugins.plugin_utils import python_tools

PINS = "# a comment\nuv==0.13.9 \\\n    --hash=sha256:00\n"


def test_the_name_says_what_is_in_them():
    name = python_tools.tools_name(PINS, "x86_64")
    assert receiving.NAME.match(name)
    assert name == python_tools.tools_name(PINS.replace("comment", "remark"), "x86_64")
    assert name != python_tools.tools_name(PINS, "aarch64")
    assert name != python_tools.tools_name(PINS.replace("0.13.9", "0.13.8"), "x86_64")


def test_a_processor_without_wheels_is_told():
    with pytest.raises(Refusal, match="found the processor riscv64, expected aarch64 or x86_64; take such nodes"):
        python_tools.tools_name(PINS, "riscv64")


def test_every_pin_is_exact_and_has_hashes():
    with open(python_tools.pins_path(), encoding="utf-8") as stream:
        lines = [line.split()[0] for line in stream if line.strip() and line[0] not in "# "]
    assert [line.split("==")[0] for line in lines] == ["py-rattler", "uv"] and all("==" in line for line in lines)


def test_nothing_is_built_and_every_hash_is_checked():
    assert python_tools.install_argv("/v/uv", "/v/python", "x86_64-manylinux2014", "/r/tools.txt", "/c/site") == [
        "/v/uv", "pip", "install", "--quiet", "--no-config", "--python", "/v/python", "--target", "/c/site",
        "--python-platform", "x86_64-manylinux2014", "--python-version", "3.10", "--only-binary", ":all:", "--no-deps",
        "--require-hashes", "--no-compile-bytecode", "--link-mode", "copy", "--requirements", "/r/tools.txt",
    ]  # fmt: skip


def make_tree(folder, when):
    """Something to pack, last changed at ``when``."""
    (folder / "site" / "thing").mkdir(parents=True)
    (folder / "site" / "thing" / "__init__.py").write_text("x = 1\n")
    (folder / "site" / "RECORD").write_text(str(when))
    (folder / "uv").write_text("#!/bin/sh\n")
    (folder / "uv").chmod(0o755)
    for path in folder.rglob("*"):
        os.utime(path, (when, when))


def test_the_tar_depends_on_the_content_alone(tmp_path):
    packed = []
    for when in (1000, 2000):
        folder = tmp_path / str(when)
        folder.mkdir()
        make_tree(folder, when)
        python_tools.pack(str(folder), ("site", "uv"), str(tmp_path / "a.tar.gz"))
        packed.append((tmp_path / "a.tar.gz").read_bytes())
    assert packed[0] == packed[1]
    with tarfile.open(fileobj=io.BytesIO(packed[0])) as archive:
        assert [(member.name, member.mode) for member in archive] == [("site/thing/__init__.py", 0o644), ("uv", 0o755)]


UV = """#!/bin/sh
echo "$@" >> {log}
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/bin" "$2/rattler"
echo uv > "$2/bin/uv"
chmod 755 "$2/bin/uv"
"""


@pytest.fixture
def uv(tmp_path):
    """A uv that notes its arguments and makes what one makes."""
    path = tmp_path / "uv"
    path.write_text(UV.format(log=tmp_path / "log"))
    path.chmod(0o755)
    return path


def test_they_are_fetched_once(tmp_path, uv):
    said = []
    made = [python_tools.build("x86_64", str(tmp_path / "cache"), str(uv), environ={}, say=said.append) for _ in range(2)]
    assert made[0] == made[1]
    with open(made[0].archive, "rb") as stream:
        assert hashlib.sha256(stream.read()).hexdigest() == made[0].sha256
    assert len((tmp_path / "log").read_text().splitlines()) == 1
    assert said == ["fetching rattler and uv for nodes with x86_64, once"]
    assert sorted(os.listdir(tmp_path / "cache")) == [made[0].name + ".sha256", made[0].name + ".tar.gz", "lock"]


def test_a_uv_that_fails_is_told_and_leaves_nothing(tmp_path, uv):
    uv.write_text("#!/bin/sh\necho 'error: Failed to fetch: `http://index.test/simple/uv/`'\necho '  cause: dns error'\nexit 2\n")
    with pytest.raises(Refusal) as caught:
        python_tools.build("x86_64", str(tmp_path / "cache"), str(uv), environ={})
    assert str(caught.value).startswith(
        "the tools for nodes cannot be fetched to the controller: the package index http://index.test/"
    )
    assert os.listdir(tmp_path / "cache") == ["lock"]


def test_without_uv_it_is_told_where_it_comes_from(tmp_path):
    with pytest.raises(Refusal, match="found no uv that runs at /no/uv .*; install the requirements.txt of Muster"):
        python_tools.build("x86_64", str(tmp_path / "cache"), "/no/uv", environ={})


# ----------------------------------------------------------------------------------------------------------- on the node

NAME = "0123456789ab"


@pytest.fixture
def archive(tmp_path):
    """A tar as it is sent, and its sha256."""
    (tmp_path / "tree").mkdir()
    make_tree(tmp_path / "tree", 1000)
    python_tools.pack(str(tmp_path / "tree"), ("site", "uv"), str(tmp_path / "a.tar.gz"))
    data = (tmp_path / "a.tar.gz").read_bytes()
    return data, hashlib.sha256(data).hexdigest()


def receive(folder, data, sha256):
    """The node's answer."""
    return cli.call({"do": "receive", "folder": str(folder), "name": NAME, "sha256": sha256}, io.BytesIO(data))


def test_a_node_takes_them_once_and_everybody_may_read_them(tmp_path, archive):
    folder = tmp_path / "state" / "tools"
    for name in ("ba9876543210", "aa9876543210", "kept"):
        (folder / name).mkdir(parents=True)
    for name in ("ba9876543210", "kept"):  # the first of another release, long ago
        os.utime(folder / name, (1000, 1000))
    before = os.umask(0o077)
    try:
        assert receive(folder, *archive) == {"received": True}
    finally:
        os.umask(before)
    assert sorted(os.listdir(folder)) == [NAME, "aa9876543210", "kept"]
    assert (folder / NAME / "done").read_text() == archive[1] + "\n"
    assert os.stat(folder / NAME / "uv").st_mode & 0o777 == 0o755
    assert os.stat(folder / NAME / "site" / "thing").st_mode & 0o777 == 0o755
    assert receive(folder, *archive) == {"received": False}


def test_half_of_them_are_none(tmp_path, archive):
    folder = tmp_path / "tools"
    (folder / NAME / "site").mkdir(parents=True)  # without its mark
    (folder / ".{}.999999999".format(NAME)).mkdir()  # of a killed run
    assert receive(folder, *archive) == {"received": True}
    assert os.listdir(folder) == [NAME] and (folder / NAME / "uv").exists()


@pytest.mark.parametrize("spoil", ["half", "changed", "hash", "text"])
def test_damaged_ones_are_refused(tmp_path, archive, spoil):
    data, sha256 = archive
    data = {
        "half": data[: len(data) // 2],
        "changed": gzip.compress(gzip.decompress(data).replace(b"x = 1", b"x = 2")),
        "hash": data,
        "text": b"what a login script prints",
    }[spoil]
    answer = receive(tmp_path / "tools", data, "00" * 32 if spoil == "hash" else sha256)
    assert answer["refused"].startswith("the tools arrived damaged (") and answer["refused"].endswith("; run site.yml again")
    assert os.listdir(tmp_path / "tools") == []


def test_a_place_that_cannot_be_written_is_told(tmp_path, archive):
    (tmp_path / "file").write_text("")
    answer = receive(tmp_path / "file" / "tools", *archive)
    assert answer["refused"].startswith("writing the tools failed on {}".format(tmp_path))


def test_another_run_is_not_waited_for_without_end(tmp_path, uv, monkeypatch):
    monkeypatch.setattr(python_tools, "PATIENCE", 0.3)
    (tmp_path / "cache").mkdir()
    with open(tmp_path / "cache" / "lock", "w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Refusal, match="cache/lock held by another run for 0.3 s, expected it free"):
            python_tools.build("x86_64", str(tmp_path / "cache"), str(uv), environ={})
