# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The conda part of an environment, by rattler, on the node: solve, fetch, install.

rattler needs Python 3.10 and is no part of the host; it comes with the tools (`<tools>/site`). So a worker does the work
(conda_worker*.py), started by a Python that is new enough. It is sent over stdin and lies nowhere:

    stdin   one JSON line {"site": folder, "sources": [[name, text]], "request": {"op": ..., "settings": ..., ...}}
    stdout  JSON lines: {"progress": text} any number of times, then {"result": {...}} or {"trouble": {"kind": ..., ...}}

What the worker could not do is put into words by `advice`, by pure functions.

Settings, all of them optional, a dict:

    ca_bundle      file with the authorities to trust, else the host's own
    proxy          URL for http and https
    mirrors        {channel's name or URL: [URLs that hold the same]}; a lock names the channel, never the mirror
    channel_alias  what stands before a channel's bare name, else https://conda.anaconda.org
    timeout        seconds without a word from a server, default 60
    cache          folder for channels' indexes (conda-forge's needs 100 MB and more), else a temporary one
"""

from __future__ import annotations

import functools
import json
import os
import pkgutil
import subprocess
import tempfile
from typing import Any, Callable, Mapping, Sequence

from ..muster_agent import procs
from . import advice, conda_worker, conda_worker_base, conda_worker_fetching
from .complaints import Fault, redact
from .store import not_here

# Makes a package of what it reads, module by module, and calls the last one.
BOOT = """\
import json,sys,types
h=json.loads(sys.stdin.readline())
sys.path.insert(0,h["site"])
for n,t in [("","")]+h["sources"]:
 m=sys.modules["worker"+n]=types.ModuleType("worker"+n)
 m.__path__=[]
 m.__package__="worker"
 exec(compile(t,n[1:]+".py","exec"),m.__dict__)
m.main(h["request"])
"""
# Each needs those before it.
WORKER = (conda_worker_base, conda_worker_fetching, conda_worker)
SAID = 4000  # bytes of the worker's stderr that are kept


def _silent(text: str) -> None:
    """Progress that nobody wants to see."""


class Conda:
    """rattler, ready to work.

    Args:
        tools: the folder of the tools, which holds `site`.
        python: an interpreter for the worker, 3.10 or later.
        settings: see above.
        environ: the environment of the module; PATH, HOME and what concerns the network are handed on.
    """

    def __init__(self, tools: str, python: str, settings: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self.site = os.path.join(tools, "site")
        self.python = python
        self.settings = dict(settings)
        self.environ = dict(environ)

    def solve(
        self,
        spec: Mapping[str, Any],
        platform: Mapping[str, Any],
        wish: Mapping[str, Any] | None = None,
        progress: Callable[[str], None] = _silent,
    ) -> dict[str, Any]:
        """Solve a specification for a platform, which need not be this host's.

        Args:
            spec: {"channels": [name, URL or absolute folder, the first wins], "conda": ["python 3.11.*", "URL::name >=1", ...]}.
            platform: {"subdir": "linux-64", "glibc": "2.36", "cuda": "12.8" or None, "archspec": "x86_64_v3" or None,
                "linux": kernel or None}. Nothing is detected.
            wish: {"priority": "strict" (default) or "disabled", "keep": records to prefer, as a lock has them}; its "mirrors" and
                "channel_alias" win over the settings.
            progress: is given a line for people at a time.

        Returns:
            {"channels": [URLs without a trailing slash], "conda": [records], "notes": [sentences]}. A record is what the
            channel's index says (name, version, build, build_number, subdir, noarch, depends, constrains, sha256, md5, size,
            timestamp, ...) with url, channel and file_name; sorted by name. Every record has a sha256.

        Raises:
            Fault: of kind "unsatisfiable", "network" or "fault".
        """
        wish = dict(wish or {})
        settings = {key: wish[key] for key in ("mirrors", "channel_alias") if wish.get(key)}
        channels = [str(name) for name in spec.get("channels") or []]
        advice.refuse_credentials(channels)
        effective = dict(self.settings, **settings)
        refuse_secret("python_env_channel_alias", effective.get("channel_alias") or "")
        for name in effective.get("mirrors") or {}:
            refuse_secret("a name in python_env_mirrors", str(name))
        request = {
            "channels": channels,
            "conda": list(spec.get("conda") or []),
            "platform": dict(platform),
            "priority": wish.get("priority") or "strict",
            "keep": list(wish.get("keep") or []),
        }
        return self._ask("solve", request, progress, settings)

    def fetch(
        self,
        items: Sequence[Mapping[str, Any]],
        store: str,
        progress: Callable[[str], None] = _silent,
        offline: bool = False,
    ) -> dict[str, Any]:
        """Bring archives and wheels into the store, eight at a time. What is there is checked, and fetched anew if damaged.

        Args:
            items: [{"url": https:, http: or file:, "sha256": hex, "size": bytes or None, "file_name": name}]; a record or a
                wheel of a lock will do.
            store: the folder; an item becomes `<store>/<sha256>/<file name>`, by a rename, after its sha256 was checked.
            progress: is given a line for people at a time.
            offline: whether nothing may come from outside: what is neither in the store nor at a `file:` address is a fault.

        Returns:
            {"fetched": how many, "bytes": how much of it, "present": how many were there}.

        Raises:
            Fault: of kind "network", "tampered" or "fault". The store then holds whole, checked files alone.
        """
        wanted = [{key: item.get(key) for key in ("url", "sha256", "size", "file_name")} for item in items]
        return self._ask("fetch", {"items": wanted, "store": store, "offline": offline}, progress)

    def install(
        self,
        records: Sequence[Mapping[str, Any]],
        store: str,
        prefix: str,
        progress: Callable[[str], None] = _silent,
        link_scripts: bool = False,
    ) -> dict[str, Any]:
        """Make a conda prefix from records whose archives lie in the store or at their `file:` address; without any network.

        That they are the archives of the lock has been checked, by `fetch` or by the caller.

        Args:
            records: as `solve` gives them.
            store: the folder that `fetch` filled.
            prefix: where; what is there already stays, an empty or missing folder is what is meant. It can be moved no more.
            progress: is given a line for people at a time.
            link_scripts: whether to run the packages' own scripts.

        Returns:
            {"packages": how many}. conda-meta/ names the addresses of the lock, not the store.

        Raises:
            Fault: when an archive is missing or damaged, or the prefix cannot be written.
        """
        request = {"records": list(records), "store": store, "prefix": prefix, "link_scripts": link_scripts}
        return self._ask("install", request, progress)

    def _ask(
        self, op: str, request: dict[str, Any], progress: Callable[[str], None], more: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """One request to a worker of its own."""
        settings = dict(self.settings, **(more or {}))
        whole = {"site": self.site, "sources": worker_sources(), "request": dict(request, op=op, settings=settings)}
        if not os.path.isdir(os.path.join(self.site, "rattler")):
            raise Fault("found no rattler in %s, expected the tools of this release; run site.yml again" % self.site)
        with tempfile.TemporaryFile() as said:
            try:
                worker = subprocess.Popen(
                    [self.python, "-I", "-S", "-c", BOOT],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=said,
                    env=worker_environ(self.environ, settings),
                    cwd="/",
                    preexec_fn=functools.partial(procs.die_with_parent, os.getpid()),
                )
            except OSError as error:
                raise Fault(
                    "the Python %s cannot be run (%s), expected one of 3.10 or later; set python_env_tool_python"
                    % (self.python, error.strerror)
                ) from None
            try:
                answer = self._converse(worker, whole, progress)
            finally:
                worker.kill()
                worker.wait()
            said.seek(max(0, said.seek(0, os.SEEK_END) - SAID))
            words = redact(said.read().decode(errors="replace"))
        if "result" in answer:
            return answer["result"]
        trouble = answer.get("trouble") or {"kind": "crash", "text": words.strip(), "code": worker.returncode}
        if trouble["kind"] == "offline":
            raise not_here(trouble["items"])
        raise advice.fault(op, trouble, request, settings, self.python)

    @staticmethod
    def _converse(worker: subprocess.Popen, whole: dict[str, Any], progress: Callable[[str], None]) -> dict[str, Any]:
        """Send the request, hand on the progress, give the last word."""
        try:
            worker.stdin.write(json.dumps(whole).encode() + b"\n")  # type: ignore[union-attr]
            worker.stdin.close()  # type: ignore[union-attr]
        except BrokenPipeError:
            pass  # it died at once; what it said on stderr is told
        for line in worker.stdout:  # type: ignore[union-attr]
            try:
                word = json.loads(line)
            except ValueError:
                continue  # a library's own chatter
            if "progress" in word:
                progress(word["progress"])
            elif word:
                return word
        worker.wait()
        return {}


def refuse_secret(what: str, address: str) -> None:
    """Raise Fault where an address that every lock would name holds a password or a token.

    Args:
        what: where it stands, for people.
        address: the channel alias, or the name of a channel.
    """
    if redact(address) != address:
        raise Fault(
            "found a password or a token in %s (%s), expected none, since it would stand in every lock; put it into ~/.netrc of "
            "the cluster's user on the head, or into rattler's auth file" % (what, redact(address))
        )


def worker_sources() -> list[tuple[str, str]]:
    """The worker's modules in the order in which they are needed: name, with a dot before it, and text."""
    found = []
    for module in WORKER:
        name = module.__name__.rpartition(".")[2]
        # Not from a path: a module of Ansible's runs from a zip.
        found.append(("." + name, (pkgutil.get_data(str(__package__), name + ".py") or b"").decode()))
    return found


def worker_environ(environ: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, str]:
    """What the worker's environment is: the module's own, without other Pythons' and conda's settings.

    Args:
        environ: the environment of the module.
        settings: of the class.
    """
    dropped = ("PYTHON", "CONDA", "RATTLER", "PIXI", "MAMBA", "LD_PRELOAD", "VIRTUAL_ENV")
    made = {name: value for name, value in environ.items() if not name.startswith(dropped)}
    if settings.get("ca_bundle"):
        made["SSL_CERT_FILE"] = os.path.expanduser(str(settings["ca_bundle"]))
        made.pop("SSL_CERT_DIR", None)
    if settings.get("proxy"):
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            made.pop(name.upper(), None)
            made[name] = str(settings["proxy"])
    return made
