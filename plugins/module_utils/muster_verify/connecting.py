"""Connections from this host to every other, in parallel, each bounded; and how far the clocks are apart."""

import errno
import queue
import secrets
import socket
import threading
import time

from . import protocol

KINDS = ("rendezvous", "ephemeral")
WORKERS = 128
CLOCK_ROUNDS = 5
STATES = {
    errno.ECONNREFUSED: "refused",
    errno.ETIMEDOUT: "timeout",
    errno.EHOSTUNREACH: "unreachable",
    errno.ENETUNREACH: "unreachable",
}


def visit_all(name, peers, timeout, expected):
    """Visit both ports of every peer.

    Args:
        name: this host.
        peers: see :func:`cli.connect`.
        timeout: seconds to wait for a connection.
        expected: visits that this host's own listeners are to wait for.

    Returns:
        ``{"pairs": {peer: {kind: outcome}}, "clocks": {peer: {"offset", "error"}}}``; see :func:`visit`.
    """
    pairs, clocks, lock = {peer: {} for peer in peers}, {}, threading.Lock()
    # First the rendezvous ports of all: these tell the clocks, and many connections at once would blur them.
    jobs = [(peer, kind) for kind in KINDS for peer in peers]

    def work(job):
        peer, kind = job
        own = peer == name and kind == KINDS[-1]
        outcome, clock = visit(name, peers[peer], kind, timeout, expected if own else None)
        with lock:
            pairs[peer][kind] = outcome
            if clock and clock["error"] < clocks.get(peer, {"error": 1e9})["error"]:
                clocks[peer] = clock

    in_parallel(work, jobs, WORKERS)
    return {"pairs": pairs, "clocks": clocks}


def in_parallel(work, jobs, workers):
    """Call ``work`` with each of ``jobs`` in at most ``workers`` threads, and wait for all; raises what one of them raised."""
    waiting, raised = queue.Queue(), []
    for job in jobs:
        waiting.put(job)

    def run():
        while True:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                work(job)
            except Exception as error:
                raised.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(min(workers, len(jobs)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def open_to(address, port, timeout):
    """A connected socket; raises OSError. Unlike ``create_connection`` it looks no name up and imports nothing for that."""
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        sock.connect((address, port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        sock.close()
        raise
    return sock


def visit(name, peer, kind, timeout, expected=None):
    """Connect to one port and prove that it is the listener which was meant.

    Args:
        name: this host.
        peer: ``{"address", "listeners"}``.
        kind: ``rendezvous`` or ``ephemeral``.
        timeout: seconds.
        expected: see :meth:`listening.Server.visited`.

    Returns:
        ``({"state", "port", "ms", "source", "detail"}, clock or None)``; the state is ``ok``, ``refused``, ``timeout``,
        ``unreachable``, ``foreign`` (something else answers) or ``error``.
    """
    address, listeners = peer["address"], peer["listeners"]
    outcome = {"port": listeners[kind]}
    began = time.monotonic()
    try:
        with open_to(address, outcome["port"], timeout) as sock:
            outcome["ms"] = round((time.monotonic() - began) * 1000, 3)
            outcome["source"] = sock.getsockname()[0]
            channel = greet(sock, name, listeners["token"])
            clock = measure_clock(channel) if kind == KINDS[0] else None
            channel.send(do="leave", expected=expected)
            channel.receive()
    except protocol.Foreign as error:
        return dict(outcome, state="foreign", detail=str(error)), None
    except socket.timeout:
        state = "foreign" if "ms" in outcome else "timeout"
        return dict(outcome, state=state, detail="no answer", source=outcome.get("source") or source_of(address)), None
    except OSError as error:
        # A connection that breaks after it was made was no listener of ours, which answers.
        state = "foreign" if "ms" in outcome else STATES.get(error.errno or 0, "error")
        return dict(outcome, state=state, detail=error.strerror or str(error), source=source_of(address)), None
    return dict(outcome, state="ok"), clock


def greet(sock, name, token):
    """The two proofs; returns the channel, raises :class:`protocol.Foreign`."""
    channel = protocol.Channel(sock)
    nonce = secrets.token_hex(8)
    channel.send(**{"from": name, "nonce": nonce, "mac": protocol.mac(token, "ask", name, nonce)})
    if channel.receive().get("mac") != protocol.mac(token, "answer", nonce):
        raise protocol.Foreign("it does not know the token")
    return channel


def measure_clock(channel):
    """``{"offset", "error"}``: how far the peer's clock is ahead of this host's, in seconds, by the quickest of some answers."""
    best = None
    for _ in range(CLOCK_ROUNDS):
        before = time.time()
        channel.send(do="time")
        there = float(channel.receive()["time"])
        after = time.time()
        if best is None or after - before < 2 * best["error"]:
            best = {"offset": there - (before + after) / 2, "error": (after - before) / 2}
    return best


def source_of(address):
    """The address from which this host would reach ``address``, by its routes; None where there is no route."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((address, 9))
            return sock.getsockname()[0]
        except OSError:
            return None
