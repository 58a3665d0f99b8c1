"""Small files that must never be seen half-written."""

import json
import os


def write_atomic(path, data, mode=0o600):
    """Write ``data`` (str or bytes) to ``path`` by a temporary file in the same folder and a rename."""
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogateescape")
    temporary = "{}.tmp-{}".format(path, os.getpid())
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def write_json(path, value, mode=0o600):
    """Write ``value`` as JSON, atomically."""
    write_atomic(path, json.dumps(value, indent=1, sort_keys=True) + "\n", mode)


def reserve(path, size=65536):
    """Keep room on the disk for the last words: a file of real bytes that :func:`write_last` gives back."""
    with open(path, "wb") as stream:
        stream.write(os.urandom(size))
        stream.flush()
        os.fsync(stream.fileno())


def write_last(path, value, reserved):
    """Write JSON though the disk may be full: what was reserved goes first."""
    try:
        os.unlink(reserved)
    except OSError:
        pass
    write_json(path, value)


def read_json(path, default=None):
    """The JSON in ``path``, or ``default`` where there is no such file or no whole JSON in it."""
    try:
        with open(path, "rb") as stream:
            return json.loads(stream.read().decode("utf-8"))
    except (OSError, ValueError):
        return default


def read_from(path, offset, limit):
    """Up to ``limit`` bytes of ``path`` from ``offset``; empty where the file is missing."""
    try:
        with open(path, "rb") as stream:
            stream.seek(offset)
            return stream.read(limit)
    except OSError:
        return b""


def read_tail(path, limit):
    """The last ``limit`` bytes of ``path`` as text."""
    try:
        with open(path, "rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - limit))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
