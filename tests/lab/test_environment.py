"""One identical Python environment on three hosts of two systems: from a channel that counts, over SSH, through faults.

The tests build on each other, in the order in which a user meets it. The channel and the wheels are served on the lab's bridge.
"""

import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from channel import Server, build, wheel

from . import network
from .playing import changed, player
from .processes import alive
from .test_site import suite

REPO = Path(__file__).resolve().parents[2]
MEMBERS = ("n1", "n2", "n3")
STATE = "/var/lib/muster"
ENVS, STORE = STATE + "/envs", STATE + "/cache/packages"
ENV = ENVS + "/lab"
# What an environment's Python tells: the real prefix, and its packages by import.
ASK = "import greet, small, sys; print(sys.prefix, greet.__version__, small.__version__)"
# Uses one package at once and the other, which is not loaded before, as soon as it is told to.
LAZY = "import os, time, small; open('/tmp/lazy', 'w').close()\nwhile os.path.exists('/tmp/lazy'): time.sleep(0.1)\nimport greet; print(small.__version__, greet.__version__)"
SCRIPT = """\
import os, socket, greet, torch
print("rank", os.environ["RANK"], socket.gethostname(), greet.__version__, torch.ones(2).sum().item(), flush=True)
"""
# What a run that was killed may leave behind.
LEFT = "find {0} {1} -name '*.part-*' -o -path '*/.partial/*' -o -name 'work-*' -o -name '.*.lock' -o -name '*.part'".format(
    ENVS, STORE
)
# Kills a run of the module as soon as a version is in the making.
KILLER = """
until [ -n "$(ls -d {0}/.versions/{1}/*/conda-meta 2>/dev/null)" ]; do sleep 0.02; done
pkill -9 -f AnsiballZ_python_env; pkill -9 -u muster python3
"""


class Cluster:
    """Hosts that share environments from one server, and what a test does with them.

    Attributes: ``server``; ``asked``, a Counter of requests by the address of who asked; ``play``, see :func:`player`.
    """

    def __init__(self, lab, server, folder):
        """Nothing is started."""
        self.lab, self.server, self.folder = lab, server, folder
        self.hosts = [lab.host(name) for name in MEMBERS]
        self.asked = Counter()
        self.play = None

    def spec(self, *pip, greet="1.2", channel=None):
        """An environment.yml with Python, the package greet, and these wheels; its path."""
        lines = ["channels: [{}]".format(channel or self.server.url), "dependencies:", "  - python=3.11", "  - greet=" + greet]
        lines += ["  - pip:", *("    - " + line for line in pip)] if pip else []
        path = self.folder / "environment.yml"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    def variables(self, spec, name="lab", **more):
        """Extra variables of site.yml for one environment."""
        index = self.server.url + "/simple/"
        return dict(python_env_spec=spec, python_env_name=name, python_env_index_url=index, python_env_cache_from="head", **more)

    def make(self, spec, options="", bad=False, **more):
        """One run of ``site.yml --tags python_env``; its finished run, with ``seconds``."""
        began = time.monotonic()
        done = self.play(options="--tags python_env " + options, extravars=self.variables(spec, **more), bad=bad)
        done.seconds = time.monotonic() - began
        return done

    def forget(self):
        """Begin to count anew."""
        self.server.counts.clear()
        self.asked.clear()

    def ask(self, code=ASK, name="lab"):
        """What the environment's Python on every host answers to the user of the jobs, in the order of the hosts."""
        return [as_user(host, [ENVS + "/" + name + "/bin/python", "-I", "-c", code]).stdout.strip() for host in self.hosts]

    def fingerprints(self, name="lab"):
        """The fingerprints in the stamps, a set."""
        stamp = "cat {}/{}/.muster/stamp.json".format(ENVS, name)
        return {json.loads(host.run(stamp).stdout)["fingerprint"] for host in self.hosts}

    def left(self):
        """What lies on the hosts that a run should not leave."""
        return [host.name + " " + line for host in self.hosts for line in host.run(LEFT).stdout.splitlines()]

    def versions(self, name="lab"):
        """How many versions every host has."""
        return [len(host.run("ls {}/.versions/{}".format(ENVS, name)).stdout.split()) for host in self.hosts]


def as_user(host, words, check=True):
    """Run words on a host as the user of the jobs."""
    return host.run(["setpriv", "--reuid=muster", "--regid=muster", "--init-groups", "env", "HOME=/home/muster", *words], check=check)


def told(run, task):
    """Each host's result of a task."""
    ends = [event["event_data"] for event in run.events if event["event"].startswith("runner_on_")]
    return {data["host"]: data["res"] for data in ends if data.get("task") == task and "res" in data}


def changed_by(run, task):
    """Hosts on which a task has changed something."""
    return sorted(host for host, result in told(run, task).items() if result.get("changed"))


def sentence(run, *hosts):
    """The message of the run's failures, which have to be one sentence and of these hosts alone."""
    failed = [event["event_data"] for event in run.events if event["event"] == "runner_on_failed"]
    assert sorted(data["host"] for data in failed) == sorted(hosts), run.stdout[-3000:]
    messages = {data["res"]["msg"] for data in failed}
    assert len(messages) == 1 and "\n" not in min(messages) and "Traceback" not in run.stdout, messages
    return messages.pop()


SOLVE, INSTALL, LOOK = "Solve for all hosts on the head", "Install what the head has solved", "Look at the environment"
HAND = "Hand on from the head what the others lack"


@pytest.fixture(scope="module")
def ready(lab, tmp_path_factory):
    """The cluster, whose hosts let the head in; without what another run has left of these tests."""
    folder = tmp_path_factory.mktemp("environment")
    wheels = folder / "wheels"
    for version in ("1.0", "2.0", "3.0"):
        wheel(wheels, "small", version)
    wheel(wheels, "extra", "1.0")
    channel = build(REPO / ".cache" / "tests")
    with Server(channel, (wheels,), address=network.address(lab.number, 1)) as server:
        cluster = Cluster(lab, server, folder)
        plain = server._http.RequestHandlerClass

        class Noting(plain):
            """Notes who asks."""

            def do_GET(self):
                cluster.asked[self.client_address[0]] += 1
                super().do_GET()

        server._http.RequestHandlerClass = Noting
        for host in cluster.hosts:
            host.run("rm -rf {0}/lab {0}/torch {0}/other {0}/.versions/[lot]* {1}/cache".format(ENVS, STATE))
        yield cluster


@pytest.fixture
def cluster(ready, run_playbook):
    """:func:`ready`, with a way to run playbooks; sets the hosts up where test_site.py has not been."""
    ready.play = player(run_playbook, ready.lab)
    ready.forget()
    if ready.hosts[0].run("test -e /home/muster/.ssh/id_ed25519", check=False).returncode:
        ready.play(options="--tags hosts_file,cluster_user,firewall,ssh_keys")
    return ready


def test_the_same_comes_out_on_every_host_and_crosses_the_outer_network_once(cluster):
    for host in cluster.hosts[1:]:
        host.run("mount -t tmpfs -o size=1m,mode=1777 tmpfs /tmp")
    try:
        run = cluster.make(cluster.spec("small==1.0"), preflight_min_tmp_mb=0)
    finally:
        for host in cluster.hosts[1:]:
            host.run("umount /tmp")
    assert set(changed(run)) == set(MEMBERS)
    found = told(run, INSTALL)
    assert len({result["fingerprint"] for result in found.values()}) == 1 and set(found) == set(MEMBERS)
    assert cluster.fingerprints() == {found["n1"]["fingerprint"]}
    answers = cluster.ask()
    assert len(set(answers)) == 1 and answers[0] == ENV + " 1.2 1.0"
    # They are different systems all the same.
    assert len(set(host.run("python3 -V").stdout for host in cluster.hosts)) == 2
    for host in cluster.hosts:
        host.run("test -f {0}/conda-meta/history && test -f {0}/.muster/environment.yml".format(ENV))
        assert host.run("readlink " + ENV).stdout.startswith(".versions/")
    assert set(cluster.server.archives().values()) == {1} and len(cluster.server.archives()) == 5, cluster.server.counts
    assert set(cluster.asked) == {cluster.hosts[0].address}
    assert {name: got["packages"] for name, got in told(run, HAND)["n1"]["handed"].items()} == {"n2": 5, "n3": 5}
    assert not cluster.left()


def test_again_changes_nothing_and_asks_nobody(cluster):
    run = cluster.make(cluster.spec("small==1.0"))
    assert not changed(run)
    assert not cluster.server.counts
    assert not told(run, INSTALL).get("n1", {}).get("fingerprint")
    assert run.seconds < 30


def test_a_host_that_joins_gets_the_heads_lock_without_solving(cluster):
    cluster.hosts[2].run("rm -rf {0}/lab {0}/.versions/lab {1}/cache {1}/tools".format(ENVS, STATE))
    run = cluster.make(cluster.spec("small==1.0"))
    assert told(run, SOLVE)["n1"]["source"] == "installed"
    assert told(run, HAND)["n1"]["handed"]["n3"]["packages"] == 5
    assert told(run, INSTALL)["n3"]["changed"] and not {"n1", "n2"} & set(changed_by(run, INSTALL))
    assert not cluster.server.counts
    assert len(cluster.fingerprints()) == 1 and len(set(cluster.ask())) == 1


def test_drift_is_named_package_by_package_and_put_right(cluster):
    n1, n2, n3 = cluster.hosts
    site = ENV + "/lib/python3.11/site-packages"
    n2.run("rm -r {0}/small.py {0}/small-1.0.dist-info && printf x >{0}/by_hand.py && chown muster {0}/by_hand.py".format(site))
    add = "import sys, zipfile, urllib.request, io; zipfile.ZipFile(io.BytesIO(urllib.request.urlopen(sys.argv[1]).read())).extractall(sys.argv[2])"
    n2.run(["python3", "-c", add, cluster.server.url + "/simple/extra/extra-1.0-py3-none-any.whl", site])
    before = [host.run("stat -c %i%Y {0} {0}/.versions/lab/*".format(ENVS)).stdout for host in (n1, n3)]
    verified = suite(cluster.lab, "--environment=lab", "-k", "environment_is_that_of_the_others")
    assert verified.returncode == 1 and "small" in verified.stdout and "extra" in verified.stdout, verified.stdout[-3000:]
    run = cluster.make(cluster.spec("small==1.0"))
    assert "n2" in changed(run) and "n3" not in changed(run)
    assert re.search(r"n2 is not as it was installed, and is repaired: .*extra.*small", run.stdout), run.stdout[-4000:]
    assert len(cluster.fingerprints()) == 1 and len(set(cluster.ask())) == 1
    assert before == [host.run("stat -c %i%Y {0} {0}/.versions/lab/*".format(ENVS)).stdout for host in (n1, n3)]
    assert suite(cluster.lab, "--environment=lab", "-k", "environment_is_that_of_the_others").returncode == 0
