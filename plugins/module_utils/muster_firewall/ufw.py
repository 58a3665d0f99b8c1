"""ufw: its rules read from the ``### tuple ###`` lines of its own files, and the plan as commands of ``ufw``."""

import re
import shlex
from typing import NamedTuple, Tuple

from ..muster_agent.errors import Refusal
from . import host
from .plan import Plan, Step, status_lines, wanted_lines
from .rules import WORLD, Rule, covers, kept, meets, network, open_families, ports_text, within

NAME = "ufw"
UNIT = "ufw.service"
RULES = "/etc/ufw/user.rules"
RULES6 = "/etc/ufw/user6.rules"
SETTINGS = ("/etc/ufw/ufw.conf", "/etc/default/ufw")
# `ufw default` rewrites the texts of the last two in what is logged.
FILES = (RULES, RULES6, *SETTINGS, "/etc/ufw/after.rules", "/etc/ufw/after6.rules")
COMMENT = "muster"
LETS_IN = ("allow", "limit")


class Found(NamedTuple):
    """A rule as ufw keeps it; ``action`` may be ``allow``, ``limit_log``, ``route:deny`` ...; no ``ports`` means any."""

    action: str
    protocol: str
    ports: Tuple[Tuple[int, int], ...]
    destination: str
    source_port: str
    source: str
    app: str
    source_app: str
    direction: str
    comment: str

    @property
    def own(self):
        """Whether Muster made it."""
        return self.comment.split(" ")[0] == COMMENT

    @property
    def plain(self):
        """Whether it says no more than a Rule does."""
        rest = (self.destination in WORLD, self.source_port == "any", self.app == "-", self.source_app == "-")
        return all(rest) and self.direction == "in" and self.protocol in ("tcp", "udp") and bool(self.ports)

    @property
    def rule(self):
        """The same as a Rule."""
        return Rule(self.protocol, self.ports, self.source)

    @property
    def clause(self):
        """The words after ``allow`` that name it to ``ufw``."""
        words = [] if self.protocol == "any" or self.app != "-" else ["proto", self.protocol]
        words += ["from", self.source, "to", "any" if self.destination in WORLD else self.destination]
        if self.app != "-":
            return words + ["app", self.app]
        return words + (["port", ports_text(self.ports, ":")] if self.ports else [])


def parse_rules(text):
    """``[Found]`` of a user.rules or user6.rules; lines that are no rule of ufw's, or none that it would read, are left out."""
    found = []
    for line in text.splitlines():
        if line.startswith("### tuple ###"):
            words, _, code = line[len("### tuple ###") :].partition(" comment=")
            made = parse_tuple(words.split(), code.strip())
            if made:
                found.append(made)
    return found


def parse_tuple(words, code=""):
    """One rule of the words after the mark and the comment in hexadecimal; None where ufw would not read it either."""
    if not 6 <= len(words) <= 9:
        return None
    direction = words[-1] if len(words) in (7, 9) else "in"
    app, source_app = (words[6].replace("%20", " "), words[7].replace("%20", " ")) if len(words) > 7 else ("-", "-")
    try:
        comment = bytes.fromhex(code).decode("utf-8", "replace")
        ports = () if words[2] == "any" else parse_ports(words[2])
        return Found(
            words[0], words[1], ports, network(words[3]), words[4], network(words[5]), app, source_app, direction, comment
        )  # fmt: skip
    except ValueError:
        return None


def parse_ports(text):
    """``22,29500:29999`` as sorted pairs."""
    pairs = [[int(number) for number in word.split(":")] for word in text.split(",")]
    return tuple(sorted((pair[0], pair[-1]) for pair in pairs))


def parse_settings(text):
    """``{name: value}`` of a file in the shell's way, such as /etc/default/ufw."""
    found = re.findall(r"^\s*([A-Z][A-Z0-9_]*)=[\"']?([^\"'#\n]*?)[\"']?\s*(?:#.*)?$", text, re.MULTILINE)
    return dict(found)


def parse_live(text, v6):
    """What is in force, of the output of ``iptables -S``: ``{"loaded", "denies", "sources"}``.

    ``loaded``: ufw's own chain is there; ``denies``: the chain is asked and what it does not take is dropped; ``sources``:
    the networks that it names.
    """
    user, before = ("ufw6-user-input", "ufw6-before-input") if v6 else ("ufw-user-input", "ufw-before-input")
    lines = text.splitlines()
    sources = set()
    for line in lines:
        match = re.match(r"-A {} .*?-s (\S+)".format(user), line)
        if match:
            sources.add(network(match.group(1)))
    asked = {"-A INPUT -j " + before, "-A {} -j {}".format(before, user)} <= set(lines)
    return {"loaded": "-N " + user in lines, "denies": asked and "-P INPUT DROP" in lines, "sources": sources}


def read():
    """How this host's ufw stands, for :func:`plan`; raises Refusal where the kernel has no packet filter."""
    if not host.which("ufw"):
        return {"installed": False, "active": False, "boot": False, "policy": "", "v6": True, "rules": [], "policies": []}
    texts = {path: host.read(path) for path in (RULES, RULES6, *SETTINGS)}
    settings = parse_settings(texts[SETTINGS[1]])
    settings.update(parse_settings(texts[SETTINGS[0]]))
    v6 = settings.get("IPV6", "no").lower() == "yes"
    rules = parse_rules(texts[RULES]) + (parse_rules(texts[RULES6]) if v6 else [])
    active, loaded, policies = True, False, []
    for six, command in ((False, "iptables"), (True, "ip6tables")):
        if six and not (v6 and host.speaks_v6()):
            continue
        text = host.must([command, "-S"])
        live = parse_live(text, six)
        policies += [[command] + line.split() for line in text.splitlines() if line.startswith("-P ")]
        named = {rule.source for rule in rules if rule.own and rule.source not in WORLD and (":" in rule.source) == six}
        loaded = loaded or live["loaded"]
        active = active and live["denies"] and named <= live["sources"]
    enabled = settings.get("ENABLED", "no").lower() == "yes"
    return {
        "installed": True,
        "enabled": enabled,
        "active": enabled and active,
        "loaded": loaded,
        "boot": enabled and host.unit(UNIT)["enabled"],
        "policy": settings.get("DEFAULT_INPUT_POLICY", "").upper(),
        "v6": v6,
        "rules": rules,
        "policies": policies,
    }


def against(rules, wish):
    """Rules, not Muster's, that let the whole world in to SSH although the user has restricted it.

    Raises:
        Refusal: one of them lets it in to more than SSH, so that it cannot simply go.
    """
    found, free = [], open_families(wish)
    for rule in rules:
        action = rule.action.split("_")[0]
        if rule.own or action not in LETS_IN or rule.source not in WORLD or (":" in rule.source) in free:
            continue
        if rule.direction != "in" or rule.source_port != "any" or rule.protocol not in ("tcp", "any"):
            continue
        if rule.ports and not meets(rule.ports, wish["ssh"]):
            continue
        if not rule.ports or not within(rule.ports, wish["ssh"]):
            raise Refusal(
                "found ufw's rule `{} {}`, which opens SSH and more to the whole world, expected SSH from "
                "firewall_admin_networks alone; delete it with `ufw delete {} {}` and open the rest anew".format(
                    rule.action, " ".join(rule.clause), rule.action, " ".join(rule.clause)
                )
            )
        found.append(rule)
    return found


def exposing(state, jobs, wish):
    """Rules, not Muster's, that let the whole world in to ports of jobs; those of SSH alone are left to :func:`against`.

    Args:
        state: from :func:`read`.
        jobs: from ``rules.job_ports``.
        wish: from ``rules.check``.

    Returns:
        ``[(rule, how to remove it)]``, both for people.
    """
    found = []
    for rule in state["rules"]:
        if rule.own or rule.action.split("_")[0] not in LETS_IN or rule.source not in WORLD:
            continue
        if rule.direction != "in" or rule.source_port != "any" or rule.protocol not in ("tcp", "any"):
            continue
        if not rule.ports or meets(rule.ports, jobs) and not within(rule.ports, wish["ssh"]):
            words = removing(rule)
            told = [" ".join(map(shlex.quote, part)) for part in (words[1:], ["ufw"] + words)]
            found.append(("rule `{}`".format(told[0]), "`{}`".format(told[1])))
    return found


def plan(state, wanted, wish):
    """The plan: what is wanted, less what is there.

    Args:
        state: from :func:`read`.
        wanted: rules in their order.
        wish: from ``rules.check``.

    Raises:
        Refusal: one sentence without the host's name.
    """
    if not state["v6"]:
        named = [name for name, addresses in wish["members"].items() if any(":" in address for address in addresses)]
        if named:
            raise Refusal(
                "found IPV6=no in /etc/default/ufw while the member {} has an IPv6 address, expected IPV6=yes; set it there, "
                "or give the member an IPv4 address by muster_address".format(named[0])
            )
        wanted = [rule for rule in wanted if not rule.v6]
    found = state["rules"]
    there = {}
    for rule in found:
        if rule.plain:
            there.setdefault(rule.rule, rule)
    for rule in wanted:
        other = there.get(rule)
        if other and other.action.split("_")[0] not in LETS_IN:
            raise Refusal(
                "found ufw's rule `{} {}`, expected no rule that shuts out what Muster has to let in; delete it with "
                "`ufw delete {} {}`".format(other.action, " ".join(other.clause), other.action, " ".join(other.clause))
            )
    own = [rule for rule in found if rule.own]
    stay = [rule.rule for rule in own if rule.plain and rule.rule not in wanted and kept(rule.rule, wish)]
    add = [rule for rule in wanted if rule not in there and not any(covers(one, rule) for one in stay)]
    stale = [rule for rule in own if not (rule.plain and (rule.rule in wanted or rule.rule in stay))]
    wrong = against(found, wish)

    steps = [Step(["ufw"] + adding(rule, wish)) for rule in add]
    steps += [Step(["ufw"] + removing(rule)) for rule in stale + wrong]
    denies = state["policy"] in ("DROP", "REJECT")
    if not denies:
        steps.append(Step(["ufw", "default", "deny", "incoming"]))
    if not state["active"]:
        again = state.get("enabled") and state.get("loaded")
        steps.append(Step(["ufw", "reload"] if again else ["ufw", "--force", "enable"]))
    if not state["boot"]:
        steps.append(Step(["systemctl", "enable", UNIT]))
    before = [rule.text for rule in wanted if rule in there] + [rule.text for rule in stay]
    before += [rule.rule.text if rule.plain else "{} {}".format(rule.action, " ".join(rule.clause)) for rule in stale]
    before += ["{} {} (not Muster's)".format(rule.action, " ".join(rule.clause)) for rule in wrong]
    after = [rule.text for rule in wanted if rule in there or rule in add] + [rule.text for rule in stay]
    return Plan(steps, status_lines(NAME, state, denies) + before, wanted_lines(NAME) + after)


def adding(rule, wish):
    """Words after ``ufw`` that set a rule."""
    if rule.protocol == "udp":
        kind = "time"
    elif rule.ports == wish["ssh"]:
        kind = "ssh"
    else:
        kind = "service" if within(rule.ports, wish["services"]) else "peers"
    words = ["allow", "proto", rule.protocol, "from", rule.source, "to", "any", "port", ports_text(rule.ports, ":")]
    return words + ["comment", "{} {}".format(COMMENT, kind)]


def removing(rule):
    """Words after ``ufw`` that remove a rule, and no other: with the family, and with log where it logs."""
    action, _, log = rule.action.partition("_")
    return ["delete", action] + ([log] if log else []) + rule.clause


def guard_lists(state, _steps):
    """Commands that put ufw back as it was, around the return of its files; see ``guard.arm``."""
    before, after = [], []
    if state["active"]:
        after.append(["ufw", "reload"])
    else:
        # Stopping ufw leaves every door open; what stood there before it came back in.
        before.append(["ufw", "--force", "disable"])
        after += state["policies"]
    if not host.unit(UNIT)["enabled"]:
        after.append(["systemctl", "disable", UNIT])
    lists = {"before": before, "after": after, "fallback": [["ufw", "--force", "disable"]]}
    return {"live": lists, "booted": lists}


def guard_files(_state):
    """Files that a change may touch."""
    return list(FILES)
