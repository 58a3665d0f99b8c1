# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""Wheels from their addresses into the package store, by the standard library alone, so that plain wheels need no tools."""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import hashlib
import netrc
import os
import shutil
import ssl
import time
import urllib.error
import urllib.request
from typing import Any, Callable, Mapping, Sequence
from urllib.parse import unquote, urlsplit

from .complaints import Fault, redact
from .store import CHUNK, folder, keep, stored, tampered

AT_ONCE, TRIES, PACE_SECONDS = 8, 3, 5.0


class Fetcher:
    """Fetches packages and checks them.

    Args:
        cache: the folder of caches.
        environ: variables as uv gets them: proxies, certificates, indexes with their passwords, hosts to trust.
        say: takes a line about how far it is.
    """

    def __init__(self, cache: str, environ: Mapping[str, str], say: Callable[[str], None] = lambda line: None) -> None:
        self.cache, self.environ, self.say = cache, environ, say
        self.bytes = 0
        self.stop = False
        self.timeout = float(environ.get("UV_HTTP_TIMEOUT") or 60)
        self.passwords = passwords(environ)
        self.opener = self._opener(True)
        self.careless = self._opener(False)

    def _opener(self, careful: bool) -> Any:
        environ = self.environ
        proxies = {}
        for scheme in ("http", "https"):
            names = [scheme + "_proxy", (scheme + "_proxy").upper(), "all_proxy", "ALL_PROXY"]
            found = next((environ[name] for name in names if environ.get(name)), "")
            if found:
                proxies[scheme] = found
        bundle = environ.get("SSL_CERT_FILE")
        context = ssl.create_default_context(cafile=bundle if bundle and os.path.isfile(bundle) else None)
        if environ.get("SSL_CLIENT_CERT"):
            context.load_cert_chain(environ["SSL_CLIENT_CERT"])
        if not careful:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return urllib.request.build_opener(
            urllib.request.ProxyHandler(proxies), urllib.request.HTTPSHandler(context=context), Redirected(self.passwords)
        )

    def fetch(self, items: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        """Bring packages into the store: each is written under another name, checked and renamed.

        Returns:
            {"packages": how many, "bytes": how much}.

        Raises:
            Fault: naming the first that cannot be had; no part of a file remains.
        """
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            waiting = {pool.submit(self._one, item) for item in items}
            try:
                while waiting:
                    done, waiting = concurrent.futures.wait(waiting, PACE_SECONDS, return_when=concurrent.futures.FIRST_EXCEPTION)
                    for future in done:
                        future.result()
                    if waiting:
                        spent = max(time.monotonic() - began, 0.1)
                        self.say(
                            "fetched %d of %d packages, %.0f MB, %.1f MB/s"
                            % (len(items) - len(waiting), len(items), self.bytes / 1e6, self.bytes / 1e6 / spent)
                        )
            except BaseException:
                self.stop = True
                for future in waiting:
                    future.cancel()
                raise
        return {"packages": len(items), "bytes": self.bytes}

    def _one(self, item: Mapping[str, Any]) -> None:
        path = stored(self.cache, item)
        self._clear(item["sha256"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        part = "%s.part-%d" % (path, os.getpid())
        try:
            self._download(item["url"], part, item["sha256"], item)
            keep(part, path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(part)

    def _clear(self, digest: str) -> None:
        """Remove what a killed run has left in a package's folder."""
        home = os.path.join(folder(self.cache), digest)
        with contextlib.suppress(OSError):
            for name in os.listdir(home):
                pid = name.rpartition(".part-")[2] if ".part-" in name else ""
                if pid.isdigit() and not os.path.exists("/proc/" + pid):
                    os.unlink(os.path.join(home, name))

    def digest(self, url: str) -> tuple[str, int]:
        """sha256 and size of what an address holds, for an index that names no hash; it is fetched for that."""
        part = os.path.join(folder(self.cache), "unknown.part-%d" % os.getpid())
        os.makedirs(os.path.dirname(part), exist_ok=True)
        try:
            found = self._download(url, part, "", {"file_name": url.rsplit("/", 1)[-1], "sha256": ""})
            size = os.path.getsize(part)
            item = {"sha256": found, "file_name": unquote(urlsplit(url).path.rsplit("/", 1)[-1])}
            os.makedirs(os.path.dirname(stored(self.cache, item)), exist_ok=True)
            shutil.move(part, stored(self.cache, item))
            return found, size
        finally:
            with contextlib.suppress(OSError):
                os.unlink(part)

    def _download(self, url: str, path: str, expected: str, item: Mapping[str, Any]) -> str:
        """Write what an address holds into a file and give its sha256; a connection that breaks is tried again."""
        for attempt in range(TRIES):
            begun = self.bytes
            try:
                found = self._read(url, path)
            except (OSError, ValueError) as error:
                self.bytes = begun
                if getattr(error, "errno", None) in (28, 122):  # no space left, quota
                    raise Fault(
                        "found no space left in %s, expected room for %s; free some, or set python_env_cache_dir to a larger "
                        "disk" % (self.cache, item["file_name"])
                    ) from None
                final = isinstance(error, urllib.error.HTTPError) and error.code < 500
                if final or attempt == TRIES - 1 or self.stop:
                    raise unreachable(url, error) from None
                time.sleep(attempt + 0.5)  # a server that is just starting anew gets a moment
                continue
            if expected and found != expected:
                raise tampered(item, found, redact(url))
            return found
        raise AssertionError("the last try raises")

    def _read(self, url: str, path: str) -> str:
        request = urllib.request.Request(url, headers={"User-Agent": "muster", "Accept-Encoding": "identity"})
        host = urlsplit(url).hostname or ""
        sign(request, self.passwords)
        trusted = (self.environ.get("UV_INSECURE_HOST") or "").split()
        opener = self.careless if host in trusted or urlsplit(url).netloc in trusted else self.opener
        digest = hashlib.sha256()
        size = 0
        with opener.open(request, timeout=self.timeout) as answer, open(path, "wb") as handle:
            length = answer.headers.get("Content-Length")
            for chunk in iter(lambda: answer.read(CHUNK), b""):
                if self.stop:
                    raise OSError("stopped")
                handle.write(chunk)
                digest.update(chunk)
                size += len(chunk)
                self.bytes += len(chunk)
        if length and int(length) != size:
            raise OSError("the connection ended after %d of %s bytes" % (size, length))
        return digest.hexdigest()


class Redirected(urllib.request.HTTPRedirectHandler):
    """Follows a redirect with the password of the host that it leads to, if there is one, and with no other.

    Args:
        passwords: from the function of that name.
    """

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self.passwords = passwords

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """The request to the new address; none goes from https to http with a password."""
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made and (req.type != "https" or made.type == "https"):
            sign(made, self.passwords)
        return made


def sign(request: urllib.request.Request, known: Mapping[str, str]) -> None:
    """Add the password of a request's host, if one is known; it goes nowhere else, whereto the host may redirect."""
    parts = urlsplit(request.full_url)
    login = known.get(parts.netloc) or known.get(parts.hostname or "")
    if login:
        request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())


def passwords(environ: Mapping[str, str]) -> dict[str, str]:
    """`user:password` by host, from the addresses of indexes and from ~/.netrc; a lock holds none of them."""
    found = {}
    with contextlib.suppress(OSError, netrc.NetrcParseError):
        for host, (user, _account, word) in netrc.netrc(environ.get("NETRC") or None).hosts.items():
            found[host] = "%s:%s" % (user, word)
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL"):
        for url in (environ.get(name) or "").split():
            login, sign, netloc = urlsplit(url.rpartition("=")[2] if "://" not in url.split("=")[0] else url).netloc.rpartition(
                "@"
            )
            if sign:
                found[netloc] = unquote(login)
    return found


def unreachable(url: str, error: Exception) -> Fault:
    """The sentence for an address that gives no package."""
    address = redact(url)
    reason = getattr(error, "reason", None) or error
    if isinstance(error, urllib.error.HTTPError):
        return Fault(
            "found HTTP status %d at %s, expected the package of the lock; solve anew by python_env_update, or see to the index"
            % (error.code, address)
        )
    if "CERTIFICATE_VERIFY_FAILED" in str(reason):
        return Fault(
            "found a certificate at %s that is not trusted, expected one of a known authority; set python_env_ca_bundle to the "
            "file of yours" % address,
            kind="network",
        )
    return Fault(
        "found no way to %s (%s), expected the package of the lock; check the network and the proxy, or let "
        "python_env_cache_from bring it" % (address, getattr(reason, "strerror", None) or reason),
        kind="network",
    )
