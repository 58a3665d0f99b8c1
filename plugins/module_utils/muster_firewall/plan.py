"""What a plan is made of."""

from typing import List, NamedTuple, Optional


class Step(NamedTuple):
    """One command: its ``argv``, the command that undoes it where a file that comes back does not, its number of rules."""

    argv: List[str]
    undo: Optional[List[str]] = None
    size: int = 1


class Plan(NamedTuple):
    """``steps`` in their order, and the state ``before`` and ``after`` them as lines for people."""

    steps: List[Step]
    before: List[str]
    after: List[str]


def status_lines(name, state, denies):
    """How the firewall itself stands, as lines; ``denies``: what is not let in by a rule is shut out."""
    if not state["installed"]:
        return ["{}: not installed".format(name)]
    return [
        "{}: {}".format(name, "running" if state["active"] else "stopped"),
        "started at boot: {}".format("yes" if state["boot"] else "no"),
        "incoming by default: {}".format("deny" if denies and state["active"] else "allow"),
    ]


def wanted_lines(name):
    """The same for the state that is wanted."""
    return status_lines(name, {"installed": True, "active": True, "boot": True}, True)
