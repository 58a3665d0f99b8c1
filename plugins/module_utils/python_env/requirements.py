# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""Lines of requirements."""

from __future__ import annotations

import re


def requirement_lines(text: str) -> list[str]:
    """The lines of a requirements file that mean something: continuation lines joined, comments and blanks dropped."""
    joined = re.sub(r"\\\r?\n", " ", text)
    lines = (re.sub(r"(^|\s)#.*$", "", line) for line in joined.splitlines())
    return [" ".join(line.split()) for line in lines if line.strip()]
