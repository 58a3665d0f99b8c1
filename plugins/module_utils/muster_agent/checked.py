"""Pure checks of single values that a user can give; each returns the clean value or raises :class:`Refusal`."""

import ipaddress
import re
import shlex

from .errors import Refusal

JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
ENVIRONMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NPROC_WORDS = ("auto", "gpu", "cpu")
# A job takes this many ports from master_port on: the control plane's, then one per attempt in turn.
PORTS_PER_JOB = 16


def shown(value, limit=60):
    """``repr`` of a value for a message, shortened to about ``limit`` characters."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def job_name(value):
    """A job's name: 1 to 63 letters, digits, '.', '_' or '-', the first one a letter or digit."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise Refusal("job is {}, expected text; choose a name".format(shown(value)))
    if not JOB_NAME.fullmatch(value) or ".." in value:
        raise Refusal(
            "job is {} ({} characters), expected 1 to 63 letters, digits, '.', '_' or '-' that begin with a letter or "
            "digit and hold no '..'; choose another name".format(shown(value), len(value))
        )
    return value


def environment_name(value, name="python_env"):
    """The name of a Python environment, a folder's name on every node; ``name`` is the variable that held it."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not ENVIRONMENT.fullmatch(value):
        raise Refusal(
            "{} is {}, expected an environment's name: 1 to 63 letters, digits, '.', '_' or '-' that begin with a letter, a "
            "digit or '_'; choose another name".format(name, shown(value))
        )
    return value


def integer(name, value, low, high):
    """An integer in ``low..high``; a string of digits counts, a bool or 1.5 does not."""
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,18}", value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Refusal(
            "{} is {}, expected a whole number from {} to {}; correct it".format(name, shown(value), low, high)
        )
    return int(value)


def seconds(name, value, low=0.0, high=31536000.0):
    """A number of seconds in ``low..high`` (float)."""
    number = None
    if not isinstance(value, bool):
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = None
    if number is None or not low <= number <= high:
        raise Refusal(
            "{} is {}, expected a number of seconds from {:g} to {:g}; correct it".format(name, shown(value), low, high)
        )
    return number


def boolean(name, value):
    """A bool; the words that YAML knows count, so that ``-e wait=false`` and ``-e '{"wait": false}'`` mean the same."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in ("true", "yes", "on", "1"):
        return True
    if word in ("false", "no", "off", "0"):
        return False
    raise Refusal("{} is {}, expected true or false; correct it".format(name, shown(value)))


def nproc(value):
    """Processes per node: a whole number from 1 to 1024, or ``auto`` (GPUs, else 1), ``gpu``, ``cpu`` (cores)."""
    if isinstance(value, str) and value.strip() in NPROC_WORDS:
        return value.strip()
    try:
        return integer("nproc_per_node", value, 1, 1024)
    except Refusal:
        raise Refusal(
            "nproc_per_node is {}, expected a whole number from 1 to 1024, or auto, gpu or cpu; correct it".format(
                shown(value)
            )
        ) from None


def master_port(value):
    """The rendezvous port: not privileged, with room above it for the control plane and the restarts."""
    high = 65536 - PORTS_PER_JOB
    try:
        return integer("master_port", value, 1024, high)
    except Refusal:
        raise Refusal(
            "master_port is {}, expected a port from 1024 to {} (a job uses up to {} ports from there on); "
            "choose another, 29500 is usual".format(shown(value), high, PORTS_PER_JOB)
        ) from None


def environment(value):
    """An environment for the ranks: a dictionary of names to values; numbers and booleans become strings."""
    if not isinstance(value, dict):
        raise Refusal(
            "env is {}, expected a dictionary; write it as -e '{{\"env\": {{\"NAME\": \"value\"}}}}'".format(
                "of type " + type(value).__name__
            )
        )
    clean = {}
    for name, content in value.items():
        if not isinstance(name, str) or not ENV_NAME.fullmatch(name):
            raise Refusal(
                "env has the key {}, expected letters, digits and '_' (no '=', no spaces); rename it".format(
                    shown(name)
                )
            )
        if isinstance(content, bool) or content is None or isinstance(content, (list, dict)):
            raise Refusal(
                "env.{} is of type {}, expected a string or a number; put it in quotes".format(
                    name, type(content).__name__
                )
            )
        content = str(content)
        if "\0" in content:
            raise Refusal("env.{} holds a NUL character, which no environment can carry; remove it".format(name))
        clean[name] = content
    return clean


def arguments(value):
    """Arguments of the script: a list as it is, a string split as a shell splits it."""
    if value is None:
        return []
    if isinstance(value, str):
        try:
            items = shlex.split(value)
        except ValueError as error:
            raise Refusal(
                "script_args cannot be split as a shell would ({}): {}; "
                "give a list instead: -e '{{\"script_args\": [\"--a\", \"b c\"]}}'".format(error, shown(value))
            ) from None
    elif isinstance(value, (list, tuple)):
        items = []
        for item in value:
            if isinstance(item, (list, dict)) or item is None:
                raise Refusal(
                    "script_args holds {}, expected strings and numbers only; correct the list".format(shown(item))
                )
            items.append(item if isinstance(item, str) else str(item))
    else:
        raise Refusal(
            "script_args is of type {}, expected a list or a string; "
            "write it as -e '{{\"script_args\": [\"--epochs\", \"3\"]}}'".format(type(value).__name__)
        )
    if any("\0" in item for item in items):
        raise Refusal("script_args holds a NUL character, which no argument can carry; remove it")
    return items


def state_dir(value):
    """Muster's folder on a node: absolute, since nobody stands anywhere there."""
    if not isinstance(value, str) or not value.startswith("/"):
        raise Refusal("muster_state_dir is {}, expected an absolute path on the nodes; correct it".format(shown(value)))
    return value


def network(name, value):
    """A network in CIDR notation."""
    try:
        ipaddress.ip_network(value, strict=False)
        return value
    except ValueError:
        raise Refusal("{} is {}, expected a network like 10.1.0.0/16; correct it".format(name, shown(value))) from None


def module_name(value):
    """A dotted Python module name, as after ``python -m``."""
    if not isinstance(value, str) or not all(part.isidentifier() for part in value.split(".")):
        raise Refusal("module is {}, expected a dotted name like pkg.train; correct it".format(shown(value)))
    return value
