# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The report of rattler's solver about what has no solution, shortened to what clashes. Pure functions."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

# The report is a tree: what was asked for, its candidates, what these need.
BARS = re.compile(r"^([\s│├└─]*)(.*?)\s*$")
CANDIDATE = re.compile(r"(\S+) (\S.*?) would (require|constrain)$")
BARRED = re.compile(r"(\S+) (\S.*?) is excluded because (.*?)\.?$")
NEED = re.compile(r"(.*?),? (?:for which no candidates|(?:which )?(?:can|cannot) be installed)")
CONFLICT = re.compile(r"(.*?), which conflicts with")
UNKNOWN = re.compile(r"No candidates were found for (.*?)\.?$")


def package_name(line: str) -> str:
    """The name in a match spec.

    >>> package_name("nvidia::cuda-toolkit >=12")
    'cuda-toolkit'
    """
    return re.split(r"[\s=<>!~\[;]", line.rpartition("::")[2].strip())[0].lower()


def tree(report: str) -> list[tuple[int, str]]:
    """The lines of a solver's report with their depth, without the drawing."""
    found = []
    for line in report.replace("Cannot solve the request because of:", "\n").splitlines():
        bars, text = BARS.match(line).groups()  # type: ignore[union-attr]
        if text:
            found.append((len(bars) // 3, text))
    return found


def clash(report: str, conda: Sequence[str], platform: Mapping[str, Any]) -> list[str]:
    """What clashes, in short: who needs what that cannot be had. Needs that lead on to other needs are left out.

    Args:
        report: the solver's text.
        conda: the match specs that were asked for.
        platform: {"glibc", "cuda"} of the nodes.

    >>> clash("Cannot solve the request because of: greet >=2 cannot be installed because there are no viable options:\\n"
    ...       "└─ greet 2.0 would require\\n   └─ python >=3.12, for which no candidates were found.\\n",
    ...       ["python 3.11.*", "greet >=2"], {})
    ['greet 2.0 needs python >=3.12', 'you ask for python 3.11.*']
    """
    asked = [(package_name(line), line.rpartition("::")[2].strip()) for line in conda]
    candidates: dict[int, tuple[str, str, str]] = {}  # on the way to a line, by depth; as the next two
    roots: dict[int, str] = {}
    needed: dict[int, int] = {}
    said: dict[int, str] = {}  # sentences, by line
    for at, (depth, text) in enumerate(tree(report)):
        for way in (candidates, roots, needed):
            for level in [level for level in way if level >= depth]:
                del way[level]  # type: ignore[attr-defined]
        candidate, barred, unknown = CANDIDATE.match(text), BARRED.match(text), UNKNOWN.match(text)
        if candidate:
            candidates[depth] = (candidate.group(1), versions(candidate.group(2)), candidate.group(3))
            continue
        if barred:
            said[at] = excluded(barred.group(1), versions(barred.group(2)), barred.group(3))
            continue
        if unknown:
            said[at] = "no channel has %s" % bare(unknown.group(1))
            continue
        by = candidates[max(candidates)] if candidates else None
        need = NEED.match(text) or (CONFLICT.match(text) if by and by[2] == "constrain" else None)
        if not need:
            continue
        if not by:
            roots[depth] = package_name(need.group(1))
            continue
        for before in needed.values():  # what led here says nothing of its own
            said.pop(before, None)
        needed[depth] = at
        root = roots[min(roots)] if roots else by[0]
        who = "%s %s%s" % (by[0], by[1], "" if root == by[0] else " (for %s)" % root)
        if by[2] == "constrain":
            said[at] = "%s fits %s alone" % (who, bare(need.group(1)))
        else:
            nothing = "no candidates" in text and package_name(need.group(1)) not in dict(asked)
            said[at] = needs(who, need.group(1).strip(), nothing, platform)
    told = list(dict.fromkeys(said.values()))
    firm = [text for text in told if "which no channel has" in text or ", but " in text]
    told = firm + [text for text in told if text not in firm]
    for name, line in asked:
        if line != name and any(re.search(r" (?:needs|fits) %s(?: |$)" % re.escape(name), text) for text in told):
            told.append("you ask for %s" % line)
    return list(dict.fromkeys(told))


def needs(who: str, wanted: str, nothing: bool, platform: Mapping[str, Any]) -> str:
    """One reason: `who` needs `wanted`; `nothing` tells that no channel has any of it."""
    name = package_name(wanted)
    bound = wanted[len(name) :].split(",")[0].strip()
    if name == "__cuda":
        has = "CUDA %s at most" % platform["cuda"] if platform.get("cuda") else "no NVIDIA GPU"
        return "%s needs %s, but the nodes have %s" % (who, ("CUDA " + bound).strip(" *"), has)
    if name == "__glibc":
        return "%s needs glibc %s, but the oldest of the nodes has %s" % (who, bound, platform.get("glibc"))
    if name.startswith("__"):
        return "%s needs %s, but the nodes have none" % (who, bare(wanted).strip("_"))
    return "%s needs %s%s" % (who, bare(wanted), ", which no channel has" if nothing else "")


def excluded(name: str, version: str, why: str) -> str:
    """One reason: a candidate that is not used."""
    hidden = re.search(r"strict channel priority.*?'([^']+)'", why)
    if hidden:
        return "%s %s of %s is hidden by a channel named before it" % (name, version, hidden.group(1).rstrip("/"))
    return "%s %s is left out, since %s" % (name, version, why)


def versions(text: str) -> str:
    """Versions of candidates, each once, and not too many.

    >>> versions("1.0 | 1.0 | 1.1 | 1.2 | 1.3")
    '1.0 to 1.3'
    """
    found = list(dict.fromkeys(text.split(" | ")))
    return " to ".join((found[0], found[-1])) if len(found) > 3 else " | ".join(found)


def bare(wanted: str) -> str:
    """A match spec without what says nothing.

    >>> bare("words *")
    'words'
    """
    return re.sub(r"\s*\[channel=.*?\]", "", re.sub(r"\s+\*$", "", wanted)).strip()
