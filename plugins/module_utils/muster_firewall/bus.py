"""firewalld asked over D-Bus by systemd's busctl: a call takes 10 ms, firewall-cmd takes half a second."""

import re

from . import host

SERVICE = "org.fedoraproject.FirewallD1"
ROOT = "/org/fedoraproject/FirewallD1"
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def words(text):
    """The words that busctl printed, quotes and escapes undone."""
    return [_unescape(quoted) if not bare else bare for quoted, bare in WORD.findall(text)]


def _unescape(text):
    def one(match):
        if match.group(1):
            return chr(int(match.group(1), 16))
        if match.group(2):
            return chr(int(match.group(2), 8))
        return ESCAPES.get(match.group(3), match.group(3))

    plain = re.sub(r"\\(?:x([0-9a-fA-F]{2})|([0-7]{3})|(.))", one, text)
    try:
        # Bytes above 127 come one by one.
        return plain.encode("latin-1").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return plain


def parse(text):
    """The values of an answer of ``busctl call``, such as ``a{sv} 1 "services" as 2 "ssh" "cockpit"``.

    Returns:
        a list of strings, bools, ints, lists, tuples and dictionaries; raises ValueError for what is no such answer.
    """
    left = words(text)
    if not left:
        return []
    signature, values = left.pop(0), []
    try:
        while signature:
            one, signature = _first(signature)
            values.append(_value(one, left))
    except IndexError:
        raise ValueError("the answer ends too early") from None
    return values


def _first(signature):
    """The first complete type of a signature, and the rest."""
    at = 0
    while signature[at] == "a":
        at += 1
    if signature[at] in "({":
        depth = 0
        while True:
            depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(signature[at], 0)
            at += 1
            if not depth:
                return signature[:at], signature[at:]
    return signature[: at + 1], signature[at + 1 :]


def _value(signature, left):
    if signature == "v":
        return _value(left.pop(0), left)
    if signature.startswith("a{"):
        key, value = _first(signature[2:-1])
        pairs = [(_value(key, left), _value(value, left)) for _ in range(int(left.pop(0)))]
        return dict(pairs)
    if signature[0] == "a":
        return [_value(signature[1:], left) for _ in range(int(left.pop(0)))]
    if signature[0] == "(":
        inner, values = signature[1:-1], []
        while inner:
            one, inner = _first(inner)
            values.append(_value(one, left))
        return tuple(values)
    word = left.pop(0)
    if signature == "b":
        return word == "true"
    return int(word) if signature in "ynqiuxt" else word


def argv(path, interface, method, *arguments):
    """The busctl command that calls a method of firewalld; ``arguments``: a signature and the words after it."""
    return ["busctl", "call", "--timeout=120", SERVICE, ROOT + path, SERVICE + interface, method, *arguments]


def call(path, interface, method, *arguments):
    """The first value of the answer; raises Refusal."""
    command = argv(path, interface, method, *arguments)
    values = parse(host.must(command, 130))
    return values[0] if values else None


def settings_words(settings):
    """The words after ``a{sv}`` of a dictionary of lists of strings and lists of pairs of strings."""
    found = [str(len(settings))]
    for name, values in settings.items():
        pairs = name == "ports"
        found += [name, "a(ss)" if pairs else "as", str(len(values))]
        for value in values:
            found += list(value) if pairs else [value]
    return found
