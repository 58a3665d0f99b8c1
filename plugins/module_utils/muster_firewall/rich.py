"""firewalld's rich language, as far as Muster writes it and has to understand it; pure."""

import shlex
from typing import NamedTuple, Optional

from ..muster_agent.errors import Refusal
from .rules import WORLD, Rule, check_ports, network

# Muster's own rules are the rich rules of this priority, so that nothing has to be remembered: firewalld asks them after
# everybody else's.
PRIORITY = 29500
# Elements of a rule that narrows nobody down but by an address.
PLAIN = {"source", "port", "service", "accept", "limit", "log", "audit"}
ADDRESS = {"", "address"}


class Rich(NamedTuple):
    """A rich rule as far as it matters here; ``rule`` where it says no more than a Rule does."""

    own: bool
    rule: Optional[Rule]
    service: str
    accepts: bool
    world: bool


def rich(rule):
    """A Rule in firewalld's words, exactly as it tells them back."""
    source = "" if rule.source in WORLD else ' source address="{}"'.format(rule.source)
    low, high = rule.ports[0]
    return 'rule priority="{}" family="{}"{} port port="{}" protocol="{}" accept'.format(
        PRIORITY, "ipv6" if rule.v6 else "ipv4", source, low if low == high else "{}-{}".format(low, high), rule.protocol
    )


def parse_rich(text):
    """What a rich rule says; one that cannot be understood is somebody else's and lets nobody in."""
    try:
        words = shlex.split(text)
        values, element = {}, ""
        for word in words[1:]:
            name, equals, value = word.partition("=")
            if equals:
                values[(element, name)] = value
            else:
                element = name
                values.setdefault((element, ""), "")
        priority = int(values.get(("", "priority"), "0"))
        v6 = values.get(("", "family")) == "ipv6"
        address = values.get(("source", "address"))
        clear = {name for name, _ in values if name} <= PLAIN and {key for name, key in values if name == "source"} <= ADDRESS
        source = network(address) if address else WORLD[v6]
        rule = None
        if clear and ("port", "port") in values:
            pair = check_ports("port", values[("port", "port")])
            rule = Rule(values[("port", "protocol")], (pair,), source)
        return Rich(
            priority == PRIORITY, rule, values.get(("service", "name"), ""), ("accept", "") in values, clear and source in WORLD
        )  # fmt: skip
    except (ValueError, KeyError, Refusal):
        return Rich(False, None, "", False, False)
