"""Shipped code on the node: a tar laid over the working folder, without touching what the job wrote there."""

import os
import shutil
import tarfile
import time

from . import files
from .errors import Refusal


def safe_member(member):
    """Whether a tar member stays inside the folder into which it is unpacked."""
    parts = member.name.split("/")
    return not (member.name.startswith("/") or ".." in parts) and (member.isreg() or member.issym() or member.isdir())


def unpack(stream, folder):
    """Unpack a tar into a new ``folder``; returns the sorted names of its files and links."""
    names, links = [], set()
    os.mkdir(folder, 0o700)
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if not safe_member(member):
                raise Refusal("the shipped tar holds {!r}, which leads outside the working folder".format(member.name))
            parts = member.name.split("/")
            below = links.intersection("/".join(parts[:depth]) for depth in range(1, len(parts)))
            if below:
                raise Refusal("the shipped tar holds {!r} below the link {!r}".format(member.name, below.pop()))
            target = os.path.join(folder, member.name)
            if member.isdir():
                os.makedirs(target, exist_ok=True)
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if member.issym():
                os.symlink(member.linkname, target)
                links.add(member.name)
            else:
                with open(target, "wb") as output:
                    shutil.copyfileobj(archive.extractfile(member), output, 1 << 20)
                os.chmod(target, member.mode & 0o777 | 0o600)
            names.append(member.name)
    return sorted(names)


def lay_over(fresh, work, names, before):
    """Move the files ``names`` from ``fresh`` over ``work`` and remove those of ``before`` that are shipped no more.

    What the job itself wrote into ``work`` (checkpoints, say) stays.
    """
    os.makedirs(work, mode=0o700, exist_ok=True)
    for name in set(before) - set(names):
        try:
            os.unlink(os.path.join(work, name))
        except OSError:
            continue
    for name in names:
        target = os.path.join(work, name)
        _make_folders(work, os.path.dirname(name))
        if os.path.isdir(target) and not os.path.islink(target):
            _set_aside(target)
        os.replace(os.path.join(fresh, name), target)


def _set_aside(path):
    """What the job wrote under a name that is shipped now as something else; it is renamed, never removed."""
    os.rename(path, "{}.kept-{:.0f}".format(path, time.time() * 1000))


def _make_folders(work, folder):
    """Real folders from ``work`` down."""
    path = work
    for part in folder.split("/") if folder else ():
        path = os.path.join(path, part)
        if os.path.islink(path) or os.path.lexists(path) and not os.path.isdir(path):
            _set_aside(path)
        if not os.path.isdir(path):
            os.mkdir(path, 0o700)


def install(stream, jobdir):
    """Unpack ``stream`` aside, then lay it over the job's working folder."""
    fresh = jobdir.at("work.new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        try:
            names = unpack(stream, fresh)
        except (tarfile.TarError, EOFError) as error:
            raise Refusal("the shipped tar arrived damaged ({}); launch again".format(error)) from None
        lay_over(fresh, jobdir.work, names, files.read_json(jobdir.at("shipped.json"), []))
        files.write_json(jobdir.at("shipped.json"), names)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
