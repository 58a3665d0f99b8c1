"""Conda packages and a channel's index, written by the standard library."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import tarfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

BLOCK = 1 << 17  # the longest block of a Zstandard frame


@dataclass
class Member:
    """One file of a package.

    Args:
        data: its content; of a link, where it leads.
        mode: permissions.
        link: whether it is a symbolic link.
        placeholder: the prefix that stands in it and that an installer replaces.
        binary: whether it is replaced as in a binary, at the same length.
        mtime: seconds since 1970.
    """

    data: bytes
    mode: int = 0o644
    link: bool = False
    placeholder: str | None = None
    binary: bool = False
    mtime: int = 1700000000


@dataclass
class Package:
    """A package: what its info/index.json says, and its files by path."""

    name: str
    version: str
    depends: list[str] = field(default_factory=list)
    files: dict[str, Member] = field(default_factory=dict)
    build: str = "0"
    build_number: int = 0
    noarch: str | None = None
    constrains: list[str] = field(default_factory=list)
    entry_points: list[str] = field(default_factory=list)

    @property
    def subdir(self) -> str:
        """The folder of the channel in which it lies."""
        return "noarch" if self.noarch else "linux-64"

    @property
    def stem(self) -> str:
        """Its file name without the ending."""
        return "-".join((self.name, self.version, self.build))

    def index(self) -> dict:
        """info/index.json."""
        index = {
            "name": self.name,
            "version": self.version,
            "build": self.build,
            "build_number": self.build_number,
            "depends": self.depends,
            "constrains": self.constrains,
            "subdir": self.subdir,
            "arch": None if self.noarch else "x86_64",
            "platform": None if self.noarch else "linux",
            "license": "Apache-2.0",
            "timestamp": 1700000000000,
        }
        if self.noarch:
            index["noarch"] = self.noarch
        return index

    def info(self) -> dict[str, Member]:
        """The files below info/."""
        paths = []
        for path, member in sorted(self.files.items()):
            entry = {"_path": path, "path_type": "softlink" if member.link else "hardlink"}
            entry["sha256"] = hashlib.sha256(b"" if member.link else member.data).hexdigest()
            entry["size_in_bytes"] = 0 if member.link else len(member.data)
            if member.placeholder:
                entry.update(prefix_placeholder=member.placeholder, file_mode="binary" if member.binary else "text")
            paths.append(entry)
        texts = {"index.json": self.index(), "paths.json": {"paths": paths, "paths_version": 1}}
        texts["about.json"] = {"summary": "{} for tests".format(self.name)}
        if self.noarch == "python":
            texts["link.json"] = {"noarch": {"type": "python", "entry_points": self.entry_points}, "package_metadata_version": 1}
        found = {"info/" + name: Member(json.dumps(text, indent=1).encode()) for name, text in texts.items()}
        found["info/files"] = Member("".join(path + "\n" for path in sorted(self.files)).encode())
        return found


def text(content: str, mode: int = 0o644, **how) -> Member:
    """A member from text."""
    return Member(content.encode(), mode, **how)


def tar(members: dict[str, Member]) -> bytes:
    """A tar with members named as they are, without a leading "./"."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, member in sorted(members.items()):
            info = tarfile.TarInfo(path)
            info.mode, info.mtime = member.mode, member.mtime
            if member.link:
                info.type, info.linkname = tarfile.SYMTYPE, member.data.decode()
                archive.addfile(info)
            else:
                info.size = len(member.data)
                archive.addfile(info, io.BytesIO(member.data))
    return stream.getvalue()


def zstd(data: bytes) -> bytes:
    """A Zstandard frame whose blocks are stored, not compressed (RFC 8878, 3.1.1): Python has no compressor before 3.14."""
    # One segment, its size in eight bytes, no checksum.
    parts = [struct.pack("<IBQ", 0xFD2FB528, 0b11100000, len(data))]
    for at in range(0, len(data), BLOCK) or [0]:
        block = data[at : at + BLOCK]
        last = at + BLOCK >= len(data)
        parts += [struct.pack("<I", len(block) << 3 | last)[:3], block]
    return b"".join(parts)


def conda(package: Package) -> bytes:
    """The package as a .conda file: a stored zip of two tars, in Zstandard frames."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, data in (
            ("metadata.json", b'{"conda_pkg_format_version": 2}'),
            ("pkg-{}.tar.zst".format(package.stem), zstd(tar(package.files))),
            ("info-{}.tar.zst".format(package.stem), zstd(tar(package.info()))),
        ):
            archive.writestr(zipfile.ZipInfo(name, (2023, 11, 14, 22, 13, 20)), data)
    return stream.getvalue()


def tar_bz2(package: Package) -> bytes:
    """The package in conda's older form."""
    import bz2

    return bz2.compress(tar({**package.info(), **package.files}), 1)


def write(channel: Path, packages: list[Package], old: tuple[str, ...] = ()) -> None:
    """Write packages and their index into a channel's folder.

    Args:
        channel: the folder; it is made.
        packages: what it holds.
        old: names of those that are written as .tar.bz2.
    """
    indexes: dict[str, dict] = {subdir: {"packages": {}, "packages.conda": {}} for subdir in ("noarch", "linux-64")}
    for package in packages:
        ending, data = (".tar.bz2", tar_bz2(package)) if package.name in old else (".conda", conda(package))
        folder = channel / package.subdir
        folder.mkdir(parents=True, exist_ok=True)
        (folder / (package.stem + ending)).write_bytes(data)
        entry = dict(package.index(), size=len(data))
        for kind in ("md5", "sha256"):
            entry[kind] = hashlib.new(kind, data).hexdigest()
        indexes[package.subdir]["packages.conda" if ending == ".conda" else "packages"][package.stem + ending] = entry
    for subdir, index in indexes.items():
        (channel / subdir).mkdir(parents=True, exist_ok=True)
        whole = {"info": {"subdir": subdir}, **index, "removed": [], "repodata_version": 1}
        fresh = channel / subdir / "repodata.json.new"
        fresh.write_text(json.dumps(whole, indent=1, sort_keys=True), encoding="utf-8")
        os.replace(fresh, channel / subdir / "repodata.json")
