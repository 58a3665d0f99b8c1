# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""What goes wrong, as one sentence with the fix."""

from __future__ import annotations

import errno
import os
import re

from ..muster_agent import facts

SECRETS = (
    (re.compile(r"(?<=://)[^/@\s`'\"]+@"), "***@"),
    (re.compile(r"(https?://[^\s`'\"?#]*?/t/)[^/\s`'\"?#]+"), r"\1***"),
    (
        re.compile(
            r"([?&](?:X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)|sig|signature|token|access_token|api_key|password)=)"
            r"[^&#\s`'\"]+",
            re.IGNORECASE,
        ),
        r"\1***",
    ),
)


class Fault(Exception):
    """What ends the module: one sentence for people, and what uv printed, if it came to that.

    Args:
        sentence: what was found, what was expected, what to do.
        details: uv's own output, for whoever wants all of it.
        kind: "network", "unsatisfiable" and "no uv" let the caller go another way; anything else is final.
    """

    def __init__(self, sentence: str, details: str = "", kind: str = "fault") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.details = details
        self.kind = kind


def redact(text: str) -> str:
    """Hide user names, passwords and tokens in URLs, be they in the path, as conda's are, or in a query that is signed."""
    for secret, shown in SECRETS:
        text = secret.sub(shown, text)
    return text


def clash(output: str) -> str:
    """The premises of uv's proof that requirements cannot be met, without its conclusions.

    >>> clash("cause: Because a depends on b>=2 and you require a, we can conclude that you require b>=2.\\n"
    ...       "       And because you require b==1, we can conclude that your requirements are unsatisfiable.")
    'a depends on b>=2 and you require a; you require b==1'
    """
    proof = " ".join(re.split(r"\n\s*\n|\n\s*hint:", output[max(output.find("Because "), 0) :])[0].split())
    parts = [re.sub(r",? we can conclude .*$", "", part).strip(" .") for part in re.split(r"\b(?:And )?[Bb]ecause ", proof)]
    return "; ".join(part for part in parts if part)


def explain(output: str, uv: str) -> Fault:
    """Turn uv's complaint into one sentence with the fix.

    Args:
        output: all that uv printed.
        uv: the uv binary, to be named where it is at fault.
    """
    text = redact(output)
    causes = re.findall(r"^\s*(?:error|cause|Caused by|├─▶|╰─▶|×):?\s+(.*)$", text, re.MULTILINE)
    last = (causes[-1] if causes else text.strip().splitlines()[-1] if text.strip() else "uv said nothing").strip()
    low = text.lower()

    def fault(sentence: str, kind: str = "fault") -> Fault:
        return Fault(sentence, text.strip()[-4000:], kind)

    if "no solution found" in low:
        unknown = re.search(r"Because (\S+) was not found in the (?:package registry|provided package locations)", text)
        if unknown:
            where = (
                "the local wheels hold"
                if "provided package locations" in unknown.group(0)
                else "the package indexes of this host know"
            )
            return fault(
                "%s no package %s: correct its name in the requirements, or name a place that has it "
                "(python_env_extra_index_urls, python_env_find_links)" % (where, unknown.group(1)),
                "unsatisfiable",
            )
        source = re.search(r"(\S+) has no usable wheels", text)
        if source:
            return fault(
                "found no wheel of %s that suits the hosts, expected one, since nothing is compiled on them; choose a version "
                "that has one, or build one by pip wheel and name its folder in python_env_find_links" % source.group(1),
                "unsatisfiable",
            )
        return fault("the requirements cannot be met: %s (change one of these versions)" % clash(text), "unsatisfiable")
    if "no space left" in low or "os error 28" in low or "disk quota" in low:
        return fault(
            "the disk is full (%s): free some space, or move the prefix or the cache (python_env_cache_dir) to "
            "another disk" % last
        )
    if "unexpected argument" in low or "invalid value" in low:
        return fault("%s does not know an option that is needed (%s): put uv 0.7 or later there" % (uv, last))
    if "invalid peer certificate" in low or "certificate" in low and "failed to fetch" in low:
        return fault(
            "the certificate of the package index is not trusted (%s): set python_env_ca_bundle to the file of "
            "your authority" % last,
            "network",
        )
    if "hash mismatch" in low:
        name = re.search(r"[Hh]ash mismatch for `([^`]+)`", text)
        return fault(
            "found a wheel of %s with another sha256 than in the lock, expected the very file; it was changed or damaged: "
            "restore it, or solve anew by python_env_update" % (name.group(1) if name else "a package (%s)" % last)
        )
    if "failed to build" in low:
        name = re.search(r"Failed to build `?([^`\n]+)`?", text)
        return fault(
            "%s has no wheel for this machine and building it failed (%s): choose a version with a wheel"
            % (name.group(1) if name else "a package", last)
        )
    if "couldn't parse" in low or "invalid requirement" in low or "failed to parse" in low:
        line = re.search(r"^\s*(\S.*)\n\s*\^+\s*$", text, re.MULTILINE)
        return fault(
            "the requirements hold a line that is none%s: %s; write it as name==version"
            % (" (%s)" % line.group(1) if line else "", (causes[1:] or causes or [last])[0])
        )
    if "failed to initialize cache" in low:
        return fault("uv cannot keep its cache (%s): set python_env_cache_dir to a folder that can be written" % last)
    if "failed to fetch" in low or "error sending request" in low or "dns error" in low or "timed out" in low:
        url = re.search(r"(?:Failed to fetch: `?|for url \()([^\s`)]+)", text)
        return fault(
            "the package index %s cannot be reached (%s): check the network, the proxy and pip's index-url on this host"
            % (url.group(1) if url else "", last),
            "network",
        )
    if "permission denied" in low or "os error 13" in low:
        return fault("uv may not write (%s): become the owner, or choose another place" % last)
    return fault("uv failed: %s" % ": ".join(dict.fromkeys((causes[:1] or [last]) + [last])))


def explain_os_error(error: OSError, prefix: str) -> Fault:
    """The sentence for a file operation that the system refuses, at or beside a prefix."""
    if error.errno == errno.EBUSY:
        return Fault("%s is a mount point, which cannot be replaced: choose a folder in it as the prefix" % prefix)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Fault("the disk that holds %s is full: free some space, or choose another prefix" % prefix)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Fault(
            "this user may not write in %s (%s): become its owner (become: true), or choose a prefix "
            "elsewhere" % (facts.existing(os.path.dirname(prefix)), error.strerror)
        )
    return Fault("%s cannot be made or moved (%s): choose another prefix" % (error.filename or prefix, error.strerror or error))
