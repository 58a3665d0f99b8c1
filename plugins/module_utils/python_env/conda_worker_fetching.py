# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The part of conda.py's worker that fetches: packages from servers or folders into the store, checked."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import socket
import ssl
import tempfile
import time
import urllib.parse

from .conda_worker_base import EVERY, Trouble, local_path, make_client, place, say

AT_ONCE = 8
TRIES = 3
CHUNK = 1 << 20


class Sink:
    """A file that is written, hashed and counted at once; rattler takes it for a stream.

    Args:
        file: open for writing.
        meter: is told how many bytes came.
    """

    def __init__(self, file, meter):
        self.file, self.meter = file, meter
        self.digest, self.size = hashlib.sha256(), 0
        self.last = time.monotonic()
        self.error = None

    def write(self, data):
        """Take a part of it."""
        try:
            self.file.write(data)
        except OSError as error:
            self.error = error  # rattler would wrap it
            raise
        self.digest.update(data)
        self.size += len(data)
        self.last = time.monotonic()
        self.meter.add(len(data))


class Meter:
    """Says every now and then how far it has come."""

    def __init__(self, count, size):
        self.count, self.size = count, size
        self.done = self.bytes = 0
        self.said = time.monotonic()

    def add(self, size):
        """So many bytes more."""
        self.bytes += size
        if time.monotonic() - self.said >= EVERY:
            self.said = time.monotonic()
            said = (self.done, self.count, mega(self.bytes), mega(self.size))
            say({"progress": "fetched %d of %d packages, %s of %s MB" % said})


def mega(size):
    """Megabytes for people."""
    return "%.0f" % (size / 1e6) if size >= 1e7 else "%.1f" % (size / 1e6)


def sha256_of(path):
    """The sha256 of a file, in hex; None if there is none."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(CHUNK), b""):
                digest.update(block)
    except FileNotFoundError:
        return None
    return digest.hexdigest()


def remove_left(folder):
    """Remove what killed fetches left: every one holds a flock on its files as long as it lives."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            with open(path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)


def open_partial(folder):
    """A new file in ``folder`` with a flock on it, to be written."""
    while True:
        file = tempfile.NamedTemporaryFile(dir=folder, delete=False)
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # another fetch took it for one that was left, before it was locked


async def fetch(request):
    """Fill the store; see conda.Conda.fetch."""
    settings, store = request["settings"], request["store"]
    partial = os.path.join(store, ".partial")
    os.makedirs(partial, exist_ok=True)
    remove_left(partial)
    items = list({item["sha256"]: item for item in request["items"]}.values())
    loop = asyncio.get_running_loop()
    limit = asyncio.Semaphore(AT_ONCE)

    async def is_there(item):
        async with limit:
            return await loop.run_in_executor(None, sha256_of, place(store, item)) == item["sha256"]

    there = await asyncio.gather(*map(is_there, items))
    missing = [item for item, found in zip(items, there) if not found]
    outside = [item for item in missing if not item["url"].startswith("file:")]
    if request.get("offline") and outside:
        raise Trouble("offline", "", items=outside)
    total = sum(item.get("size") or 0 for item in missing)
    meter = Meter(len(missing), total)
    if missing:
        say({"progress": "fetching %d packages, %s MB" % (len(missing), mega(total))})
        urls = [item["url"] for item in missing]
        client = make_client(settings, urls, None) if outside else None
        timeout = int(settings.get("timeout") or 60)

        async def one(item):
            async with limit:
                await fetch_one(item, store, partial, client, timeout, meter)
                meter.done += 1

        # The big ones first, so that none of them is what all the others wait for at the end.
        order = sorted(missing, key=lambda item: -(item.get("size") or 0))
        tasks = [asyncio.ensure_future(one(item)) for item in order]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
    return {"fetched": len(missing), "bytes": meter.bytes, "present": len(items) - len(missing)}


async def fetch_one(item, store, partial, client, timeout, meter):
    """Bring one item into the store; what breaks off is tried again, from its beginning."""
    path = place(store, item)
    for attempt in range(TRIES):
        before = meter.bytes
        file = open_partial(partial)
        try:
            with file:
                sink = Sink(file, meter)
                if item["url"].startswith("file:"):
                    await asyncio.get_running_loop().run_in_executor(None, copy_local, item, sink)
                else:
                    await stream(item, sink, client, timeout)
                found = sink.digest.hexdigest()
                if found != item["sha256"]:
                    raise Trouble("tampered", "", found=found, size=sink.size, item=item)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                # On the disk before it has its name, so that a power cut leaves no half file; in a thread, since it takes long.
                await asyncio.get_running_loop().run_in_executor(None, sync, file.name)
                os.rename(file.name, path)
                sync(os.path.dirname(path))
                return
        except Trouble as trouble:
            if trouble.facts["kind"] != "broken" or attempt + 1 == TRIES:
                raise
            meter.bytes = before
            await asyncio.sleep(1 + attempt)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file.name)


def sync(path):
    """Have a file's or a folder's content on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy_local(item, sink):
    """A file of this host."""
    path = local_path(item["url"])
    try:
        source = open(path, "rb")
    except OSError as error:
        raise Trouble("local", error.strerror or str(error), path=path, item=item) from None
    with source:
        for block in iter(lambda: source.read(CHUNK), b""):
            sink.write(block)


async def stream(item, sink, client, timeout):
    """A file from a server; raises Trouble "broken" for what another try may mend."""
    from rattler.package_streaming import download_to_writer

    task = asyncio.ensure_future(download_to_writer(client, item["url"], sink))
    while not task.done():
        quiet = time.monotonic() - sink.last
        if quiet >= timeout:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise Trouble("silent", "", item=item, size=sink.size, timeout=timeout)
        await asyncio.wait([task], timeout=min(timeout - quiet + 0.01, 1))
    error = task.exception()
    if sink.error:
        raise sink.error
    if error is None:
        return
    text = str(error)
    if "error sending request" in text:
        why = await asyncio.get_running_loop().run_in_executor(None, refusal, item["url"])
        raise Trouble("refused", "%s\nCaused by: %s" % (text, why or "no connection"), item=item, size=0)
    again = "decoding response body" in text or "status server error" in text or sink.size
    raise Trouble("broken" if again else "refused", text, item=item, size=sink.size)


def refusal(url):
    """Why a server cannot be talked to, which rattler keeps to itself here; empty where it can be (by way of no proxy)."""
    parts = urllib.parse.urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with socket.create_connection((parts.hostname, port), timeout=5) as connection:
            if parts.scheme == "https":
                ssl.create_default_context().wrap_socket(connection, server_hostname=parts.hostname).close()
    except ssl.SSLCertVerificationError as error:
        return "invalid peer certificate: %s" % error.verify_message
    except OSError as error:
        return error.strerror or str(error)
    return ""
