"""The two requests of a verification: ``listen``, then ``connect``."""

import os
import time

from ..muster_agent.cli import answer
from . import accounts, bandwidth, connecting, listening, logins, looking

__all__ = ["answer", "call"]


def call(request, code=None):
    """Do one request and return its answer.

    Args:
        request: ``{"do": "listen" | "connect", ...}``, the rest being the arguments of the function of that name.
        code: not used; part of how :mod:`remote` asks.
    """
    request = dict(request)
    return listen(**request) if request.pop("do") == "listen" else connect(**request)


def listen(name, address, port, port_range, user, lifetime, clock_wait):
    """Look at the host and start the listeners.

    Args:
        name, address: of this host in the cluster.
        port: the rendezvous port, and ``port_range``, ``[first, last]``, where another one is taken when jobs use it.
        user: name of the cluster's user; it owns the listeners where this process may choose.
        lifetime: seconds after which the listeners end, whatever happens.
        clock_wait: seconds to wait for a time daemon that has just been started.

    Returns:
        ``{"listeners", "facts", "clock"}``, or ``{"refused": text, "facts", "clock"}`` where it cannot listen.
    """
    found = {"facts": looking.look(user, clock_wait)}
    try:
        found["listeners"] = listening.start(name, address, port, port_range, user, lifetime)
    except OSError as error:
        found["refused"] = listening.explain(address, error)
    # The last thing, so that the controller's bounds are close.
    return dict(found, clock=time.time())


def connect(name, peers, visits, user, timeout, python, ssh=(), ring=None):
    """Connect to every host, this one included, and log in to those of ``ssh``; as the cluster's user where that is possible.

    Args:
        name: this host.
        peers: ``{name: {"address", "listeners"}}`` as :func:`listen` told.
        visits: how many this host's own listeners have to wait for.
        user: name of the cluster's user.
        timeout: seconds to wait for a connection.
        python: path of the jobs' Python.
        ssh: names to log in to.
        ring: the host to which bandwidth is measured.

    Returns:
        ``{"pairs": {peer: {kind: outcome}}, "clocks": {peer: {"offset", "error"}}, "user", "python", "ssh",
        "bandwidth"}``; ``ssh`` is None where this process is not the cluster's user.
    """
    account = accounts.find(user)
    if os.geteuid() == 0:
        accounts.drop(account)  # without such a user the jobs are root's own
    found = connecting.visit_all(name, peers, timeout, visits)
    found.update(user=accounts.own_name(), python=looking.job_python(python))
    if ssh:
        may = account is not None and os.geteuid() == account.pw_uid
        found["ssh"] = logins.try_all(user, ssh) if may else None
    if ring:
        found["bandwidth"] = bandwidth.measure(name, peers[ring], timeout)
    return found
