"""Figures of a Python environment on three of the lab's hosts at once, controller and hosts on the same cores.

1. A fresh environment with torch: ``site.yml --tags python_env`` against ``python3 -m venv`` and ``pip install`` of the same
   wheels over SSH on the same hosts at once, in pairs. Every run starts with empty caches. The tools that Muster ships once per
   host are there, and are timed apart.
2. A run that changes nothing, whole, and the look at all hosts alone.
3. A host that joins: what it asks of the outer network.

Needs root, what ``make lab-packages`` installs, and packages for torch as pip on this machine finds them. ``--pairs N`` sets the
number of pairs, ``--lab NAME`` uses a lab that is up, ``--tasks`` prints where the time went.
"""

import argparse
import collections
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO), str(REPO / "tests")]

import ansible_runner  # noqa: E402 - with the lines below, which need the clone on sys.path
from bench.provision import wall  # noqa: E402 - as above
from channel import Server, build  # noqa: E402 - as above

from tests.lab import controller, network  # noqa: E402 - as above
from tests.lab.lab import Lab  # noqa: E402 - as above

BIN = Path(sys.executable).parent
HOSTS = ("n1", "n2", "n3")
TORCH = "torch==2.13.0"
STATE = "/var/lib/muster"
OURS = ("{}/cache", "{}/envs/bench", "{}/envs/.versions/bench")
HOST_ROLES = "hosts_file,cluster_user,firewall,ssh_keys"


class Bench:
    """The hosts, the server of channel and wheels, and the two ways."""

    def __init__(self, lab, server, folder):
        """Nothing is started; ``folder`` is for files of a moment."""
        self.lab, self.server, self.folder = lab, server, folder
        self.hosts = [lab.host(name) for name in HOSTS]
        self.runs = 0
        self.conda, self.plain = folder / "environment.yml", folder / "requirements.txt"
        lines = ["channels: [{}]".format(server.url), "dependencies:", "  - python=3.11", "  - pip:", "    - " + TORCH]
        self.conda.write_text("\n".join(lines) + "\n")
        self.plain.write_text(TORCH + "\n")

    def play(self, tags="python_env", spec=None, **more):
        """``site.yml`` on the hosts: ``(seconds, changed, tasks)``, as :func:`bench.provision.play` has them."""
        self.runs += 1
        private = self.folder / "run-{}".format(self.runs)
        private.mkdir()
        extra = {"python_env_name": "bench", "python_env_spec": str(spec or self.conda), **more}
        extra["python_env_index_url"] = self.server.url + "/simple/"
        began = time.monotonic()
        done = ansible_runner.run(
            private_data_dir=str(private), project_dir=str(private), playbook=str(REPO / "site.yml"), quiet=True, timeout=900,
            inventory=str(self.lab.folder / "inventory"), extravars=extra, cmdline="--tags " + tags,
            envvars={"ANSIBLE_CONFIG": str(REPO / "ansible.cfg"), "PATH": "{}:{}".format(BIN, os.environ["PATH"])},
        )  # fmt: skip
        seconds = time.monotonic() - began
        if done.rc:
            with done.stdout as stream:
                sys.exit("site.yml ended with {}:\n{}".format(done.rc, stream.read()[-5000:]))
        spans = collections.defaultdict(list)
        for event in done.events:
            found = event.get("event_data") or {}
            if event["event"].startswith("runner_on_") and event["event"] != "runner_on_start" and found.get("start"):
                spans[found["task"]].append((found["start"], found["end"]))
        return seconds, done.stats["changed"], {task: wall(times) for task, times in spans.items()}

    def everywhere(self, command):
        """Run a line of shell as root on all hosts at once, past SSH."""
        with ThreadPoolExecutor(len(self.hosts)) as pool:
            return list(pool.map(lambda host: host.run(command, timeout=300).stdout, self.hosts))

    def clear(self, tools=False):
        """Hosts as they were before, with the tools or without."""
        paths = [path.format(STATE) for path in OURS + (("{}/tools",) if tools else ())]
        self.everywhere("rm -rf {} /srv/venv /srv/pip; sync".format(" ".join(paths)))
        self.server.counts.clear()

    def venv(self, python):
        """Seconds of ``python3 -m venv`` and ``pip install`` over SSH on all hosts at once."""
        install = [
            "/srv/venv/bin/pip",
            "install",
            "--quiet",
            "--cache-dir",
            "/srv/pip",
            "--index-url",
            self.server.url + "/simple/",
        ]
        install += ["--index-url", self.server.url + "/simple/", "--trusted-host", network.address(self.lab.number, 1), TORCH]
        command = "sudo install -d -o ml /srv/venv /srv/pip && {} -m venv /srv/venv && {}".format(python, " ".join(install))

        def one(host):
            subprocess.run(host.ssh_argv(command), check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=900)

        began = time.monotonic()
        with ThreadPoolExecutor(len(self.hosts)) as pool:
            list(pool.map(one, self.hosts))
        return time.monotonic() - began


def say(text):
    """One line, at once."""
    print(text, flush=True)


def wheels(folder):
    """torch and what it needs, as pip on this machine gets them; the folder."""
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", str(folder), TORCH]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    return folder


def load():
    """Load of the machine over the last minute."""
    return os.getloadavg()[0]


def middle(values):
    """Median, least and greatest as text."""
    return "{:.1f} ({:.1f} to {:.1f})".format(statistics.median(values), min(values), max(values))


def measure(bench, options, python):
    """All figures; prints them."""
    head = {"python_env_cache_from": "head"}
    ways = {
        "conda's Python, each host fetches": {},
        "conda's Python, from the head": head,
        "the hosts' Python, each host fetches": {"spec": bench.plain, "python_env_python": python},
    }
    bench.clear(tools=True)
    first, _, tasks = bench.play()
    text = "with the tools, once per host: {:.1f} s, of which tools {:.1f} s"
    say(text.format(first, tasks.get("Give the host the tools", 0.0)))
    ours, theirs, where = collections.defaultdict(list), [], collections.defaultdict(list)
    for number in range(options.pairs):
        for name, more in ways.items():
            bench.clear()
            before = load()
            seconds, changed, tasks = bench.play(**more)
            if set(changed) != set(HOSTS):
                sys.exit("a fresh environment changed {}, expected all hosts".format(json.dumps(changed)))
            ours[name].append(seconds)
            where[name].append(tasks)
            say("pair {}: {} {:.1f} s, load {:.1f}".format(number + 1, name, seconds, before))
        bench.clear()
        before = load()
        theirs.append(bench.venv(python))
        say("pair {}: venv and pip {:.1f} s, load {:.1f}".format(number + 1, theirs[-1], before))
    if options.tasks:
        for name, found in where.items():
            for task in sorted(found[0], key=lambda task: -statistics.median(run.get(task, 0.0) for run in found))[:8]:
                say("    {:6.2f} s  {} ({})".format(statistics.median(run.get(task, 0.0) for run in found), task, name))
    bench.clear()
    bench.play(**head)
    requests = dict(bench.server.counts)
    again, looks = [], []
    for _ in range(max(3, options.pairs)):
        seconds, changed, tasks = bench.play(**head)
        if changed:
            sys.exit("a run that had nothing to do changed {}".format(json.dumps(changed)))
        again.append(seconds)
        looks.append(tasks["Look at the environment"])
    bench.hosts[1].run("rm -rf " + " ".join(path.format(STATE) for path in OURS))
    bench.server.counts.clear()
    joined, _, tasks = bench.play(**head)
    say("\n| fresh environment with torch, {} hosts at once | seconds | venv and pip | ratio of the pairs |".format(len(HOSTS)))
    say("|---|---|---|---|")
    for name, values in ours.items():
        ratios = [other / one for one, other in zip(values, theirs)]
        say("| {} | {} | {} | {} |".format(name, middle(values), middle(theirs), middle(ratios)))
    say("\n| | |\n|---|---|")
    say("| no change: whole site.yml --tags python_env | {} s |".format(middle(again)))
    say("| no change: the look at all {} hosts at once | {} s |".format(len(HOSTS), middle(looks)))
    packages = {path: count for path, count in requests.items() if path.endswith((".conda", ".whl"))}
    say("| requests of packages by the head for all hosts | {} for {} packages |".format(sum(packages.values()), len(packages)))
    say("| a host that joins, packages from the head | {:.1f} s, {} requests to the outer network |".format(
        joined, sum(bench.server.counts.values())))  # fmt: skip


def main():
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3, help="how often both ways are timed (default 3)")
    parser.add_argument("--lab", help="name of a lab that is up, to be used and kept")
    parser.add_argument("--tasks", action="store_true", help="print where the time of the fresh environment went")
    options = parser.parse_args()
    python = (controller.PYTHON if controller.python_prefix() else "/usr") + "/bin/python{}.{}".format(*sys.version_info)
    lab = Lab(options.lab or "bench")
    if options.lab:
        lab.lock()
    else:
        lab.up(HOSTS)
    try:
        with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
            folder = Path(name)
            address = network.address(lab.number, 1)
            with Server(build(REPO / ".cache" / "tests"), (wheels(folder / "wheels"),), address=address) as server:
                bench = Bench(lab, server, folder)
                bench.play(HOST_ROLES)
                measure(bench, options, python)
                bench.clear()
    finally:
        if options.lab:
            lab.unlock()
        else:
            lab.down()


if __name__ == "__main__":
    main()
