"""What the modules python_env and python_lock promise: their documentation and the role's defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.modules import python_env, python_lock


@pytest.mark.parametrize("module", [python_env, python_lock], ids=["python_env", "python_lock"])
def test_module_documents_exactly_the_options_it_takes(module: Any) -> None:
    documented = yaml.safe_load(module.DOCUMENTATION)["options"]
    assert set(documented) == set(module.ARGUMENTS)
    for name, spec in module.ARGUMENTS.items():
        for key in ("type", "default", "choices", "elements", "required"):
            assert documented[name].get(key) == spec.get(key), (name, key)
    assert isinstance(yaml.safe_load(module.EXAMPLES), list)
    assert isinstance(yaml.safe_load(module.RETURN), dict)


def test_role_and_module_agree_on_defaults(repo: Path) -> None:
    defaults = yaml.safe_load((repo / "roles/python_env/defaults/main.yml").read_text())
    for name, value in defaults.items():
        # The role's switch becomes one of three ways by the host.
        spec = python_env.ARGUMENTS.get(name[len("python_env_") :]) if name != "python_env_verify" else None
        if spec and "default" in spec and spec["default"] != "" and value != "":
            assert value == spec["default"], name
