"""Listeners of one host: real sockets in a process of their own that ends when everybody has been there, or after a bound."""

import ctypes
import errno
import hmac
import os
import re
import secrets
import signal
import socket
import threading
import time

from ..muster_agent import network
from . import accounts, protocol

# A job's ports begin at its rendezvous port; see the launch.
JOB_PORTS = 16
CONNECTIONS = 256
PATIENCE = 10.0
PR_SET_NAME = 15
NAME = "muster-verify"  # at most 15 letters


def start(name, address, port, port_range, user, lifetime):
    """Bind two ports and leave a detached process that answers on them; raises OSError.

    Args:
        name, address: of this host in the cluster.
        port, port_range, user, lifetime: see :func:`cli.listen`.

    Returns:
        ``{"rendezvous": port, "ephemeral": port, "token": text, "passed_over": who holds the usual port, or None}``.
    """
    used = ports_in_use(port, port + JOB_PORTS - 1)
    candidates = [] if used else [port]
    candidates += [other for other in range(port_range[1], port_range[0] - 1, -1) if not port <= other < port + JOB_PORTS]
    sockets = {"rendezvous": listen_on_first(address, candidates), "ephemeral": network.listen(address, 0)}
    told = {kind: sock.getsockname()[1] for kind, sock in sockets.items()}
    told.update(token=secrets.token_hex(16), passed_over=holder(used[0]) if used else None)
    server = Server(name, told["token"])
    detach(lambda: server.serve(sockets), list(sockets.values()), accounts.find(user) or accounts.find("nobody"), lifetime)
    for sock in sockets.values():
        sock.close()
    return told


def explain(address, error):
    """Why there is no listener, found, expected and fix, without the host's name."""
    if error.errno == errno.EADDRNOTAVAIL:
        held = sorted({text for _, text in network.addresses()})
        return "has no address {}, found {}; correct muster_address in the inventory".format(address, ", ".join(held) or "none")
    return "cannot listen at {} ({}), expected free ports there; see what holds them".format(address, error.strerror or error)


def holder(port):
    """Who holds a port, in one line; None for another verification, which is gone in a moment."""
    text = " ".join(network.port_holder(port).split())
    match = re.match(r"pid (\d+) ", text)
    try:
        with open("/proc/{}/comm".format(match.group(1) if match else 0), encoding="utf-8", errors="replace") as stream:
            return None if stream.read().strip() == NAME else text
    except OSError:
        return text


def ports_in_use(first, last):
    """The ports from ``first`` to ``last`` on which anything listens, at whatever address."""
    found = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path, encoding="ascii") as stream:
                found.update(listening_ports(stream.read()))
        except OSError:
            continue
    return sorted(port for port in found if first <= port <= last)


def listening_ports(text):
    """Ports of the listening sockets in the text of /proc/net/tcp."""
    rows = [line.split() for line in text.splitlines()[1:]]
    return {int(row[1].rsplit(":", 1)[1], 16) for row in rows if len(row) > 3 and row[3] == "0A"}


def listen_on_first(address, ports):
    """A socket that listens on the first of ``ports`` that is free; raises OSError."""
    last = OSError(errno.EADDRINUSE, "no free port")
    for port in ports:
        try:
            return network.listen(address, port)
        except OSError as error:
            last = error
            if error.errno != errno.EADDRINUSE:
                break
    raise last


def detach(serve, sockets, account, lifetime):
    """Run ``serve`` in a process that has nothing of its caller's but the sockets, is no root, and dies of an alarm at last."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(lifetime)
            keep_only({sock.fileno() for sock in sockets})
            if os.geteuid() == 0:
                accounts.drop(account)
            os.chdir("/")
            ctypes.CDLL(None).prctl(PR_SET_NAME, NAME.encode(), 0, 0, 0)  # for whoever sees it in ps
            serve()
    finally:
        os._exit(0)


def keep_only(descriptors):
    """Close everything else; the standard descriptors lead to /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    for number in [int(text) for text in os.listdir("/proc/self/fd")]:
        if number > 2 and number not in descriptors:
            try:
                os.close(number)
            except OSError:
                continue


class Server:
    """Answers whoever knows the token, until all the visits have been paid that the host's own visit has announced."""

    def __init__(self, name, token):
        self.name, self.token = name, token
        self._visits = set()
        self._expected = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._slots = threading.BoundedSemaphore(CONNECTIONS)

    def serve(self, sockets):
        """Accept until everybody has been there; the alarm ends what this does not."""
        threading.stack_size(256 * 1024)
        for kind, sock in sockets.items():
            sock.settimeout(None)
            threading.Thread(target=self._accept, args=(kind, sock), daemon=True).start()
        self._over.wait()

    def _accept(self, kind, sock):
        while True:
            try:
                connection, _ = sock.accept()
            except OSError:
                time.sleep(0.05)  # out of descriptors for a moment
                continue
            self._slots.acquire()
            threading.Thread(target=self._answer, args=(kind, connection), daemon=True).start()

    def _answer(self, kind, connection):
        try:
            with connection:
                connection.settimeout(PATIENCE)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                visit = self.talk(kind, protocol.Channel(connection))
                if visit:
                    # Who closes first keeps the port busy for a minute, so that is left to the visitor.
                    connection.recv(1)
                    self.visited(*visit)
        except (OSError, KeyError, TypeError, protocol.Foreign):
            pass  # whoever it was has told its own side
        finally:
            self._slots.release()

    def talk(self, kind, channel):
        """One visit: the two proofs, then questions until the visitor takes its leave.

        Returns:
            the arguments of :meth:`visited`; None for a stranger.
        """
        hello = channel.receive()
        if not hmac.compare_digest(str(hello["mac"]), protocol.mac(self.token, "ask", hello["from"], hello["nonce"])):
            return None
        channel.send(mac=protocol.mac(self.token, "answer", hello["nonce"]))
        while True:
            asked = channel.receive()
            if asked["do"] == "time":
                channel.send(time=time.time())
            elif asked["do"] == "sink":
                channel.send(go=True)
                channel.send(**drain(channel.sock))
                return hello["from"], "sink", None
            elif asked["do"] == "leave":
                channel.send(left=True)
                return hello["from"], kind, asked.get("expected")

    def visited(self, visitor, kind, expected):
        """Note a visit; ``expected`` is how many there will be in all, which the host's own says."""
        with self._lock:
            self._visits.add((visitor, kind))
            if visitor == self.name and expected:
                self._expected = expected
            if self._expected is not None and len(self._visits) >= self._expected:
                self._over.set()


def drain(sock):
    """Read until the other side has sent everything: ``{"bytes", "seconds"}`` from the first byte on."""
    buffer = bytearray(1 << 20)
    total, began = 0, None
    while True:
        count = sock.recv_into(buffer)
        began = began or time.monotonic()
        if not count:
            return {"bytes": total, "seconds": time.monotonic() - began}
        total += count
