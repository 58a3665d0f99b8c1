# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""What differs between an environment as it is wanted, as it was made, and as it is."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from ..muster_agent import facts


class Found(NamedTuple):
    """What a prefix really holds now.

    python_version: its Python's version, "" when it does not start; site: its site-packages; packages: name to version;
    twice: names with two versions; broken: names whose metadata is gone; entries: top-level names in site-packages.
    """

    python_version: str
    site: str
    packages: dict[str, str]
    twice: list[str]
    broken: list[str]
    entries: list[str]


NOTHING = Found("", "", {}, [], [], [])


class State(NamedTuple):
    """How a prefix stands to what is wanted.

    how: "current"; "none": there is no environment; "broken": it is not as it was made, for the same wish; "asked": it
    is whole, and only the requirements have changed; "other": the way it is to be made has changed, or several of
    these; reasons: why it is not current, in words; stamp: how it was made, None if unknown; found: what it holds.
    """

    how: str
    reasons: list[str]
    stamp: Mapping[str, Any] | None
    found: Found


def minor(version: str) -> str:
    """`3.11` of `3.11.7`."""
    return ".".join(version.split(".")[:2])


def drift(stamp: Mapping[str, Any], found: Found) -> list[str]:
    """What differs between an environment as it was made and as it is; an empty list when nothing does."""
    if not found.python_version:
        return ["its Python does not start"]
    if minor(found.python_version) != minor(str(stamp.get("python_version", ""))):
        return ["its Python is %s instead of %s" % (found.python_version, stamp.get("python_version"))]
    made: Mapping[str, str] = stamp.get("packages") or {}
    reasons = []
    for name in sorted(set(made) | set(found.packages)):
        old, new = made.get(name), found.packages.get(name)
        if old and not new:
            reasons.append("%s %s is gone" % (name, old))
        elif new and not old:
            reasons.append("%s %s was added" % (name, new))
        elif old != new:
            reasons.append("%s is %s instead of %s" % (name, new, old))
    reasons += ["%s is there twice" % name for name in found.twice]
    reasons += ["%s has lost its metadata" % name for name in found.broken]
    entries = set(found.entries)
    reasons += [
        "%s is gone from site-packages" % entry
        for entry in stamp.get("entries") or []
        if entry not in entries and not facts.distribution(entry)
    ]
    return reasons


def reasons_to_act(
    stamp: Mapping[str, Any] | None, found: Found, key: str, python: str, backend: str, gpu: bool
) -> tuple[list[str], list[str], list[str]]:
    """Why an environment is not as wanted: reasons in what is asked, in how it is to be made, and in what is there.

    Args:
        stamp: the prefix's stamp; None when it is lost.
        found: what the prefix holds.
        key: what `wanted_key` gives now.
        python: the option python, as given; "" when it is left open.
        backend: the option torch_backend.
        gpu: whether an NVIDIA GPU shows now.

    A GPU that has gone is no reason to touch an environment: drivers fail, and come back.
    """
    if stamp is None:
        return [], ["its stamp is lost"], []
    asked = ["the requirements have changed"] if stamp.get("wanted") != key else []
    made = []
    if python != stamp.get("python"):
        made.append("the choice of Python has changed")
    if backend != stamp.get("requested_backend"):
        made.append("torch_backend is %s instead of %s" % (backend, stamp.get("requested_backend")))
    if backend == "auto" and gpu and not stamp.get("gpu") and "torch" in (stamp.get("packages") or {}):
        made.append("an NVIDIA GPU has appeared")
    return asked, made, drift(stamp, found)
