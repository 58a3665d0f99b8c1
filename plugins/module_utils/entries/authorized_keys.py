"""The members' keys among those that open an account, ~/.ssh/authorized_keys."""

import re

from . import lines

# A shell and a terminal, nothing of what else a login may bring; sshd(8), AUTHORIZED_KEYS FILE FORMAT.
OPTIONS = "restrict,pty"
KEY = re.compile(r"((?:sk-)?(?:ssh|ecdsa)-\S+)[ \t]+(\S+)(.*)", re.S)
# The options end at the first blank outside of quotes, where a quote may be escaped.
FIRST = re.compile(r'((?:"(?:\\"|[^"])*"|[^\s"])+)[ \t]+', re.S)


def merge(text, wish):
    """The file with every holder's key, each good from its own addresses only; our lines end in ``muster:NAME``.

    Args:
        text: of the file.
        wish: ``members`` is ``{name: {"keys", "from"}}`` of the hosts that hold a key. ``keys`` are public keys; None where
            they are not known now, so that those of the file stay.

    Returns:
        ``(text, notes)``: a note for each line of others' that lets one of these keys in from anywhere.
    """
    all_lines = lines.split(text)
    found = [parsed(line) for line in all_lines]
    wanted, ours = {}, {}
    for name, member in wish["members"].items():
        if member.get("keys") is None:
            keys = [one["key"] for one in found if one and one["owner"] == name]
        else:
            keys = [" ".join(key.split()[:2]) for key in member["keys"]]
        keys = sorted(set(keys))
        ours.update((key, name) for key in keys)
        origin = ",".join(member["from"])
        wanted[name] = ['from="{}",{} {} {}{}'.format(origin, OPTIONS, key, lines.MARK, name) for key in keys]
    notes = []
    for number, one in enumerate(found, 1):
        if one and one["owner"] is None and one["key"] in ours and not re.search(r'(^|,)from="', one["options"], re.I):
            notes.append(
                "line {} lets the key of {} in from any address, expected its own; remove that line".format(
                    number, ours[one["key"]]
                )
            )
    return lines.replaced(all_lines, _owner, wanted), notes


def parsed(line):
    """``{"options", "key", "comment", "owner"}`` of a line, with ``key`` as type and key; None where it holds no key."""
    body, options = line.strip(), ""
    first = None if body.startswith("#") or KEY.fullmatch(body) else FIRST.match(body)
    if first:
        options, body = first.group(1), body[first.end() :]
    key = KEY.fullmatch(body)
    if key is None:
        return None
    comment = key.group(3).strip()
    return {
        "options": options,
        "key": "{} {}".format(key.group(1), key.group(2)),
        "comment": comment,
        "owner": lines.owner(comment),
    }


def _owner(line):
    found = parsed(line)
    return found["owner"] if found else None
