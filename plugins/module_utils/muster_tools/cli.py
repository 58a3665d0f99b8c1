"""The request of the action ``python_tools``: take the tools."""

from ..muster_agent.cli import answer, explain_os_error
from ..muster_agent.errors import Refusal
from . import receiving

__all__ = ["answer", "call"]


def call(request, code=None):
    """Do the request and return its answer; a refusal is data, not a failure.

    Args:
        request: ``{"do": "receive", "folder", "name", "sha256"}``; see :func:`receiving.receive`.
        code: binary stream with the tar.
    """
    try:
        return receiving.receive(request["folder"], request["name"], request["sha256"], code)
    except Refusal as refusal:
        return {"refused": str(refusal)}
    except OSError as error:
        return {"refused": explain_os_error("writing the tools", error)}
