"""Shipped code on the node: what a tar may do there and what the job keeps."""

import io
import os
import tarfile

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import shipping
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.jobdir import JobDir


def member(name, content=b"", mode=0o644, **fields):
    """One member and its bytes; ``fields`` are attributes of TarInfo."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def link(name, target):
    return member(name, type=tarfile.SYMTYPE, linkname=target)


def tar(*members):
    """A stream with a tar of these members."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    stream.seek(0)
    return stream


def tree(folder):
    """``{path below folder: text, or -> target}``."""
    found = {}
    for path, folders, names in os.walk(folder):
        for name in names + [name for name in folders if os.path.islink(os.path.join(path, name))]:
            whole = os.path.join(path, name)
            if os.path.islink(whole):
                found[os.path.relpath(whole, folder)] = "-> " + os.readlink(whole)
            else:
                with open(whole, "rb") as stream:
                    found[os.path.relpath(whole, folder)] = stream.read().decode()
    return found


@pytest.fixture
def job(tmp_path):
    jobdir = JobDir(str(tmp_path / "state"), "exp7")
    jobdir.create()
    return jobdir


def test_files_folders_links_and_modes(job):
    shipping.install(
        tar(
            member("train.py", b"print(1)"),
            member("bin/run.sh", b"#!/bin/sh", mode=0o755),
            member("read only", b"x", mode=0o444),
            member("empty", type=tarfile.DIRTYPE, mode=0o755),
            link("data", "/mnt/data"),
            link("alias.py", "train.py"),
            member("odd\nname ü", b"y"),
            member("a/b/c.txt", b"z", mode=0o4755),
        ),
        job,
    )
    assert tree(job.work) == {
        "train.py": "print(1)",
        "bin/run.sh": "#!/bin/sh",
        "read only": "x",
        "data": "-> /mnt/data",
        "alias.py": "-> train.py",
        "odd\nname ü": "y",
        "a/b/c.txt": "z",
    }
    modes = {
        name: os.stat(os.path.join(job.work, name)).st_mode & 0o7777 for name in ("train.py", "bin/run.sh", "read only")
    }
    assert modes == {"train.py": 0o644, "bin/run.sh": 0o755, "read only": 0o644}
    assert os.stat(os.path.join(job.work, "a/b/c.txt")).st_mode & 0o7777 == 0o755
    assert not os.path.exists(job.at("work.new"))


@pytest.mark.parametrize(
    "bad",
    [
        member("../evil", b"x"),
        member("a/../../evil", b"x"),
        member("/tmp/evil", b"x"),
        member("..", type=tarfile.DIRTYPE),
        link("../evil", "x"),
        member("hard", type=tarfile.LNKTYPE, linkname="train.py"),
        member("pipe", type=tarfile.FIFOTYPE),
        member("disk", type=tarfile.BLKTYPE),
        member("null", type=tarfile.CHRTYPE),
    ],
    ids=lambda bad: "{!r} {}".format(bad[0].name, bad[0].type),
)
def test_members_that_are_refused(job, bad):
    with pytest.raises(Refusal) as caught:
        shipping.install(tar(member("train.py", b"new"), bad), job)
    assert repr(bad[0].name) in str(caught.value)
    assert not os.path.exists(job.at("evil")) and not os.path.exists(job.at("work.new"))
    assert not os.path.exists(job.work)


def test_a_refused_tar_leaves_the_one_before(job):
    shipping.install(tar(member("train.py", b"old")), job)
    with pytest.raises(Refusal):
        shipping.install(tar(member("train.py", b"new"), member("../evil")), job)
    assert tree(job.work) == {"train.py": "old"}


def write(job, name, text):
    path = os.path.join(job.work, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


def test_what_the_job_wrote_survives_and_what_is_shipped_no_more_goes(job):
    shipping.install(
        tar(member("train.py", b"1"), member("old.py", b"1"), member("sub/old.py", b"1"), link("l", "x")), job
    )
    write(job, "checkpoint.pt", "weights")
    write(job, "sub/out.txt", "out")
    write(job, "train.py", "changed by the job")
    shipping.install(tar(member("train.py", b"2"), member("new/train.py", b"2")), job)
    assert tree(job.work) == {"train.py": "2", "new/train.py": "2", "checkpoint.pt": "weights", "sub/out.txt": "out"}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([member("x", b"file")], [member("x/y", b"in a folder")], {"x/y": "in a folder"}),
        ([member("x/y", b"in a folder")], [member("x", b"file")], {"x": "file"}),
        ([link("x", "/mnt")], [member("x/y", b"in a folder")], {"x/y": "in a folder"}),
        ([member("x", b"file")], [link("x", "y")], {"x": "-> y"}),
        ([link("x", "y")], [member("x", b"file")], {"x": "file"}),
        ([link("x", "/mnt")], [link("x", "/srv")], {"x": "-> /srv"}),
        ([member("x", b"1")], [], {}),
    ],
)
def test_files_folders_and_links_replace_each_other(job, first, second, expected):
    shipping.install(tar(*first), job)
    shipping.install(tar(*second), job)
    assert tree(job.work) == expected


def test_a_link_is_replaced_not_followed(job, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    shipping.install(tar(link("x", str(outside))), job)
    shipping.install(tar(member("x", b"new")), job)
    assert outside.read_text() == "mine" and tree(job.work) == {"x": "new"}


def test_removing_a_shipped_link_leaves_its_target(job, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows").write_text("1")
    shipping.install(tar(link("data", str(tmp_path / "data"))), job)
    shipping.install(tar(member("train.py")), job)
    assert (tmp_path / "data" / "rows").read_text() == "1"


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (member("a/b")[0], True),
        (member("a..b/c..")[0], True),
        (link("a", "../../x")[0], True),
        (member("./a")[0], True),
        (member("a/..")[0], False),
        (member("/")[0], False),
        (member("a", type=tarfile.LNKTYPE)[0], False),
    ],
)
def test_safe_members(info, expected):
    assert shipping.safe_member(info) is expected


def test_nothing_is_written_through_a_shipped_link(job, tmp_path):
    (tmp_path / "outside").mkdir()
    try:
        shipping.install(tar(link("data", str(tmp_path / "outside")), member("data/rows", b"x")), job)
    except Refusal:
        pass
    assert os.listdir(str(tmp_path / "outside")) == []


def test_a_tar_that_is_cut_off_is_refused(job):
    whole = tar(member("train.py", b"x" * 5000)).getvalue()
    with pytest.raises(Refusal):
        shipping.install(io.BytesIO(whole[:2000]), job)
