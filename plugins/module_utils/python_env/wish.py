# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The settings of this machine for where packages come from, read once."""

from __future__ import annotations

import configparser
import os
import sys
from typing import Any, Mapping

from .complaints import Fault
from .machine import read_text
from .settings import Settings, pip_config_files, pip_options, uv_settings


def read_settings(params: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[Settings, list[str]]:
    """Where packages come from, in uv's words, and notes for the user.

    Args:
        params: the module's options; `cache_dir` is the folder that uv's cache lies in.
        environ: the environment of the module.

    Raises:
        Fault: when the file of certificates is not there.
    """
    bundle = params.get("ca_bundle")
    if bundle and not os.path.isfile(bundle):
        raise Fault("the certificate bundle %s is not there: correct python_env_ca_bundle" % bundle)
    texts, notes = _pip_configuration(environ)
    cache = params.get("cache_dir")
    known = dict(params, cache_dir=os.path.join(cache, "uv") if cache else "")
    return uv_settings(known, pip_options(texts, environ), environ), notes


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
