"""The members' names in the hosts file."""

import ipaddress
import re

from . import lines

BEGIN = "# BEGIN muster: the members of the cluster, written anew by Ansible"
END = "# END muster"
# Names of the loopback addresses themselves, which no member may lose.
LOCAL = re.compile(r"localhost[46]?(\.localdomain[46]?)?|ip6-localhost|ip6-loopback")


def merge(text, wish):
    """The hosts file with one block that holds every member.

    A name of a member goes from lines of others' that give it another address, since the first match wins, or all of them.
    This host's own names go from loopback lines to its line of the block; a line without names goes.

    Args:
        text: of the file.
        wish: ``members`` is ``{name: {"address"}}`` with IP addresses; ``own`` is this host's name among them, empty where it
            is none; ``hostname`` is the name that the host has itself.

    Returns:
        ``(text, notes)``; there are no notes.
    """
    hosts = _Hosts(wish)
    foreign, at, before = _without_block(lines.split(text))
    kept = [hosts.cleaned(line) for line in foreign]
    block = [BEGIN] + hosts.block(before) + [END]
    head, tail = "".join(kept[:at]), "".join(kept[at:])
    if head and not head.endswith("\n"):
        head += "\n"
    return head + "".join(line + "\n" for line in block) + tail, []


def parsed(line):
    """``(address, [(name, start, end)])`` of a line, with the places of the names; None where it defines nothing."""
    words = [(found.group(), found.start(), found.end()) for found in re.finditer(r"\S+", line.split("#", 1)[0])]
    if len(words) < 2:
        return None
    try:
        return ipaddress.ip_address(words[0][0]), words[1:]
    except ValueError:
        return None


def _without_block(all_lines):
    """``(lines of others', place of the block among them, lines of the block)``; a mark without its other half is dropped."""
    foreign, before, begun, inside, at = [], [], [], False, None
    for line in all_lines:
        if line.strip() == BEGIN:
            foreign += begun  # whatever stood below a mark without its other half
            begun, inside = [], True
            at = len(foreign) if at is None else at
        elif line.strip() == END:
            before += begun
            begun, inside = [], False
        else:
            (begun if inside else foreign).append(line)
    foreign += begun
    return foreign, len(foreign) if at is None else at, before


class _Hosts:
    """One merge: what is wanted, and what the lines of others' told."""

    def __init__(self, wish):
        self.members = {name: ipaddress.ip_address(member["address"]) for name, member in wish["members"].items()}
        self.addresses = {name.lower(): address for name, address in self.members.items()}
        self.own = wish["own"] if wish.get("own") in self.members else ""
        # A host without a name calls itself localhost.
        self.hostname = "" if LOCAL.fullmatch((wish.get("hostname") or "").lower()) else wish.get("hostname") or ""
        self.labels = {name.lower().split(".")[0] for name in (self.own, self.hostname) if name and not _is_address(name)}
        self.moved, self.elsewhere = [], set()

    def is_own(self, name):
        """Whether a name is this host's: what it is called here or there, with any domain."""
        return name.lower().split(".")[0] in self.labels

    def cleaned(self, line):
        """A line of others' without the names that are at odds with the members' addresses; empty where none is left."""
        found = parsed(line)
        if found is None:
            return line
        address, names = found
        stays = [self._stays(address, name) for name, _, _ in names]
        pairs = list(zip(names, stays))
        self.moved += [name for (name, _, _), stay in pairs if not stay and name.lower() not in self.addresses]
        if not any(stays):
            return ""
        for at, ((_, start, end), stay) in reversed(list(enumerate(pairs))):
            if not stay and any(stays[at + 1 :]):
                line = line[:start] + line[names[at + 1][1] :]
            elif not stay:
                line = line[: len(line[:start].rstrip())] + line[end:]
        return line

    def _stays(self, address, name):
        low = name.lower()
        if LOCAL.fullmatch(low):
            return True
        if low in self.addresses:
            return address == self.addresses[low]
        if self.own and self.is_own(low):
            if address.is_loopback and address != self.members[self.own]:
                return False
            self.elsewhere.add(low)
        return True

    def block(self, before):
        """The lines between the marks; ``before`` are those that stand there now."""
        out = []
        for name, address in self.members.items():
            names = self._own_names(before) if name == self.own else [name]
            names = [one for one in names if not _is_address(one)]
            if names:
                out.append("{} {}".format(address, " ".join(names)))
        return out

    def _own_names(self, before):
        """Full names first, as far as they are known, since the first name of a line is what `hostname -f` says."""
        known = list(self.moved)
        for line in before:
            names = [name for name, _, _ in (parsed(line) or (None, []))[1]]
            if self.own.lower() in (name.lower() for name in names):
                known += names
        full = [name for name in known if "." in name and self.is_own(name)]
        out, seen = [], set(self.elsewhere)
        seen.update(name for name in self.addresses if name != self.own.lower())
        for name in full + [self.hostname, self.own]:
            if name and name.lower() not in seen:
                seen.add(name.lower())
                out.append(name)
        return out


def _is_address(name):
    try:
        ipaddress.ip_address(name)
        return True
    except ValueError:
        return False
