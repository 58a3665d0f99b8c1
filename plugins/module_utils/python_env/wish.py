# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""What is wanted: the requirements, and the settings of this machine, read once."""

from __future__ import annotations

import configparser
import os
import sys
from typing import Any, Mapping, NamedTuple, Sequence

from .complaints import Fault
from .machine import read_text
from .requirements import included_files, requirement_lines, wanted_key
from .settings import Settings, pip_config_files, pip_options, uv_settings


class Wish(NamedTuple):
    """What an environment is to be.

    lines: the requirements; settings: where packages come from; key: a hash of what is asked for; backend: the torch
    backend asked for; notes: warnings.
    """

    lines: list[str]
    settings: Settings
    key: str
    backend: str
    notes: list[str]


def read_wish(params: Mapping[str, Any], environ: Mapping[str, str]) -> Wish:
    """Read requirements and settings; raises Fault when they cannot be had.

    Args:
        params: the module's options, by name, all of them present.
        environ: the environment of the module.
    """
    lines, folder = _requirements(params)
    bundle = params["ca_bundle"]
    if bundle and not os.path.isfile(bundle):
        raise Fault("the certificate bundle %s is not there: correct python_env_ca_bundle" % bundle)
    texts, notes = _pip_configuration(environ)
    settings = uv_settings(params, pip_options(texts, environ), environ)
    constraints = [line for path in settings.constraints for line in requirement_lines(read_text(path) or "")]
    key = wanted_key(lines, _included(lines, folder, set()), constraints)
    backend = params["torch_backend"]
    if backend == "auto":
        backend = environ.get("UV_TORCH_BACKEND") or "auto"
    return Wish(lines, settings, key, backend, notes)


def _requirements(params: Mapping[str, Any]) -> tuple[list[str], str]:
    """The lines of the requirements, and the folder from which the files count that they take in."""
    text, folder = params["requirements_content"], "/"
    if text is None:
        path = os.path.abspath(params["requirements"])
        text, folder = read_text(path), os.path.dirname(path)
        if text is None:
            raise Fault("the requirements file %s is not there or cannot be read: correct its path" % path)
    lines = requirement_lines(text)
    lost = included_files(lines) if params["requirements_content"] is not None else []
    if lost:
        raise Fault(
            "the requirements take in %s, which lies on another machine: put all of them into one file, "
            "or copy them to the node and use the option requirements" % ", ".join(lost)
        )
    if not lines:
        raise Fault("the requirements name no package: list at least one, such as torch")
    return lines, folder


def _included(lines: Sequence[str], folder: str, seen: set[str]) -> list[str]:
    """The lines of all files that requirements take in, files in files too."""
    found: list[str] = []
    for name in included_files(lines):
        path = os.path.join(folder, name)
        if path not in seen:
            seen.add(path)
            inner = requirement_lines(read_text(path) or "")
            found += inner + _included(inner, os.path.dirname(path), seen)
    return found


def _pip_configuration(environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The texts of pip's configuration files, the weakest first, and a note for each that is not one."""
    texts, notes = [], []
    for path in pip_config_files(environ, os.path.expanduser("~"), sys.prefix):
        text = read_text(path) or ""
        try:
            pip_options([text], {})
            texts.append(text)
        except configparser.Error as error:
            notes.append("pip's configuration %s is ignored: %s" % (path, str(error).splitlines()[0]))
    return texts, notes
