# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""Where packages come from: the settings of pip and of uv, put into uv's words."""

from __future__ import annotations

import configparser
import os
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence
from urllib.parse import quote, unquote, urlsplit


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


PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY")


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
            out["UV_FIND_LINKS"] = ",".join(link_location(link) for link in find_links)

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
    if params.get("proxy"):
        drop += [name for proxy in PROXIES for name in (proxy, proxy.lower())]
        out.update({name: params["proxy"] for name in PROXIES})
    no_index = is_true(pip.get("no-index")) and "option" not in (index_source, extra_source)
    if params.get("cache_dir"):
        out["UV_CACHE_DIR"] = params["cache_dir"]
    return Settings(out, drop, find_links, constraints, bool(index_source or extras), no_index, ignored)


def link_location(location: str) -> str:
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
