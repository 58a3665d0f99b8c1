# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""Lines of requirements: what is asked for, and `name==version` for what there is."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Iterable, Mapping, Sequence


def requirement_lines(text: str) -> list[str]:
    """The lines of a requirements file that mean something: continuation lines joined, comments and blanks dropped."""
    joined = re.sub(r"\\\r?\n", " ", text)
    lines = (re.sub(r"(^|\s)#.*$", "", line) for line in joined.splitlines())
    return [" ".join(line.split()) for line in lines if line.strip()]


def included_files(lines: Iterable[str]) -> list[str]:
    """Files which requirements lines take in by -r or -c, as they are written there."""
    found = (re.match(r"(?:-r|-c|--requirement|--constraint)(?:[ =]+|(?=[^-\s]))(\S.*)$", line) for line in lines)
    return [match.group(1) for match in found if match]


def wanted_key(lines: Sequence[str], included: Sequence[str], constraints: Sequence[str]) -> str:
    """sha256 (hex) of what is asked for: requirement lines, the text of files they take in, the text of constraints."""
    key = {"lines": list(lines), "included": list(included), "constraints": list(constraints)}
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def pinned(packages: Mapping[str, str]) -> list[str]:
    """`name==version` for each package, sorted by name."""
    return ["%s==%s" % item for item in sorted(packages.items())]


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """What is new in `after` and what is gone from `before`, as `name==version`."""
    old, new = set(pinned(before)), set(pinned(after))
    return sorted(new - old), sorted(old - new)
