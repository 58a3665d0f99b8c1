"""What is written about modules, roles and options is what they have."""

import ast
import importlib
import json
import os
import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.plugin_utils import options as launch_options
from ansible_collections.muster.cluster.plugins.plugin_utils import role_variables

REPO = Path(__file__).resolve().parents[2]
MODULES = sorted(path.stem for path in (REPO / "library").glob("*.py"))
ACTIONS = sorted(path.stem for path in (REPO / "plugins" / "action").glob("*.py"))
ROLES = sorted(path.name for path in (REPO / "roles").iterdir() if path.is_dir())
TEXTS = ("DOCUMENTATION", "EXAMPLES", "RETURN")
EMPTY = ("", [], {})
# What playbooks and roles hand to a role; not a user's to set.
HANDED = re.compile(r"launch_group|\w+_members|build_tools_also|packages_names|firewall_ephemeral_ports")


def read_yaml(*names):
    """A YAML file of the clone."""
    return yaml.safe_load(REPO.joinpath(*names).read_text(encoding="utf-8"))


def exactly(value):
    """A value as text in which ``true``, ``1`` and ``"1"`` differ."""
    return json.dumps(value, sort_keys=True, indent=1)


# ---------------------------------------------------------------------------------------------------------- the modules


def texts(module):
    """A module's documentation, parsed: ``{"DOCUMENTATION": ..., "EXAMPLES": ..., "RETURN": ...}``."""
    tree = ast.parse((REPO / "library" / (module + ".py")).read_text(encoding="utf-8"))
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in TEXTS:
            found[node.targets[0].id] = yaml.safe_load(ast.literal_eval(node.value))
    return found


def argument_spec(module):
    """The arguments as the module's code has them, or None for a module that is documentation alone."""
    code = importlib.import_module("ansible_collections.muster.cluster.plugins.modules." + module)
    if not hasattr(code, "main"):
        return None
    return code.argument_spec() if hasattr(code, "argument_spec") else code.ARGUMENTS


def essence(options, nested):
    """What documentation and code must agree on; ``nested`` is the word for options in options."""
    return {
        name: {
            "type": option.get("type", "str"),
            "elements": option.get("elements"),
            "required": option.get("required", False),
            "default": option.get("default"),
            "choices": option.get("choices"),
            "aliases": option.get("aliases", []),
            "options": essence(option.get(nested) or {}, nested),
        }
        for name, option in options.items()
    }


def described(options):
    """Every option with its description, those within options too: ``[(name, text)]``."""
    found = []
    for name, option in options.items():
        found.append((name, option.get("description")))
        found += described(option.get("suboptions") or option.get("options") or option.get("contains") or {})
    return found


@pytest.mark.parametrize("module", MODULES)
def test_module_is_documented(module):
    found = texts(module)
    assert sorted(found) == sorted(TEXTS)
    documentation = found["DOCUMENTATION"]
    assert documentation["module"] == module
    for key in ("short_description", "description", "version_added", "author", "options", "attributes"):
        assert documentation[key], key
    for mode in ("check_mode", "diff_mode"):
        assert documentation["attributes"][mode]["support"] in ("full", "partial", "none"), mode
        assert documentation["attributes"][mode]["description"], mode
    for name, text in described(documentation["options"]) + described(found["RETURN"]):
        assert text, "{} has no description".format(name)
    for name, value in found["RETURN"].items():
        assert value["type"] and value["returned"], name
    assert all(task.get("name") and "muster.cluster." + module in task for task in found["EXAMPLES"])


@pytest.mark.parametrize("module", [name for name in MODULES if argument_spec(name) is not None])
def test_documented_options_are_the_argument_spec(module):
    documented = essence(texts(module)["DOCUMENTATION"]["options"], "suboptions")
    assert exactly(documented) == exactly(essence(argument_spec(module), "options"))


def arguments_read(action):
    """Names of the task's arguments that an action's code reads: ``arguments["x"]``, ``arguments.get("x")``."""
    found = set()
    for node in ast.walk(ast.parse((REPO / "plugins" / "action" / (action + ".py")).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Subscript):
            source, key = node.value, node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
            source, key = node.func.value, node.args[0]
        else:
            continue
        if ast.unparse(source) in ("arguments", "self._task.args") and isinstance(key, ast.Constant):
            found.add(key.value)
    return found


@pytest.mark.parametrize("action", ACTIONS)
def test_documented_options_are_what_the_action_reads(action):
    documented = set(texts(action)["DOCUMENTATION"]["options"])
    if argument_spec(action) is None:
        assert documented == arguments_read(action)
    else:
        assert documented >= arguments_read(action)  # the module behind the action reads the others


def test_documented_launch_options_are_those_of_the_plan():
    documented = texts("launch_plan")["DOCUMENTATION"]["options"]["options"]["suboptions"]
    assert sorted(documented) == sorted(launch_options.OPTIONS)


def test_modules_are_links_to_the_library():
    links = {path.name: path for path in (REPO / "plugins" / "modules").iterdir() if path.name != "__pycache__"}
    assert sorted(links) == [module + ".py" for module in MODULES]
    for name, path in links.items():
        assert path.is_symlink() and os.readlink(str(path)) == "../../library/" + name


# ------------------------------------------------------------------------------------------------ the roles' variables


@pytest.mark.parametrize("role", ROLES)
def test_argument_specs_equal_the_defaults(role):
    options = read_yaml("roles", role, "meta", "argument_specs.yml")["argument_specs"]["main"]["options"]
    defaults = read_yaml("roles", role, "defaults", "main.yml")
    assert exactly({name: option.get("default") for name, option in options.items()}) == exactly(defaults)
    for name, text in described(options):
        assert text, "{} has no description".format(name)


def test_every_launch_option_has_a_default_and_nothing_else_has():
    known = {"launch_" + name for name in launch_options.OPTIONS} | set(launch_options.OTHER_LAUNCH_VARIABLES)
    assert known == set(read_yaml("roles", "launch", "defaults", "main.yml"))


def test_the_launch_hands_every_option_to_the_plan():
    plan = read_yaml("roles", "launch", "tasks", "main.yml")[0]["muster.cluster.launch_plan"]
    assert plan["options"] == {name: "{{ launch_" + name + " }}" for name in launch_options.OPTIONS}


def public_variables():
    """Every variable of every role that is a user's to set: ``{name: default}``."""
    found = {}
    for role in ROLES:
        found.update(read_yaml("roles", role, "defaults", "main.yml") or {})
    return {name: default for name, default in found.items() if not HANDED.fullmatch(name)}


def test_the_example_inventory_has_every_variable_of_the_roles_and_no_other():
    text = (REPO / "inventory" / "example" / "group_vars" / "torch_nodes.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"^(?:# )?((?:{})_\w+):".format("|".join(ROLES)), text, re.MULTILINE))
    assert named == set(public_variables())


# ----------------------------------------------------------------------------------------------------------- the README


def readme_defaults():
    """The rows ``| `name` | default | ... |`` of the README's tables: ``{name: default}``, backticks removed."""
    path = REPO / "README.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", text, re.MULTILINE)
    return {name: default.strip().strip("`") for name, default in rows}


def test_preflight_knows_every_variable_of_the_cluster():
    """Others it takes for misspelt ones and ends the run."""
    assert {name for name in readme_defaults() if name.startswith("muster_")} == set(role_variables.CLUSTER)


def documented_defaults():
    """All public variables, a launch's own under the names of the command line."""
    return [
        (re.sub(r"^launch_", "", name) if name not in launch_options.OTHER_LAUNCH_VARIABLES else name, default)
        for name, default in sorted(public_variables().items())
    ]


@pytest.mark.parametrize(("name", "default"), documented_defaults())
def test_readme_names_the_variable_with_its_default(name, default):
    """What is a template in the defaults, a dictionary or empty may be told in words."""
    found = readme_defaults()
    assert name in found, "README.md has no row that begins with | `{}` |".format(name)
    shown = default if isinstance(default, str) else json.dumps(default)
    if "{{" in shown or default in EMPTY or isinstance(default, dict):
        assert found[name]
    else:
        assert found[name] == shown
