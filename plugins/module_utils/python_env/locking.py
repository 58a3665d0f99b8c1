# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""One run at a time on a prefix."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from typing import Iterator


class Locked(Exception):
    """Somebody else holds the lock, and the time to wait for it is over."""


@contextlib.contextmanager
def lock(path: str, timeout: float) -> Iterator[None]:
    """Hold the flock on a file, which exists only as long as somebody holds or awaits it.

    Raises:
        Locked: with the holder (`process 123 on host`), when it is not free within `timeout` seconds.
        OSError: when the file cannot be made.
    """
    deadline = time.monotonic() + timeout
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        holder = os.pread(handle, 200, 0).decode(errors="replace").strip()
                        raise Locked(holder or "another process") from None
                    time.sleep(0.1)
            # The holder before us has removed the file: this flock then is on a name that is gone.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(path)):
                    break
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, ("process %d on %s\n" % (os.getpid(), socket.gethostname())).encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
        os.close(handle)
