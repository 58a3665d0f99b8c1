"""The jobs' Python environment: the same on every member, in working order, and nobody else's to change."""

import json
import os

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import sameness

from . import scripts

TELL = "\nprint(json.dumps(gather()))\n"


def python_of(request, node):
    """Path of the Python that is looked at."""
    name = request.config.getoption("environment", None)
    return os.path.join(node.state_dir, "envs", name, "bin", "python") if name else node.python


@pytest.fixture(scope="module")
def told(cluster, request, repo):
    """``{name: facts}`` as the roll call of a launch tells them, or what was said instead."""
    source = (repo / "plugins" / "module_utils" / "muster_agent" / "facts.py").read_text(encoding="utf-8")
    script = scripts.packed(source + TELL)
    found = {}
    for member in cluster.members:
        node = cluster.node(member["name"])
        asked = node.as_job(scripts.python(script, interpreter=python_of(request, node)))
        found[node.name] = json.loads(asked.stdout.splitlines()[-1]) if asked.rc == 0 else asked.stderr.strip()[-300:]
    return found


def facts_of(told, node):
    """The facts of one host; the test fails where it has told none."""
    found = told[node.name]
    assert isinstance(found, dict), "{}: the jobs' Python does not start as the jobs' user: {}".format(node.name, found)
    return found


def test_the_python_starts_as_the_jobs_user(node, told):
    facts_of(told, node)


def test_the_environment_is_that_of_the_others(node, told):
    mine = facts_of(told, node)["fingerprint"]
    reports = [dict(facts, name=name) for name, facts in told.items() if isinstance(facts, dict)]
    usual = sameness.groups(reports)[0][0]["fingerprint"]
    assert mine == usual, "; ".join(sameness.drift([report for report in reports if report["fingerprint"] in (mine, usual)]))


def test_torch_can_be_imported(node, told, request):
    expected = facts_of(told, node)["torch"]
    if not expected:
        pytest.skip("there is no torch in the environment of {}".format(node.name))
    asked = node.as_job(scripts.python("import torch; print(torch.__version__)", interpreter=python_of(request, node)))
    assert asked.stdout.strip() == expected, "{}: {}".format(node.name, (asked.stdout + asked.stderr).strip()[-500:])


def test_nobody_else_may_change_it(node, request):
    prefix = os.path.dirname(os.path.dirname(python_of(request, node)))
    asked = node.plain(scripts.python(scripts.WRITABLE, prefix))
    assert asked.rc == 0, "{}: {}".format(node.name, asked.stderr.strip()[-300:])
    assert not asked.stdout, "{} (mode, owner, path): {}".format(node.name, "; ".join(asked.stdout.splitlines()))
