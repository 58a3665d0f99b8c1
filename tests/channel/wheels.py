"""Wheels for tests: one module that knows its version."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path


def wheel(folder: Path, name: str, version: str, requires: tuple[str, ...] = ()) -> Path:
    """Write a wheel of one module and give its path.

    Args:
        folder: where; it is made.
        name: of the project and of the module, in letters and underscores.
        version: its version.
        requires: what it needs, as requirement lines.
    """
    folder.mkdir(parents=True, exist_ok=True)
    info = "{}-{}.dist-info".format(name, version)
    lines = ["Metadata-Version: 2.1", "Name: " + name, "Version: " + version, *("Requires-Dist: " + line for line in requires)]
    files = {
        name + ".py": "__version__ = {!r}\n".format(version),
        info + "/METADATA": "\n".join(lines) + "\n",
        info + "/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += "{},sha256={},{}\n".format(path, digest, len(text.encode()))
    files[info + "/RECORD"] = record + info + "/RECORD,,\n"
    made = folder / "{}-{}-py3-none-any.whl".format(name, version)
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path, (2023, 11, 14, 22, 13, 20)), text)
    return made
