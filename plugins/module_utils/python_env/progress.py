# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""What a module is doing, told line by line in a file, which an action on the controller reads while the module runs."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator


def path(cache: str, prefix: str) -> str:
    """The file for one environment, in the folder of caches."""
    return os.path.join(cache, ".%s.progress" % os.path.basename(prefix.rstrip("/")))


class Progress:
    """Tells what is being done; that it cannot is no fault.

    Args:
        file: from `path`.
    """

    def __init__(self, file: str) -> None:
        self.file = file

    def __call__(self, line: str) -> None:
        """Add a line."""
        with contextlib.suppress(OSError), open(self.file, "a", encoding="utf-8", errors="replace") as handle:
            handle.write(" ".join(line.split()) + "\n")

    @contextlib.contextmanager
    def telling(self) -> Iterator[Progress]:
        """The file is there for as long as this lasts, without what a killed run has left in it."""
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self.file), exist_ok=True)
        self._forget()
        try:
            yield self
        finally:
            self._forget()

    def _forget(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self.file)
