"""How much one TCP stream carries to the next host of the ring."""

import socket
import time

from . import connecting, protocol

SECONDS = 1.0
CHUNK = bytes(1 << 20)


def measure(name, peer, timeout, seconds=SECONDS):
    """Send for a second.

    Args:
        name: this host.
        peer: ``{"address", "listeners"}``.
        timeout: seconds to wait for a connection, and without any progress.
        seconds: how long to send.

    Returns:
        ``{"gbit_per_s"}``, or ``{"error": text}``.
    """
    try:
        with connecting.open_to(peer["address"], peer["listeners"]["ephemeral"], timeout) as sock:
            channel = connecting.greet(sock, name, peer["listeners"]["token"])
            channel.send(do="sink")
            channel.receive()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                sock.sendall(CHUNK)
            sock.shutdown(socket.SHUT_WR)
            told = channel.receive()
            return {"gbit_per_s": round(told["bytes"] * 8 / max(told["seconds"], 1e-6) / 1e9, 3)}
    except (OSError, KeyError, protocol.Foreign) as error:
        return {"error": str(error)}
