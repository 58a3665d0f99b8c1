# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The other end of `sharing`: runs on a member by `python -I -S -c`, whole, on Python 3.8. Standard library only.

On stdin comes a line of JSON, {"store", "items": [{"sha256", "file_name", "size", "local"}]}; the answer is a line with the
numbers of the items that are not here. Then come those, one after the other, and the last line of the answer is {"packages",
"bytes"} or {"fault"}. What is not the package of the lock never gets its name.
"""

import hashlib
import json
import os
import sys

CHUNK = 1 << 20


def wanted(store, items):
    """Numbers of the items that are neither in the store nor at their local path."""
    found = []
    for number, item in enumerate(items):
        there = [os.path.join(store, item["sha256"], item["file_name"])] + ([item["local"]] if item["local"] else [])
        if not any(os.path.isfile(path) for path in there):
            found.append(number)
    return found


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
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.unlink(part)


def main():
    """Receive everything that is missing."""
    os.umask(0o022)
    stream = sys.stdin.buffer
    request = json.loads(stream.readline().decode())
    numbers = wanted(request["store"], request["items"])
    print(json.dumps(numbers), flush=True)
    size = 0
    try:
        for number in numbers:
            item = request["items"][number]
            receive(stream, request["store"], item)
            size += item["size"]
    except (OSError, ValueError) as error:
        print(json.dumps({"fault": getattr(error, "strerror", None) or str(error)}), flush=True)
        return
    print(json.dumps({"packages": len(numbers), "bytes": size}), flush=True)


if __name__ == "__main__":
    main()
