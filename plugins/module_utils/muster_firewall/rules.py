"""What is wanted of a host's firewall, whichever it has: checks of the options and the rules that follow; pure."""

import ipaddress
import re
from typing import NamedTuple, Tuple

from ..muster_agent.errors import Refusal

WORLD = ("0.0.0.0/0", "::/0")
# What torch binds when it is not told a port; a host may have widened it.
EPHEMERAL = (32768, 60999)
TIME_PORT = (123, 123)
# iptables' multiport takes 15 ports; a range counts as two.
MOST_PORTS = 15
# More members than these are told to the firewall as the fewest networks that hold exactly them.
MOST_PEERS = 16


class Rule(NamedTuple):
    """One thing that is let in: ``ports`` (sorted pairs, both ends included) of ``protocol`` from the network ``source``."""

    protocol: str
    ports: Tuple[Tuple[int, int], ...]
    source: str

    @property
    def v6(self):
        """Whether it is about IPv6."""
        return ":" in self.source

    @property
    def text(self):
        """How people read it: ``allow tcp 22 from 192.0.2.0/24``."""
        return "allow {} {} from {}".format(self.protocol, ports_text(self.ports), self.source)


def ports_text(ports, dash="-"):
    """``22,29500-29999`` of pairs."""
    return ",".join(str(low) if low == high else "{}{}{}".format(low, dash, high) for low, high in ports)


def network(text):
    """The one way to write a network or an address: ``10.0.0.1``, ``10.0.0.0/24``, ``0.0.0.0/0``; raises ValueError."""
    found = ipaddress.ip_network(str(text), strict=False)
    return str(found.network_address) if found.prefixlen == found.max_prefixlen else str(found)


def holds(networks, source):
    """Whether one of ``networks`` holds all of ``source``."""
    inner = ipaddress.ip_network(source)
    return any(
        outer.version == inner.version and inner.network_address in outer and inner.prefixlen >= outer.prefixlen
        for outer in map(ipaddress.ip_network, networks)
    )


def fewest(networks):
    """The fewest networks that hold exactly what these hold."""
    four = ipaddress.collapse_addresses(ipaddress.IPv4Network(text) for text in networks if ":" not in text)
    six = ipaddress.collapse_addresses(ipaddress.IPv6Network(text) for text in networks if ":" in text)
    return [network(found) for part in (four, six) for found in part]


def merged(pairs):
    """Pairs of ports sorted, with those that touch or overlap made one."""
    found = []
    for low, high in sorted(pairs):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def within(ports, others):
    """Whether every port of the pairs ``ports`` is one of ``others``."""
    return all(any(low >= start and high <= end for start, end in merged(others)) for low, high in ports)


def meets(ports, others):
    """Whether the pairs have a port in common."""
    return any(low <= end and high >= start for low, high in ports for start, end in others)


# --------------------------------------------------------------------------------------------- checks of what a user gave


def check_networks(name, values):
    """Networks in CIDR notation, at least one, each written the one way.

    Raises:
        Refusal: with the variable's ``name``.
    """
    if isinstance(values, str) or not values:
        raise Refusal("{} is {!r}, expected a list of networks like [192.0.2.0/24]; correct it".format(name, values))
    found = []
    for value in values:
        try:
            found.append(network(value))
        except ValueError:
            raise Refusal("{} holds {!r}, expected a network like 192.0.2.0/24; correct it".format(name, value)) from None
    return found


def check_ports(name, value):
    """A port or a range of ports, ``6006`` or ``29500:29999``, as a pair.

    Raises:
        Refusal: with the variable's ``name``.
    """
    match = None if isinstance(value, bool) else re.fullmatch(r"(\d{1,5})(?:[:-](\d{1,5}))?", str(value).strip())
    low, high = (int(match.group(1)), int(match.group(2) or match.group(1))) if match else (0, 0)
    if not 1 <= low <= high <= 65535:
        raise Refusal(
            "{} holds {!r}, expected a port or a range of ports like 29500:29999 from 1 to 65535; correct it".format(name, value)
        )
    return low, high


def check_members(members):
    """``{name: [addresses]}`` with each address written the one way.

    Raises:
        Refusal: with the member's name.
    """
    found = {}
    for name, addresses in members.items():
        found[name] = []
        for value in [addresses] if isinstance(addresses, str) else addresses:
            try:
                address = ipaddress.ip_address(str(value))
            except ValueError:
                address = None
            if address is None or address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast:
                raise Refusal(
                    "the member {} has the address {!r}, expected an IP address under which the others reach it; set "
                    "muster_address in the inventory".format(name, value)
                )
            found[name].append(str(address))
    return found


def is_world(networks, v6):
    """Whether the networks of one family leave nobody out, in one piece or in several."""
    return any(one in WORLD and (":" in one) == v6 for one in fewest(networks))


def check(options):
    """The options of the module, clean.

    Args:
        options: ``members`` (``{name: [addresses]}``), ``keep_members_in``, ``admin_networks``, ``rendezvous_ports``,
            ``ephemeral_ports``, ``service_ports``, ``ssh_ports``, ``time_server``, ``rollback_seconds``.

    Raises:
        Refusal: one sentence without the host's name.
    """
    admin = check_networks("firewall_admin_networks", options["admin_networks"])
    services = [check_ports("firewall_service_ports", value) for value in options["service_ports"]]
    if services and (is_world(admin, False) or is_world(admin, True)):
        raise Refusal(
            "firewall_service_ports holds {} while firewall_admin_networks is the whole world, expected a restricted list, "
            "since whoever reaches such a service commands it; write your own networks into firewall_admin_networks".format(
                ports_text(merged(services))
            )
        )
    if not 5 <= options["rollback_seconds"] <= 3600:
        raise Refusal(
            "firewall_rollback_seconds is {}, expected a number from 5 to 3600; correct it".format(options["rollback_seconds"])
        )
    return {
        "members": check_members(options["members"]),
        "keep": [network(value) for value in options["keep_members_in"]],
        "admin": admin,
        "rendezvous": check_ports("firewall_rendezvous_ports", options["rendezvous_ports"]),
        "ephemeral": check_ports("firewall_ephemeral_ports", options["ephemeral_ports"]) if options["ephemeral_ports"] else None,
        "services": merged(services),
        "ssh": merged(check_ports("ssh_ports", value) for value in options["ssh_ports"]),
        "time_server": options["time_server"],
        "rollback_seconds": options["rollback_seconds"],
    }


# ------------------------------------------------------------------------------------------------------------ what follows


def job_ports(wish, ephemeral=EPHEMERAL):
    """The ports of jobs, which are for members alone; the arguments are those of :func:`desired`."""
    taken = wish["ephemeral"] or (min(ephemeral[0], EPHEMERAL[0]), max(ephemeral[1], EPHEMERAL[1]))
    return merged([wish["rendezvous"], taken])


def desired(wish, ephemeral=EPHEMERAL, own=(), v6=True):
    """The rules in the order in which they are to be set: SSH first.

    Args:
        wish: from :func:`check`.
        ephemeral: the host's ``net.ipv4.ip_local_port_range``, which counts where the wish names none.
        own: the host's own addresses, which need no rule.
        v6: whether the host speaks IPv6.
    """
    peers = list(dict.fromkeys(address for addresses in wish["members"].values() for address in addresses))
    if len(peers) > MOST_PEERS:
        peers = fewest(peers)
    peers = [peer for peer in peers if peer not in own]
    jobs = job_ports(wish, ephemeral)
    found = [Rule("tcp", wish["ssh"], source) for source in wish["admin"]]
    found += [Rule("tcp", wish["ssh"], peer) for peer in peers if not holds(wish["admin"], peer)]
    found += [Rule("tcp", jobs, peer) for peer in peers]
    if wish["time_server"]:
        found += [Rule("udp", (TIME_PORT,), peer) for peer in peers]
    if wish["services"]:
        found += [Rule("tcp", wish["services"], source) for source in wish["admin"]]
    unique = dict.fromkeys(Rule(rule.protocol, ports, rule.source) for rule in found for ports in _portions(rule.ports))
    return [rule for rule in unique if v6 or not rule.v6]


def _portions(ports):
    """The ports in portions that one rule can carry."""
    size = MOST_PORTS // 2
    return [ports[at : at + size] for at in range(0, len(ports), size)]


def split(rules):
    """The same rules with one range of ports each, for firewalls that take one at a time."""
    return list(dict.fromkeys(Rule(rule.protocol, (pair,), rule.source) for rule in rules for pair in rule.ports))


def open_families(wish):
    """Which of IPv4 and IPv6 (``False``, ``True``) leave SSH open to the whole world by the user's own word."""
    return [v6 for v6 in (False, True) if is_world(wish["admin"], v6)]


def covers(one, rule):
    """Whether the rule ``one`` lets in all that ``rule`` does, by a wider source."""
    return (one.protocol, one.ports) == (rule.protocol, rule.ports) and holds([one.source], rule.source)


def kept(rule, wish):
    """Whether a rule of a member is to stay because this run knows not all members' addresses in its network."""
    return rule.source not in WORLD and holds(wish["keep"], rule.source)
