# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""One Python environment, made and kept by uv: what the module `python_env` decides and does.

The first half is pure: settings, command lines, plans and differences are values computed from values. The second half
reads the machine, and the class `Environment` ties both together. Standard library only; Python 3.8 and later.

How a prefix stays usable: a new environment is built in a folder beside it (`<prefix>.new-<pid>`), looked over, and
put in its place by one atomic exchange of names. A run that fails or is killed leaves the old environment as it was;
the next run removes what the killed one left. `uv venv --relocatable` makes the scripts in bin/ find their Python
beside themselves, so they survive the change of name. Only whoever holds a flock on `<prefix>.lock` writes; the file
is gone when nobody does.
"""

from __future__ import annotations

import configparser
import contextlib
import ctypes
import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence
from urllib.parse import quote, unquote, urlsplit

STAMP = ".muster-env.json"
STAMP_FORMAT = 1
# A line of pyvenv.cfg (Python ignores it): the prefix is ours even if its stamp is lost.
MARK = "muster = muster.cluster.python_env"
OLDEST_PYTHON = (3, 8)


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


# ------------------------------------------------------------------------------------------- names and requirements


def canonical(name: str) -> str:
    """The normalised form of a package's name (PEP 503): `typing_extensions` gives `typing-extensions`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def dist_info(entry: str) -> tuple[str, str] | None:
    """Name and version that a folder of site-packages stands for, or None.

    >>> dist_info("typing_extensions-4.16.0.dist-info")
    ('typing-extensions', '4.16.0')
    """
    if not entry.endswith(".dist-info"):
        return None
    name, dash, version = entry[: -len(".dist-info")].rpartition("-")
    return (canonical(name), version.replace("_", "-")) if dash else None


def pinned(packages: Mapping[str, str]) -> list[str]:
    """`name==version` for each package, sorted by name."""
    return ["%s==%s" % item for item in sorted(packages.items())]


def fingerprint(packages: Mapping[str, str]) -> str:
    """sha256 (hex) over the sorted `name==version` lines: equal on two nodes when their packages are."""
    return hashlib.sha256("\n".join(pinned(packages)).encode()).hexdigest()


def requirement_lines(text: str) -> list[str]:
    """The lines of a requirements file that mean something: continuation lines joined, comments and blanks dropped."""
    joined = re.sub(r"\\\r?\n", " ", text)
    lines = (re.sub(r"(^|\s)#.*$", "", line) for line in joined.splitlines())
    return [" ".join(line.split()) for line in lines if line.strip()]


def included_files(lines: Iterable[str]) -> list[str]:
    """Files which requirements lines take in by -r or -c, as they are written there."""
    found = (re.match(r"(?:-r|-c|--requirement|--constraint)(?:[ =]+|(?=[^-\s]))(\S.*)$", line) for line in lines)
    return [match.group(1) for match in found if match]


def wanted_key(lines: Sequence[str], included: Sequence[str], constraints: Sequence[str]) -> str:
    """sha256 (hex) of what is asked for: requirement lines, the text of files they take in, the text of constraints."""
    key = {"lines": list(lines), "included": list(included), "constraints": list(constraints)}
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


# ------------------------------------------------------------------------------------------- settings of pip and of uv


def pip_options(texts: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """What pip's configuration says for `pip install`: option (`extra-index-url`) to its raw value.

    Args:
        texts: contents of pip's configuration files, the weakest first.
        environ: environment variables; PIP_* win over every file.

    Precedence is pip's own (pip/_internal/configuration.py): [global] of all files, then [install] of all files, then
    the environment; an empty value counts as none. Raises configparser.Error for a file that is not in INI form.
    """
    merged: dict[str, dict[str, str]] = {"global": {}, "install": {}}
    for text in texts:
        parser = configparser.RawConfigParser()
        parser.read_string(text)
        for section in merged:
            if parser.has_section(section):
                merged[section].update({_option(k): v for k, v in parser.items(section)})
    variables = {_option(key[4:]): value for key, value in environ.items() if key.startswith("PIP_")}
    options: dict[str, str] = {}
    for level in (merged["global"], merged["install"], variables):
        options.update({key: value.strip() for key, value in level.items() if value and value.strip()})
    return options


def _option(name: str) -> str:
    """pip's spelling of an option's name."""
    return name.lower().lstrip("-").replace("_", "-")


def is_true(value: str | None) -> bool:
    """Whether a boolean option of pip's is on."""
    return (value or "").strip().lower() in ("1", "true", "yes", "on", "y", "t")


def local_path(location: str) -> str | None:
    """The path that a location names, without `~`; None for one on the network (anything with another scheme)."""
    if location.startswith("file:"):
        return unquote(urlsplit(location).path)
    if "://" in location:
        return None
    return os.path.expanduser(location)


class Settings(NamedTuple):
    """Where packages come from, in uv's words.

    environment: variables for uv, on top of the module's own; drop: variables it must not see; find_links: folders
    and pages in use; constraints: constraint files; own_index: whether somebody chose an index; no_index: whether
    indexes are switched off; ignored: locations left out because they do not exist.
    """

    environment: dict[str, str]
    drop: list[str]
    find_links: list[str]
    constraints: list[str]
    own_index: bool
    no_index: bool
    ignored: list[str]


def uv_settings(
    params: Mapping[str, Any],
    pip: Mapping[str, str],
    environ: Mapping[str, str],
    exists: Callable[[str], bool] = os.path.exists,
) -> Settings:
    """Merge the three sources of package settings: the module's options win, then uv's variables, then pip's settings.

    Args:
        params: the module's options (index_url, extra_index_urls, find_links, ca_bundle, cache_dir).
        pip: what `pip_options` gives.
        environ: the environment of the module.
        exists: tells whether a local path exists; locations which do not are left out, as pip leaves them out.
    """
    out: dict[str, str] = {}
    drop: list[str] = []
    ignored: list[str] = []

    def present(locations: Iterable[str]) -> list[str]:
        kept = []
        for location in locations:
            path = local_path(location)
            if path is None or exists(path):
                kept.append(location if location.startswith("file:") or path is None else path)
            else:
                ignored.append(location)
        return kept

    def pick(option: Any, variables: Sequence[str], pip_name: str) -> tuple[str, str]:
        """The winning value for one setting and who gave it: "option", "uv", "pip" or "" for nobody."""
        if option:
            drop.extend(variables)
            return (option if isinstance(option, str) else " ".join(option)), "option"
        for variable in variables:
            if environ.get(variable):
                return environ[variable], "uv"
        return (pip[pip_name], "pip") if pip.get(pip_name) else ("", "")

    index, index_source = pick(params.get("index_url"), ("UV_DEFAULT_INDEX", "UV_INDEX_URL"), "index-url")
    if index_source in ("option", "pip"):
        out["UV_DEFAULT_INDEX"] = index
    extra, extra_source = pick(params.get("extra_index_urls"), ("UV_INDEX", "UV_EXTRA_INDEX_URL"), "extra-index-url")
    extras = extra.split() if extra_source == "uv" else present(extra.split())
    if extra_source in ("option", "pip") and extras:
        out["UV_INDEX"] = " ".join(extras)
    if extras and not environ.get("UV_INDEX_STRATEGY"):
        # pip looks at all its indexes and takes the best version; uv would stop at the first that knows the name.
        out["UV_INDEX_STRATEGY"] = "unsafe-best-match"

    links, links_source = pick(params.get("find_links"), ("UV_FIND_LINKS",), "find-links")
    if links_source == "uv":
        find_links = [link.strip() for link in links.split(",") if link.strip()]
    else:
        given = params.get("find_links") if links_source == "option" else links.split()
        find_links = present(given or [])
        if find_links:
            out["UV_FIND_LINKS"] = ",".join(_without_comma(link) for link in find_links)

    bundle, bundle_source = pick(params.get("ca_bundle"), ("SSL_CERT_FILE",), "cert")
    if bundle_source in ("option", "pip"):
        out["SSL_CERT_FILE"] = bundle
    constraint, source = pick(None, ("UV_CONSTRAINT",), "constraint")
    constraints = constraint.split() if source == "uv" else present(constraint.split())

    for variable, name in (
        ("UV_INSECURE_HOST", "trusted-host"),
        ("UV_HTTP_TIMEOUT", "timeout"),
        ("UV_HTTP_TIMEOUT", "default-timeout"),
        ("SSL_CLIENT_CERT", "client-cert"),
    ):
        if pip.get(name) and not environ.get(variable) and variable not in out:
            out[variable] = " ".join(pip[name].split())
    if pip.get("proxy") and not any(environ.get(name) or environ.get(name.lower()) for name in PROXIES):
        out["ALL_PROXY"] = pip["proxy"]
    no_index = is_true(pip.get("no-index")) and "option" not in (index_source, extra_source)
    if params.get("cache_dir"):
        out["UV_CACHE_DIR"] = params["cache_dir"]
    return Settings(out, drop, find_links, constraints, bool(index_source or extras), no_index, ignored)


PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY")


def _without_comma(location: str) -> str:
    """A location that may stand in uv's comma separated list."""
    if "," not in location:
        return location
    return location.replace(",", "%2C") if "://" in location else "file://" + quote(location)


# What could lead uv or Python to another environment than the one that is meant.
STRAY = (
    "PYTHONHOME",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "UV_PYTHON",
    "UV_SYSTEM_PYTHON",
    "UV_BREAK_SYSTEM_PACKAGES",
    "UV_TORCH_BACKEND",
    "UV_CONSTRAINT",
    "UV_MANAGED_PYTHON",
    "UV_VENV_CLEAR",
    "UV_VENV_SEED",
)


def uv_environ(environ: Mapping[str, str], settings: Settings, tmp: str) -> dict[str, str]:
    """The whole environment for uv: the module's own, cleaned, plus the settings; it never downloads a Python."""
    kept = {key: value for key, value in environ.items() if key not in STRAY and key not in settings.drop}
    kept.update(settings.environment)
    kept.update(
        TMPDIR=tmp,
        UV_PYTHON_DOWNLOADS="never",
        UV_NO_PROGRESS="1",
        NO_COLOR="1",
        LC_ALL="C.UTF-8",
        PYTHONNOUSERSITE="1",
    )
    return kept


# ------------------------------------------------------------------------------------------- command lines


def venv_argv(uv: str, python: str, target: str) -> list[str]:
    """`uv venv` for a new, relocatable environment."""
    return [uv, "venv", "--quiet", "--no-project", "--relocatable", "--python", python, target]


def pip_argv(
    uv: str,
    python: str,
    requirements: str,
    constraints: Sequence[str] = (),
    backend: str | None = None,
    dry_run: bool = False,
    exact: bool = False,
    target: str | None = None,
    no_index: bool = False,
) -> list[str]:
    """`uv pip install` of a requirements file.

    Args:
        uv: the uv binary.
        python: interpreter of the environment, or with `target` the one to resolve for.
        requirements: the requirements file.
        constraints: constraint files.
        backend: uv's --torch-backend; None leaves torch to the configured indexes.
        dry_run: print the plan and change nothing.
        exact: also remove what is not asked for.
        target: resolve for an empty folder instead of the interpreter's own environment.
        no_index: ask local folders and pages only.
    """
    argv = [uv, "pip", "install", "--python", python, "--requirements", requirements]
    for path in constraints:
        argv += ["--constraints", path]
    if target:
        argv += ["--target", target]
    if no_index:
        argv.append("--no-index")
    if backend:
        argv += ["--torch-backend", backend]
    if exact:
        argv.append("--exact")
    if dry_run:
        argv.append("--dry-run")
    return argv


# ------------------------------------------------------------------------------------------- plans


class Plan(NamedTuple):
    """What uv would do: packages to add (name to version), those to remove, those that come from a URL, and whether
    anything has to be fetched."""

    added: dict[str, str]
    removed: dict[str, str]
    urls: dict[str, str]
    downloads: bool

    def result(self, before: Mapping[str, str]) -> dict[str, str]:
        """The packages there will be, given those there are."""
        after = {name: version for name, version in before.items() if self.removed.get(name) != version}
        after.update(self.added)
        return after


PLAN_LINE = re.compile(r"^ ([+~-]) ([A-Za-z0-9][A-Za-z0-9._-]*)==(\S+)(?: \(from (.+)\))?$")


def parse_plan(output: str) -> Plan:
    """Read what `uv pip install --dry-run` prints; a package that is installed again (~) counts as added."""
    plan = Plan({}, {}, {}, "Would download" in output)
    for line in output.splitlines():
        match = PLAN_LINE.match(line.rstrip())
        if not match:
            continue
        sign, name, version, url = match.groups()
        name = canonical(name)
        (plan.removed if sign == "-" else plan.added)[name] = version
        if url and sign != "-":
            plan.urls[name] = url
    return plan


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """What is new in `after` and what is gone from `before`, as `name==version`."""
    old, new = set(pinned(before)), set(pinned(after))
    return sorted(new - old), sorted(old - new)


def cuda_packages(names: Iterable[str]) -> list[str]:
    """Those that bring NVIDIA's libraries: gigabytes that are of no use without its GPU."""
    return sorted(name for name in names if name.startswith("nvidia-") and name != "nvidia-ml-py")


def label(version: str | None) -> str:
    """The local label of a version: `cpu` for 2.13.0+cpu, "" for 2.13.0."""
    return (version or "").partition("+")[2]


def local_torch(names: Iterable[str]) -> list[str]:
    """Versions of the torch wheels among file names."""
    found = (re.match(r"torch-([^-]+)-.*\.whl$", unquote(name), re.IGNORECASE) for name in names)
    return sorted({match.group(1) for match in found if match})


def backends(requested: str, gpu: bool, local: Sequence[str], own_index: bool) -> list[str | None]:
    """Values of uv's --torch-backend to try, in order; None means that the configured places alone are asked.

    A local wheel or an index of one's own is asked first, since PyTorch's index may be out of reach. Without an NVIDIA
    GPU `auto` then ends with the CPU index, never with PyPI's CUDA wheels.

    Args:
        requested: the option torch_backend.
        gpu: whether this host has an NVIDIA GPU.
        local: versions of local torch wheels.
        own_index: whether somebody chose an index.
    """
    if requested == "none":
        return [None]
    if requested == "auto":
        first: list[str | None] = [None] if local or own_index else []
        return first + (["auto"] if gpu else ["cpu"])
    return [None, requested] if requested in [label(version) for version in local] else [requested]


def verdict(requested: str, gpu: bool, local: Sequence[str], backend: str | None, plan: Plan) -> str:
    """Judge a plan that was made with one of `backends`: "ok", "next" (try the next one), "cuda" or "cpu" (refuse).

    "cuda": it brings NVIDIA's libraries to a host without its GPU. "cpu": it brings a CPU build of torch to a host
    with one. A backend that the user named is taken at its word, and `none` accepts everything.
    """
    torch = plan.added.get("torch")
    cuda = bool(cuda_packages(plan.added))
    if requested == "none":
        return "ok"
    if requested not in ("auto", "cpu"):
        return "ok" if backend or torch is None or label(torch) == requested else "next"
    if requested == "cpu":
        if backend is None and torch is not None and label(torch) != "cpu":
            return "next"
        return "cuda" if cuda and not gpu else "ok"
    if not gpu:
        if not cuda:
            return "ok"
        return "next" if backend is None else "cuda"
    if torch is not None and label(torch) == "cpu":
        return "next" if backend is None else "cpu"
    return "ok" if backend or torch is None or torch in local else "next"


def needed_mb(plan: Plan, min_free_mb: int) -> int:
    """Free megabytes to ask for: `min_free_mb` with torch, four times that with CUDA, 200 at most with neither."""
    if cuda_packages(plan.added):
        return 4 * min_free_mb
    return min_free_mb if "torch" in plan.added else min(min_free_mb, 200)


# ------------------------------------------------------------------------------------------- what uv complains about


def redact(text: str) -> str:
    """Hide user names and passwords in URLs."""
    return re.sub(r"(?<=://)[^/@\s`'\"]+@", "***@", text)


def clash(output: str) -> str:
    """The premises of uv's proof that requirements cannot be met, without its conclusions.

    >>> clash("cause: Because a depends on b>=2 and you require a, we can conclude that you require b>=2.\\n"
    ...       "       And because you require b==1, we can conclude that your requirements are unsatisfiable.")
    'a depends on b>=2 and you require a; you require b==1'
    """
    proof = " ".join(re.split(r"\n\s*\n|\n\s*hint:", output[max(output.find("Because "), 0) :])[0].split())
    parts = [
        re.sub(r",? we can conclude .*$", "", part).strip(" .") for part in re.split(r"\b(?:And )?[Bb]ecause ", proof)
    ]
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
        return fault("a package is not the one the requirements name (%s)" % last)
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


# ------------------------------------------------------------------------------------------- what is there


class Found(NamedTuple):
    """What a prefix really holds now.

    python_version: its Python's version, "" when it does not start; site: its site-packages; packages: name to version;
    twice: names with two versions; broken: names whose metadata is gone; entries: top-level names in site-packages.
    """

    python_version: str
    site: str
    packages: dict[str, str]
    twice: list[str]
    broken: list[str]
    entries: list[str]


def minor(version: str) -> str:
    """`3.11` of `3.11.7`."""
    return ".".join(version.split(".")[:2])


def drift(stamp: Mapping[str, Any], found: Found) -> list[str]:
    """What differs between an environment as it was made and as it is; an empty list when nothing does."""
    if not found.python_version:
        return ["its Python does not start"]
    if minor(found.python_version) != minor(str(stamp.get("python_version", ""))):
        return ["its Python is %s instead of %s" % (found.python_version, stamp.get("python_version"))]
    made: Mapping[str, str] = stamp.get("packages") or {}
    reasons = []
    for name in sorted(set(made) | set(found.packages)):
        old, new = made.get(name), found.packages.get(name)
        if old and not new:
            reasons.append("%s %s is gone" % (name, old))
        elif new and not old:
            reasons.append("%s %s was added" % (name, new))
        elif old != new:
            reasons.append("%s is %s instead of %s" % (name, new, old))
    reasons += ["%s is there twice" % name for name in found.twice]
    reasons += ["%s has lost its metadata" % name for name in found.broken]
    entries = set(found.entries)
    reasons += [
        "%s is gone from site-packages" % entry
        for entry in stamp.get("entries") or []
        if entry not in entries and not dist_info(entry)
    ]
    return reasons


def reasons_to_act(
    stamp: Mapping[str, Any] | None, found: Found, key: str, python: str, backend: str, gpu: bool
) -> tuple[list[str], list[str], list[str]]:
    """Why an environment is not as wanted: reasons in what is asked, in how it is to be made, and in what is there.

    Args:
        stamp: the prefix's stamp; None when it is lost.
        found: what the prefix holds.
        key: what `wanted_key` gives now.
        python: the option python, as given; "" when it is left open.
        backend: the option torch_backend.
        gpu: whether an NVIDIA GPU shows now.

    A GPU that has gone is no reason to touch an environment: drivers fail, and come back.
    """
    if stamp is None:
        return [], ["its stamp is lost"], []
    asked = ["the requirements have changed"] if stamp.get("wanted") != key else []
    made = []
    if python != stamp.get("python"):
        made.append("the choice of Python has changed")
    if backend != stamp.get("requested_backend"):
        made.append("torch_backend is %s instead of %s" % (backend, stamp.get("requested_backend")))
    if backend == "auto" and gpu and not stamp.get("gpu") and "torch" in (stamp.get("packages") or {}):
        made.append("an NVIDIA GPU has appeared")
    return asked, made, drift(stamp, found)


# ------------------------------------------------------------------------------------------- the machine: reading


def pip_config_files(environ: Mapping[str, str], home: str, prefix: str) -> list[str]:
    """Paths of pip's configuration files, the weakest first, by pip's own rules; they need not exist.

    Args:
        environ: environment variables.
        home: the user's home.
        prefix: sys.prefix of the Python whose pip is meant (its site level).
    """
    chosen = environ.get("PIP_CONFIG_FILE", "")
    if chosen == os.devnull:
        return []
    shared = [path for path in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep) if path]
    files = [os.path.join(path, "pip", "pip.conf") for path in shared] + ["/etc/pip.conf"]
    if not (chosen and os.path.exists(chosen)):
        own = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
        files += [os.path.join(home, ".pip", "pip.conf"), os.path.join(own, "pip", "pip.conf")]
    files.append(os.path.join(prefix, "pip.conf"))
    return files + ([chosen] if chosen else [])


def read_text(path: str) -> str | None:
    """A file's text; None when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return None


def read_stamp(prefix: str) -> dict[str, Any] | None:
    """The stamp of a prefix; None when there is none that can be read."""
    try:
        stamp = json.loads(read_text(os.path.join(prefix, STAMP)) or "")
    except ValueError:
        return None
    return stamp if isinstance(stamp, dict) and stamp.get("format") == STAMP_FORMAT else None


def is_ours(prefix: str) -> bool:
    """Whether this module made the prefix: its stamp is there, or its line in pyvenv.cfg."""
    if os.path.exists(os.path.join(prefix, STAMP)):
        return True
    return MARK in (read_text(os.path.join(prefix, "pyvenv.cfg")) or "").splitlines()


ASK_PYTHON = (
    "import sys, json; print(json.dumps(['%d.%d.%d' % tuple(sys.version_info[:3]), "
    "getattr(sys, '_base_executable', None) or sys.executable]))"
)


def ask_python(python: str) -> tuple[str, str] | None:
    """Version and base interpreter of a Python; None when it does not start within 30 s."""
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", ASK_PYTHON],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=True,
            cwd="/",
        )
        version, base = json.loads(done.stdout.decode())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return str(version), str(base)


def look(prefix: str) -> Found:
    """Read what a prefix holds: one start of its Python and one listing of its site-packages."""
    answer = ask_python(os.path.join(prefix, "bin", "python"))
    version = answer[0] if answer else ""
    found = sorted(glob.glob(os.path.join(glob.escape(prefix), "lib", "python3.*", "site-packages")))
    expected = os.path.join(prefix, "lib", "python" + minor(version), "site-packages")
    site = expected if version or not found else found[0]
    try:
        entries = sorted(os.listdir(site))
    except OSError:
        entries = []
    packages: dict[str, str] = {}
    twice, broken = [], []
    for entry in entries:
        dist = dist_info(entry)
        if not dist:
            continue
        if dist[0] in packages:
            twice.append(dist[0])
        packages[dist[0]] = dist[1]
        if not os.path.exists(os.path.join(site, entry, "METADATA")):
            broken.append(dist[0])
    return Found(version, site, packages, twice, broken, [name for name in entries if name != "__pycache__"])


def has_nvidia_gpu(ask: bool = True, root: str = "/") -> bool:
    """Whether an NVIDIA GPU shows: by the driver's folder, its device files, or (`ask`) by nvidia-smi, as under WSL."""
    if glob.glob(os.path.join(root, "proc/driver/nvidia/gpus/*")) or glob.glob(os.path.join(root, "dev/nvidia[0-9]*")):
        return True
    smi = shutil.which("nvidia-smi") if ask else None
    if not smi:
        return False
    try:
        done = subprocess.run(
            [smi, "-L"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0 and b"GPU " in done.stdout


def listed(find_links: Iterable[str]) -> list[str]:
    """File names in the local folders among find-links."""
    names: list[str] = []
    for location in find_links:
        with contextlib.suppress(OSError):
            names += os.listdir(local_path(location) or "")
    return names


def existing(path: str) -> str:
    """The nearest folder above a path (or the path itself) that exists."""
    while not os.path.exists(path):
        path = os.path.dirname(path) or "/"
    return path


def free_mb(path: str) -> int:
    """Megabytes that this user may still write where the path lies or will lie."""
    stat = os.statvfs(existing(path))
    return stat.f_bavail * stat.f_frsize // 1_000_000


# ------------------------------------------------------------------------------------------- the machine: writing


def die_with_parent() -> None:
    """In a child, before exec: be killed when the module is, so that no uv works on after it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # 1: PR_SET_PDEATHSIG


def exchange(new: str, old: str) -> bool:
    """Swap the names of two folders at once, by Linux's renameat2(2); False where the file system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    at_cwd, swap = -100, 2
    if rename(at_cwd, os.fsencode(new), at_cwd, os.fsencode(old), swap) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), old)


def put_in_place(new: str, prefix: str, aside: str) -> None:
    """Make `new` the prefix; what was there before then lies at `new` or `aside`, both in the workspace.

    Where names cannot be swapped at once there is a moment without a prefix: `recover` mends a run killed in it.
    """
    if not os.path.exists(prefix):
        os.rename(new, prefix)
    elif not os.listdir(prefix):
        os.rename(new, prefix)
    elif not exchange(new, prefix):
        os.rename(prefix, aside)
        try:
            os.rename(new, prefix)
        except OSError:
            os.rename(aside, prefix)
            raise


def workspaces(prefix: str) -> list[str]:
    """Folders beside the prefix which runs of this module work in, or were killed in."""
    pattern = re.compile(re.escape(os.path.basename(prefix)) + r"\.new-[0-9]+$")
    parent = os.path.dirname(prefix)
    try:
        return sorted(os.path.join(parent, name) for name in os.listdir(parent) if pattern.match(name))
    except OSError:
        return []


def recover(prefix: str) -> None:
    """Under the lock: put back an environment that a killed run had moved aside, and remove what such runs left."""
    for space in workspaces(prefix):
        aside = os.path.join(space, "old")
        if not os.path.exists(prefix) and is_ours(aside):
            os.rename(aside, prefix)
        shutil.rmtree(space, ignore_errors=True)


class Locked(Exception):
    """Somebody else holds the lock, and the time to wait for it is over."""


@contextlib.contextmanager
def lock(path: str, timeout: float) -> Iterator[None]:
    """Hold the flock on a file, which exists only as long as somebody holds or awaits it.

    Raises:
        Locked: with the holder (`process 123 on host`), when it is not free within `timeout` seconds.
        OSError: when the file cannot be made.
    """
    deadline = time.monotonic() + timeout
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        holder = os.pread(handle, 200, 0).decode(errors="replace").strip()
                        raise Locked(holder or "another process") from None
                    time.sleep(0.1)
            # The holder before us has removed the file: this flock then is on a name that is gone.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(path)):
                    break
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, ("process %d on %s\n" % (os.getpid(), socket.gethostname())).encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
        os.close(handle)


# ------------------------------------------------------------------------------------------- the environment


class Outcome(NamedTuple):
    """What became of an environment, or would become of it.

    changed; current: whether it was as wanted before; reasons: why not; before and after: packages, name to version
    (`after` is None when check mode cannot know it); notes: warnings; python_version: of the prefix, "" if unknown.
    """

    changed: bool
    current: bool
    reasons: list[str]
    before: dict[str, str]
    after: dict[str, str] | None
    python_version: str
    notes: list[str]


class Environment:
    """One prefix on this machine.

    Args:
        params: the module's options, by name, all of them present.
        environ: the environment of the module.
        tmp: a folder for what check mode needs for a moment.
    """

    def __init__(self, params: Mapping[str, Any], environ: Mapping[str, str], tmp: str | None = None) -> None:
        self.params = params
        self.environ = environ
        self.tmp = tmp
        self.prefix = os.path.realpath(params["prefix"])
        self.notes: list[str] = []
        self.backend = params["torch_backend"]
        if self.backend == "auto":
            self.backend = environ.get("UV_TORCH_BACKEND") or "auto"

    # -- what is wanted

    def read_wanted(self) -> None:
        """Read requirements and settings; raises Fault when they cannot be had."""
        if self.params["requirements_content"] is not None:
            self.text, folder = self.params["requirements_content"], None
            lost = included_files(requirement_lines(self.text))
            if lost:
                raise Fault(
                    "the requirements take in %s, which lies on another machine: put all of them into one file, "
                    "or copy them to the node and use the option requirements" % ", ".join(lost)
                )
        else:
            path = os.path.abspath(self.params["requirements"])
            text, folder = read_text(path), os.path.dirname(path)
            if text is None:
                raise Fault("the requirements file %s is not there or cannot be read: correct its path" % path)
            self.text = text
        self.lines = requirement_lines(self.text)
        if not self.lines:
            raise Fault("the requirements name no package: list at least one, such as torch")
        texts: list[str] = []
        for path in pip_config_files(self.environ, os.path.expanduser("~"), sys.prefix):
            text = read_text(path)
            if not text:
                continue
            try:
                pip_options([text], {})
                texts.append(text)
            except configparser.Error as error:
                self.notes.append("pip's configuration %s is ignored: %s" % (path, str(error).splitlines()[0]))
        bundle = self.params["ca_bundle"]
        if bundle and not os.path.isfile(bundle):
            raise Fault("the certificate bundle %s is not there: correct python_env_ca_bundle" % bundle)
        self.settings = uv_settings(self.params, pip_options(texts, self.environ), self.environ)
        constraints = [read_text(path) or "" for path in self.settings.constraints]
        self.key = wanted_key(
            self.lines,
            self._included(self.lines, folder, set()),
            [line for text in constraints for line in requirement_lines(text)],
        )

    def _included(self, lines: Sequence[str], folder: str | None, seen: set[str]) -> list[str]:
        """The lines of all files that requirements take in, files in files too."""
        found: list[str] = []
        for name in included_files(lines):
            path = os.path.join(folder or "/", name)
            if path not in seen:
                seen.add(path)
                inner = requirement_lines(read_text(path) or "")
                found += inner + self._included(inner, os.path.dirname(path), seen)
        return found

    # -- the way through

    def ensure(self, check: bool) -> Outcome:
        """Make the prefix as wanted, or with `check` tell what that would change; raises Fault."""
        self.read_wanted()
        self._refuse_foreign()
        outcome = self._compare()[0]
        if outcome:
            self._tidy(check)
            return outcome
        if check:
            with tempfile.TemporaryDirectory(prefix="python-env-", dir=self.tmp) as space:
                return self._predict(space)
        try:
            with self._hold(self.params["lock_timeout"]):
                recover(self.prefix)
                self._refuse_foreign()
                return self._compare()[0] or self._build()
        except Locked as error:
            raise Fault(
                "%s is being worked on by %s, which %d s of waiting did not outlast: wait for it, or raise "
                "python_env_lock_timeout" % (self.prefix, error, self.params["lock_timeout"])
            ) from None

    def remove(self, check: bool) -> Outcome:
        """Remove the prefix, or with `check` tell what would go; raises Fault."""
        self._refuse_foreign()
        if not os.path.isdir(self.prefix) or not os.listdir(self.prefix):
            self._tidy(check)
            return Outcome(False, True, [], {}, {}, "", self.notes)
        before = look(self.prefix).packages
        if not check:
            try:
                with self._hold(self.params["lock_timeout"]):
                    recover(self.prefix)
                    space = self._workspace()
                    os.rename(self.prefix, os.path.join(space, "gone"))
                    shutil.rmtree(space, ignore_errors=True)
            except Locked as error:
                raise Fault("%s is being worked on by %s: wait for it" % (self.prefix, error)) from None
            except OSError as error:
                raise self._no_write(error) from None
        return Outcome(True, False, ["it is there"], before, {}, "", self.notes)

    def _tidy(self, check: bool) -> None:
        """Where nothing has to change: remove what a killed run left, if one did and if nobody is at work."""
        if not check and (workspaces(self.prefix) or os.path.exists(self.prefix + ".lock")):
            with contextlib.suppress(Fault, Locked), self._hold(0):
                recover(self.prefix)

    def _refuse_foreign(self) -> None:
        """Never touch what somebody else made."""
        if not os.path.lexists(self.prefix):
            return
        if not os.path.isdir(self.prefix):
            raise Fault("%s is a file: choose another prefix, or remove it" % self.prefix)
        try:
            foreign = bool(os.listdir(self.prefix)) and not is_ours(self.prefix)
        except OSError as error:
            raise Fault(
                "%s cannot be read (%s): become its owner, or choose another prefix" % (self.prefix, error.strerror)
            ) from None
        if foreign:
            raise Fault(
                "%s was not made by Muster, so it is left alone: choose another prefix, or move that folder away"
                % self.prefix
            )

    def _compare(self) -> tuple[Outcome | None, str]:
        """An outcome when the prefix is as wanted; otherwise None and how far it is off.

        "none": there is no environment; "broken": it is not as it was made, for the same wish; "other": the way it is
        to be made has changed; "asked": it is whole, and only the requirements have changed.
        """
        stamp = read_stamp(self.prefix)
        if not is_ours(self.prefix):
            self.stamp, self.found, self.reasons = None, Found("", "", {}, [], [], []), ["it is not there yet"]
            return None, "none"
        self.stamp, self.found = stamp, look(self.prefix)
        gpu = has_nvidia_gpu(ask=False)
        asked, made, broken = reasons_to_act(
            stamp, self.found, self.key, self.params["python"] or "", self.backend, gpu
        )
        self.reasons = asked + made + broken
        if not self.reasons:
            return Outcome(
                False, True, [], self.found.packages, self.found.packages, self.found.python_version, self.notes
            ), ""
        if broken and not asked and not made:
            return None, "broken"
        return None, "asked" if asked and not made and not broken else "other"

    def _predict(self, space: str) -> Outcome:
        """What a run would change, by a dry run; without uv, Python or network for a first environment: unknown."""
        how = self._compare()[1]
        try:
            self._prepare(space)
            plan, _backend = self._plan(space, how)
        except Fault as fault:
            if how != "none" or fault.kind == "unsatisfiable":
                raise
            if fault.kind != "no uv":
                self.notes.append("the packages cannot be foretold, since %s" % fault.sentence)
            return Outcome(True, False, self.reasons, {}, None, "", self.notes)
        before = self.found.packages
        after = plan.result(before) if how == "asked" else plan.added
        changed = how != "asked" or before != after
        reasons = self.reasons if changed else []
        return Outcome(changed, not changed, reasons, before, after, self.python_version, self.notes)

    def _build(self) -> Outcome:
        """Under the lock: build a new environment beside the prefix, look it over, and put it in place."""
        how = self._compare()[1]
        before = self.found.packages
        space = self._workspace()
        try:
            self._prepare(space)
            plan, backend = self._plan(space, how)
            after = plan.result(before) if how == "asked" else plan.added
            if how == "asked" and after == before:
                # Other words for the same packages: nothing to install, only the stamp to renew.
                self._write_stamp(self.prefix, self.found, backend)
                return Outcome(False, True, [], before, before, self.found.python_version, self.notes)
            self._check_space(plan._replace(added=after))
            fresh = os.path.join(space, "env")
            self._uv(venv_argv(self.uv, self.base, fresh))
            pins = self._pin(space, {name: version for name, version in after.items() if name not in plan.urls})
            python = os.path.join(fresh, "bin", "python")
            self._uv(self._install_argv(python, [pins], backend))
            found = self._prove(fresh)
            with open(os.path.join(fresh, "pyvenv.cfg"), "a", encoding="utf-8") as handle:
                handle.write(MARK + "\n")
            self._write_stamp(fresh, found, backend)
            put_in_place(fresh, self.prefix, os.path.join(space, "old"))
        except OSError as error:
            raise self._no_write(error) from None
        finally:
            shutil.rmtree(space, ignore_errors=True)
        return Outcome(True, False, self.reasons, before, found.packages, found.python_version, self.notes)

    # -- the steps

    @contextlib.contextmanager
    def _hold(self, timeout: float) -> Iterator[None]:
        """Hold the lock beside the prefix, whose parent is made if need be."""
        os.umask(0o022)  # An environment holds no secrets, and jobs run as another user.
        try:
            os.makedirs(os.path.dirname(self.prefix), exist_ok=True)
            guard = lock(self.prefix + ".lock", timeout)
            guard.__enter__()
        except OSError as error:
            raise self._no_write(error) from None
        try:
            yield
        finally:
            guard.__exit__(None, None, None)

    def _no_write(self, error: OSError) -> Fault:
        """The sentence for a file operation that the system refuses."""
        if error.errno == errno.EBUSY:
            return Fault(
                "%s is a mount point, which cannot be replaced: choose a folder in it as the prefix" % self.prefix
            )
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return Fault("the disk that holds %s is full: free some space, or choose another prefix" % self.prefix)
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return Fault(
                "this user may not write in %s (%s): become its owner (become: true), or choose a prefix "
                "elsewhere" % (existing(os.path.dirname(self.prefix)), error.strerror)
            )
        return Fault(
            "%s cannot be made or moved (%s): choose another prefix"
            % (error.filename or self.prefix, error.strerror or error)
        )

    def _workspace(self) -> str:
        """A folder beside the prefix, so that everything can be renamed into place."""
        space = "%s.new-%d" % (self.prefix, os.getpid())
        try:
            os.mkdir(space)
        except OSError as error:
            raise self._no_write(error) from None
        return space

    def _prepare(self, space: str) -> None:
        """Find uv and the base interpreter; write the requirements where uv can read them."""
        self.uv = self._find_uv()
        tmp = os.path.join(space, "tmp")
        os.mkdir(tmp)
        self.environment = uv_environ(self.environ, self.settings, tmp)
        self.python_version, self.base = self._find_python()
        if self.params["requirements_content"] is None:
            self.requirements = os.path.abspath(self.params["requirements"])
        else:
            self.requirements = os.path.join(space, "requirements.txt")
            with open(self.requirements, "w", encoding="utf-8") as handle:
                handle.write(self.text)

    def _find_uv(self) -> str:
        """The uv binary; raises Fault when there is none."""
        wanted = os.path.expanduser(self.params["uv"] or "uv")
        uv = shutil.which(wanted, path=self.environ.get("PATH"))
        if not uv:
            where = "on this user's PATH" if "/" not in wanted else "or cannot be run by this user"
            raise Fault(
                "uv (%s) is not there %s: install uv on the node and name its path (python_env_uv)" % (wanted, where),
                kind="no uv",
            )
        return uv

    def _find_python(self) -> tuple[str, str]:
        """Version and path of the interpreter to build with; raises Fault when there is none that will do."""
        wanted = self.params["python"] or ""
        if not wanted:
            wanted = getattr(sys, "_base_executable", None) or sys.executable
        elif "/" not in wanted and re.match(r"[0-9]", wanted):
            code, output = self._run([self.uv, "python", "find", "--no-project", "--system", wanted])
            if code:
                raise Fault(
                    "there is no Python %s on this host: install it, or set python_env_python to the path or "
                    "version of one that is there" % wanted,
                    output,
                )
            wanted = [line for line in output.splitlines() if line.startswith("/")][-1]
        elif "/" not in wanted:
            wanted = shutil.which(wanted, path=self.environ.get("PATH")) or wanted
        answer = ask_python(os.path.expanduser(wanted))
        if not answer:
            raise Fault(
                "the Python %s is not there or does not start: install it, or set python_env_python to the path "
                "or version of one that is there" % wanted
            )
        version, base = answer
        if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_PYTHON:
            raise Fault(
                "%s is Python %s, but 3.8 or later is needed: set python_env_python to the path or version of "
                "one" % (wanted, version)
            )
        return version, base

    def _run(self, argv: Sequence[str]) -> tuple[int, str]:
        """Run uv; its exit code and all it printed."""
        # Not the caller's folder, where a pyproject.toml or uv.toml could have a say.
        given = self.params["requirements"]
        folder = os.path.dirname(os.path.abspath(given)) if given else "/"
        try:
            done = subprocess.run(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=folder,
                check=False,
                preexec_fn=die_with_parent,
            )
        except OSError as error:
            if error.errno == errno.ENOEXEC:
                raise Fault(
                    "%s is not a program for this machine (is its processor another?): install uv on the node and name "
                    "its path (python_env_uv)" % argv[0]
                ) from None
            raise Fault(
                "%s cannot be run (%s): install uv on the node and name its path (python_env_uv)"
                % (argv[0], error.strerror)
            ) from None
        return done.returncode, done.stdout.decode(errors="replace")

    def _uv(self, argv: Sequence[str]) -> str:
        """Run uv and give what it printed; raises Fault when it fails."""
        code, output = self._run(argv)
        if code:
            raise explain(output, self.uv)
        return output

    def _install_argv(self, python: str, pins: Sequence[str], backend: str | None, **how: Any) -> list[str]:
        """`uv pip install` of the requirements for one interpreter; `how` goes to `pip_argv`."""
        constraints = self.settings.constraints + list(pins)
        return pip_argv(
            self.uv, python, self.requirements, constraints, backend, no_index=self.settings.no_index, **how
        )

    def _pin(self, space: str, packages: Mapping[str, str]) -> str:
        """Write a constraints file that allows these versions only."""
        path = os.path.join(space, "pins.txt")
        with open(path, "w", encoding="utf-8") as handle:
            handle.write("".join(line + "\n" for line in pinned(packages)))
        return path

    def _plan(self, space: str, how: str) -> tuple[Plan, str | None]:
        """Resolve without installing: the plan, and the torch backend that it takes; raises Fault.

        A whole environment keeps the versions that still satisfy changed requirements; a damaged one gets the very
        versions back that it had, if they can still be had.
        """
        if how == "broken" and self.stamp:
            try:
                return self._resolve(space, [self._pin(space, self.stamp["packages"])], False)
            except Fault as fault:
                if fault.kind != "unsatisfiable":
                    raise
        return self._resolve(space, [], how == "asked")

    def _resolve(self, space: str, pins: list[str], onto: bool) -> tuple[Plan, str | None]:
        """Try the torch backends in order and take the first plan that will do.

        Args:
            space: the workspace.
            pins: constraint files beside the configured ones.
            onto: plan the way from what the prefix holds, instead of from nothing.
        """
        gpu = has_nvidia_gpu()
        if (
            self.backend == "auto"
            and not gpu
            and self.stamp
            and self.stamp.get("gpu")
            and ("torch" in (self.stamp.get("packages") or {}))
        ):
            raise Fault(
                "this host had an NVIDIA GPU when %s was made, and shows none now: repair its driver, or set "
                "python_env_torch_backend to cpu" % self.prefix
            )
        self.gpu = gpu
        local = local_torch(listed(self.settings.find_links))
        tries = backends(self.backend, gpu, local, self.settings.own_index)
        python = os.path.join(self.prefix, "bin", "python") if onto else self.base
        target = None if onto else os.path.join(space, "target")
        first: Fault | None = None
        spare: tuple[Plan, Plan] | None = None
        for backend in tries:
            argv = self._install_argv(python, pins, backend, dry_run=True, exact=onto, target=target)
            code, output = self._run(argv)
            if code:
                fault = explain(output, self.uv)
                if backend is None and len(tries) > 1 and fault.kind == "unsatisfiable" and "torch" in fault.sentence:
                    first = fault
                    continue
                if fault.kind == "network" and spare and gpu and label(spare[1].added.get("torch")) != "cpu":
                    self.notes.append(
                        "torch %s comes from the configured indexes, since PyTorch's own cannot be reached: see to it "
                        "that it suits this host's driver" % spare[1].added.get("torch")
                    )
                    return spare[0], None
                raise self._final(fault, first, spare[1] if spare else None, backend)
            plan = parse_plan(output)
            whole = plan._replace(added=plan.result(self.found.packages)) if onto else plan
            word = verdict(self.backend, gpu, local, backend, whole)
            if word == "ok":
                return plan, backend
            if word != "next":
                raise self._refusal(word, whole)
            spare = plan, whole
        raise AssertionError("the last of the backends is judged finally")

    def _refusal(self, word: str, plan: Plan) -> Fault:
        """The sentence for a plan that does not suit this host's hardware."""
        if word == "cpu":
            return Fault(
                "this host has an NVIDIA GPU, but torch %s is a CPU build: offer a CUDA build, or set "
                "python_env_torch_backend to cpu to do without the GPU" % plan.added.get("torch")
            )
        return Fault(
            "this host has no NVIDIA GPU, but the requirements bring %s: remove what needs CUDA from them, or set "
            "python_env_torch_backend to none to take it all the same" % ", ".join(cuda_packages(plan.added)[:3])
        )

    def _final(self, fault: Fault, first: Fault | None, spare: Plan | None, backend: str | None) -> Fault:
        """The sentence that helps most, when the last backend has failed after others were tried."""
        if fault.kind == "unsatisfiable" and self.settings.constraints:
            fault.sentence += "; the settings of pip or uv add the constraints in %s" % ", ".join(
                self.settings.constraints
            )
        if fault.kind == "unsatisfiable" and self.settings.ignored:
            fault.sentence += "; named as a place of packages, but not there: %s" % ", ".join(self.settings.ignored)
        if fault.kind != "network":
            return fault
        if spare and label(spare.added.get("torch")) == "cpu" and self.gpu:
            return self._refusal("cpu", spare)
        if first:
            return Fault("%s (and PyTorch's own index cannot be reached)" % first.sentence, fault.details, first.kind)
        if backend:
            fault.sentence += (
                "; a wheel of torch in a folder named by pip's find-links does without PyTorch's index, and "
                "python_env_torch_backend: none takes torch from the configured indexes alone"
            )
        return fault

    def _check_space(self, plan: Plan) -> None:
        """Refuse before anything is fetched when the disks are too small."""
        need = needed_mb(plan, self.params["min_free_mb"])
        places = [("the prefix", os.path.dirname(self.prefix), "python_env_prefix")]
        if plan.downloads:
            cache = self.environment.get("UV_CACHE_DIR") or os.path.join(
                self.environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "uv"
            )
            places.append(("uv's cache", cache, "python_env_cache_dir"))
        for what, path, option in places:
            free = free_mb(path)
            if free < need:
                raise Fault(
                    "%s in %s has %d MB free, but about %d MB are needed: free some space, or set %s to a larger "
                    "disk (or python_env_min_free_mb to a smaller number)" % (what, existing(path), free, need, option)
                )

    def _prove(self, fresh: str) -> Found:
        """Look over a new environment: its Python starts, its packages are whole, and torch imports."""
        found = look(fresh)
        if not found.python_version or found.twice or found.broken:
            raise Fault(
                "the new environment is not whole (%s): run again, and clear uv's cache if it stays so"
                % ("; ".join(drift({"python_version": found.python_version, "packages": found.packages}, found)))
            )
        if self.params["verify"] and "torch" in found.packages:
            # This also compiles what torch imports, so that the first launch need not.
            code, output = self._run([os.path.join(fresh, "bin", "python"), "-I", "-c", "import torch"])
            if code:
                raise Fault(
                    "torch %s does not import on this host (%s): choose a build that suits its system"
                    % (found.packages["torch"], (output.strip().splitlines() or ["exit code %d" % code])[-1]),
                    output[-4000:],
                )
        return found

    def _write_stamp(self, prefix: str, found: Found, backend: str | None) -> None:
        """Record how an environment was made and what it holds; whole or not at all."""
        stamp = {
            "format": STAMP_FORMAT,
            "made_by": "muster.cluster.python_env",
            "wanted": self.key,
            "python": self.params["python"] or "",
            "requested_backend": self.backend,
            "torch_backend": backend or "",
            "gpu": self.gpu,
            "python_version": found.python_version,
            "packages": found.packages,
            "fingerprint": fingerprint(found.packages),
            "entries": found.entries,
        }
        path = os.path.join(prefix, STAMP)
        with open(path + ".new", "w", encoding="utf-8") as handle:
            json.dump(stamp, handle, indent=1, sort_keys=True)
            handle.write("\n")
        os.replace(path + ".new", path)
