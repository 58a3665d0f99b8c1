# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The worker of conda.py: it alone imports rattler, by a Python of its own (3.10 or later). It words nothing but progress."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import json
import os
import shutil
import sys
import tempfile
import time
import urllib.parse

from .conda_worker_base import ALIAS, EVERY, Trouble, channel_urls, lies, make_client, place, say
from .conda_worker_fetching import fetch

LINUX = "4.18"  # older than any that the nodes may have, so that nothing is chosen that needs more
SOLVING = 300  # seconds


def virtual_packages(platform):
    """What the nodes bring along, by name: version and build (conda's plugin "virtual packages"); nothing is detected."""
    family = platform["subdir"].split("-", 1)[-1]
    found = {"__unix": ("0", "0"), "__linux": (str(platform.get("linux") or LINUX), "0")}
    found["__archspec"] = ("1", str(platform.get("archspec") or {"64": "x86_64"}.get(family, family)))
    for name in ("glibc", "cuda"):
        if platform.get(name):
            found["__" + name] = (str(platform[name]), "0")
    return found


async def solve(request):
    """The records of an environment; see conda.Conda.solve."""
    import datetime

    import rattler
    from rattler import exceptions
    from rattler.channel import ChannelPriority
    from rattler.package import BuildString
    from rattler.repo_data.gateway import Gateway

    settings, platform = request["settings"], request["platform"]
    alias, timeout = settings.get("channel_alias"), int(settings.get("timeout") or 60)
    channels, specs = [], []
    for name in request["channels"]:
        channels += [url for url in channel_urls(name, alias) if url not in channels]
    for line in request["conda"]:
        channel, found, rest = line.partition("::")
        if found and "[" not in channel and "=" not in channel:
            urls = channel_urls(channel, alias)
            channels += [url for url in urls if url not in channels]
            line = urls[0] + "::" + rest
        try:
            specs.append(rattler.MatchSpec(line, strict=False))
        except Exception as error:  # rattler has a class of its own per cause, and no common one
            raise Trouble("line", str(error), line=line) from None
    packages = [
        rattler.GenericVirtualPackage(rattler.PackageName(name), rattler.Version(version), BuildString(build))
        for name, (version, build) in sorted(virtual_packages(platform).items())
    ]
    client = make_client(settings, channels, timeout, retries=1)
    with contextlib.ExitStack() as stack:
        cache = settings.get("cache") or stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-channels-"))
        gateway = Gateway(cache_dir=cache, client=client)
        subdirs = [platform["subdir"], "noarch"]
        say({"progress": "reading the index of %s" % ", ".join(request["channels"])})
        try:
            # An index comes in several answers, each with its time limit, and rattler tries some of them again and again.
            nothing = gateway.query(channels, subdirs, [rattler.MatchSpec("no-such-package")], recursive=False)
            await asyncio.wait_for(nothing, 3 * timeout)
        except asyncio.TimeoutError:
            raise Trouble("channel", "timed out", channels=channels) from None
        except (exceptions.GatewayError, exceptions.FetchRepoDataError) as error:
            raise Trouble("channel", str(error), channels=channels) from None
        say({"progress": "solving for %d conda packages" % len(specs)})
        try:
            solved = await asyncio.wait_for(
                rattler.solve(
                    channels,
                    specs,
                    gateway=gateway,
                    platforms=subdirs,
                    virtual_packages=packages,
                    locked_packages=[make_record(record) for record in request["keep"]],
                    channel_priority=ChannelPriority.Disabled if request["priority"] == "disabled" else ChannelPriority.Strict,
                    timeout=datetime.timedelta(seconds=SOLVING),
                ),
                SOLVING + 10 * timeout,
            )
        except asyncio.TimeoutError:
            raise Trouble("timeout", "", channels=channels) from None
        except exceptions.SolverError as error:
            unfound = await look_closer(str(error), specs, gateway, channels, subdirs)
            raise Trouble("unsatisfiable", str(error), channels=channels, unfound=unfound) from None
        except (exceptions.GatewayError, exceptions.FetchRepoDataError) as error:
            raise Trouble("channel", str(error), channels=channels) from None
    records = sorted((lock_record(record) for record in solved), key=lambda record: record["name"])
    for record in records:
        if not record.get("sha256"):
            raise Trouble("unhashed", "", file_name=record["file_name"], url=record["url"])
    notes = ["%s is put in front of the channels' names" % alias] if alias and alias.rstrip("/") != ALIAS else []
    return {"channels": channels, "conda": records, "notes": notes}


async def look_closer(text, specs, gateway, channels, subdirs):
    """Of every name that was asked for and not found: whether a channel knows it at all, its versions, or names like it.

    Args:
        text: the solver's report, which names the first of them alone.
        specs: what was asked for.
    """
    import rattler

    told = []
    with contextlib.suppress(Exception):  # it only makes the sentence better
        known = sorted({name.normalized for name in await gateway.names(channels, subdirs)})
        barren = text.partition("No candidates were found for ")[2].partition(".\n")[0].strip(" .\n")
        for spec in specs:
            name, versions = spec.name.normalized, set()
            if name in known:
                if barren.split(" ")[0].rpartition("::")[2] != name:
                    continue
                rows = await gateway.query(channels, subdirs, [rattler.MatchSpec(name)], recursive=False)
                versions = {record.version for row in rows for record in row}
            entry = {"name": name, "known": name in known, "near": difflib.get_close_matches(name, known, 3, 0.7)}
            told.append(dict(entry, spec=barren if name in known else name, versions=list(map(str, sorted(versions)))[-6:]))
    return told


def lock_record(record):
    """A record of rattler's as a lock has it."""
    found = json.loads(record.to_json())
    found["file_name"] = found.pop("fn")
    found["channel"] = str(found.get("channel") or "").rstrip("/")
    return found


def make_record(record, url=None):
    """rattler's record from a lock's.

    Args:
        record: as a lock has it.
        url: where it lies in truth, else the address that it has.
    """
    import rattler

    index = {key: value for key, value in record.items() if key not in ("file_name", "url", "channel")}
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(index, file)
        file.flush()
        made = rattler.PackageRecord.from_index_json(file.name, record.get("size"), record.get("sha256"), record.get("md5"))
    return rattler.RepoDataRecord(made, record["file_name"], url or record["url"], record.get("channel") or "")


async def install(request):
    """Make a prefix from the store; see conda.Conda.install."""
    import rattler

    store, prefix, records = request["store"], request["prefix"], request["records"]
    paths = [lies(store, record) for record in records]
    for path, record in zip(paths, records):
        if not path:
            raise Trouble("absent", "", path=place(store, record), item=record)
    say({"progress": "installing %d conda packages" % len(records)})
    made = [make_record(record, "file://" + urllib.parse.quote(path)) for path, record in zip(paths, records)]
    # Unpacked beside what becomes of it, linked, and removed: no later version shares a file that somebody may change.
    unpacked = os.path.join(prefix, ".muster", "unpacked")
    try:
        await rattler.install(
            made, prefix, cache_dir=unpacked, show_progress=False, execute_link_scripts=bool(request["link_scripts"]),
            client=make_client(request["settings"], [], None), reporter=Reporter(len(made)),
        )  # fmt: skip
    except Exception as error:  # as above
        raise Trouble("install", chain(error), prefix=prefix) from None
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)  # in a version without a stamp: the next run removes what stays
    for record in records:
        name = "%s-%s-%s.json" % (record["name"], record["version"], record["build"])
        tell_origin(os.path.join(prefix, "conda-meta", name), record)
    return {"packages": len(records)}


class Reporter:
    """Says every now and then how many packages are linked; rattler calls the methods that it finds."""

    def __init__(self, count):
        self.count, self.done, self.said = count, 0, time.monotonic()

    def on_link_complete(self, index):
        """One more."""
        self.done += 1
        if time.monotonic() - self.said >= EVERY:
            self.said = time.monotonic()
            say({"progress": "installed %d of %d conda packages" % (self.done, self.count)})


def tell_origin(path, record):
    """In a file of conda-meta, name the channel in place of the store; the same on every node."""
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    found.update(url=record["url"], channel=record.get("channel") or os.path.dirname(os.path.dirname(record["url"])))
    for key in ("extracted_package_dir", "package_tarball_full_path", "link"):
        found.pop(key, None)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1, sort_keys=True)


def chain(error):
    """An exception's text and those of what it comes from."""
    texts = []
    while error is not None:
        texts.append(str(error) or type(error).__name__)
        error = error.__cause__
    return "\n".join(dict.fromkeys(texts))


def main(request):
    """Do a request and end the process; the interpreter's own end may crash after rattler was used."""
    code = 0
    # What packages' scripts print is not for the caller.
    Trouble.output = os.dup(1)
    os.dup2(2, 1)
    try:
        operation = {"solve": solve, "fetch": fetch, "install": install}[request["op"]]
        say({"result": asyncio.run(operation(request))})
    except Trouble as trouble:
        say({"trouble": trouble.facts})
        code = 1
    except OSError as error:
        facts = {"kind": "os", "errno": error.errno, "path": error.filename, "text": error.strerror or str(error)}
        say({"trouble": facts})
        code = 1
    except BaseException as error:  # whatever it is, the caller is told
        say({"trouble": {"kind": "crash", "text": "%s: %s" % (type(error).__name__, chain(error))}})
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
