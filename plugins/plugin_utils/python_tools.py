"""The tools that make Python environments on nodes: rattler and uv, built once per platform on the controller."""

import fcntl
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from typing import NamedTuple

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault, explain
from ansible_collections.muster.cluster.plugins.module_utils.python_env.settings import uv_environ
from ansible_collections.muster.cluster.plugins.module_utils.python_env.wish import read_settings

# Processors of nodes, as `uname -m` names them, and what their wheels are built for.
PLATFORMS = {"x86_64": "x86_64-manylinux2014", "aarch64": "aarch64-manylinux_2_28"}
PYTHON = "3.10"  # the oldest that rattler runs on; its wheels are for that and all later ones
EDITION = 1  # raised when the folder on the node changes its form
PATIENCE = 600  # seconds for another run on this controller to fetch and pack them
# Files of an installation that say when and how it was made, which is different every time.
LEFT_OUT = ("uv_cache.json", "direct_url.json", "INSTALLER", "REQUESTED", "RECORD")


class Tools(NamedTuple):
    """Tools for one platform: ``name`` is their id, ``archive`` the path of the tar, ``sha256`` its hash."""

    name: str
    archive: str
    sha256: str


def pins_path():
    """The file with the exact versions and hashes."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return os.path.join(root, "roles", "python_env", "files", "tools.txt")


def tools_name(pins, arch):
    """The id of the tools: 12 hex digits that differ when a version, a hash or the platform does; nothing is built for it.

    Args:
        pins: text of the file with the versions; comments do not count.
        arch: the processor, as ``uname -m`` names it.

    Raises:
        Refusal: for a processor that there are no wheels for.
    """
    if arch not in PLATFORMS:
        raise Refusal("found the processor {}, expected {}; take such nodes".format(arch, " or ".join(sorted(PLATFORMS))))
    meaning = [line.strip() for line in pins.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return hashlib.sha256("\n".join([str(EDITION), PLATFORMS[arch], *meaning]).encode()).hexdigest()[:12]


def build(arch, cache, uv, environ=os.environ, pins=None, say=None):
    """The tools for a platform, fetched and packed when the cache has them not.

    Args:
        arch: the nodes' processor, as ``uname -m`` names it.
        cache: a folder on the controller; concurrent runs wait for each other there.
        uv: path of the controller's uv.
        environ: environment variables, which together with pip's configuration say where packages come from.
        pins: path of the file with the versions, for tests.
        say: is given a line for people before anything is fetched.

    Returns:
        :class:`Tools`.

    Raises:
        Refusal: in one sentence, when they cannot be had.
    """
    pins = pins or pins_path()
    with open(pins, encoding="utf-8") as stream:
        name = tools_name(stream.read(), arch)
    archive, mark = os.path.join(cache, name + ".tar.gz"), os.path.join(cache, name + ".sha256")
    try:
        os.makedirs(cache, exist_ok=True)
        with open(os.path.join(cache, "lock"), "w", encoding="utf-8") as lock:
            _hold(lock)
            if not (os.path.exists(archive) and os.path.exists(mark)):
                if say:
                    say("fetching rattler and uv for nodes with {}, once".format(arch))
                _build(arch, cache, uv, environ, pins, archive, mark)
            with open(mark, encoding="ascii") as stream:
                return Tools(name, archive, stream.read().strip())
    except Fault as fault:
        raise Refusal("the tools for nodes cannot be fetched to the controller: {}".format(fault.sentence)) from None
    except OSError as error:
        raise Refusal(
            "the tools for nodes cannot be written to {} ({}), expected a folder with 200 MB to spare; see to it".format(
                error.filename or cache, error.strerror
            )
        ) from None


def _hold(lock):
    """Wait for a lock's turn, with a bound; raises Refusal."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise Refusal(
                    "found {} held by another run for {} s, expected it free, since each fetches the tools for nodes alone; see "
                    "whether that run still lives, end it, and run again".format(lock.name, PATIENCE)
                ) from None
        time.sleep(0.2)  # a waiting flock could not be bounded


def _build(arch, cache, uv, environ, pins, archive, mark):
    """Fetch into a temporary folder, pack, rename; the mark comes last."""
    for left in os.listdir(cache):
        if left.startswith("build-"):  # of a killed run; the lock says that no other one lives
            shutil.rmtree(os.path.join(cache, left), ignore_errors=True)  # what stays is in nobody's way
    with tempfile.TemporaryDirectory(prefix="build-", dir=cache) as work:
        site = os.path.join(work, "site")
        _install(arch, uv, environ, pins, site, work)
        shutil.move(os.path.join(site, "bin", "uv"), os.path.join(work, "uv"))
        shutil.rmtree(os.path.join(site, "bin"))
        packed = os.path.join(work, "tools.tar.gz")
        pack(work, ("site", "uv"), packed)
        os.rename(packed, archive)
    with open(mark + ".new", "w", encoding="ascii") as stream:
        stream.write(_sha256(archive) + "\n")
    os.rename(mark + ".new", mark)


def install_argv(uv, python, platform, pins, target):
    """``uv pip install`` of the tools' wheels into a folder; nothing is built, and every wheel has the hash of its pin."""
    return [
        uv, "pip", "install", "--quiet", "--no-config", "--python", python, "--target", target, "--python-platform", platform,
        "--python-version", PYTHON, "--only-binary", ":all:", "--no-deps", "--require-hashes", "--no-compile-bytecode",
        "--link-mode", "copy", "--requirements", pins,
    ]  # fmt: skip


def _install(arch, uv, environ, pins, site, work):
    nothing = {"index_url": None, "extra_index_urls": [], "find_links": [], "ca_bundle": None, "cache_dir": None}
    settings, _ = read_settings(nothing, environ)
    temporary = os.path.join(work, "tmp")
    os.mkdir(temporary)
    argv = install_argv(uv, sys.executable, PLATFORMS[arch], pins, site)
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=work,
            env=uv_environ(environ, settings, temporary), check=False,
        )  # fmt: skip
    except OSError as error:
        raise Fault(
            "found no uv that runs at {} ({}), expected one on the controller; install the requirements.txt of Muster".format(
                uv, error.strerror
            )
        ) from None
    if done.returncode:
        raise explain(done.stdout.decode(errors="replace"), uv)


def pack(folder, names, path):
    """Write a tar of files below ``folder`` that depends on their content alone, compressed as fast as gzip can."""
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 1, file, mtime=0) as stream:
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name in names:
                for inside in sorted(_files(folder, name)):
                    source = os.path.join(folder, inside)
                    member = tarfile.TarInfo(inside)
                    member.size = os.path.getsize(source)
                    member.mode = 0o755 if os.access(source, os.X_OK) else 0o644
                    with open(source, "rb") as data:
                        archive.addfile(member, data)


def _files(folder, name):
    """Paths below ``folder`` of a file, or of all files of a folder."""
    top = os.path.join(folder, name)
    if os.path.isfile(top):
        yield name
    for place, _, files in os.walk(top):
        for file in files:
            if file not in LEFT_OUT and not re.search(r"\.pyi?c$", file) and file != ".lock":
                yield os.path.relpath(os.path.join(place, file), folder)


def _sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
