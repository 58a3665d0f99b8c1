"""The one request that needs no module: whether the firewall is as wanted."""

import os

from ..muster_agent.cli import answer
from ..muster_agent.errors import Refusal
from . import change

__all__ = ["answer", "call"]


def call(request, code=None):
    """Look, and change nothing.

    Args:
        request: ``backend`` and ``options``, see :class:`change.Host`.
        code: not used; part of how ``remote`` asks.

    Returns:
        ``{"done", "warnings", "client"}``; ``done`` is false where something is the module's to do or to
        say.
    """
    if os.geteuid() != 0:
        return {"done": False}
    try:
        firewall = change.Host(request["backend"], request["options"])
        done = firewall.is_done()
    except (Refusal, OSError):
        return {"done": False}
    return {"done": done, "warnings": firewall.warnings(), "client": firewall.client[0] if firewall.client else ""}
