"""What the modules python_env and python_lock promise: their documentation and the role's defaults."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.action import python_env as action
from ansible_collections.muster.cluster.plugins.modules import python_env, python_lock, python_share


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


class Ended(Exception):
    """In place of the end of a module's process."""


def test_the_solving_host_expands_the_folder_of_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    params = {"cache_dir": "~/cache", "prefix": str(tmp_path / "envs" / "a")}
    module = types.SimpleNamespace(params=params, tmpdir=str(tmp_path), check_mode=False)
    monkeypatch.setattr(python_lock, "AnsibleModule", lambda **_: module)

    def find(params: dict, *_: Any) -> Any:
        raise Ended(params["cache_dir"])

    monkeypatch.setattr(python_lock, "find_lock", find)
    with pytest.raises(Ended, match="^%s$" % (tmp_path / "cache")):
        python_lock.main()


def test_the_sharing_host_expands_the_folder_of_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    def installer(params: dict, *_: Any) -> Any:
        raise Ended(params["cache_dir"])

    monkeypatch.setattr(python_share, "Installer", installer)
    monkeypatch.setattr(python_share.locks, "check", lambda lock: None)
    with pytest.raises(Ended, match="^%s$" % (tmp_path / "cache")):
        python_share.work({"lock": {"conda": [], "wheels": []}, "cache_dir": "~/cache", "members": []}, print)


def test_paths_of_a_look_are_expanded_by_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, Any] = {}

    def look(_action: Any, _vars: Any, _package: str, request: dict, _others: Any) -> dict:
        sent.update(request["options"])
        return {"result": {"state": "none"}}

    monkeypatch.setattr(action.looking, "look", look)
    monkeypatch.setattr(action, "load_extra_vars", lambda loader: {})
    plugin = object.__new__(action.ActionModule)
    plugin._loader = None
    plugin._task = types.SimpleNamespace(args={"prefix": "~/envs/a", "cache_dir": "~/cache", "state": "look"})
    given = {"prefix": "/controller/envs/a", "cache_dir": "/controller/cache"}
    monkeypatch.setattr(plugin, "validate_argument_spec", lambda spec: (None, dict(given)), raising=False)
    assert plugin._look({})["prefix"] == "~/envs/a"
    assert (sent["prefix"], sent["cache_dir"]) == ("~/envs/a", "~/cache")
