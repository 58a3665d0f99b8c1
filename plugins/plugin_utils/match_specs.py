"""Conda's way to write a package into what its solver takes, a MatchSpec; pure."""

import re

EXPECTED = "a package such as numpy>=1.26,<2"
NAME = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*)\s*(.*)", re.DOTALL)
# One version: an operator, a version (with an epoch, perhaps), a wildcard at its end.
TERM = re.compile(r"(==|!=|>=|<=|~=|=|<|>)?((?:\d+!)?[0-9A-Za-z_][0-9A-Za-z_.+]*?)?(\.?\*)?")
# A build after a version: it stands behind a space or one `=`, which belongs to no operator.
BUILD = re.compile(r"(.*?[^=!|,<>~ ])[ =]([^=,|<>~! ]+)")
# What pip would take and conda does not.
FOREIGN = [
    (r"-(r|c|e)\b|--?\w", "an option of pip's", "move it into the list below - pip:"),
    (r"[a-z]+\+\w+://", "a repository", "build a wheel of it, and name its folder in python_env_find_links"),
    (r"(?!\S*::)(https?|file)://|.*\.(conda|tar\.bz2)$", "the address of a file", "name its channel and version instead"),
    (r"[^\[]* @ ", "an address in pip's words", "move it into the list below - pip:"),
    (r"[^\[]*;", "an environment marker of pip's", "move it into the list below - pip:, or leave the marker out"),
    (r"\.{0,2}/|~/", "a path", "move it into the list below - pip: if it is a wheel"),
]


class Unfit(Exception):
    """A text that is no package: what was found, what was expected, what to do.

    Args:
        found, expected, fix: parts of the sentence.
    """

    def __init__(self, found, expected, fix):
        super().__init__(found)
        self.found, self.expected, self.fix = found, expected, fix


def convert(text):
    """A MatchSpec from a line of the dependencies in an environment.yml.

    >>> convert("python=3.11"), convert("numpy==1.26.4"), convert("conda-forge::pkg=1.2=py_0")
    ('python 3.11.*', 'numpy ==1.26.4', 'conda-forge::pkg ==1.2 py_0')

    The source of the rules is conda's own (conda/models/match_spec.py): one ``=`` means "begins with" unless a build follows, a
    version without any operator is exact.

    Args:
        text: the line, without what makes it YAML.

    Raises:
        Unfit: where conda would not take it either, or where it is pip's.
    """
    text = re.sub(r"\s+#.*$", "", text).strip()
    for pattern, found, fix in FOREIGN:
        if re.match(pattern, text):
            raise Unfit("{} ({})".format(found, text), EXPECTED, fix)
    channel, separator, rest = text.rpartition("::")
    channel = re.sub(r"/(noarch|linux-\w+|osx-\w+|win-\w+)$", "", channel.strip())  # the nodes' platform is the only one
    match = re.fullmatch(r"([^\[]*)(\[.*\])?", rest.strip(), re.DOTALL)
    named = NAME.fullmatch(match.group(1).strip()) if match else None
    if not match or not named or separator and not channel:
        raise Unfit(repr(text), EXPECTED, "correct it")
    brackets = checked_brackets(match.group(2), text)
    parts = [channel + separator + named.group(1).lower()] + versions(named.group(2), text)
    return " ".join(parts) + brackets


def name_of(spec):
    """The package's name in a MatchSpec that :func:`convert` made."""
    return re.split(r"[ \[]", spec.rpartition("::")[2])[0]


def channel_of(spec):
    """The channel in a MatchSpec that :func:`convert` made; None where it names none."""
    return spec.rpartition("::")[0] or None


def checked_brackets(brackets, text):
    """``[version='>=1']`` as it is; raises :class:`Unfit` for pip's extras."""
    if not brackets:
        return ""
    if not re.fullmatch(r"\[\s*\w+\s*=.*\]", brackets, re.DOTALL):
        raise Unfit("an extra of pip's ({})".format(text), EXPECTED, "move it into the list below - pip:")
    return brackets


def versions(rest, text):
    """``[version, build]`` as a MatchSpec has them, each left out where there is none."""
    rest = re.sub(r"\s*([,|])\s*", r"\1", " ".join(rest.split()))
    rest = re.sub(r"([<>=!~]) ", r"\1", rest)
    rest = re.sub(r" ([<>=!~])", r"\1", rest)
    if not rest:
        return []
    found = BUILD.fullmatch(rest)
    version, build = found.groups() if found else (rest, None)
    if build and re.fullmatch(r"=[^=,|]+", version):
        version = "=" + version  # with a build behind it, one `=` is exact
    terms = re.split(r"([,|()])", version)
    if re.search(r"(^|[,|(])([,|)]|$)", version):
        raise Unfit(repr(text), EXPECTED, "correct the version")
    return ["".join(part if part in ("", *",|()") else converted(part, text) for part in terms)] + ([build] if build else [])


def converted(term, text):
    """One version with its operator, as a MatchSpec has it."""
    match = TERM.fullmatch(term)
    operator, version, wildcard = match.groups() if match else (None, None, None)
    if not match or not (re.search(r"\d", version) if version else wildcard == "*" and operator in (None, "=", "==")):
        wrong = re.search(r"=[<>]", text)
        fix = "write {} for {}".format(wrong.group()[::-1], wrong.group()) if wrong else "correct the version"
        raise Unfit(repr(text), EXPECTED, fix)
    if not version:
        return "*"
    if operator in ("<", ">", "<=", ">=", "~="):
        return operator + version  # conda leaves out a wildcard here, too
    if operator == "!=":
        return operator + version + (".*" if wildcard else "")
    return version + ".*" if wildcard or operator == "=" else "==" + version
