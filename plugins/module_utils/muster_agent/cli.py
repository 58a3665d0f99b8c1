"""Commands of the agent.

``run``, ``torchrun`` and ``rank`` make up a job, ``facts`` tells of an interpreter, ``call`` answers who asks over SSH.
"""

import json
import os
import sys

from .errors import Refusal

# Answers stand between these marks, so that a login script that prints something does no harm.
BEGIN, END = "\x02MUSTER", "\x03"


def answer(value, stream=None):
    """Print one JSON value between the marks."""
    stream = stream or sys.stdout
    stream.write(BEGIN + json.dumps(value) + END + "\n")
    stream.flush()


def explain_os_error(what, error):
    """One sentence for a failed system call."""
    where = " on {}".format(error.filename) if error.filename else ""
    return "{} failed{}: {}; look at disk and rights there".format(what, where, error.strerror or error)


def call(request, code=None):
    """Do one request and return its answer; a refusal is data, not a failure.

    Args:
        request: ``{"do": "start" | "stop" | "absent" | "call_off" | "info" | "tail" | "collect", ...}``, the rest being the
            arguments of the function of that name in :mod:`jobs`.
        code: binary stream with the shipped tar, for start.
    """
    from . import jobs

    request = dict(request)
    name = request.pop("do")
    known = ("start", "stop", "absent", "call_off", "info", "tail", "collect")
    try:
        if name not in known:
            raise Refusal("the agent knows no {!r}, expected one of {}".format(name, ", ".join(known)))
        if name == "start":
            request["code"] = code
        return getattr(jobs, name)(**request)
    except Refusal as refusal:
        return {"refused": str(refusal)}
    except OSError as error:
        return {"refused": explain_os_error(name, error)}


def main(argv):
    """Entry of the command line; returns the exit code."""
    command, rest = argv[0], argv[1:]
    if command == "rank":
        from . import rank

        return rank.main(rest)
    if command == "torchrun":
        from . import child

        return child.main(rest)
    if command == "run":
        from . import supervisor

        lock = int(rest[3]) if rest[2:3] == ["--lock"] else None
        code = supervisor.main(rest[0], rest[1], lock)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    if command == "facts":
        from . import facts

        answer(facts.gather())
        return 0
    if command == "call":
        answer(call(json.loads(rest[0])))
        return 0
    print("unknown command {!r}".format(command), file=sys.stderr)
    return 2
