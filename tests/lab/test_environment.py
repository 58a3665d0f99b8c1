"""One identical Python environment on three hosts of two systems: from a channel that counts, over SSH, through faults.

The tests build on each other, in the order in which a user meets it. The channel and the wheels are served on the lab's bridge.
"""

import json
import re
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from channel import Server, build, wheel

from . import network
from .playing import changed, player
from .test_site import suite

REPO = Path(__file__).resolve().parents[2]
MEMBERS = ("n1", "n2", "n3")
STATE = "/var/lib/muster"
ENVS, STORE = STATE + "/envs", STATE + "/cache/packages"
ENV = ENVS + "/lab"
# What an environment's Python tells: the real prefix, and its packages by import.
ASK = "import greet, small, sys; print(sys.prefix, greet.__version__, small.__version__)"
# Uses one package at once and the other, which is not loaded before, as soon as it is told to.
LAZY = """
import os, time, small
open("/tmp/lazy", "w").close()
while os.path.exists("/tmp/lazy"):
    time.sleep(0.1)
import greet
print(small.__version__, greet.__version__)
"""
# Unpacks a wheel from an address into a folder, as somebody would who knows no better.
UNPACK = """
import io, sys, urllib.request, zipfile
zipfile.ZipFile(io.BytesIO(urllib.request.urlopen(sys.argv[1]).read())).extractall(sys.argv[2])
"""
SCRIPT = """\
import os, socket, greet, torch
print("rank", os.environ["RANK"], socket.gethostname(), greet.__version__, torch.ones(2).sum().item(), flush=True)
"""
# What a run that was killed may leave behind.
LEFT = "find {0} {1} -name '*.part-*' -o -path '*/.partial/*' -o -name 'work-*' -o -name '.*.lock' -o -name '*.part'".format(
    ENVS, STORE
)
# Kills the module as soon as a version is in the making, by the number that stands in its lock file.
KILLER = """
for turn in $(seq 2000); do
  if ls -d {0}/.versions/{1}/*/conda-meta; then kill -9 $(sed 's/^process \\([0-9]*\\) .*/\\1/' {0}/.{1}.lock); exit; fi
  sleep 0.02
done
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
        common = {"python_env_name": name, "python_env_index_url": index, "python_env_cache_from": "head"}
        return dict(common, python_env_spec=spec, **more)

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
        return [host.name + " " + line for host in self.hosts for line in host.run(LEFT, check=False).stdout.splitlines()]

    def versions(self, name="lab"):
        """How many versions every host has."""
        return [len(host.run("ls {}/.versions/{}".format(ENVS, name)).stdout.split()) for host in self.hosts]


def as_user(host, words):
    """Run words on a host as the user of the jobs."""
    return host.run(["setpriv", "--reuid=muster", "--regid=muster", "--init-groups", "env", "HOME=/home/muster", *words])


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


SOLVE, BUILD, SWITCH = "Solve for all hosts on the head", "Build what the head has solved", "Switch to it"
LOOK = "Look at the environment"
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
            host.run("rm -rf {0}/[lot]* {0}/.[lot]*.lock {0}/.versions/[lot]* {1}/cache".format(ENVS, STATE))
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
    found = told(run, SWITCH)
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
    assert not told(run, SWITCH).get("n1", {}).get("fingerprint")
    assert run.seconds < 30


def test_a_host_that_joins_gets_the_heads_lock_without_solving(cluster):
    cluster.hosts[2].run("rm -rf {0}/lab {0}/.versions/lab {1}/cache {1}/tools".format(ENVS, STATE))
    run = cluster.make(cluster.spec("small==1.0"))
    assert told(run, SOLVE)["n1"]["source"] == "installed"
    assert told(run, HAND)["n1"]["handed"]["n3"]["packages"] == 5
    assert told(run, SWITCH)["n3"]["changed"] and not {"n1", "n2"} & set(changed_by(run, SWITCH))
    assert not cluster.server.counts
    assert len(cluster.fingerprints()) == 1 and len(set(cluster.ask())) == 1


def test_drift_is_named_package_by_package_and_put_right(cluster):
    n1, n2, n3 = cluster.hosts
    site = ENV + "/lib/python3.11/site-packages"
    n2.run("rm -r {0}/small.py {0}/small-1.0.dist-info".format(site))
    as_user(n2, ["python3", "-c", UNPACK, cluster.server.url + "/simple/extra/extra-1.0-py3-none-any.whl", site])
    before = [host.run("stat -c %i%Y {0} {0}/.versions/lab/*".format(ENVS)).stdout for host in (n1, n3)]
    verified = suite(cluster.lab, "--environment=lab", "-k", "environment_is_that_of_the_others")
    assert verified.returncode == 1 and "small" in verified.stdout and "extra" in verified.stdout, verified.stdout[-3000:]
    run = cluster.make(cluster.spec("small==1.0"))
    assert "n2" in changed(run) and "n3" not in changed(run)
    assert re.search(r"n2 is not as it was installed, and is repaired: .*extra.*small", run.stdout), run.stdout[-4000:]
    assert len(cluster.fingerprints()) == 1 and len(set(cluster.ask())) == 1
    assert before == [host.run("stat -c %i%Y {0} {0}/.versions/lab/*".format(ENVS)).stdout for host in (n1, n3)]
    assert suite(cluster.lab, "--environment=lab", "-k", "environment_is_that_of_the_others").returncode == 0


def test_a_switch_leaves_a_job_its_files_and_rollback_brings_all_back(cluster, soon):
    n1, before = cluster.hosts[0], cluster.fingerprints()
    real = n1.run(["readlink", "-f", ENV]).stdout.strip()
    unit = ["systemd-run", "--quiet", "--collect", "--unit=lazy", "--uid=muster", "-p", "StandardOutput=file:/srv/lazy.out"]
    n1.run([*unit, real + "/bin/python", "-I", "-c", LAZY])
    spec = cluster.spec("small==2.0", greet="1.0")
    try:
        soon(lambda: n1.run("test -e /tmp/lazy", check=False).returncode == 0)
        assert changed_by(cluster.make(spec), SWITCH) == list(MEMBERS)
        assert cluster.ask() == [ENV + " 1.0 2.0"] * 3 and cluster.versions() == [2, 2, 2]
        back = cluster.play("playbooks/rollback.yml", extravars={"python_env": "lab"})
        assert set(changed(back)) == set(MEMBERS)
        assert cluster.ask() == [ENV + " 1.2 1.0"] * 3 and cluster.fingerprints() == before
        cluster.forget()
        run = cluster.make(spec, python_env_keep=0)
        assert changed_by(run, SWITCH) == list(MEMBERS) and not cluster.server.archives()
        assert cluster.ask() == [ENV + " 1.0 2.0"] * 3
        assert cluster.versions() == [2, 1, 1]  # that of the job stays, although none is to be kept
    finally:
        n1.run("rm -f /tmp/lazy")
    soon(lambda: n1.run("cat /srv/lazy.out").stdout == "1.0 1.2\n")


def test_killed_and_without_power_in_the_middle_the_next_run_repairs(cluster, soon):
    (_n1, n2, n3), before = cluster.hosts, cluster.ask()
    for host in cluster.hosts:
        host.run("rm -rf " + STORE)
    spec, runs = cluster.spec("small==1.0"), []
    cluster.server.rate = 10_000_000  # seven seconds for Python's package
    n3.run(["systemd-run", "--quiet", "--collect", "sh", "-c", KILLER.format(ENVS, "other")])
    site = threading.Thread(
        target=lambda: runs.append(cluster.make(spec, name="other", bad=True, python_env_cache_from="", preflight_min_tmp_mb=0))
    )
    site.start()
    try:
        soon(lambda: n2.run("ls -A {}/.partial 2>/dev/null".format(STORE), check=False).stdout, 60)
        n2.power_off()
        site.join(120)
    finally:
        cluster.server.rate = None
        n2.power_on()
        n2.wait_ssh(60)
    run = runs[0]
    assert run.stats["dark"] == {"n2": 1} and set(run.stats["failures"]) == {"n1", "n3"}, run.stdout[-4000:]
    assert changed_by(run, BUILD) == ["n1"] and not changed_by(run, SWITCH)
    assert n3.run("readlink {}/other".format(ENVS), check=False).returncode == 1
    assert n3.run("ls {}/.versions/other".format(ENVS)).stdout.split() and cluster.left()
    assert cluster.ask() == before
    again = cluster.make(spec, name="other", python_env_cache_from="")
    assert changed_by(again, SWITCH) == list(MEMBERS)
    assert cluster.ask(name="other") == [ENVS + "/other 1.2 1.0"] * 3 and len(cluster.fingerprints("other")) == 1
    assert cluster.versions("other") == [1, 1, 1] and not cluster.left()


def test_what_cannot_be_fetched_is_one_sentence_and_changes_nothing(cluster, tmp_path):
    """Nobody listens, an authority that no host knows, a package that somebody has altered."""
    before = cluster.ask()
    nobody = "http://{}:9/channel".format(network.address(cluster.lab.number, 1))
    run = cluster.make(cluster.spec("small==1.0", channel=nobody), bad=True)
    assert nobody in sentence(run, "n1") and not changed(run)
    with Server(cluster.server.folder, address=network.address(cluster.lab.number, 1), tls=tmp_path / "tls") as other:
        run = cluster.make(cluster.spec("small==1.0", channel=other.url), bad=True)
    assert re.search(r"certificate.*python_env_ca_bundle", sentence(run, "n1")) and not changed(run)
    cluster.hosts[0].run("rm -rf " + STORE)
    cluster.server.tampered.add("/noarch/greet-1.0-py_0.conda")
    run = cluster.make(cluster.spec("small==3.0", greet="1.0"), bad=True)
    cluster.server.tampered.clear()
    assert "greet" in sentence(run, "n1") and not changed(run)
    assert cluster.ask() == before and not cluster.left()


def test_a_full_disk_and_a_folder_of_others_are_named_and_the_old_environment_works(cluster):
    """On two hosts at once, in the middle of the run; the third one has built what is new, and does not switch to it alone."""
    (_n1, n2, n3), before = cluster.hosts, cluster.ask()
    n2.run("rm -rf {0}/cache/*; mount -t tmpfs -o size=30m tmpfs {0}/cache && chown muster: {0}/cache".format(STATE))
    n3.run("chown root: {0} {0}/.versions/lab".format(ENVS))
    try:
        run = cluster.make(cluster.spec("small==3.0"), bad=True, python_env_cache_from="", python_env_min_free_mb=0)
        messages = {host: result["msg"] for host, result in told(run, BUILD).items() if result.get("msg")}
        assert set(messages) == {"n2", "n3"} and not any("\n" in text for text in messages.values())
        assert STATE + "/cache/packages is full" in messages["n2"] and ENVS in messages["n3"]
        assert "missing on n2, n3, expected it on every host before any switches" in run.stdout and cluster.ask() == before
        assert n2.run("find {}/cache -type f -size +1M".format(STATE)).stdout == ""
        # Handed on by the head, the same is told before anybody installs.
        run = cluster.make(cluster.spec("small==2.0"), bad=True, python_env_min_free_mb=0)
        assert "n2" in sentence(run, "n1") and not changed_by(run, SWITCH)
    finally:
        n2.run("umount {}/cache".format(STATE))
        n3.run("chown muster: {0} {0}/.versions/lab".format(ENVS))
    cluster.make(cluster.spec("small==3.0"))
    assert cluster.ask() == [ENV + " 1.2 3.0"] * 3 and len(cluster.fingerprints()) == 1 and not cluster.left()


def test_torch_imports_everywhere_and_a_job_runs_by_the_environments_name(cluster, tmp_path):
    """Conda's Python and the wheel of torch, on two systems; torch comes as the hosts' pip is set up."""
    variables = cluster.variables(cluster.spec("torch==2.13.0"), "torch")
    del variables["python_env_index_url"]
    run = cluster.play(options="--tags python_env", extravars=variables)
    assert len({result["fingerprint"] for result in told(run, SWITCH).values()}) == 1
    assert set(cluster.asked) == {cluster.hosts[0].address} and set(cluster.server.archives().values()) <= {1}
    script = tmp_path / "job" / "two_lines.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    options = {"script": str(script), "python_env": "torch", "follow": "all", "launch_runs_dir": str(tmp_path / "runs")}
    launched = cluster.play("launch.yml", extravars=options)
    for rank, name in enumerate(MEMBERS):
        assert "rank {} {} 1.2 2.0".format(rank, name) in launched.stdout, launched.stdout[-3000:]
