"""What the test channel holds: enough versions and dependencies to make solving matter."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from pathlib import Path

from . import cpython
from .archives import Package, text, write

# A prefix as long as any that a test may choose.
HOLD = "/opt/" + "placeholder_" * 15



def library(name: str, version: str, depends: list[str], **how) -> Package:
    """A noarch package of one Python module that knows its version."""
    content = "__version__ = {!r}\n".format(version)
    return Package(name, version, depends, {"site-packages/{}.py".format(name): text(content)}, "py_0", noarch="python", **how)


def binary(name: str, version: str, depends: list[str], **how) -> Package:
    """A package for linux-64 of one file, which holds the prefix."""
    script = text("#!/bin/sh\necho {} {} {}\n".format(name, version, HOLD), 0o755, placeholder=HOLD)
    return Package(name, version, depends, {"bin/" + name: script}, **how)


def packages() -> list[Package]:
    """All packages of the channel but Python."""
    return [
        # Another Python, older by its files' sake but newer by its number: whoever does not say which gets it.
        binary("python", "3.12.1", ["__glibc >=2.17,<3.0a0"], build="0_dummy"),
        library("greet", "1.0", ["python >=3.8"]),
        library("greet", "1.2", ["python >=3.8", "words >=2"]),
        library("greet", "2.0", ["python >=3.12", "words >=2"]),
        library("words", "1.5", ["python >=3.8"]),
        library("words", "2.1", ["python >=3.8", "libletters >=1,<2"]),
        # Wants what greet 1.2 and later do not.
        library("oldspeak", "0.9", ["python >=3.8", "words <2"]),
        binary("libletters", "1.0", ["__glibc >=2.17,<3.0a0"]),
        binary("libletters", "1.4", ["__glibc >=2.17,<3.0a0"], build="h1_1", build_number=1),
        # The newest is for a libc that no host has yet, and would be the first choice.
        binary("libletters", "1.9", ["__glibc >=2.99,<3.0a0"]),
        binary("needsnewlibc", "1.0", ["__glibc >=2.99,<3.0a0"]),
        # By GPU or without one, as conda-forge's pytorch comes.
        binary("accelerate", "1.0", ["__glibc >=2.17", "__cuda >=12"], build="cuda126_0", build_number=200),
        binary("accelerate", "1.0", ["__glibc >=2.17"], build="cpu_0"),
        binary("needsgpu", "1.0", ["__cuda >=12"]),
        library("pip", "24.0", ["python >=3.8"], entry_points=["pip = pip:main"]),
        library("setuptools", "70.0", ["python >=3.8"]),
        Package(
            "conda", "24.9.2", ["python >=3.8"],
            {"bin/conda": text("#!/bin/sh\necho conda 24.9.2 in {}\n".format(HOLD), 0o755, placeholder=HOLD),
             "condabin/conda": text("#!/bin/sh\nexec {}/bin/conda \"$@\"\n".format(HOLD), 0o755, placeholder=HOLD)},
            build="py311_0",
        ),
        # Written in conda's older form.
        binary("olden", "0.1", []),
        # Its environment variables and its script are run on activation.
        Package("activated", "1.0", [], {
            "etc/conda/activate.d/activated.sh": text("export MUSTER_ACTIVATED=1.0\n", 0o644),
            "etc/conda/env_vars.d/activated.json": text('{"MUSTER_VARIABLE": "set"}\n', 0o644),
        }),
        # A script that must not run unless asked for.
        Package("scripted", "1.0", [], {"bin/.scripted-post-link.sh": text("#!/bin/sh\ntouch \"$PREFIX/linked\"\n", 0o755)}),
    ]  # fmt: skip


def build(cache: Path) -> Path:
    """The channel's folder, built when it is not there yet; two seconds, about 70 MB.

    Args:
        cache: a folder to keep it in, shared by tests that run at the same time. What was built otherwise is removed.
    """
    cache.mkdir(parents=True, exist_ok=True)
    # By another Python, or by other words here, another one comes out.
    made_of = [sys.version, sys.base_prefix, *(file.read_text("utf-8") for file in sorted(Path(__file__).parent.glob("*.py")))]
    channel = cache / "channel-{}".format(hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:12])
    with open(cache / "channel.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not channel.is_dir():
            for other in cache.glob("channel-*"):
                shutil.rmtree(other)
            fresh = cache / "channel.new"
            shutil.rmtree(fresh, ignore_errors=True)  # mostly there is none
            write(fresh, [cpython.package(), *packages()], old=("olden",))
            os.rename(fresh, channel)
    return channel
