# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""What differs between an environment as it was installed and as it is."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from ..muster_agent import facts


class Found(NamedTuple):
    """What a version really holds now.

    python_version: its Python's version, "" when it does not start; site: its site-packages; packages: what Python's
    metadata name, name to version, whoever installed it; conda: what conda's records name, name to `version=build`; twice:
    names with two versions; broken: names whose metadata is gone; entries: top-level names in site-packages; contents: all
    of it as the roll call tells it (`facts.contents`), of which the fingerprint is made.
    """

    python_version: str
    site: str
    packages: dict[str, str]
    conda: dict[str, str]
    twice: list[str]
    broken: list[str]
    entries: list[str]
    contents: dict[str, list[str]]


NOTHING = Found("", "", {}, {}, [], [], [], {})


def minor(version: str) -> str:
    """`3.11` of `3.11.7`."""
    return ".".join(version.split(".")[:2])


def differences(made: Mapping[str, Sequence[str]], there: Mapping[str, Sequence[str]]) -> list[str]:
    """What differs between two `contents`, package by package, in words."""
    reasons = []
    for name in sorted(set(made) | set(there)):
        old, new = made.get(name), there.get(name)
        if old and not new:
            reasons.append("%s %s is gone" % (name, old[0]))
        elif new and not old:
            reasons.append("%s %s was added" % (name, new[0]))
        elif old and new and old[0] != new[0]:
            reasons.append("%s is %s instead of %s" % (name, new[0], old[0]))
        elif old and new and list(old) != list(new):
            reasons.append("%s %s is another build or has other files than were installed" % (name, new[0]))
    return reasons


def drift(stamp: Mapping[str, Any], found: Found) -> list[str]:
    """What differs between a version as it was installed and as it is; an empty list when nothing does."""
    if stamp.get("python_version") and not found.python_version:
        return ["its Python does not start"]
    if found.python_version != stamp.get("python_version"):
        return ["its Python is %s instead of %s" % (found.python_version, stamp.get("python_version"))]
    reasons = differences(stamp.get("contents") or {}, found.contents)
    reasons += ["%s is there twice" % name for name in found.twice]
    reasons += ["%s has lost its metadata" % name for name in found.broken]
    entries = set(found.entries)
    return reasons + [
        "%s is gone from site-packages" % entry
        for entry in stamp.get("entries") or []
        if entry not in entries and not facts.distribution(entry)
    ]
