# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The one request that needs no module: how a prefix stands."""

from __future__ import annotations

import os
from typing import Any, Mapping

from ..muster_agent.cli import answer
from .complaints import Fault, redact
from .environment import Environment

__all__ = ["answer", "call"]


def call(request: Mapping[str, Any], code: object = None) -> dict[str, Any]:
    """Look, and change nothing; returns {"result"} of the state `look`, or {"fault": sentence}.

    Args:
        request: {"options": the module's, all of them}.
        code: not used; part of how `remote` asks.
    """
    try:
        result = Environment(request["options"], os.environ).act("look", False)
    except Fault as fault:
        return {"fault": redact(fault.sentence)}
    return {"result": result}
