"""What the module python_env promises: its documentation and the role's defaults."""

from __future__ import annotations

from pathlib import Path

import yaml
from ansible_collections.muster.cluster.plugins.modules import python_env


def test_module_documents_exactly_the_options_it_takes() -> None:
    documented = yaml.safe_load(python_env.DOCUMENTATION)["options"]
    assert set(documented) == set(python_env.ARGUMENTS)
    for name, spec in python_env.ARGUMENTS.items():
        for key in ("type", "default", "choices", "elements", "required"):
            assert documented[name].get(key) == spec.get(key), (name, key)
    assert isinstance(yaml.safe_load(python_env.EXAMPLES), list)
    assert isinstance(yaml.safe_load(python_env.RETURN), dict)


def test_role_and_module_agree_on_defaults(repo: Path) -> None:
    defaults = yaml.safe_load((repo / "roles/python_env/defaults/main.yml").read_text())
    for name, value in defaults.items():
        spec = python_env.ARGUMENTS.get(name[len("python_env_") :])
        if spec and "default" in spec and value != "":
            assert value == spec["default"], name
