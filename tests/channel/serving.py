"""A server for channels and wheels that counts what is asked for, and lets a test spoil what it gives."""

from __future__ import annotations

import base64
import collections
import hashlib
import re
import ssl
import threading
import time
import urllib.parse
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .authority import certificate

CHUNK = 1 << 16
PAGE = "<!DOCTYPE html><html><body>{}</body></html>"


class Server:
    """Serves a folder, and folders of wheels, until it is left (``with Server(folder) as server``).

    ``/simple/`` is a simple index of the wheels (PEP 503, with hashes and PEP 658 metadata), ``/links/`` a page of links to them;
    every other path is a file of the folder.

    Args:
        folder: what is served.
        wheels: folders with wheels.
        address: where to listen; a test elsewhere than on this machine names one that it reaches.
        tls: a folder for certificates: serves HTTPS under an authority of its own, whose certificate is ``ca``.

    Attributes:
        counts: how often a path was asked for with GET, whatever came of it.
        tampered: paths of which one byte is changed.
        hanging: paths that are never answered.
        stalling: paths that are answered with half of their content and then nothing more.
        cut: paths whose connection ends after half of the content, as often as the number says.
        missing: paths that are not there.
        login: user and password without which nothing is given, or None.
        rate: bytes per second that one answer gets at most, None for no limit.
    """

    def __init__(
        self, folder: Path, wheels: tuple[Path, ...] = (), address: str = "127.0.0.1", tls: Path | None = None
    ) -> None:
        self.folder, self.wheels = Path(folder), [Path(place) for place in wheels]
        self.counts: collections.Counter[str] = collections.Counter()
        self.tampered: set[str] = set()
        self.hanging: set[str] = set()
        self.stalling: set[str] = set()
        self.missing: set[str] = set()
        self.cut: dict[str, int] = {}
        self.login: tuple[str, str] | None = None
        self.rate: int | None = None
        self.ca: Path | None = None
        self._ended = threading.Event()
        self._sums: dict[Path, str] = {}
        self._http = Listener((address, 0), type("Handler", (Handler,), {"server_of_tests": self}))
        if tls:
            self.ca, cert, key = certificate(tls, (address, "localhost"))
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(cert, key)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self.url = "http{}://{}:{}".format("s" if tls else "", address, self._http.server_address[1])
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    def wait(self, seconds: float = 600) -> None:
        """Hold an answer back until the server ends, or for so long."""
        self._ended.wait(seconds)

    def archives(self) -> dict[str, int]:
        """How often packages were asked for, by file name: conda packages and wheels, no index."""
        ends = (".conda", ".tar.bz2", ".whl")
        return {path.rsplit("/", 1)[-1]: count for path, count in sorted(self.counts.items()) if path.endswith(ends)}

    def found(self, path: str) -> bytes | Path | None:
        """What lies at a path: a page, a file, or nothing."""
        if path in self.missing:
            return None
        if path.startswith(("/simple/", "/links/")):
            return self._wheel(path)
        target = (self.folder / path.lstrip("/")).resolve()
        return target if target.is_file() and self.folder.resolve() in target.parents else None

    def _wheel(self, path: str) -> bytes | Path | None:
        """A page about wheels, one of them, or its metadata."""
        wheels = {file.name: file for place in self.wheels for file in sorted(place.glob("*.whl"))}
        name = path.rsplit("/", 1)[-1]
        if name in wheels:
            return wheels[name]
        if name.endswith(".metadata") and name[: -len(".metadata")] in wheels:
            return metadata(wheels[name[: -len(".metadata")]])
        if path == "/links/":
            return self._page(list(wheels.values()))
        projects = {canonical(name) for name in wheels}
        if path == "/simple/":
            return PAGE.format("".join('<a href="{0}/">{0}</a>\n'.format(name) for name in sorted(projects))).encode()
        project = path[len("/simple/") :].strip("/")
        return self._page([file for file in wheels.values() if canonical(file.name) == project]) if project in projects else None

    def _page(self, files: list[Path]) -> bytes:
        """Links to wheels, with their hashes."""
        line = '<a href="{}#sha256={}" data-core-metadata="true">{}</a>\n'
        return PAGE.format("".join(line.format(urllib.parse.quote(f.name), self._sum(f), f.name) for f in files)).encode()

    def _sum(self, file: Path) -> str:
        if file not in self._sums:
            with open(file, "rb") as stream:
                digest = hashlib.sha256()
                for block in iter(lambda: stream.read(1 << 20), b""):
                    digest.update(block)
            self._sums[file] = digest.hexdigest()
        return self._sums[file]


class Listener(ThreadingHTTPServer):
    """Threads that end with the tests. Whoever breaks a connection off is not news: a client does that trusts no authority."""

    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_of_tests: Server
    timeout = 60

    def do_GET(self) -> None:
        """Answer with what lies there, spoiled as the test wants it."""
        ours, path = self.server_of_tests, urllib.parse.unquote(self.path.split("?")[0])
        ours.counts[path] += 1
        self._answer(path, True)

    def do_HEAD(self) -> None:
        """Answer with the headers alone."""
        self._answer(urllib.parse.unquote(self.path.split("?")[0]), False)

    def _answer(self, path: str, whole: bool) -> None:
        ours = self.server_of_tests
        if path in ours.hanging:
            ours.wait()
            self.close_connection = True
            return
        if ours.login and self.headers.get("Authorization") != basic(*ours.login):
            self.send_error(401)
            return
        found = ours.found(path)
        if found is None:
            self.send_error(404)
            return
        data = found if isinstance(found, bytes) else found.read_bytes()
        if path in ours.tampered:
            at = len(data) // 2
            data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if isinstance(found, bytes) else "application/octet-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if not whole:
            return
        half = path in ours.stalling or ours.cut.get(path, 0) > 0
        self._send(data[: len(data) // 2] if half else data)
        if half:
            if path in ours.stalling:
                ours.wait()
            else:
                ours.cut[path] -= 1
            self.close_connection = True

    def _send(self, data: bytes) -> None:
        rate = self.server_of_tests.rate
        try:
            if not rate:
                self.wfile.write(data)
                return
            for at in range(0, len(data), CHUNK):
                self.wfile.write(data[at : at + CHUNK])
                time.sleep(min(CHUNK / rate, 1))  # this is the slowness that is asked for
        except OSError:  # whoever asked has gone
            self.close_connection = True

    def log_message(self, *words: object) -> None:
        """Say nothing."""


def basic(user: str, password: str) -> str:
    """The header by which a client logs in (RFC 7617)."""
    return "Basic " + base64.b64encode("{}:{}".format(user, password).encode()).decode()


def canonical(wheel: str) -> str:
    """The project of a wheel's file name, as indexes write it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", wheel.split("-")[0]).lower()


def metadata(wheel: Path) -> bytes:
    """A wheel's METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        return next(archive.read(name) for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
