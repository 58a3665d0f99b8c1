# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""One run at a time on a prefix."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import time
from typing import Callable, Iterator


class Locked(Exception):
    """Somebody else holds the lock, and the time to wait for it is over."""


@contextlib.contextmanager
def lock(path: str, timeout: float, wait: Callable[[str], None] = lambda holder: None) -> Iterator[None]:
    """Hold the flock on a file, which exists only as long as somebody holds or awaits it.

    Args:
        path: the file.
        timeout: seconds to wait for whoever holds it.
        wait: is told once who that is, as in `process 123 of alice since 15:04:05`.

    Raises:
        Locked: with the holder, when it is not free in time.
        OSError: when the file cannot be made.
    """
    deadline = time.monotonic() + timeout
    told = False
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    holder = os.pread(handle, 200, 0).decode(errors="replace").strip() or "another process"
                    if time.monotonic() >= deadline:
                        raise Locked(holder) from None
                    if not told:
                        told = True
                        wait(holder)
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
        os.pwrite(handle, (whoami() + "\n").encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
        os.close(handle)


def held(path: str) -> bool:
    """Whether a living process holds the lock: a file without that was left by a killed run."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(handle)


def whoami() -> str:
    """This process in words: `process 123 of alice since 15:04:05`."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = "user %d" % os.getuid()
    return "process %d of %s since %s" % (os.getpid(), user, time.strftime("%H:%M:%S"))
