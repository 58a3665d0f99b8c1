"""A tar from a stream becomes a folder, whole or not at all."""

import errno
import gzip
import hashlib
import os
import re
import shutil
import tarfile
import time
import zlib

from ..muster_agent.errors import Refusal
from ..muster_agent.shipping import unpack

DONE = "done"
KEEP_SECONDS = 2 * 86400  # runs of another release may be at work with theirs
NAME = re.compile(r"[0-9a-f]{12}\Z")
UNFINISHED = re.compile(r"\.[0-9a-f]{12}\.(\d+)\Z")


class Hashing:
    """A stream that knows the sha256 of what was read from it."""

    def __init__(self, stream):
        self.stream, self.digest = stream, hashlib.sha256()

    def read(self, size=-1):
        """Up to ``size`` bytes."""
        data = self.stream.read(size)
        self.digest.update(data)
        return data

    def drain(self):
        """Read what is left; the sha256 of everything, in hex."""
        while self.read(1 << 20):
            pass
        return self.digest.hexdigest()


def receive(folder, name, sha256, stream):
    """Unpack the tools to ``<folder>/<name>``, and remove those of other releases that are older than two days.

    Args:
        folder: of all tools on this host; it is made.
        name: the tools' id, 12 hex digits.
        sha256: of the stream, in hex.
        stream: binary stream with a tar, compressed by gzip.

    Returns:
        ``{"received": whether they were not there before}``.

    Raises:
        Refusal: when the stream is damaged or the disk full.
        OSError: when the folder cannot be written.
    """
    source = Hashing(stream)
    target = os.path.join(folder, name)
    if os.path.exists(os.path.join(target, DONE)):
        source.drain()  # whoever sends it expects that it is taken
        return {"received": False}
    os.makedirs(folder, mode=0o755, exist_ok=True)
    remove_unfinished(folder)
    fresh = os.path.join(folder, ".{}.{}".format(name, os.getpid()))
    try:
        unpack_whole(fresh, source, sha256)
        shutil.rmtree(target, ignore_errors=True)  # one without its mark is none
        try:
            os.rename(fresh, target)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            return {"received": False}  # another run was as quick
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Refusal("the disk of {} is full, expected 160 MB for the tools; free some space".format(folder)) from None
        raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)  # the next run removes what stays
    for other in os.listdir(folder):
        path = os.path.join(folder, other)
        try:
            old = time.time() - os.stat(path).st_mtime > KEEP_SECONDS
        except OSError:
            continue  # another run was as quick
        if NAME.match(other) and other != name and old:
            shutil.rmtree(path, ignore_errors=True)  # another user's stay, and are in nobody's way
    return {"received": True}


def unpack_whole(fresh, source, sha256):
    """Unpack into the new folder ``fresh``, which everybody may read, and mark it; raises Refusal for a damaged stream."""
    try:
        with gzip.GzipFile(fileobj=source, mode="rb") as archive:
            unpack(archive, fresh)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise Refusal("the tools arrived damaged ({}), expected a whole tar; run site.yml again".format(error)) from None
    found = source.drain()
    if found != sha256:
        raise Refusal("the tools arrived damaged (sha256 {}), expected {}; run site.yml again".format(found, sha256))
    for path, _, _ in os.walk(fresh):
        os.chmod(path, 0o755)
    with open(os.path.join(fresh, DONE), "w", encoding="utf-8") as stream:
        stream.write(sha256 + "\n")


def remove_unfinished(folder):
    """Remove what killed runs left."""
    for name in os.listdir(folder):
        match = UNFINISHED.match(name)
        if match and not os.path.exists("/proc/" + match.group(1)):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)  # another run may be doing the same
