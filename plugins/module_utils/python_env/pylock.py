# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""What uv resolved, read from the pylock.toml (PEP 751) that `uv pip compile` writes."""

from __future__ import annotations

import os
import re
from typing import Any, Iterable, Mapping, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from ..muster_agent import facts
from .complaints import Fault

STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\'([^\'\n]*)\'')
WORD = re.compile(r"[^\s,\]}#]+")
KEY = re.compile(r"[A-Za-z0-9_-]+")
ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}


class _Reader:
    """Reads the part of TOML that uv writes: tables, arrays of tables, strings, arrays and inline tables.

    Python 3.8 has no reader of its own. Numbers are given as int where they are such, dates and the rest as text.
    """

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def document(self) -> dict[str, Any]:
        """The whole text as a dictionary; raises ValueError where it is something else."""
        top: dict[str, Any] = {}
        table = top
        while self._skip():
            if self.text.startswith("[", self.at):
                table = self._header(top)
                continue
            key = self._key()
            self._expect("=")
            table[key] = self.value()
        return top

    def _header(self, top: dict[str, Any]) -> dict[str, Any]:
        line = self.text[self.at :].partition("\n")[0].strip()
        self.at += len(line)
        many = line.startswith("[[")
        names = line.strip("[]").split(".")
        table = top
        for name in names[:-1]:
            inner = table.setdefault(name, {})
            table = inner[-1] if isinstance(inner, list) else inner
        fresh: dict[str, Any] = {}
        if many:
            table.setdefault(names[-1], []).append(fresh)
        else:
            table[names[-1]] = fresh
        return fresh

    def value(self) -> Any:
        """The value at this place."""
        self._skip()
        start = self.text[self.at : self.at + 1]
        if start in ('"', "'"):
            return self._string()
        if start == "[":
            return list(self._items("]", self.value))
        if start == "{":
            return dict(self._items("}", self._pair))
        match = WORD.match(self.text, self.at)
        if not match:
            raise ValueError("no value at %d" % self.at)
        self.at = match.end()
        return int(match.group()) if match.group().isdigit() else match.group()

    def _pair(self) -> tuple[str, Any]:
        key = self._key()
        self._expect("=")
        return key, self.value()

    def _items(self, end: str, read: Any) -> Iterable[Any]:
        self.at += 1
        while True:
            self._skip()
            if self.text.startswith(end, self.at):
                self.at += 1
                return
            yield read()
            self._skip()
            if not self.text.startswith(end, self.at):
                self._expect(",")

    def _key(self) -> str:
        if self.text[self.at : self.at + 1] in ('"', "'"):
            return self._string()
        match = KEY.match(self.text, self.at)
        if not match:
            raise ValueError("no key at %d" % self.at)
        self.at = match.end()
        return match.group()

    def _string(self) -> str:
        match = STRING.match(self.text, self.at)
        if not match:
            raise ValueError("no text at %d" % self.at)
        self.at = match.end()
        if match.group(2) is not None:
            return match.group(2)
        return re.sub(r"\\(u[0-9A-Fa-f]{4}|.)", _escape, match.group(1))

    def _expect(self, sign: str) -> None:
        self._skip()
        if not self.text.startswith(sign, self.at):
            raise ValueError("no %s at %d" % (sign, self.at))
        self.at += len(sign)

    def _skip(self) -> bool:
        """Pass over blanks and comments; whether anything follows."""
        match = re.compile(r"(?:\s+|#[^\n]*)*").match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.at < len(self.text)


def _escape(match: Any) -> str:
    word = match.group(1)
    return chr(int(word[1:], 16)) if len(word) > 1 else ESCAPES.get(word, word)


class Resolved(NamedTuple):
    """One package that uv has chosen: canonical name, version, and its wheel's address, size (0: unknown) and sha256."""

    name: str
    version: str
    url: str
    size: int
    sha256: str


def parse(text: str, folder: str) -> list[Resolved]:
    """The packages of a pylock.toml.

    Args:
        text: as uv wrote it, for one platform and one Python.
        folder: the folder that its relative paths count from.

    Raises:
        Fault: for a package that has no wheel, and for a text that cannot be read.
    """
    try:
        packages = _Reader(text).document().get("packages", [])
        return [_resolved(entry, folder) for entry in packages]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Fault(
            "found a list of packages by uv that cannot be read (%s), expected a pylock.toml; put uv 0.7 or later on the host"
            % error
        ) from None


def _resolved(entry: Mapping[str, Any], folder: str) -> Resolved:
    name = facts.canonical(entry["name"])
    wheel = (entry.get("wheels") or [None])[0]
    archive = entry.get("archive")
    if wheel is None and archive and _file_name(archive.get("url") or archive.get("path")).endswith(".whl"):
        wheel = archive
    if wheel is None:
        raise Fault(
            "found no wheel of %s that suits this platform, expected one, since nothing is compiled on the nodes; choose a "
            "version that has one, or offer one in a folder of python_env_find_links" % name
        )
    url = wheel.get("url") or "file://" + quote(os.path.normpath(os.path.join(folder, wheel["path"])))
    url = re.sub(r"(?<=://)[^/@]+@", "", url)
    version = entry.get("version") or _file_name(url).split("-")[1]
    return Resolved(name, version, url, int(wheel.get("size") or 0), wheel.get("hashes", {}).get("sha256", ""))


def _file_name(url: str | None) -> str:
    """The file's name in an address or a path."""
    return unquote(urlsplit(url or "").path.rsplit("/", 1)[-1])


def wheel_entry(package: Resolved) -> dict[str, Any]:
    """A package as a lock's `wheels` hold it."""
    return {
        "name": package.name,
        "version": package.version,
        "url": package.url.partition("#")[0],
        "file_name": _file_name(package.url),
        "sha256": package.sha256,
        "size": package.size,
    }


def preferences(packages: Mapping[str, str]) -> str:
    """A pylock.toml that makes uv keep these versions (name to version) as far as it may."""
    head = 'lock-version = "1.0"\ncreated-by = "muster"\n'
    return head + "".join('\n[[packages]]\nname = "%s"\nversion = "%s"\n' % item for item in sorted(packages.items()))
