"""The Python that runs the tests, as a conda package that works at any path."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from .archives import Member, Package

# Folders of the standard library that no environment needs.
LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "turtledemo", "tkinter", "ensurepip"}
LEFT_OUT |= {"site-packages", "dist-packages", "__pycache__"}
# Modules that would need more of the host than a terminal has.
NOT_WANTED = ("_tkinter", "_test", "xx", "_ctypes_test", "nis", "readline", "_curses", "_gdbm", "_dbm", "ossaudiodev")
# A prefix that stands in texts which do not mean it, and whose libraries are found everywhere.
SYSTEM = Path("/usr")
# What every host has, since it has a libc.
OF_LIBC = re.compile(r"(ld-linux|libc|libm|libdl|libpthread|librt|libutil|libcrypt|libgcc_s|linux-vdso)[.-]")


def package() -> Package:
    """The running Python as a package named `python`; about 60 MB, made in two seconds.

    Source of the form: a conda package of Python has bin/, lib/libpython*, lib/pythonX.Y/ and info/.
    """
    base = Path(sys.base_prefix).resolve()
    short = "python{}.{}".format(*sys.version_info)
    library = Path(sysconfig.get_path("stdlib", vars={"installed_base": str(base), "base": str(base)}))
    placeholder = str(base)
    files: dict[str, Member] = {}
    needed: dict[str, Path] = {}
    binary = (base / "bin" / short).resolve()
    files["bin/" + short] = relocated(binary, base, "$ORIGIN/../lib", needed)
    for name in ("python3", "python"):
        files["bin/" + name] = Member(short.encode(), 0o777, link=True)
    for shared in sorted((base / "lib").glob("libpython*.so*")):
        if not shared.is_symlink():
            files["lib/" + shared.name] = relocated(shared, base, "$ORIGIN", needed)
    for folder, folders, names in os.walk(library):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT and not name.startswith("config-"))
        for name in sorted(names):
            path = Path(folder) / name
            inside = "lib/{}/{}".format(short, path.relative_to(library))
            if "lib-dynload" in inside:
                if name.endswith(".so") and not name.startswith(NOT_WANTED):
                    files[inside] = relocated(path, base, "$ORIGIN/../..", needed)
            elif name.endswith(".a") or path.is_symlink():
                continue
            else:
                files.update(with_bytecode(path, inside, placeholder))
    for name, path in needed.items():
        files["lib/" + name] = Member(path.resolve().read_bytes(), 0o755)
    files["bin/pydoc3"] = Member(
        "#!{}/bin/python\nimport pydoc\npydoc.cli()\n".format(placeholder).encode(), 0o755, placeholder=placeholder
    )
    version = "{}.{}.{}".format(*sys.version_info)
    glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1]  # type: ignore[union-attr]
    return Package("python", version, ["__glibc >={},<3.0a0".format(glibc)], files, build="0_cpython")


def relocated(path: Path, base: Path, runpath: str, needed: dict[str, Path]) -> Member:
    """A program or library that looks for its libraries beside itself.

    Args:
        path: the file.
        base: the prefix that stands in its search path.
        runpath: what stands there instead; it is shorter, and the rest is filled with zeros.
        needed: libraries of this machine that it needs, to be filled.
    """
    data = path.read_bytes()
    old = str(base / "lib").encode() + b"\0"
    new = runpath.encode()
    if old in data and base != SYSTEM:
        if len(new) >= len(old):
            raise RuntimeError("found a Python at {}, expected a longer path; use another one for the tests".format(base))
        # The search path is the only string that is the folder alone; a path compiled in goes on after it.
        data = data.replace(b"\0" + old, b"\0" + new.ljust(len(old), b"\0"))
    listed = subprocess.run(["ldd", str(path)], stdout=subprocess.PIPE, check=False).stdout.decode()
    for name, where in re.findall(r"^\s*(\S+) => (/\S+)", listed, re.MULTILINE):
        if not OF_LIBC.match(name) and not name.startswith("libpython"):
            needed[name] = Path(where)
    return Member(data, 0o755)


def with_bytecode(path: Path, inside: str, placeholder: str) -> dict[str, Member]:
    """A file of the standard library and, where it is there and fits, its compiled form."""
    data = path.read_bytes()
    mtime = int(path.stat().st_mtime)
    if placeholder.encode() in data and placeholder != str(SYSTEM):
        return {inside: Member(data, placeholder=placeholder, mtime=mtime)}
    found = {inside: Member(data, mtime=mtime)}
    cache = "{}.{}.pyc".format(path.stem, sys.implementation.cache_tag)
    compiled = path.parent / "__pycache__" / cache
    if path.suffix == ".py" and compiled.is_file():
        found[os.path.join(os.path.dirname(inside), "__pycache__", cache)] = Member(compiled.read_bytes(), mtime=mtime)
    return found
