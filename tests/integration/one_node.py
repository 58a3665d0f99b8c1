"""One machine for the modules python_lock and python_env: this one. uv is real, wheels are made here, no network is used."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).parent / "uv"


def make_wheel(folder: Path, name: str, version: str, needs: tuple[str, ...] = (), body: str = "") -> None:
    """Write a pure Python wheel with one module that holds its version."""
    stem = "%s-%s" % (name.replace("-", "_"), version)
    meta = "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version)
    files = {
        "%s.py" % name.replace("-", "_"): body or "version = %r\n" % version,
        stem + ".dist-info/METADATA": meta + "".join("Requires-Dist: %s\n" % need for need in needs),
        stem + ".dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join("%s,,\n" % path for path in [*files, stem + ".dist-info/RECORD"])
    with zipfile.ZipFile(folder / (stem + "-py3-none-any.whl"), "w") as archive:
        for path, text in {**files, stem + ".dist-info/RECORD": record}.items():
            archive.writestr(path, text)


def make_wheels(folder: Path) -> Path:
    """Wheels to choose among: probe 1 and 2, what they need, and packages that need NVIDIA's libraries."""
    make_wheel(folder, "probe", "1.0", ("probe-base>=1",))
    make_wheel(folder, "probe", "2.0", ("probe-base>=1",))
    make_wheel(folder, "probe-base", "1.5")
    make_wheel(folder, "extra", "3.0")
    make_wheel(folder, "fast", "1.0", ("nvidia-fake-cu13",))
    make_wheel(folder, "nvidia-fake-cu13", "13.0")
    make_wheel(folder, "torch", "9.0", ("nvidia-fake-cu13",), "raise SystemExit('the CUDA build')\n")
    make_wheel(folder, "torch", "9.0+cpu")
    make_wheel(folder, "torch", "8.0+cpu", (), "raise ImportError('libfake.so is missing')\n")
    (folder / "old-1.0.tar.gz").write_bytes(b"")
    return folder


class Node:
    """A machine with settings and a cache of its own and no index.

    Args:
        home: its home, which holds the prefix too.
        wheels: the folder that pip's settings name.
        cache: the folder of caches.
    """

    def __init__(self, home: Path, wheels: Path, cache: Path) -> None:
        self.home = home
        self.prefix = home / "envs" / "e"
        self.versions = home / "envs" / ".versions" / "e"
        (home / "pip.conf").write_text(
            "[global]\nfind-links = %s /does/not/exist\nno-index = true\nconstraint = /does/not/exist\n" % wheels
        )
        keep = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "UV_"))}
        self.environ = {
            **keep,
            "HOME": str(home),
            "PIP_CONFIG_FILE": str(home / "pip.conf"),
            "UV_HTTP_RETRIES": "0",
            "PYTHONPATH": str(REPO / "collections"),
        }
        self.front: list[str] = []
        self.common = {"prefix": str(self.prefix), "uv": str(UV), "cache_dir": str(cache), "_ansible_diff": True}

    def start(self, module: str, check: bool = False, **options: Any) -> subprocess.Popen:
        """Start a module, without waiting for it."""
        arguments = {**self.common, "_ansible_check_mode": check, **options}
        return subprocess.Popen(
            [
                *self.front,
                sys.executable,
                str(REPO / "library" / (module + ".py")),
                json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
            ],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def solve(self, text: str, check: bool = False, **options: Any) -> dict[str, Any]:
        """The answer of python_lock for requirements."""
        lines = text.splitlines()
        given = {"specification": {"pip": lines}, "asked": "asked for " + text, **options}
        return result(self.start("python_lock", check, **given))

    def lock(self, text: str = "probe==1.0") -> dict[str, Any]:
        """A lock of requirements."""
        answer = self.solve(text)
        assert not answer.get("failed"), answer["msg"]
        return answer["lock"]

    def begin(self, lock: dict[str, Any] | None, check: bool = False, **options: Any) -> subprocess.Popen:
        """Start installing a lock."""
        return self.start("python_env", check, **{"lock": lock, "min_free_mb": 0, **options})

    def install(self, lock: dict[str, Any] | None, check: bool = False, **options: Any) -> dict[str, Any]:
        """Install a lock."""
        return result(self.begin(lock, check, **options))

    def run(self, text: str = "probe==1.0", **options: Any) -> dict[str, Any]:
        """Solve and install."""
        return self.install(self.lock(text), **options)

    def look(self, **options: Any) -> dict[str, Any]:
        """Look at the prefix."""
        return result(self.start("python_env", state="look", **options))

    def slow_uv(self, seconds: float) -> str:
        """A uv that takes its time before it installs; it notes its process id while it does."""
        script = self.home / ("uv-%s" % seconds)
        script.write_text(
            '#!/bin/sh\ncase "$*" in\n  *"pip install"*) echo $$ > %s/uv.pid; sleep %s ;;\nesac\nexec %s "$@"\n'
            % (self.home, seconds, UV)
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return str(script)

    def litter(self) -> list[str]:
        """What lies beside the prefix and beside its versions, and is neither."""
        parent = {name for name in os.listdir(self.prefix.parent)} - {self.prefix.name, ".versions"}
        versions = os.listdir(self.versions) if self.versions.exists() else []
        return sorted(parent) + sorted(name for name in versions if not (self.versions / name / ".muster/stamp.json").exists())

    def ids(self) -> list[str]:
        """Names of the versions, the one used last first."""
        return [version["id"] for version in self.look()["versions"]]

    def version(self, name: str = "probe", python: Path | None = None) -> str:
        """The version of a package, as the prefix's own Python sees it."""
        code = "import %s; print(%s.version)" % (name, name)
        command = [python or self.prefix / "bin/python", "-I", "-c", code]
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()


def result(process: subprocess.Popen) -> dict[str, Any]:
    """What a module answered."""
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert out.strip(), err
    return json.loads(out)


def sentence(answer: dict[str, Any]) -> str:
    """The one sentence of a module that has to have failed."""
    assert answer.get("failed"), answer
    assert "\n" not in answer["msg"]
    return answer["msg"]


def wait_for(path: Path, seconds: float = 20) -> str:
    """The text of a file, once there is some."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and path.read_text().strip():
            return path.read_text().strip()
        time.sleep(0.05)  # another process writes it
    raise AssertionError("%s did not come within %d s" % (path, seconds))


def end(process: subprocess.Popen) -> None:
    """Kill a process and take what it said."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
