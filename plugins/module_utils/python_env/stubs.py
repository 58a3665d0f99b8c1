# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""How the wheels of an environment learn what its conda part brings: each such package stands in as an empty wheel."""

from __future__ import annotations

import os
import re
import zipfile
from typing import Any, Iterable, Mapping

from ..muster_agent import facts

# Where the two worlds have other names for the same thing.
NAMES = {"pytorch": "torch"}
# Versions that both worlds can write.
PLAIN = re.compile(r"[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?(\.post[0-9]+)?\Z")


def python_packages(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The Python packages among conda's records, by the names that wheels have: name to version."""
    found = {}
    for record in records:
        needs = [str(need).split()[0] for need in record.get("depends") or [] if str(need).strip()]
        is_python = record.get("noarch") == "python" or "python" in needs or "python_abi" in needs
        if is_python and PLAIN.match(str(record["version"])):
            found[NAMES.get(record["name"], facts.canonical(record["name"]))] = str(record["version"])
    return found


def write(folder: str, packages: Mapping[str, str]) -> None:
    """Write an empty wheel for each package, so that uv takes it for what is there, without asking anybody.

    Args:
        folder: where to; it is made.
        packages: name to version.
    """
    os.makedirs(folder, exist_ok=True)
    for name, version in packages.items():
        stem = "%s-%s" % (name.replace("-", "_"), version)
        info = stem + ".dist-info/"
        with zipfile.ZipFile(os.path.join(folder, stem + "-py3-none-any.whl"), "w") as archive:
            archive.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version))
            archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: muster\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(info + "RECORD", "")
