# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The head hands the packages of a lock to the members over SSH, so that each crosses the outer network once."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import pkgutil
import shlex
import subprocess
import threading
import time
from typing import Any, Callable, Mapping, Sequence

from . import receiver, store
from .complaints import Fault
from .settings import local_path

# Members at once: more would only share the head's one way out.
AT_ONCE = 4
# Seconds without a byte's progress after which a member is given up.
STALLED = 60.0
PACE_SECONDS = 5.0


def ssh_argv(member: Mapping[str, Any], command: str) -> list[str]:
    """The command to a member; everything that could ask, forward or outlive it is off, and its host key must be known.

    Args:
        member: {"name", "python", ...} as `Sharing` takes it.
        command: for the shell there.
    """
    options = (
        "BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=10", "ControlMaster=no", "ControlPath=none",
        "ForwardAgent=no", "ClearAllForwardings=yes", "LogLevel=ERROR", "ServerAliveInterval=5", "ServerAliveCountMax=3",
    )  # fmt: skip
    return ["ssh", "-T"] + [word for option in options for word in ("-o", option)] + ["--", member["name"], command]


def describe(cache: str, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The items as `receiver` takes them, with their size on this host.

    Raises:
        Fault: one is not on this host.
    """
    found = []
    for item in items:
        path = store.locate(cache, item)
        if path is None:
            raise store.not_here([item])
        local = local_path(item["url"]) if item["url"].startswith("file:") else None
        found.append(
            {
                "sha256": item["sha256"],
                "file_name": item["file_name"],
                "size": os.path.getsize(path),
                "local": local,
                "path": path,
            }
        )
    return found


class Sharing:
    """Hands packages on.

    Args:
        items: from `describe`.
        say: takes a line about how far it is.
        command: gives the argv that runs a shell command on a member; tests put another in place of ssh.
    """

    def __init__(
        self,
        items: Sequence[Mapping[str, Any]],
        say: Callable[[str], None] = lambda line: None,
        command: Callable[[Mapping[str, Any], str], list[str]] = ssh_argv,
    ) -> None:
        self.items, self.say, self.command = items, say, command
        self.sent: dict[str, int] = {}
        self.looked: dict[str, int] = {}
        # Imported so that Ansible takes it along; read as text, since a module of Ansible's runs from a zip.
        name = receiver.__name__.rpartition(".")[2] + ".py"
        self.receiver = (pkgutil.get_data(str(__package__), name) or b"").decode()

    def share(self, members: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
        """Give every member what it lacks.

        Args:
            members: {"name": as ssh knows it, "store": its package store, "python": its interpreter}.

        Returns:
            {name: {"packages", "bytes"}}.

        Raises:
            Fault: naming every member that could not be served.
        """
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            waiting = {pool.submit(self._one, member): member["name"] for member in members}
            found, faults, names = {}, [], dict(waiting)
            while waiting:
                done, _ = concurrent.futures.wait(waiting, PACE_SECONDS, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    name = waiting.pop(future)
                    try:
                        found[name] = future.result()
                    except Fault as fault:
                        faults.append(fault.sentence)
                if waiting and not done:
                    sent = sum(self.sent.values()) / 1e6
                    self.say("handed %.0f MB to %d of %d members" % (sent, len(found), len(names)))
        if faults:
            raise Fault("; ".join(sorted(faults)))
        return found

    def _one(self, member: Mapping[str, Any]) -> dict[str, int]:
        name = member["name"]
        code = "{} -I -S -c {}".format(shlex.quote(member["python"]), shlex.quote(self.receiver))
        try:
            process = subprocess.Popen(
                self.command(member, code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            raise Fault("found no ssh on the head (%s), expected it; install the OpenSSH client there" % error.strerror) from None
        self.sent[name] = self.looked[name] = 0
        watch = Watch(process, lambda: self.sent[name] + self.looked[name])
        said: list[bytes] = []
        reader = threading.Thread(target=lambda: said.append(process.stderr.read() if process.stderr else b""), daemon=True)
        reader.start()
        try:
            answer = self._talk(process, member)
        except (OSError, ValueError):
            answer = {}
        finally:
            with contextlib.suppress(OSError):
                if process.stdin:
                    process.stdin.close()
            watch.end()
            process.wait()
            reader.join(5)
            if process.stdout:
                process.stdout.close()
        if "packages" in answer:
            return {"packages": answer["packages"], "bytes": answer["bytes"]}
        words = b"".join(said).decode(errors="replace").strip().splitlines()
        last = "no progress in %d s" % STALLED if watch.fired else words[-1] if words else "it ended early"
        raise Fault(
            "%s: the head could not hand it packages (%s), expected SSH from the head to it and room there; see "
            "playbooks/verify.yml, or set python_env_cache_from to an empty text" % (name, answer.get("fault") or last)
        )

    def _talk(self, process: subprocess.Popen, member: Mapping[str, Any]) -> dict[str, Any]:
        """Ask what is missing, send it, and give the member's last word."""
        stdin, stdout = process.stdin, process.stdout
        assert stdin and stdout
        items = [{key: item[key] for key in ("sha256", "file_name", "size", "local")} for item in self.items]
        stdin.write(json.dumps({"store": member["store"], "items": items}).encode() + b"\n")
        stdin.flush()
        line = stdout.readline()
        while line == b"\n":  # it has looked for one more
            self.looked[member["name"]] += 1
            line = stdout.readline()
        numbers = json.loads(line.decode())
        if isinstance(numbers, dict):
            return numbers
        for number in numbers:
            with open(self.items[number]["path"], "rb") as handle:
                chunk = handle.read(store.CHUNK)
                while chunk:
                    try:
                        stdin.write(chunk)
                    except BrokenPipeError:
                        return dict(json.loads(stdout.readline().decode() or "{}"))
                    self.sent[member["name"]] += len(chunk)
                    chunk = handle.read(store.CHUNK)
        with contextlib.suppress(BrokenPipeError):
            stdin.flush()
        found: dict[str, Any] = json.loads(stdout.readline().decode() or "{}")
        return found


class Watch:
    """Ends a process that makes no progress for `STALLED` seconds.

    Args:
        process: the process.
        progress: gives a number that grows while there is progress.
    """

    def __init__(self, process: subprocess.Popen, progress: Callable[[], int]) -> None:
        self.process, self.progress, self.fired = process, progress, False
        self.over = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        seen, since = self.progress(), time.monotonic()
        while not self.over.wait(1.0):
            now = self.progress()
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > STALLED:
                self.fired = True
                with contextlib.suppress(OSError):
                    self.process.kill()
                return

    def end(self) -> None:
        """Stop watching; a process whose talk is over is given a moment to end by itself."""
        self.over.set()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
