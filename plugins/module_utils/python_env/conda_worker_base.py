# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""What the parts of conda.py's worker share: how it speaks, where packages lie, which client it asks by.

The module on a node imports the worker's files to send them on: so their syntax is Python 3.8's, and rattler is imported where it
is used.
"""

from __future__ import annotations

import json
import os
import urllib.parse
import urllib.request

ALIAS = "https://conda.anaconda.org"
# conda's own names for Anaconda's channels, which stand nowhere below the alias.
DEFAULTS = ("https://repo.anaconda.com/pkgs/main", "https://repo.anaconda.com/pkgs/r")
EVERY = 2.0  # seconds between two words of progress


class Trouble(Exception):
    """What could not be done: a kind, and facts for whoever words it."""

    output = 1  # where the caller listens

    def __init__(self, kind, text="", **facts):
        super().__init__(text)
        self.facts = dict(facts, kind=kind, text=text)


def say(word):
    """One line to the caller."""
    os.write(Trouble.output, json.dumps(word).encode() + b"\n")


def channel_urls(name, alias):
    """The addresses of a channel: of its name, a URL as it is, a folder as file:, Anaconda's as they are.

    >>> channel_urls("conda-forge", "https://mirror/conda/")
    ['https://mirror/conda/conda-forge']
    """
    name = name.strip()
    if name == "defaults":
        return list(DEFAULTS)
    if name.startswith(("/", "~")):
        return ["file://" + urllib.parse.quote(os.path.abspath(os.path.expanduser(name)))]
    if "://" in name:
        return [name.rstrip("/")]
    return ["%s/%s" % ((alias or ALIAS).rstrip("/"), name.strip("/"))]


def config_text(mirrors, alias):
    """rattler's configuration (TOML): the mirrors, by the channel's address."""
    lines = ["[mirrors]"]
    for name, places in sorted((mirrors or {}).items()):
        places = [places] if isinstance(places, str) else list(places)
        targets = [url for place in places for url in channel_urls(place, alias)]
        for url in channel_urls(name, alias):
            lines.append("%s = %s" % (json.dumps(url), json.dumps(targets)))
    return "\n".join(lines) + "\n"


def make_client(settings, urls, timeout, retries=0):
    """A client that obeys the settings; `timeout` is for a whole answer, None for none.

    rattler makes none on a host without certificate authorities, though http: and file: need none.
    """
    from rattler import Config
    from rattler.networking import Client

    text = config_text(settings.get("mirrors"), settings.get("channel_alias"))
    try:
        return Client.from_config(Config.from_toml(text), max_retries=retries, timeout=timeout)
    except ValueError as error:
        if any(url.startswith("https:") for url in urls) or '"https:' in text:
            raise Trouble("authorities", str(error)) from None
        return Client.from_config(Config.from_toml("tls-no-verify = true\n" + text), max_retries=retries, timeout=timeout)


def place(store, item):
    """Where an item lies in the store."""
    return os.path.join(store, item["sha256"], item["file_name"])


def lies(store, item):
    """Where an item is on this host: in the store, or where its `file:` address says; None if it is not."""
    paths = [place(store, item)] + ([local_path(item["url"])] if item["url"].startswith("file:") else [])
    return next(filter(os.path.isfile, paths), None)


def local_path(url):
    """The path of a `file:` address."""
    return urllib.request.url2pathname(urllib.parse.urlsplit(url).path)
