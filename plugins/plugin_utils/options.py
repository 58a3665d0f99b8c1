"""The launch's public variables: which there are, how each is read, what a misspelt one is told; pure."""

import difflib

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import checked
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal

# Extra variables beside the launch's own that are nobody's mistake.
FOREIGN_PREFIXES = ("ansible_", "muster_", "awx_", "tower_")


def _text(name):
    def parse(value):
        if not isinstance(value, str) or not value.strip():
            raise Refusal("{} is {}, expected text; correct it".format(name, checked.shown(value)))
        return value

    return parse


def _follow(value):
    if value in ("head", "all"):
        return value
    raise Refusal("follow is {}, expected head or all; correct it".format(checked.shown(value)))


def _ship(value):
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) and item.strip() for item in items):
        raise Refusal(
            "ship is {}, expected a list of paths or globs; write it as -e '{{\"ship\": [\"train.py\", \"src/**\"]}}'".format(
                checked.shown(value)
            )
        )
    return [item.strip() for item in items]


# name -> how its value is read. The defaults stand in roles/launch/defaults/main.yml, as launch_<name>.
OPTIONS = {
    "script": _text("script"),
    "module": checked.module_name,
    "script_args": checked.arguments,
    "nproc_per_node": checked.nproc,
    "env": checked.environment,
    "job": checked.job_name,
    "python_env": checked.environment_name,
    "max_restarts": lambda value: checked.integer("max_restarts", value, 0, 1000),
    "wait": lambda value: checked.boolean("wait", value),
    "follow": _follow,
    "master_port": checked.master_port,
    "join_timeout": lambda value: checked.seconds("join_timeout", value, 1, 86400),
    "stop_grace": lambda value: checked.seconds("stop_grace", value, 0, 86400),
    "chdir": _text("chdir"),
    "ship": _ship,
    "allow_partial": lambda value: checked.boolean("allow_partial", value),
    "force": lambda value: checked.boolean("force", value),
}
# Options whose inventory value may differ per host; a start reads them on its own host.
PER_HOST = ("nproc_per_node", "env")
MAY_BE_EMPTY = ("script", "module", "job", "chdir", "ship", "script_args", "env", "python_env")
OTHER_LAUNCH_VARIABLES = ("launch_runs_dir", "launch_group", "launch_supervision")


def plain(value):
    """A value without Ansible's tags: plain dict, list, str, int, float, bool or None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    return str(value)


def from_extra_variables(extra, roles):
    """The launch's options among the extra variables, raw.

    Args:
        extra: all extra variables, untemplated.
        roles: names of the collection's roles; ``<role>_*`` belongs to a role.

    Raises:
        Refusal: for a variable that nobody reads, with the likely right name, and for ``k=v`` text that was cut off.
    """
    found = {}
    for name, value in extra.items():
        if name == "_raw_params":
            raise Refusal(
                "the extra variables hold {} outside any name=value, which is lost; write values with spaces as JSON: "
                "-e '{{\"script_args\": [\"--name\", \"two words\"]}}'".format(checked.shown(plain(value)))
            )
        short = name[len("launch_") :] if name.startswith("launch_") else name
        if short in OPTIONS:
            found[short] = plain(value)
        elif name in OTHER_LAUNCH_VARIABLES or name.startswith(FOREIGN_PREFIXES):
            continue
        elif not name.startswith("launch_") and any(name.startswith(role + "_") for role in roles):
            continue
        else:
            near = difflib.get_close_matches("launch_" + short, OTHER_LAUNCH_VARIABLES, 1, 0.9)
            near = near or difflib.get_close_matches(short, OPTIONS, 1, 0.5)
            hint = "did you mean {}?".format(near[0]) if near else "the launch reads {}".format(", ".join(OPTIONS))
            raise Refusal("found the extra variable {}, which nothing reads; {}".format(checked.shown(name), hint))
    return found


def complete(options):
    """Refuse options of which an inventory has emptied one that needs a value."""
    for name in OPTIONS:
        if name not in options and name not in MAY_BE_EMPTY:
            raise Refusal("launch_{} is empty, expected a value; leave it out or correct it".format(name))


def merge(defaults, extra):
    """Clean options: ``defaults`` (templated ``launch_*`` of the inventory, unset ones left out) under ``extra`` (raw).

    ``env`` is merged name by name; everything else is replaced.
    """
    merged = {name: plain(value) for name, value in defaults.items() if value not in (None, "")}
    if "env" in merged and "env" in extra:
        extra = dict(extra, env=dict(checked.environment(merged["env"]), **checked.environment(extra["env"])))
    merged.update(extra)
    unknown = sorted(set(merged) - set(OPTIONS))
    if unknown:
        raise Refusal("found the option {}, expected one of {}".format(unknown[0], ", ".join(OPTIONS)))
    return {name: OPTIONS[name](value) for name, value in merged.items()}
