"""The members' host keys in a file of known hosts, such as /etc/ssh/ssh_known_hosts."""

import base64
import fnmatch
import hashlib
import hmac
import re

from . import lines


def merge(text, wish):
    """The known hosts with every member's keys pinned; our lines end in ``muster:NAME``.

    Args:
        text: of the file.
        wish: ``members`` is ``{name: {"address", "ports", "keys"}}``. ``keys`` are public keys (type and key); None where they
            are not known now, so that those of the file stay.

    Returns:
        ``(text, notes)``: a note for each line of others' that has another key for a member.
    """
    all_lines = lines.split(text)
    there = {}
    for line in all_lines:
        name = _owner(line)
        if name is not None:
            there.setdefault(name, []).append(" ".join(line.split()[1:3]))
    pinned = {}
    for name, member in wish["members"].items():
        known = there.get(name, []) if member.get("keys") is None else [_plain(key) for key in member["keys"]]
        pinned[name] = sorted(set(known))
    wanted = {
        name: ["{} {} {}{}".format(",".join(names(name, member)), key, lines.MARK, name) for key in pinned[name]]
        for name, member in wish["members"].items()
    }
    notes = _contradictions(all_lines, wish["members"], pinned)
    return lines.replaced(all_lines, _owner, wanted), notes


def names(name, member):
    """The words under which ssh looks a member up."""
    out = []
    for port in member["ports"]:
        for one in (name, member["address"]):
            word = one if port == 22 else "[{}]:{}".format(one, port)
            if word not in out:
                out.append(word)
    return out


def ports(text, name):
    """The ports of a member that the text knows by our lines; an empty list where it has none."""
    found = []
    for line in lines.split(text):
        if _owner(line) == name:
            for word in line.split()[0].split(","):
                other = re.fullmatch(r"\[.*\]:(\d+)", word)
                port = int(other.group(1)) if other else 22
                if port not in found:
                    found.append(port)
    return found


def matches(field, word):
    """Whether the first field of a line means the host that ssh looks up as ``word``, the way sshd(8) tells it."""
    if field.startswith("|"):
        try:
            _, version, salt, digest = field.split("|")
            salted = hmac.new(base64.b64decode(salt), word.lower().encode(), hashlib.sha1).digest()
            return version == "1" and hmac.compare_digest(salted, base64.b64decode(digest))
        except ValueError:
            return False
    found = False
    for pattern in field.lower().split(","):
        # ssh knows * and ? only; brackets stand around a name with a port.
        if fnmatch.fnmatchcase(word.lower(), pattern.lstrip("!").replace("[", "[[]")):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def _plain(key):
    """A public key without its comment."""
    return " ".join(key.split()[:2])


def _owner(line):
    words = line.split()
    if len(words) < 4 or words[0][0] in "#@":
        return None
    return lines.owner(words[-1])


def _contradictions(all_lines, members, pinned):
    notes = []
    keys = {}
    for name, known in pinned.items():
        for key in known:
            kind, blob = key.split()
            keys[name, kind] = blob
    for number, line in enumerate(all_lines, 1):
        words = line.split()
        if len(words) < 3 or words[0][0] in "#@" or _owner(line) is not None:
            continue
        for name, member in members.items():
            mine = keys.get((name, words[1]))
            if mine not in (None, words[2]) and any(matches(words[0], word) for word in names(name, member)):
                notes.append(
                    "line {} has another {} key for {} than the host itself has; remove that line".format(number, words[1], name)
                )
    return notes
