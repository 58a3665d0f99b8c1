"""Fixtures of tests that need real hosts."""

import os
import time

import pytest

from .common import missing
from .host import KINDS
from .lab import Lab

# Two sessions at the same time need two names.
NAME = os.environ.get("MUSTER_LAB_NAME", "test-session")


@pytest.fixture(scope="session")
def lab_possible():
    """Skip where this machine cannot have a lab; with MUSTER_LAB=required, fail."""
    why = missing()
    if why:
        (pytest.fail if os.environ.get("MUSTER_LAB") == "required" else pytest.skip)(why)


@pytest.fixture(scope="session")
def lab(lab_possible):
    """A lab of all five hosts for the whole session; it is this process's alone while it lives.

    With MUSTER_LAB_KEEP=1 the lab stays at the end, and one that is there and answers is used as it is.
    """
    keep = os.environ.get("MUSTER_LAB_KEEP") == "1"
    made = Lab(NAME)
    made.lock()
    if not (keep and set(made.hosts) == set(KINDS) and all(host.answers() for host in made.hosts.values())):
        made.up()
        # n1 gets all of the compilers; for the others two small packages do, since unpacking costs minutes and proves no more.
        folder = made.folder / "inventory" / "host_vars"
        folder.mkdir()
        for name in ("n2", "n3", "n4"):
            (folder / (name + ".yml")).write_text("---\nbuild_tools_packages: [make, acl]\n")
    yield made
    if keep:
        made.unlock()
    else:
        made.down()


@pytest.fixture
def soon():
    """``soon(condition, timeout)`` waits until the condition holds, and fails where it does not in time."""

    def wait(condition, timeout=10):
        until = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < until, "not so within {} s".format(timeout)
            time.sleep(0.1)  # the condition is asked again, nothing more

    return wait


# The lab as it comes and what puts it back; then a cluster made of it, and what is tried on the cluster.
FIRST = ("test_lab.py", "test_preflight.py", "test_identity.py", "test_system.py", "test_site.py")
LAST = ("test_joining.py",)


def place(path):
    """Where a file of tests stands in the order."""
    return FIRST.index(path.name) if path.name in FIRST else len(FIRST) + (path.name in LAST)


def pytest_collection_modifyitems(items):
    """Order the files of this folder, which share one lab; within a file the order stays."""
    here = os.path.dirname(__file__)
    places = [index for index, item in enumerate(items) if str(item.path.parent) == here]
    ours = sorted((items[index] for index in places), key=lambda item: place(item.path))
    for index, item in zip(places, ours):
        items[index] = item
