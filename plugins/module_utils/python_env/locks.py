# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""A lock: the exact list of packages that a specification was solved to, once, for the whole cluster. Pure functions."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Mapping

from ..muster_agent import facts
from .complaints import Fault, redact

FORMAT = 1

# Which keys a lock has, and of which type; `None` may stand for a text where the second is true.
TOP = {
    "format": (int, False),
    "platform": (str, False),
    "python": (str, False),
    "glibc": (str, True),
    "cuda": (str, True),
    "torch_backend": (str, True),
    "asked": (str, False),
    "channels": (list, False),
    "conda": (list, False),
    "wheels": (list, False),
}
CONDA = ("name", "version", "build", "url", "file_name", "sha256")
WHEEL = ("name", "version", "url", "file_name", "sha256")
SCHEMES = ("https:", "http:", "file:")


def read(text: str) -> dict[str, Any]:
    """A lock from its text.

    Args:
        text: JSON, as `text` writes it.

    Raises:
        Fault: with what is wrong, when it is not a lock that can be installed.
    """
    try:
        lock = json.loads(text)
    except ValueError as error:
        raise _bad("text that is no JSON (%s)" % error) from None
    check(lock)
    return lock


def check(lock: Any) -> None:
    """Refuse what is not a lock; raises Fault with what is wrong."""
    if not isinstance(lock, dict):
        raise _bad("%s" % type(lock).__name__)
    if lock.get("format") != FORMAT:
        raise _bad("the format %r" % (lock.get("format"),))
    for key, (kind, optional) in TOP.items():
        value = lock.get(key)
        if not isinstance(value, kind) and not (optional and value is None):
            raise _bad("the key %s with %r" % (key, value))
    for channel in lock["channels"]:
        if not isinstance(channel, str):
            raise _bad("the channel %r" % (channel,))
        if redact(channel) != channel:
            raise _bad("the channel %s with a password or a token" % redact(channel))
    variables = lock.get("variables", {})
    if not isinstance(variables, dict) or not all(isinstance(value, str) for value in variables.values()):
        raise _bad("the key variables with %r" % (variables,))
    _check_part(lock["conda"], CONDA, "conda", str)
    _check_part(lock["wheels"], WHEEL, "wheels", facts.canonical)


def _check_part(part: list[Any], keys: tuple[str, ...], title: str, spelling: Any) -> None:
    """Refuse a part of a lock with an entry that cannot be installed, or with a name twice."""
    seen = set()
    for entry in part:
        if not isinstance(entry, dict):
            raise _bad("an entry of %s that is %r" % (title, entry))
        for key in keys:
            if not isinstance(entry.get(key), str) or not entry[key]:
                raise _bad("%s of %s without %s" % (entry.get("name", "an entry"), title, key))
        name = entry["name"]
        if not re.match(r"[0-9a-f]{64}\Z", entry["sha256"]):
            raise _bad("%s of %s with the sha256 %r" % (name, title, entry["sha256"]))
        if not entry["url"].startswith(SCHEMES):
            raise _bad("%s of %s with the address %r" % (name, title, redact(entry["url"])))
        if _secret(entry["url"], name) or _secret(str(entry.get("channel") or ""), name):
            raise _bad("%s of %s with a password or a token in its address" % (name, title))
        if "/" in entry["file_name"] or entry["file_name"].startswith("."):
            raise _bad("%s of %s with the file name %r" % (name, title, entry["file_name"]))
        if spelling(name) != name or name in seen:
            raise _bad("%s of %s %s" % (name, title, "twice" if name in seen else "in another spelling"))
        seen.add(name)


def _secret(url: str, name: str) -> bool:
    """Whether an address holds a secret; in `/t/torch/` of an index by first letters, the name is none."""
    plain = re.sub(r"/t/([^/]+)/", lambda found: "/" if facts.canonical(found[1]) == facts.canonical(name) else found[0], url)
    return redact(plain) != plain


def _bad(found: str) -> Fault:
    """The sentence for a text that is no lock."""
    return Fault("the lock holds %s, expected one that Muster wrote: take it from git or make it anew" % found)


def text(lock: Mapping[str, Any]) -> str:
    """A lock as text for a file: sorted, one line per value, so that git shows what changed."""
    return json.dumps(arranged(lock), indent=1, sort_keys=True) + "\n"


def arranged(lock: Mapping[str, Any]) -> dict[str, Any]:
    """A lock with its packages sorted by name."""
    parts = {part: sorted(lock[part], key=lambda entry: str(entry["name"])) for part in ("conda", "wheels")}
    return dict(lock, **parts)


def identity(lock: Mapping[str, Any]) -> dict[str, Any]:
    """What two locks have in common that give the same environment: Python, what each package is (not whence), variables."""
    conda = sorted([entry["name"], entry["version"], entry["build"], entry["sha256"]] for entry in lock["conda"])
    wheels = sorted([entry["name"], entry["version"], entry["sha256"]] for entry in lock["wheels"])
    variables = {"variables": lock["variables"]} if lock.get("variables") else {}
    return dict(variables, python=lock["python"], conda=conda, wheels=wheels)


def lock_id(lock: Mapping[str, Any]) -> str:
    """12 hex digits, equal for locks that give the same environment; the name of its folder on every node."""
    canonical = json.dumps(identity(lock), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def platform_of(lock: Mapping[str, Any] | None) -> dict[str, str]:
    """The least that hosts must have for a lock, as the look tells it; empty texts where it asks for nothing."""
    return {"lock_" + key: str((lock or {}).get(key) or "") for key in ("glibc", "cuda")}


def packages(lock: Mapping[str, Any]) -> dict[str, str]:
    """All packages of a lock, name to version; a wheel covers a conda package of the same name, as it does on disk."""
    found = {entry["name"]: entry["version"] for entry in lock["conda"]}
    found.update({entry["name"]: entry["version"] for entry in lock["wheels"]})
    return dict(sorted(found.items()))


def differences(a: Mapping[str, Any] | None, b: Mapping[str, Any] | None) -> list[tuple[str, str | None, str | None]]:
    """What differs between two locks, package by package: name, what `a` has, what `b` has, sorted by name.

    A package of the same version is named too where its build or its file is another one: then the version is followed
    by the build, or by the first digits of the sha256.
    """
    before, after = _described(a), _described(b)
    found: list[tuple[str, str | None, str | None]] = []
    for name in sorted(set(before) | set(after)):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        # As few words as tell the two apart.
        words = 1
        while old and new and old[:words] == new[:words]:
            words += 1
        found.append((name, " ".join(old[:words]) if old else None, " ".join(new[:words]) if new else None))
    return found


def _described(lock: Mapping[str, Any] | None) -> dict[str, tuple[str, ...]]:
    """Each package of a lock in words that grow finer: version, build (conda) or kind, first digits of the sha256."""
    if lock is None:
        return {}
    found: dict[str, tuple[str, ...]] = {
        entry["name"]: (entry["version"], entry["build"], entry["sha256"][:12]) for entry in lock["conda"]
    }
    found.update({entry["name"]: (entry["version"], "(wheel)", entry["sha256"][:12]) for entry in lock["wheels"]})
    return found


def lines(lock: Mapping[str, Any] | None) -> list[str]:
    """One line per package, for a diff: `name==version` of a wheel, `name=version=build` of a conda package, sorted."""
    if lock is None:
        return []
    found = ["%s=%s=%s" % (entry["name"], entry["version"], entry["build"]) for entry in lock["conda"]]
    found += ["%s==%s" % (entry["name"], entry["version"]) for entry in lock["wheels"]]
    return sorted(found)


def environment_yml(lock: Mapping[str, Any], name: str) -> str:
    """What a lock holds, in conda's words with exact versions, for people and for other tools.

    Args:
        lock: the lock.
        name: the environment's name.
    """
    channels = list(lock["channels"])
    out = ["name: %s" % _scalar(name), "channels:%s" % ("" if channels else " []")]
    out += ["  - %s" % _scalar(channel) for channel in channels]
    wheels = ["%s==%s" % (entry["name"], entry["version"]) for entry in arranged(lock)["wheels"]]
    conda = ["%s=%s=%s" % (entry["name"], entry["version"], entry["build"]) for entry in arranged(lock)["conda"]]
    if not conda:
        conda = ["python=%s" % lock["python"]] + (["pip"] if wheels else [])
    out += ["dependencies:"] + ["  - %s" % _scalar(line) for line in conda]
    if wheels:
        out += ["  - pip:"] + ["      - %s" % _scalar(line) for line in wheels]
    if lock.get("variables"):
        out += ["variables:"] + ["  %s: %s" % (key, json.dumps(value)) for key, value in sorted(lock["variables"].items())]
    return "\n".join(out) + "\n"


def _scalar(value: str) -> str:
    """A text as YAML takes it for a text; JSON's quotes are YAML's where there is need of any."""
    plain = re.match(r"[A-Za-z][A-Za-z0-9_.:/=+!~-]*\Z", value) and not re.search(r":(\s|\Z)", value)
    words = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
    return value if plain and value.lower() not in words else json.dumps(value)
