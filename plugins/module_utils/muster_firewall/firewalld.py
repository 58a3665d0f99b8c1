"""firewalld: zones as its D-Bus tells them, and the plan; changed at once and for good, without a reload.

A reload would drop what an administrator has set until the next start.
"""

import glob
import os
import re
import shlex

from ..muster_agent.errors import Refusal
from ..muster_agent.network import interface_of
from . import bus, host
from .plan import Plan, Step, status_lines, wanted_lines
from .rich import PRIORITY, parse_rich, rich
from .rules import check_ports, covers, kept, meets, open_families, split, within

NAME = "firewalld"
UNIT = "firewalld.service"
FOLDER = "/etc/firewalld"
FOLDERS = (FOLDER, "/usr/lib/firewalld")
EMPTY = {"target": "default", "services": [], "ports": [], "rules": []}


def parse_listing(text):
    """A zone's settings out of ``firewall-offline-cmd --list-all``."""
    fields, rules = {}, []
    for line in text.splitlines():
        match = re.match(r"  ([a-z -]+): ?(.*)$", line)
        if match:
            fields[match.group(1)] = match.group(2).strip()
        elif line.strip().startswith("rule "):
            rules.append(line.strip())
    ports = [tuple(word.split("/", 1)) for word in fields.get("ports", "").split() if "/" in word]
    return {
        "target": fields.get("target", "default"),
        "services": fields.get("services", "").split(),
        "ports": ports,
        "rules": rules,
    }


def settings(answer):
    """A zone's settings out of D-Bus's dictionary, which leaves out what is empty."""
    return {
        "target": answer.get("target", "default"),
        "services": answer.get("services", []),
        "ports": answer.get("ports", []),
        "rules": answer.get("rules_str", []),
    }


def parse_service(text):
    """``(ports, services that it takes in)`` of a service's XML file; ports as ``(pair, protocol)``."""
    ports = []
    for tag in re.findall(r"<port\s([^>]*)>", text):
        values = dict(re.findall(r"([\w-]+)\s*=\s*[\"']([^\"']*)[\"']", tag))
        if values.get("port"):
            ports.append((check_ports("port", values["port"]), values.get("protocol", "tcp")))
    return ports, re.findall(r"<include\s+service\s*=\s*[\"']([^\"']+)[\"']", text)


def service_ports(name, depth=4):
    """The ports of a service of this host, those of the services that it takes in too."""
    for folder in FOLDERS:
        path = os.path.join(folder, "services", name + ".xml")
        if os.path.exists(path):
            ports, others = parse_service(host.read(path))
            return ports + [pair for other in others if depth for pair in service_ports(other, depth - 1)]
    return []


def read(interfaces):
    """How this host's firewalld stands, for :func:`plan`.

    Args:
        interfaces: those through which the members and the controller come.

    Raises:
        Refusal: firewalld gives no answer.
    """
    if not host.which("firewall-cmd"):
        return {"installed": False, "active": False, "boot": False, "zones": {}, "services": {}}
    unit = host.unit(UNIT)
    zones = {}
    wanted = _zones(interfaces, unit["active"])
    for name in wanted + [zone for zone in _marked() if zone not in wanted]:
        zones[name] = _zone(name, unit["active"])
        zones[name]["wanted"] = name in wanted
    services = {service for zone in zones.values() for part in (zone["live"], zone["saved"]) for service in part["services"]}
    return {
        "installed": True,
        "active": unit["active"],
        "boot": unit["enabled"],
        "zones": zones,
        "services": {service: service_ports(service) for service in services},
    }


def interfaces_of(members, connection, pairs):
    """Interfaces through which members and controller come; none where the addresses are not on the host itself.

    Args:
        members: addresses of all members, among them this host's own.
        connection: of ``host.connection``.
        pairs: ``[(interface, address)]`` of the host.
    """
    found = [interface_of(address, pairs) for address in members]
    if connection:
        found.append(interface_of(connection[2], pairs))
    return [name for name in dict.fromkeys(found) if name and name != "lo"]


def _zones(interfaces, active):
    """The zones of the interfaces in their order; the default zone holds those that are in none."""
    found = []
    for interface in interfaces or [""]:
        zone = ""
        if active:
            if interface:
                zone = bus.call("", ".zone", "getZoneOfInterface", "s", interface)
            zone = zone or bus.call("", "", "getDefaultZone")
        else:
            if interface:
                _, out, _ = host.run(["firewall-offline-cmd", "--get-zone-of-interface=" + interface])
                zone = out.strip()
            zone = zone or host.must(["firewall-offline-cmd", "--get-default-zone"]).strip()
        if zone not in found:
            found.append(zone)
    return found


def _marked():
    """Zones whose files hold rules of Muster's."""
    mark = 'priority="{}"'.format(PRIORITY)
    paths = sorted(glob.glob(os.path.join(FOLDER, "zones", "*.xml")))
    return [os.path.basename(path)[: -len(".xml")] for path in paths if mark in host.read(path)]


def _zone(name, active):
    if not active:
        saved = parse_listing(host.must(["firewall-offline-cmd", "--zone=" + name, "--list-all"]))
        return {"path": "", "live": EMPTY, "saved": saved}
    path = bus.call("/config", ".config", "getZoneByName", "s", name)[len(bus.ROOT) :]
    live = settings(bus.call("", ".zone", "getZoneSettings2", "s", name))
    return {"path": path, "live": live, "saved": settings(bus.call(path, ".config.zone", "getSettings2"))}


# -------------------------------------------------------------------------------------------------------------- the plan


def _open(services, part, wish):
    """What in a zone lets the whole world in to SSH: ``{"services", "ports", "rules"}``; raises Refusal where it is more."""
    ports = wish["ssh"]

    def only_ssh(what, pairs):
        if not within(pairs, ports):
            raise Refusal(
                "found firewalld's {}, which opens SSH and more to the whole world, expected SSH from firewall_admin_networks "
                "alone; remove it and open the rest anew".format(what)
            )
        return True

    found = {"services": [], "ports": [], "rules": []}
    for name in part["services"]:
        pairs = [pair for pair, protocol in services.get(name, []) if protocol == "tcp"]
        if meets(pairs, ports) and only_ssh("service " + name, pairs):
            found["services"].append(name)
    for port, protocol in part["ports"]:
        pair = check_ports("port", port)
        if protocol == "tcp" and meets([pair], ports) and only_ssh("port {}/{}".format(port, protocol), [pair]):
            found["ports"].append((port, protocol))
    for text in part["rules"]:
        told = parse_rich(text)
        if told.own or not told.accepts or not told.world:
            continue
        pairs = [pair for pair, protocol in services.get(told.service, []) if protocol == "tcp"]
        if told.rule and told.rule.protocol == "tcp":
            pairs = list(told.rule.ports)
        if meets(pairs, ports) and only_ssh("rule '{}'".format(text), pairs):
            found["rules"].append(text)
    return found


def exposing(state, jobs, wish):
    """What others have put into the cluster's zones, now or for good, that lets the whole world in to ports of jobs.

    Args:
        state: from :func:`read`.
        jobs: from ``rules.job_ports``.
        wish: from ``rules.check``.

    Returns:
        ``[(what, how to remove it)]``, both for people.
    """
    found = {}
    for name, zone in state["zones"].items():
        for part in (zone["live"], zone["saved"]) if zone["wanted"] else ():
            for what, option, pairs in _let_in(part, state["services"]):
                if meets(pairs, jobs) and not within(pairs, wish["ssh"]):
                    command = "firewall-cmd --zone={} {}".format(name, shlex.quote(option))
                    found["{} in zone {}".format(what, name)] = "`{}`, and again with --permanent".format(command)
    return list(found.items())


def _let_in(part, services):
    """``[(what, the option that removes it, its ports of TCP)]`` of all that is not Muster's and lets the whole world in."""
    found = []
    for name in part["services"]:
        pairs = [pair for pair, protocol in services.get(name, []) if protocol == "tcp"]
        found.append(("service " + name, "--remove-service=" + name, pairs))
    for port, protocol in part["ports"]:
        # One by name, as http/tcp, is none of the jobs'.
        if protocol == "tcp" and port.replace("-", "").isdigit():
            told = "port={}/{}".format(port, protocol)
            found.append((told.replace("=", " "), "--remove-" + told, [check_ports("port", port)]))
    for text in part["rules"]:
        told = parse_rich(text)
        if told.own or not told.accepts or not told.world:
            continue
        if told.rule:
            pairs = list(told.rule.ports) if told.rule.protocol == "tcp" else []
        elif told.service:
            pairs = [pair for pair, protocol in services.get(told.service, []) if protocol == "tcp"]
        else:
            pairs = [(1, 65535)]
        found.append(("rule '{}'".format(text), "--remove-rich-rule=" + text, pairs))
    return found


def _difference(part, wanted, wish, services, restricted):
    """What one part of a zone, the live or the saved, lacks and has too much."""
    own = {text: parse_rich(text) for text in part["rules"] if parse_rich(text).own}
    there = {told.rule: text for text, told in own.items() if told.rule and told.accepts}
    stay = [rule for rule in there if rule not in wanted and kept(rule, wish)]
    add = [rule for rule in wanted if rule not in there and not any(covers(one, rule) for one in stay)]
    stale = [text for text, told in own.items() if text != there.get(told.rule) or told.rule not in wanted + stay]
    wrong = _open(services, part, wish) if restricted else {"services": [], "ports": [], "rules": []}
    return {"add": add, "stale": stale, "stay": stay, "wrong": wrong}


def _removals(difference, offline=False):
    """Options of firewall-cmd that remove, and those that undo them."""
    wrong = difference["wrong"]
    found = ["--{}-rich-rule=" + text for text in difference["stale"] + wrong["rules"]]
    service = "--{}-service-from-zone=" if offline else "--{}-service="
    found += [service + name for name in wrong["services"]]
    return found + ["--{}-port={}/{}".format("{}", port, protocol) for port, protocol in wrong["ports"]]


def _command(program, zone, verb, options):
    """Steps of one kind of option each, since firewall-cmd takes many of one kind and few together."""
    steps = []
    for kind in dict.fromkeys(option.split("=")[0] for option in options):
        mine = [option for option in options if option.split("=")[0] == kind]
        argv, undo = (
            [program, "--zone=" + zone] + [option.replace("{}", word, 1) for option in mine] for word in (verb, _OTHER[verb])
        )
        steps.append(Step(argv, undo if program == "firewall-cmd" else None, len(mine)))
    return steps


_OTHER = {"add": "remove", "remove": "add"}


def _update(zone, difference):
    """The step that saves a running firewalld's zone for good, all at once: by single rules it takes a second for ten."""
    saved, wrong, changed, names = zone["saved"], difference["wrong"], {}, {"rules_str": "rules"}
    gone = set(difference["stale"] + wrong["rules"])
    if gone or difference["add"]:
        changed["rules_str"] = [text for text in saved["rules"] if text not in gone] + [rich(rule) for rule in difference["add"]]
    if wrong["services"]:
        changed["services"] = [name for name in saved["services"] if name not in wrong["services"]]
    if wrong["ports"]:
        changed["ports"] = [port for port in saved["ports"] if port not in wrong["ports"]]
    if not changed:
        return []
    # firewalld looks at files that have changed only seconds later, so the file that comes back is not enough.
    before = {name: saved[names.get(name, name)] for name in changed}
    argv, undo = (
        bus.argv(zone["path"], ".config.zone", "update2", "a{sv}", *bus.settings_words(values)) for values in (changed, before)
    )
    return [Step(argv, undo, 20)]


def _lines(name, live, saved, active):
    """Lines for people of texts that hold now and of those that hold from the next start on."""
    found = []
    for text in dict.fromkeys(live + saved):
        note = ""
        if active and text not in live:
            note = " (from the next start on)"
        elif active and text not in saved:
            note = " (until the next start)"
        found.append("zone {}: {}{}".format(name, text, note))
    return found


def _texts(part, difference, wanted):
    """What of a part is Muster's or is to go, as texts."""
    missing = set(difference["add"])
    found = [rule.text for rule in wanted if rule not in missing] + [rule.text for rule in difference["stay"]]
    for text in sorted(difference["stale"]):
        rule = parse_rich(text).rule
        found.append(rule.text if rule else text)
    wrong = difference["wrong"]
    found += ["service {} (not Muster's)".format(name) for name in wrong["services"]]
    found += ["port {}/{} (not Muster's)".format(*port) for port in wrong["ports"]]
    return found + ["{} (not Muster's)".format(text) for text in wrong["rules"]]


def plan(state, wanted, wish):
    """The plan: what is wanted, less what is there, now and for good.

    Args:
        state: from :func:`read`.
        wanted: rules in their order.
        wish: from ``rules.check``.

    Raises:
        Refusal: one sentence without the host's name.
    """
    active, wanted = state["active"], split(wanted)
    restricted = len(open_families(wish)) < 2
    program = "firewall-cmd" if active else "firewall-offline-cmd"
    adds, removals, saves, before, after = [], [], [], [], []
    for name, zone in state["zones"].items():
        mine = wanted if zone["wanted"] else []
        if zone["wanted"] and "ACCEPT" in (zone["saved"]["target"], zone["live"]["target"]):
            raise Refusal(
                "found the cluster's interface in firewalld's zone {}, which lets everything in, expected one that denies by "
                "default; move it, as with `firewall-cmd --permanent --zone=public --change-interface=...`".format(name)
            )
        saved = _difference(zone["saved"], mine, wish, state["services"], restricted and zone["wanted"])
        live = _difference(zone["live"], mine, wish, state["services"], restricted and zone["wanted"]) if active else saved
        adds += _command(program, name, "add", ["--{}-rich-rule=" + rich(rule) for rule in live["add"]])
        removals += _command(program, name, "remove", _removals(live, not active))
        saves += _update(zone, saved) if active else []
        part = zone["live"] if active else zone["saved"]
        before += _lines(name, _texts(part, live, mine), _texts(zone["saved"], saved, mine), active)
        after += ["zone {}: {}".format(name, rule.text) for rule in mine + [one for one in saved["stay"] if one not in mine]]
    if not state["zones"]:
        after += [rule.text for rule in wanted]
    steps = adds + saves + removals
    if not state["boot"]:
        steps.append(Step(["systemctl", "enable", UNIT]))
    if not active:
        steps.append(Step(["systemctl", "start", UNIT]))
    return Plan(steps, status_lines(NAME, state, True) + before, wanted_lines(NAME) + after)


def guard_lists(state, steps):
    """Commands that put firewalld back as it was, around the return of its files; see ``guard.arm``."""
    fallback = [["firewall-cmd", "--reload"], ["systemctl", "stop", UNIT]]
    after = [] if state["boot"] else [["systemctl", "disable", UNIT]]
    if not state["active"]:
        stop = {"before": [["systemctl", "stop", UNIT]], "after": after, "fallback": fallback}
        return {"live": stop, "booted": stop}
    undo = [step.undo for step in reversed(steps) if step.undo]
    return {
        "live": {"before": undo, "after": after, "fallback": fallback},
        "booted": {"before": [], "after": [["firewall-cmd", "--reload"]] + after, "fallback": fallback},
    }


def guard_files(state):
    """Files that a change may touch."""
    return [os.path.join(FOLDER, "zones", zone + end) for zone in state["zones"] for end in (".xml", ".xml.old")]
