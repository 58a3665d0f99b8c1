"""Requirements files, and the list below ``- pip:`` in an environment.yml: read with all that they take in, and checked."""

import difflib
import os
import re
from urllib.parse import quote, unquote

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import facts
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault, redact
from packaging.requirements import InvalidRequirement, Requirement

EXPECTED = "a requirement such as numpy>=1.26"
SHORT = {"-r": "--requirement", "-c": "--constraint", "-i": "--index-url", "-f": "--find-links", "-e": "--editable"}
FILES = {"--requirement": "pip", "--constraint": "constraints"}
PLACES = ("--index-url", "--extra-index-url", "--find-links")
FLAGS = ("--no-index", "--pre", "--require-hashes")
# Wheels are all that is ever taken, so these ask for nothing.
NOTHING = ("--only-binary", "--prefer-binary")
REFUSED = {
    "--editable": "build a wheel of it by pip wheel --no-deps, and name its folder in python_env_find_links",
    "--no-binary": "remove it: only wheels are installed, so that no node needs a compiler",
    "--trusted-host": "name your authority's certificates in python_env_ca_bundle",
}
# What people write for a wheel that has another name, or is none.
MISTAKEN = {
    "python": "name it in python_env_python, or use an environment.yml with a line - python=3.11",
    "pytorch": "write torch",
    "cudatoolkit": "remove it: torch brings CUDA's libraries; python_env_torch_backend chooses which",
    "pytorch-cuda": "remove it: torch brings CUDA's libraries; python_env_torch_backend chooses which",
}
# A package that is named by nothing but where it lies.
BARE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|file:|\.{0,2}/|~/|\.{1,2}$|[^@;]*/|.*\.(whl|zip|tar\.gz|tar\.bz2|tgz)$")
WHEEL_FIX = "build a wheel of it by pip wheel --no-deps, and name its folder in python_env_find_links"


def fault(where, found, expected, fix):
    """The :class:`Fault` for a place in a file."""
    return Fault(redact("{}: found {}, expected {}; {}".format(where, found, expected, fix)))


def decoded(content, shown):
    """A file's text from its bytes, whatever mark Windows has put before it; raises Fault."""
    utf16 = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = content.decode("utf-16" if utf16 else "utf-8-sig")
        wrong = text.find("\0")
        before = text[:wrong].count("\n")
    except UnicodeDecodeError as error:
        text, wrong, before = "", error.start, content[: error.start].count(b"\n")
    if wrong >= 0:
        where = "{}, line {}".format(shown, before + 1)
        raise fault(where, "bytes that are no UTF-8 text", "text", "save the file as UTF-8")
    return text


def content_of(path, shown, where=None):
    """A file's text.

    Args:
        path: where it lies; shown: how it is named in a sentence; where: the line that takes it in.

    Raises:
        Fault: it is not there, cannot be read or is no text.
    """
    try:
        with open(path, "rb") as stream:
            return decoded(stream.read(), shown)
    except OSError as error:
        why = "is not there" if isinstance(error, FileNotFoundError) else "cannot be read ({})".format(error.strerror)
        raise fault(where or "python_env_spec", "{}, which {}".format(shown, why), "a file", "correct the path") from None


def logical_lines(text):
    """``[(number of its first line, text)]``: comments and blanks gone, lines that end in a backslash joined, as pip does it."""
    found, begun = [], None
    for number, line in enumerate(text.splitlines(), 1):
        start, before = begun or (number, "")
        if re.match(r"\s*#", line):
            line = ""
        elif line.endswith("\\"):
            begun = (start, before + line[:-1] + " ")
            continue
        found.append((start, before + line))
        begun = None
    found += [begun] if begun else []
    lines = ((number, " ".join(re.sub(r"(^|\s)#.*$", "", line).split())) for number, line in found)
    return [(number, line) for number, line in lines if line]


def read_file(path, shown):
    """What a requirements file asks for, in the form of :func:`read_lines`."""
    lines = [("{}, line {}".format(shown, number), line) for number, line in logical_lines(content_of(path, shown))]
    return read_lines(lines, path, shown)


def read_lines(lines, path, shown):
    """What requirement lines ask for, with the files that they take in.

    Args:
        lines: ``[(where, text)]``.
        path: the file in which they stand; what they name counts from its folder.
        shown: how the user names that file.

    Returns:
        ``{"pip": requirements, "constraints": requirements, "pip_options": option lines}``, each without doubles.

    Raises:
        Fault: one sentence with file and line.
    """
    reader = _Reader()
    reader.take(lines, path, shown, "pip")
    return {"pip": reader.pip, "constraints": reader.constraints, "pip_options": reader.options}


class _Reader:
    """Collects from files in files."""

    def __init__(self):
        self.pip, self.constraints, self.options = [], [], []
        self._pins, self._open = {}, []

    def take(self, lines, path, shown, part):
        """Read lines into ``part``; raises Fault."""
        self._open.append(os.path.realpath(path))
        for where, text in lines:
            if text.startswith("-"):
                self._option(where, text, path, shown, part)
                continue
            line, pin = requirement(where, text, os.path.dirname(os.path.abspath(path)))
            if part == "pip" and pin:
                self._check_pin(where, line, pin)
            kept = self.pip if part == "pip" else self.constraints
            if line not in kept:
                kept.append(line)
        self._open.pop()

    def _check_pin(self, where, line, pin):
        name, version = pin
        other, first = self._pins.setdefault(name, (version, where))
        if other != version:
            raise fault(
                where, "{}, after {}=={} in {}".format(line, name, other, first), "one version", "remove one of them"
            )

    def _option(self, where, text, path, shown, part):
        """One line that begins with a dash."""
        match = re.fullmatch(r"(--[A-Za-z-]+|-[A-Za-z])(?:\s*=\s*|\s+|(?<=^-[A-Za-z]))?(.*)", text)
        name, value = match.groups() if match else (text, "")
        name = SHORT.get(name, name)
        quoted = re.fullmatch(r"(['\"])(.*)\1", value)
        value = quoted.group(2) if quoted else value.strip()
        if name in REFUSED:
            raise fault(where, text, EXPECTED, REFUSED[name])
        if name in NOTHING:
            return
        if name not in FILES and name not in PLACES and name not in FLAGS:
            near = difflib.get_close_matches(name, [*FILES, *PLACES, *FLAGS], 1)
            fix = "did you mean {}?".format(near[0]) if near else "remove it"
            raise fault(where, "the option " + name, "one of " + ", ".join([*FILES, *PLACES, *FLAGS]), fix)
        if (name in FLAGS) == bool(value):
            raise fault(
                where, text, name + (" alone" if value else " with a value"), "give each option and requirement its own line"
            )
        if name in FILES:
            self._file(where, value, path, shown, FILES[name] if part == "pip" else part)
        else:
            if " " in value and not quoted:
                raise fault(where, text, "one address", "give each option and requirement its own line")
            line = name + (" " + place(where, name, value, os.path.dirname(os.path.abspath(path))) if value else "")
            if line not in self.options:
                self.options.append(line)

    def _file(self, where, value, path, shown, part):
        """A file that a line takes in; its path counts from the file in which it is named, as with pip."""
        if "://" in value:
            raise fault(where, value, "a file of this machine", "fetch it first, and name the copy")
        inner = os.path.join(os.path.dirname(os.path.abspath(path)), os.path.expanduser(value))
        named = os.path.normpath(os.path.join(os.path.dirname(shown), value))
        if os.path.realpath(inner) in self._open:
            raise fault(where, "{}, which takes in this file itself".format(named), "another file", "remove the line")
        text = content_of(inner, named, where)
        lines = [("{}, line {}".format(named, number), line) for number, line in logical_lines(text)]
        self.take(lines, inner, named, part)


def place(where, name, value, folder):
    """The address behind an option such as ``--find-links``; a path counts from the file's folder. Raises Fault."""
    refuse_password(where, value)
    if "://" in value or value.startswith("file:"):
        return value
    if name != "--find-links":
        raise fault(where, "{} {}".format(name, value), "an address", "begin it with https:// or file://")
    return os.path.normpath(os.path.join(folder, os.path.expanduser(value)))


def refuse_password(where, text):
    """A password in an address is refused, since specifications and locks are shared; ``${VARIABLES}`` are none."""
    match = re.search(r"://([^/@\s]+)@", text)
    if match and re.sub(r"\$\{\w+\}|:", "", match.group(1)) and not re.match(r"git$", match.group(1)):
        raise fault(where, "a name or password in the address " + text, "none, since locks are shared",
                    "put it into ~/.netrc of the user who installs, on the host")  # fmt: skip


def requirement(where, text, folder):
    """One requirement as uv takes it.

    Args:
        where: for a fault; text: the line; folder: from which relative paths count.

    Returns:
        ``(line, (name, version) or None)``: the second where the line fixes one version everywhere.
    """
    body, *options = re.split(r"\s+(?=--?[A-Za-z])", text)
    hashes = [" ".join(option.split("=", 1)[1:]).strip() for option in options if option.startswith("--hash=")]
    for option in options:
        if not re.fullmatch(r"--hash=\w+:[0-9A-Za-z_=-]+", option):
            raise fault(where, "{} behind a requirement".format(option), "at most --hash=sha256:...",
                        "give each option and requirement its own line")  # fmt: skip
    if re.match(r"(?:[^@]+@\s*)?(git|hg|svn|bzr)\+", body):
        raise fault(where, "a repository ({})".format(body), "a wheel", WHEEL_FIX)
    refuse_password(where, body)
    if BARE.match(body) and " @ " not in body:
        body = by_address(where, body, folder)
    try:
        parsed = Requirement(body)
    except InvalidRequirement:
        raise fault(where, repr(body), EXPECTED, correction(body)) from None
    name = facts.canonical(parsed.name)
    if name in MISTAKEN and not parsed.url:
        raise fault(where, body, "the name of a wheel", MISTAKEN[name])
    if parsed.url and not path_of(parsed.url).endswith(".whl"):
        raise fault(where, "an address of something else than a wheel ({})".format(body), "a wheel", WHEEL_FIX)
    pins = [one.version for one in parsed.specifier if one.operator in ("==", "===") and not one.version.endswith(".*")]
    pin = (name, pins[0]) if len(pins) == 1 and not parsed.marker else None
    parsed.name = name
    return " ".join([str(parsed)] + ["--hash=" + value for value in sorted(hashes)]), pin


def path_of(address):
    """The path in an address, or the path that it is, without what stands behind ``?`` and ``#``."""
    return unquote(re.sub(r"[?#].*", "", re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*://[^/]*|^file:", "", address)))


def by_address(where, body, folder):
    """``name @ address`` of a wheel that is named by its path or address alone; raises Fault for anything else."""
    path = path_of(body)
    if not path.endswith(".whl"):
        raise fault(where, body, "a wheel", WHEEL_FIX)
    if "://" not in body and not body.startswith("file:"):
        body = "file://" + quote(os.path.normpath(os.path.join(folder, os.path.expanduser(body))))
    name = os.path.basename(path).partition("-")[0]
    return "{} @ {}".format(name, body)


def correction(body):
    """What to write for a line that is no requirement."""
    single = re.fullmatch(r"([A-Za-z0-9][\w.-]*(?:\[[^\]]*\])?)(?:\s*=\s*|\s+)(v?\d[\w.+*!-]*)(=\S*)?", body)
    if single:
        return "write {}=={}".format(single.group(1), single.group(2))
    if re.match(r"(python3? -m )?pip3? install ", body):
        return "write the package alone, without pip install"
    starred = re.search(r"([<>]=?)\s*([\d.]+)\.\*", body)
    if starred:
        return "write {0}{1} for {0}{1}.*".format(*starred.groups())
    wrong = re.search(r"=[<>]", body)
    if wrong:
        return "write {} for {}".format(wrong.group()[::-1], wrong.group())
    return "write it as name==version"
