"""What a file asks of an environment: environment.yml, requirements.txt or a lock, read on the controller into one form."""

import hashlib
import json
import os
import re

from ansible_collections.muster.cluster.plugins.module_utils.python_env import advice, locks
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault

from . import environment_yml, match_specs, requirement_files
from .requirement_files import fault

# Where packages come from when the file does not say.
CHANNEL = "conda-forge"
# Anaconda's own channels, under whatever name.
ANACONDA = re.compile(r"(defaults|anaconda|pkgs/\w+)$|.*/(pkgs/(main|r|free|pro|msys2)|anaconda)$")
LICENCE = (
    "{} names Anaconda's channel {}, whose terms ask for a paid licence in organisations of more than 200 people; write "
    "conda-forge instead if that is yours"
)
NOTHING = {"name": None, "channels": [], "conda": [], "pip": [], "pip_options": [], "constraints": [], "lock": None,
           "variables": {}, "notes": []}  # fmt: skip
# Files that people have and that are none of the three.
OTHERS = [
    (r"(pyproject|pipfile|pixi)(\.toml|\.lock)?$|(poetry|uv|pdm)\.lock$|.*\.toml$", "a project's file ({})",
     "export it first, as by uv export --format requirements.txt"),
    (r"setup\.(py|cfg)$", "a project's file ({})", "write a requirements.txt"),
    (r".*\.(whl|conda|zip|tar\.gz|tar\.bz2)$", "a package ({})", "name the file that lists the packages"),
]  # fmt: skip
EXPECTED = "an environment.yml, a requirements.txt or a lock that Muster wrote"


def read(path, python="", shown=None):
    """The specification in a file.

    Args:
        path: of the file on the controller.
        python: the Python that is wanted, as ``python_env_python`` has it; a version of it (``3.12``) counts where the file has
            conda packages and does not name Python itself.
        shown: how the file is named in sentences; by default ``path`` as it is given.

    Returns:
        ``{"kind": "environment" | "requirements" | "lock", "name", "channels", "conda", "pip", "pip_options", "constraints",
        "lock", "variables", "notes"}``, which JSON can carry. ``conda`` holds MatchSpecs, ``pip`` and ``constraints`` lines of
        requirements, ``pip_options`` lines such as ``--find-links /srv/wheels``.

    Raises:
        Fault: one sentence with file and line: found, expected, what to do.
    """
    path = os.path.expanduser(path)
    shown = shown or path
    if os.path.isdir(path):
        raise fault("python_env_spec", "the folder {}".format(shown), "a file in it", "name the file")
    for pattern, what, fix in OTHERS:
        if re.match(pattern, os.path.basename(path).lower()):
            raise fault("python_env_spec", what.format(shown), EXPECTED, fix)
    text = requirement_files.content_of(path, shown)
    kind = kind_of(path, text)
    if kind == "lock":
        return of_lock(text, shown)
    if kind == "environment":
        return of_environment(text, path, shown, python)
    refuse_lists(text, shown)
    found = requirement_files.read_file(path, shown)
    if not found["pip"]:
        raise fault(shown, "no package", "one at least, such as torch", "write it on a line of its own")
    return dict(NOTHING, kind="requirements", **found)


def kind_of(path, text):
    """``environment``, ``requirements`` or ``lock``, by what a file holds rather than by its name."""
    if text.lstrip().startswith("{"):
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if path.endswith(".json") or isinstance(value, dict) and {"format", "wheels"} & set(value):
            return "lock"
    if path.endswith((".json", ".lock")):
        return "lock"
    if path.endswith((".yml", ".yaml")) or re.search(r"^(dependencies|channels)\s*:", text, re.MULTILINE):
        return "environment"
    return "requirements"


def refuse_lists(text, shown):
    """Conda's lists look like requirements and are none; raises Fault."""
    for mark, what in (("@EXPLICIT", "a list by conda list --explicit"), ("# $ conda create", "a list by conda list --export")):
        if re.search("^" + re.escape(mark), text, re.MULTILINE):
            raise fault(shown, what, EXPECTED, "write an environment.yml: conda env export")


def of_lock(text, shown):
    """The specification that is a lock; raises Fault."""
    try:
        lock = locks.read(text)
    except Fault as error:
        raise Fault("{}: {}".format(shown, error.sentence), error.details, error.kind) from None
    return dict(NOTHING, kind="lock", channels=list(lock["channels"]), lock=lock)


def of_environment(text, path, shown, python):
    """The specification of an environment.yml; raises Fault."""
    parts = environment_yml.parse(text, shown)
    conda = conda_part(parts)
    # A text of several lines, as YAML may have it, is several requirements.
    lines = [(where, line) for where, text in parts.pip for _, line in requirement_files.logical_lines(text)]
    pip = requirement_files.read_lines(lines, path, shown)
    if not conda and not pip["pip"]:
        raise fault(shown, "no package below dependencies", "one at least, such as - python=3.11", "write it there")
    if "python" not in map(match_specs.name_of, conda):
        version = re.fullmatch(r"\d+\.\d+(\.\d+)?", python or "")
        conda.append("python {}.*".format(python) if version else "python")
    channels = channel_part(parts, conda)
    notes = notes_of(parts, channels, conda, pip["pip"])
    return dict(NOTHING, kind="environment", name=parts.name, channels=channels, conda=conda, variables=parts.variables,
                notes=notes, **pip)  # fmt: skip


def conda_part(parts):
    """The MatchSpecs, each once; raises Fault for what is no package and for one that is fixed to two versions."""
    found, exact = [], {}
    for where, text in parts.conda:
        try:
            spec = match_specs.convert(text)
        except match_specs.Unfit as error:
            raise fault(where, error.found, error.expected, error.fix) from None
        if spec in found:
            continue
        name = match_specs.name_of(spec)
        version = re.fullmatch(r"\S+ ((?:==)?[\d!][^<>=,|]*)", spec)
        if version:
            other, first = exact.setdefault(name, (version.group(1), where))
            if other != version.group(1):
                raise fault(where, "{}, after {} {} in {}".format(text, name, other, first), "one version", "remove one of them")
        found.append(spec)
    return found


def channel_part(parts, conda):
    """The channels in order, those that single packages name last; raises Fault for what is no channel."""
    found = []
    for where, text in parts.channels:
        name = text.rstrip("/")
        if name.startswith((".", "~")):
            raise fault(where, "the channel " + text, "a name, an address or an absolute folder of the head",
                        "write file:// and the whole path")  # fmt: skip
        if not re.fullmatch(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*|(https?|file)://\S+|/.*", name):
            raise fault(where, "the channel {!r}".format(text), "a name such as conda-forge, or an address", "correct it")
        try:
            advice.refuse_credentials([name])
        except Fault as error:
            raise Fault("{}: {}".format(where, error.sentence)) from None
        if name not in found and name != "nodefaults":
            found.append(name)
    found = found or [CHANNEL]
    named = [match_specs.channel_of(spec) for spec in conda]
    return found + [name for name in dict.fromkeys(named) if name and name not in found]


def notes_of(parts, channels, conda, pip):
    """What the user should know of a file that is good, one line each."""
    told = [LICENCE.format(parts.shown, name) for name in channels if ANACONDA.match(name)][:1]
    if parts.left_out:
        told.append("{} names packages for other systems, which are left out: {}".format(parts.shown, ", ".join(parts.left_out)))
    names = set(map(match_specs.name_of, conda))
    both = [line for line in pip if re.match(r"torch(?![\w.-])", line)]
    if both and names & {"pytorch", "pytorch-gpu", "pytorch-cpu"}:
        told.append(
            "{} asks for pytorch from a channel and for torch as a wheel, which are the same; keep one of them".format(
                parts.shown
            )
        )
    return told


def asked(spec, settings):
    """sha256 (hex) of what is asked for: equal for two files that mean the same.

    Comments, the environment's name and the order of packages mean nothing; the order of channels and of indexes does.

    Args:
        spec: from :func:`read`.
        settings: the settings that choose packages (torch_backend, channel_alias, index_url, extra_index_urls, find_links,
            python, ...), not those that say how they are fetched. What is empty counts as not given.
    """
    meaning = {key: spec[key] for key in ("channels", "pip_options", "variables")}
    meaning.update({key: sorted(spec[key]) for key in ("conda", "pip", "constraints")})
    if spec["lock"]:
        meaning = {"lock": locks.identity(spec["lock"])}
    chosen = {key: value for key, value in settings.items() if value not in ("", None, [], {}, False)}
    text = json.dumps({"meaning": meaning, "settings": chosen}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
