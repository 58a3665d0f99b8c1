"""A conda channel for tests: made from the running CPython and from a few lines, served over HTTP, HTTPS or as a folder.

Nothing of it lies in this repository: `build` repackages the Python that runs the tests, and writes packages of one file each.
Standard library only, but for the program `openssl`, which makes the authority of an HTTPS server.
"""

from __future__ import annotations

from .contents import build
from .serving import Server
from .wheels import wheel

__all__ = ["Server", "build", "wheel"]
