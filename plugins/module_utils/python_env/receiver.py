# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The other end of `sharing`: runs on a member by `python -I -S -c`, whole, on Python 3.8. Standard library only.

On stdin comes a line of JSON, {"store", "items": [{"sha256", "file_name", "size", "local"}]}; the answer is an empty line for
each of them that was looked for, and a line with the numbers of those that are not here. Then come those, one after the other,
and the last line of the answer is {"packages", "bytes"} or {"fault"}. What is not the package of the lock never gets its name.
"""

import hashlib
import json
import os
import sys

CHUNK = 1 << 20


def wanted(store, items, beat=lambda: None):
    """Numbers of the items that are neither in the store nor at their local path; a damaged one of the store is removed.

    Args:
        store: the folder; items: what is asked for.
        beat: called after every item, since it takes a while to read them all.
    """
    found = []
    for number, item in enumerate(items):
        path = os.path.join(store, item["sha256"], item["file_name"])
        if not whole(path, item["sha256"]):
            if os.path.isfile(path):
                os.unlink(path)
            if not item["local"] or not whole(item["local"], item["sha256"]):
                found.append(number)
        beat()
    return found


def whole(path, sha256):
    """Whether a file is there, can be read, and has a sha256."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as handle:
            for chunk in iter(lambda: handle.read(CHUNK), b""):
                digest.update(chunk)
    except OSError:
        return False
    return digest.hexdigest() == sha256


def sync(path):
    """Have a file's or a folder's content on the disk, so that a power cut leaves no half file under a name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def receive(stream, store, item):
    """Write one package from the stream; raises ValueError for one that is cut short or another."""
    home = os.path.join(store, item["sha256"])
    os.makedirs(home, exist_ok=True)
    path = os.path.join(home, item["file_name"])
    part = "{}.part-{}".format(path, os.getpid())
    digest, left = hashlib.sha256(), item["size"]
    try:
        with open(part, "wb") as handle:
            while left:
                chunk = stream.read(min(CHUNK, left))
                if not chunk:
                    raise ValueError("the connection ended in the middle of {}".format(item["file_name"]))
                handle.write(chunk)
                digest.update(chunk)
                left -= len(chunk)
        if digest.hexdigest() != item["sha256"]:
            raise ValueError("{} came with another sha256".format(item["file_name"]))
        sync(part)
        os.replace(part, path)
        sync(home)
    finally:
        if os.path.exists(part):
            os.unlink(part)


def main():
    """Receive everything that is missing."""
    os.umask(0o022)
    stream = sys.stdin.buffer
    request = json.loads(stream.readline().decode())
    store = os.path.expanduser(request["store"])
    try:
        numbers = wanted(store, request["items"], lambda: print(flush=True))
    except OSError as error:  # a damaged file that is somebody else's
        print(json.dumps({"fault": "{}: {}".format(error.filename, error.strerror)}), flush=True)
        return
    print(json.dumps(numbers), flush=True)
    size = 0
    try:
        for number in numbers:
            item = request["items"][number]
            receive(stream, store, item)
            size += item["size"]
    except (OSError, ValueError) as error:
        print(json.dumps({"fault": getattr(error, "strerror", None) or str(error)}), flush=True)
        return
    print(json.dumps({"packages": len(numbers), "bytes": size}), flush=True)


if __name__ == "__main__":
    main()
