# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""What goes wrong in the conda part, as one sentence with the fix. Pure functions."""

from __future__ import annotations

import errno
import re
from typing import Any, Mapping, Sequence

from .clashes import bare, clash, package_name
from .complaints import Fault, redact

FILE = "the environment file"
REASONS = 4  # so many reasons of a clash are told, and as many wishes
# What guides of earlier years wrote for PyTorch: its own channel ended with 2.5, and cudatoolkit with CUDA 11.
OLD_PACKAGES = ("pytorch-cuda", "cudatoolkit", "cpuonly", "pytorch-mutex")
OLD_CHANNELS = ("pytorch", "nvidia", "pytorch-nightly", "pytorch-lts")
TODAY = (
    "write torch into its `pip:` section and choose the build by python_env_torch_backend (auto, cpu, cu128, ...), or ask "
    "conda-forge alone for pytorch"
)
# Names of PyPI's that channels spell otherwise.
OF_PYPI = ("torch", "opencv-python", "opencv-python-headless", "msgpack", "tables", "nvidia-nccl-cu12")


def old_lines(channels: Sequence[str], conda: Sequence[str]) -> list[str]:
    """The channels and packages of a specification that come from guides of earlier years.

    Args:
        channels: as the specification names them.
        conda: match specs.

    >>> old_lines(["pytorch", "nvidia", "conda-forge"], ["python 3.10.*", "pytorch", "pytorch-cuda 11.8.*"])
    ['channel pytorch', 'channel nvidia', 'pytorch-cuda 11.8.*']
    """
    found = ["channel " + name for name in channels if last(name) in OLD_CHANNELS]
    for line in conda:
        channel = line.partition("::")[0] if "::" in line else ""
        if package_name(line) in OLD_PACKAGES or last(channel) in OLD_CHANNELS:
            found.append(line)
    return found


def old_guide(channels: Sequence[str], conda: Sequence[str]) -> str:
    """What to write today in place of an old guide's lines, as the end of a sentence; empty if there are none."""
    old = old_lines(channels, conda)
    return "found lines of an old guide (%s), expected today's; %s" % (", ".join(old), TODAY) if old else ""


def last(address: str) -> str:
    """The last part of a channel's name or address."""
    return address.rstrip("/").rsplit("/", 1)[-1]


def without_token(address: str) -> str:
    """An address to show: no password, no token."""
    return re.sub(r"/t/[^/]+/", "/t/***/", redact(address))


def refuse_credentials(channels: Sequence[str]) -> None:
    """Raise Fault where a channel's address holds a password or a token: the lock would carry it into git."""
    for name in channels:
        if without_token(name) != name:
            raise Fault(
                "found a password or a token in the channel %s, expected none, since it would stand in every lock; put it into "
                "~/.netrc of the cluster's user on the head, and the bare address into `channels:`" % without_token(name)
            )


def unsatisfiable(trouble: Mapping[str, Any], request: Mapping[str, Any]) -> Fault:
    """The sentence for a specification that has no solution.

    Args:
        trouble: {"text": the solver's report, "unfound": [{"name", "spec", "known", "versions", "near"}]}.
        request: {"channels", "conda", "platform"}.
    """
    where = ", ".join(without_token(name) for name in request["channels"]) or "no channel"
    unfound = list(trouble.get("unfound") or [])
    reasons = []
    for entry in unfound:
        if not entry["known"]:
            near = " (names near it: %s)" % ", ".join(entry["near"]) if entry["near"] else ""
            reasons.append("found no package %s in %s%s" % (entry["name"], where, near))
        elif entry["versions"]:
            reasons.append("found no %s in %s, only %s" % (bare(entry["spec"]), where, ", ".join(entry["versions"])))
    old = old_guide(request["channels"], request["conda"])
    expected, fix = "one that is there", "change one of these in %s" % FILE
    if not reasons:
        found = clash(trouble["text"], request["conda"], request["platform"]) or [short(trouble["text"])]
        asked = [text for text in found if text.startswith("you ask for")]
        others = [text for text in found if text not in asked]
        more = ["%d more of the kind" % (len(others) - REASONS)] if len(others) > REASONS else []
        reasons = ["found no versions that fit together (%s)" % "; ".join(others[:REASONS] + more + asked[:REASONS])]
        expected = "some that do"
    elif any(not entry["known"] for entry in unfound):
        fix = "correct the name in %s, or name a channel that has it" % FILE
        foreign = [entry["name"] for entry in unfound if entry["name"] in OF_PYPI]
        if foreign:
            fix = "write %s into the `pip:` section of %s, where names are PyPI's" % (foreign[0], FILE)
    told = "; ".join(reasons[:REASONS])
    sentence = "%s; %s" % (told, old) if old else "%s, expected %s; %s" % (told, expected, fix)
    return Fault(sentence, trouble["text"], "unsatisfiable")


def short(text: str, limit: int = 300) -> str:
    """The last line of a text that says something, cut."""
    lines = [line.strip(" │├└─") for line in redact(text).splitlines() if line.strip(" │├└─")]
    return (lines[-1] if lines else "no word")[:limit]


def cause(text: str) -> str:
    """The innermost of a chain of causes, without what rattler says around it.

    >>> cause("could not find it\\nCaused by: failed to open file `/c/repodata.json`: No such file or directory (os error 2)")
    'No such file or directory'
    """
    inner = re.sub(r" \(os error \d+\)", "", short(text.rpartition("Caused by: ")[2]))
    return re.sub(r"^(?:failed to \w+ file `.*?`|failed to lookup address information): ", "", inner)


def network(text: str, address: str, what: str, settings: Mapping[str, Any]) -> Fault:
    """The sentence for a server that does not give what it is asked for.

    Args:
        text: rattler's words.
        address: the channel or the file.
        what: how the address is called in the sentence.
        settings: of the class Conda.
    """
    low, at, why = text.lower(), ("%s %s" % (what, without_token(address))).strip(), cause(text)
    details = redact(text)
    if "invalid peer certificate" in low or "certificate" in low and "verif" in low:
        return Fault(
            "found a certificate of %s that is not trusted (%s), expected one of a known authority; set python_env_ca_bundle to "
            "the file with yours" % (without_token(address), why.rpartition("certificate: ")[2]),
            details,
            "network",
        )
    if "invalidcontenttype" in low or "corrupt message" in low:
        return Fault("%s does not speak TLS, expected https; correct its address" % at, details, "network")
    if "no space left" in low or "os error 28" in low or "os error 122" in low:
        return Fault("the disk that keeps the channels' indexes is full, expected room for them; free some space", details)
    if re.search(r"\b4(?:04|10)\b", low) or "no such file" in low:
        return Fault(
            "found nothing at %s (%s), expected noarch/repodata.json there; correct its name in `channels:`, or set "
            "python_env_channel_alias to the mirror that has it" % (at, "404" if "404" in low else why),
            details,
        )
    login = re.search(r"\b40[137]\b", low)
    if login:
        return Fault(
            "%s wants a login (%s), expected one in ~/.netrc of the user that asks on this host; put it there"
            % (at, login.group(0)),
            details,
            "network",
        )
    if "timed out" in low or "timeout" in low:
        return Fault(
            "%s is silent, expected a word within %s s; see whether it works, or name another (python_env_mirrors)"
            % (at, settings.get("timeout") or 60),
            details,
            "network",
        )
    return Fault(
        "%s cannot be reached (%s), expected an answer; check this host's network, python_env_proxy and python_env_mirrors"
        % (at, why),
        details,
        "network",
    )


def channel_of(text: str, channels: Sequence[str]) -> str:
    """The channel that rattler's words are about."""
    named = re.search(r"in channel '([^']+)'", text)
    if named:
        return named.group(1).rstrip("/")
    urls = re.findall(r"(?:url \(|download )([a-z]+://[^\s)]+)", text)
    for url in urls:
        for channel in sorted(channels, key=len, reverse=True):
            if url.startswith(channel):
                return channel
    return re.sub(r"/[^/]+/[^/]+$", "", urls[0]) if urls else ", ".join(channels)


def of_channel(trouble: Mapping[str, Any], request: Mapping[str, Any], settings: Mapping[str, Any]) -> Fault:
    """The sentence for a channel whose index cannot be had; one of an old guide is told as such."""
    channel = channel_of(trouble["text"], trouble["channels"])
    made = network(trouble["text"], channel, "the channel", settings)
    if last(channel) in OLD_CHANNELS and made.kind == "fault":
        made.sentence = "%s; %s" % (made.sentence.partition(";")[0], old_guide(request["channels"], request["conda"]))
    return made


def of_file(trouble: Mapping[str, Any], settings: Mapping[str, Any]) -> Fault:
    """The sentence for a package or a wheel that cannot be fetched."""
    item, text = trouble["item"], redact(trouble.get("text") or "")
    address = without_token(item["url"])
    if trouble["kind"] == "tampered":
        size = item.get("size")
        told = " in %d bytes instead of %d" % (trouble["size"], size) if size and size != trouble["size"] else ""
        return Fault(
            "found %s at %s with sha256 %s%s, expected %s as in the lock; take it from another mirror, or, if it was replaced on "
            "purpose, solve anew by python_env_update" % (item["file_name"], address, trouble["found"], told, item["sha256"]),
            kind="tampered",
        )
    if trouble["kind"] == "local":
        return Fault(
            "found no readable %s (%s), expected it by the lock; put it there, or let python_env_cache_from bring it"
            % (trouble["path"], text)
        )
    if trouble["kind"] == "silent":
        return network("timed out", address, "the server of", settings)
    if trouble["kind"] == "broken":
        return Fault(
            "%s broke off after %d bytes, again and again (%s), expected all of it; check this host's network, or take another "
            "mirror (python_env_mirrors)" % (address, trouble["size"], short(text)),
            text,
            "network",
        )
    if re.search(r"\b4(?:04|10)\b", text):
        return Fault(
            "found nothing at %s (404), expected it by the lock; solve anew by python_env_update, or take a mirror that keeps it"
            % address,
            text,
            "network",
        )
    return network(text, address, "", settings)


def fault(op: str, trouble: Mapping[str, Any], request: Mapping[str, Any], settings: Mapping[str, Any], python: str) -> Fault:
    """The sentence for what the worker could not do.

    Args:
        op: solve, fetch or install.
        trouble: the worker's facts, with `kind` and `text`.
        request: what it was asked.
        settings: of the class Conda.
        python: the worker's interpreter.
    """
    kind, text = trouble["kind"], redact(trouble.get("text") or "")
    if kind == "os" or "os error 28" in text or "os error 122" in text:
        return refused_by_system(trouble, request, text)
    if kind == "unsatisfiable":
        return unsatisfiable(dict(trouble, text=text), request)
    if kind == "channel":
        return of_channel(dict(trouble, text=text), request, settings)
    if kind in ("tampered", "local", "silent", "broken", "refused"):
        return of_file(trouble, settings)
    if kind == "line":
        return Fault(
            "found the line %r in %s, expected a conda package (%s); write it as name, name=1.2 or name>=1.2"
            % (trouble["line"], FILE, short(text))
        )
    if kind == "timeout":
        where = ", ".join(map(without_token, trouble["channels"]))
        return Fault("found no solution in time in %s, expected one; name fewer channels, or versions, in %s" % (where, FILE))
    if kind == "authorities":
        return Fault(
            "found no certificate authorities in %s, expected them for https; install ca-certificates on this host, or set "
            "python_env_ca_bundle to a file with them" % (settings.get("ca_bundle") or "/etc/ssl/certs"),
            text,
            "network",
        )
    if kind == "unhashed":
        named = (trouble["file_name"], without_token(trouble["url"]))
        return Fault("found no sha256 of %s in the index of %s, expected one of every package; index the channel anew" % named)
    if kind == "absent":
        return Fault("found no %s, expected what was fetched in the package store; run site.yml again" % trouble["path"])
    if kind == "install":
        return Fault(
            "the conda packages do not fit into %s (%s), expected a prefix of them; see the details"
            % (trouble["prefix"], short(text)),
            text,
        )
    if re.search(r"ImportError|GLIBC|No module named|SyntaxError|cannot open shared object|wrong ELF", text):
        return Fault(
            "rattler does not start by %s (%s), expected Python 3.10 or later and glibc 2.17 or later; set python_env_tool_python"
            % (python, short(text)),
            text,
        )
    ended = " with exit code %s" % trouble["code"] if trouble.get("code") is not None else ""
    return Fault("rattler ended%s while it should %s (%s), expected a result; run it again" % (ended, op, short(text)), text)


def refused_by_system(trouble: Mapping[str, Any], request: Mapping[str, Any], text: str) -> Fault:
    """The sentence for a file operation that the system refuses."""
    where = request.get("prefix") or request.get("store") or trouble.get("path") or "the channels' indexes"
    number = trouble.get("errno")
    if number in (errno.ENOSPC, errno.EDQUOT) or number is None and "os error" in text:
        return Fault("the disk that holds %s is full, expected room for the packages; free some space" % where, text)
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Fault(
            "this user may not write in %s (%s), expected its owner; use become: true, or choose another place" % (where, text)
        )
    return Fault("%s cannot be written (%s), expected a folder; choose another place" % (trouble.get("path") or where, text))
