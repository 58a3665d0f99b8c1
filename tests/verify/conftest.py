"""Options, fixtures and the journal of what failed."""

import os
import sys
from pathlib import Path

import pytest

from .access import Cluster, Done

REPO = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
USAGE = (
    "tests/verify needs the cluster to look at; write pytest tests/verify --hosts=ansible://torch_nodes "
    "--ansible-inventory=inventory/mine"
)
JOURNAL_LINES = 50


def pytest_addoption(parser):
    """The host that is no member, and the environment."""
    parser.addoption("--outside", help="inventory name of a host that is no member, from which the cluster's ports must be shut")
    parser.addoption("--environment", help="name of the Python environment to look at, instead of the jobs' usual one")


def pytest_configure(config):
    """Register the marker, and let testinfra find this clone's ansible and its settings, wherever the user stands.

    Who asks for this folder without a cluster is told what to type.
    """
    asked = [(config.invocation_params.dir / str(argument).split("::")[0]).resolve() for argument in config.args]
    if not cluster_named(config) and any(HERE in [path, *path.parents] for path in asked):
        raise pytest.UsageError(USAGE)
    config.addinivalue_line("markers", "units(*names): units whose journal is printed when the test fails")
    os.environ.setdefault("ANSIBLE_CONFIG", str(REPO / "ansible.cfg"))
    beside = os.path.dirname(sys.executable)
    if os.path.exists(os.path.join(beside, "ansible")):
        os.environ["PATH"] = "{}:{}".format(beside, os.environ.get("PATH", ""))


def pytest_ignore_collect(collection_path, config):
    """Without a cluster there is nothing to collect."""
    return None if cluster_named(config) else True


def cluster_named(config):
    """Whether ``--hosts`` names hosts of an inventory."""
    return (config.getoption("hosts", None) or "").startswith("ansible://")


@pytest.fixture(scope="session")
def cluster(request):
    """The :class:`access.Cluster` of the command line."""
    return Cluster(request.config.option, REPO)


@pytest.fixture
def node(host, cluster):
    """The :class:`access.Node` under test, a member."""
    name = host.backend.host
    if cluster.member(name) is None:
        pytest.skip("{} is no member of the group torch_nodes".format(name))
    return cluster.node(name)


@pytest.fixture
def managed(node):
    """A member that Muster sets up: ``muster_manage_hosts`` is true."""
    if not node.managed:
        pytest.skip("muster_manage_hosts is false")
    return node


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Put the journal of the units concerned beside a failure."""
    report = yield
    if report.failed and report.when != "teardown":
        for node in {id(value): value for value in item.funcargs.values() if hasattr(value, "root")}.values():
            units = [name for mark in item.iter_markers("units") for name in mark.args]
            if units and node.managed:
                words = " ".join("-u " + unit for unit in units)
                try:
                    told = node.root("journalctl --no-pager -n {} {}".format(JOURNAL_LINES, words))
                except (AssertionError, RuntimeError) as error:
                    told = Done(1, "", str(error))  # the host is what failed
                report.sections.append(("journal of {}: {}".format(node.name, ", ".join(units)), told.stdout or told.stderr))
    return report
