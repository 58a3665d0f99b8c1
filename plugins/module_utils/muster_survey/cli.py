"""The one request of a survey."""

from ..muster_agent.cli import answer
from . import conda, firewall, gpu, hosts, limits, packages, ssh, system, time, users

__all__ = ["answer", "call"]

SECTIONS = (time, system, packages, ssh, users, hosts, firewall, limits, gpu, conda)


def call(request, code=None):
    """Look at everything; returns ``{section: what it found}``.

    Args:
        request: ``user``, the name of the cluster's user, and ``state_dir``, the folder of jobs and environments.
        code: not used; part of how ``remote`` asks.
    """
    return {section.__name__.rsplit(".", 1)[1]: section.look(request) for section in SECTIONS}
