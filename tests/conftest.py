"""What all tests share: the collection on the import path, the clone's folder, and a way to run a playbook."""

import json
import os
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

REPO = Path(__file__).resolve().parents[1]
COLLECTIONS = REPO / "collections"


def _put_collection_first():
    """Make ``ansible_collections.muster.cluster`` the one of this clone, whatever site-packages holds."""
    sys.path[:] = [str(COLLECTIONS)] + [entry for entry in sys.path if entry != str(COLLECTIONS)]
    import ansible_collections

    ours = str(COLLECTIONS / "ansible_collections")
    if ours not in list(ansible_collections.__path__):  # a regular package with an __init__.py, found before
        ansible_collections.__path__ = [ours, *ansible_collections.__path__]


_put_collection_first()


@pytest.fixture(scope="session")
def repo():
    """Folder of the clone."""
    return REPO


@pytest.fixture(scope="session")
def conda_channel():
    """Folder of the tests' conda channel; see the package ``channel`` beside this file."""
    from channel import build

    return build(REPO / ".cache" / "tests")


@pytest.fixture(scope="session")
def python_tools():
    """Folder of the tools that make environments, as a node has it; fetched from the package index that this machine uses."""
    from ansible_collections.muster.cluster.plugins.module_utils.muster_tools.receiving import receive
    from ansible_collections.muster.cluster.plugins.plugin_utils import python_tools

    cache = REPO / ".cache" / "tests" / "tools"
    tools = python_tools.build(os.uname().machine, str(cache), str(Path(sys.executable).parent / "uv"))
    with open(tools.archive, "rb") as stream:
        receive(str(cache / "unpacked"), tools.name, tools.sha256, stream)
    return cache / "unpacked" / tools.name


@pytest.fixture
def run_playbook(tmp_path):
    """Run a playbook by ansible-runner.

    ``run_playbook(playbook, extravars=None, cmdline=None, env=None, cwd=None, timeout=120)``: ``playbook`` is relative
    to the clone or absolute, ``extravars`` go as one JSON text, ``cmdline`` holds further options, ``env`` further
    variables, ``cwd`` is where the user stands (default: an empty folder), ``timeout`` is in seconds.

    Returns an object with ``rc``, ``status``, ``stdout`` (text), ``events`` (list) and ``stats``. ansible-runner shows
    Ansible's default screen in place of the configured one.
    """
    import ansible_runner

    count = 0

    def run(playbook, extravars=None, cmdline=None, env=None, cwd=None, timeout=120):
        nonlocal count
        count += 1
        private = tmp_path / "runner-{}".format(count)
        stands = Path(cwd) if cwd else private / "stands"
        private.mkdir()
        stands.mkdir(parents=True, exist_ok=True)
        options = [cmdline] if cmdline else []
        if extravars:
            # As a user types it; ansible-runner's own extravars go by way of a file.
            options.append("-e " + shlex.quote(json.dumps(extravars)))
        variables = {
            "ANSIBLE_CONFIG": str(REPO / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "PATH": os.path.dirname(sys.executable) + ":" + os.environ["PATH"],
        }
        done = ansible_runner.run(
            private_data_dir=str(private),
            project_dir=str(stands),
            playbook=str(REPO / playbook),
            cmdline=" ".join(options) or None,
            envvars=dict(variables, **(env or {})),
            timeout=timeout,
            quiet=True,
        )
        with done.stdout as stream:
            text = stream.read()
        return SimpleNamespace(
            rc=done.rc, status=done.status, stdout=text, events=list(done.events), stats=done.stats or {}
        )

    return run
