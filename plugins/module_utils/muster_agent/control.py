"""The control plane's wire: one JSON object a line, each signed by HMAC-SHA256 with the job's key.

Both sides send a random challenge first; every line is signed over both challenges, the sender's role and a counter, so
that nothing can be forged, replayed or reflected by whoever reaches the port without the key.
"""

import asyncio
import hashlib
import hmac
import json
import os
import socket

# A line may not be longer; the largest real one names every package of a node.
LIMIT = 4 * 1024 * 1024
HANDSHAKE_SECONDS = 10


class Broken(Exception):
    """The peer closed, fell silent in the handshake, or does not have the key."""


def signature(key, role, challenges, counter, body):
    """Hex HMAC-SHA256 of one line; ``key`` and ``body`` are bytes, ``role`` is ``head`` or ``node``."""
    text = "{} {} {} ".format(role, challenges, counter).encode() + body
    return hmac.new(key, text, hashlib.sha256).hexdigest()


class Channel:
    """One signed connection.

    Args:
        reader, writer: asyncio's streams.
        key: the job's key (bytes).
        role: ``head`` for the side that listens, ``node`` for the one that connects.
    """

    def __init__(self, reader, writer, key, role):
        self._reader, self._writer, self._key, self._role = reader, writer, key, role
        self._challenges = ""
        self._sent = self._received = 0
        sock = writer.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def handshake(self):
        """Exchange the challenges; raises :class:`Broken`."""
        mine = os.urandom(16).hex()
        self._writer.write(mine.encode() + b"\n")
        try:
            line = await asyncio.wait_for(self._reader.readline(), HANDSHAKE_SECONDS)
            theirs = line.decode("ascii").strip()
        except (OSError, ValueError, asyncio.TimeoutError) as error:
            raise Broken("no handshake: {}".format(error)) from None
        if not line:
            raise Broken("it closed the connection at once")
        if len(theirs) != 32:
            raise Broken("what answers there is not a Muster agent")
        self._challenges = mine + theirs if self._role == "head" else theirs + mine

    def send(self, kind, **fields):
        """Queue one message; a broken connection shows at the next receive."""
        body = json.dumps(dict(fields, kind=kind)).encode()
        mark = signature(self._key, self._role, self._challenges, self._sent, body)
        self._sent += 1
        if not self._writer.is_closing():
            self._writer.write(mark.encode() + b" " + body + b"\n")

    async def drain(self):
        """Wait until what was sent has left this process."""
        try:
            await self._writer.drain()
        except OSError:
            pass

    async def receive(self):
        """The next message; raises :class:`Broken` at the end, or where the signature is wrong."""
        try:
            line = await self._reader.readline()
        except (OSError, ValueError) as error:
            raise Broken(str(error)) from None
        if not line.endswith(b"\n"):
            raise Broken("the connection was closed")
        mark, _, body = line[:-1].partition(b" ")
        peer = "node" if self._role == "head" else "head"
        expected = signature(self._key, peer, self._challenges, self._received, body)
        if not hmac.compare_digest(mark, expected.encode()):
            raise Broken("a line with a wrong signature: the peer has another job's key")
        self._received += 1
        return json.loads(body.decode())

    def close(self):
        """Close at once; what was drained before has been sent."""
        self._writer.close()


async def connect(host, port, key, source=None):
    """Open a channel to the head; raises OSError or :class:`Broken`."""
    local = (source, 0) if source else None
    reader, writer = await asyncio.open_connection(host, port, limit=LIMIT, local_addr=local)
    channel = Channel(reader, writer, key, "node")
    try:
        await channel.handshake()
    except Broken:
        channel.close()
        raise
    return channel
