"""What the two ends of a connection say: one JSON value a line, after both have proved that they know the listener's token."""

import hashlib
import hmac
import json

LIMIT = 4096


class Foreign(Exception):
    """The other end is no part of this verification."""


def mac(token, *words):
    """Proof of knowing ``token``, over ``words``."""
    return hmac.new(token.encode(), "\0".join(words).encode(), hashlib.sha256).hexdigest()


class Channel:
    """Lines over a connected socket; its timeout holds for each of them."""

    def __init__(self, sock):
        self.sock = sock
        self._stream = sock.makefile("rb")

    def send(self, **fields):
        """Send one line."""
        self.sock.sendall(json.dumps(fields).encode() + b"\n")

    def receive(self):
        """The next line as a dictionary; raises :class:`Foreign` for anything else, OSError for a broken connection."""
        line = self._stream.readline(LIMIT)
        try:
            value = json.loads(line.decode())
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise Foreign("{!r}".format(line[:40]))
        return value
