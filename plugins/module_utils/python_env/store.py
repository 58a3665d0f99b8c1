# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""Where the packages of a lock lie on this host: in the package store, or where a `file:` address says."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Iterable, Mapping

from .complaints import Fault
from .settings import local_path

CHUNK = 1 << 20


def folder(cache: str) -> str:
    """The package store in the folder of caches."""
    return os.path.join(cache, "packages")


def stored(cache: str, item: Mapping[str, Any]) -> str:
    """Where the store keeps a package, whether it is there or not."""
    return os.path.join(folder(cache), item["sha256"], item["file_name"])


def locate(cache: str, item: Mapping[str, Any]) -> str | None:
    """The path of a package of a lock on this host; None where it is neither in the store nor at a `file:` address.

    A local file is used where it lies: it is not copied.
    """
    path = stored(cache, item)
    if os.path.isfile(path):
        return path
    local = local_path(item["url"]) if item["url"].startswith("file:") else None
    return local if local and os.path.isfile(local) else None


def missing(cache: str, items: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those packages of a lock that are not on this host."""
    return [item for item in items if not locate(cache, item)]


def sha256(path: str) -> str:
    """sha256 (hex) of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for chunk in iter(lambda: handle.read(CHUNK), b""):
            digest.update(chunk)
    return digest.hexdigest()


def keep(part: str, path: str) -> None:
    """Give a written file its name for good: after a power cut there is the whole file or none."""
    _sync(part)
    os.replace(part, path)
    _sync(os.path.dirname(path))


def _sync(path: str) -> None:
    """Have a file's or a folder's content on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def verify(cache: str, items: Iterable[Mapping[str, Any]]) -> None:
    """Check packages that are on this host against the lock; one of the store that differs is removed.

    Raises:
        Fault: naming the first that differs.
    """
    for item in items:
        path = locate(cache, item)
        if path is None:
            continue
        real = sha256(path)
        if real != item["sha256"]:
            if path == stored(cache, item):
                os.unlink(path)
            raise tampered(item, real, path)


def tampered(item: Mapping[str, Any], real: str, where: str) -> Fault:
    """The sentence for a file that is not the one of the lock."""
    return Fault(
        "found %s with sha256 %s in %s, expected %s as in the lock; it was changed or damaged: restore it, run again, or "
        "solve anew by python_env_update" % (item["file_name"], real[:16], os.path.dirname(where) or where, item["sha256"][:16])
    )


def not_here(items: list[Mapping[str, Any]]) -> Fault:
    """The sentence for packages that may not be fetched from outside and are not on this host."""
    return Fault(
        "found no %s on this host, expected it in the package store; let python_env_cache_from bring it, or put it there"
        % ", ".join(item["file_name"] for item in items[:3])
    )
