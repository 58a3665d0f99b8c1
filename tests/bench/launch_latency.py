"""Figures of a launch on the two local nodes, as medians of paired runs.

1. ``launch.yml`` from command to exit against the same two torchrun commands started bare by a shell.
2. From a rank's exception to every process gone and the cause on the screen, peers in a collective and idle.
3. A second ``site.yml``.

Run by ``make bench``; ``--pairs N`` sets the number of runs.
"""

import argparse
import json
import os
import platform
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
TORCHRUN = REPO / ".muster" / "env" / "bin" / "torchrun"
SCRIPTS = REPO / "tests" / "integration" / "scripts"
DIGITS = REPO / "files" / "digits.csv.gz"
PORT = 28500
# Bare torchrun sometimes waits 300 s in its exit barrier though all its ranks have ended.
BARE_SECONDS = 90
ENVIRONMENT = dict(os.environ, ANSIBLE_CONFIG=str(REPO / "ansible.cfg"), ANSIBLE_NOCOLOR="1")


def timed(argv, cwd, expect=0, bound=300):
    """Wall seconds of a command and its output; the exit code must be 0 (or not, with ``expect=None``).

    Raises:
        subprocess.TimeoutExpired: it took longer than ``bound`` seconds; all its processes have been ended.
    """
    began = time.monotonic()
    process = subprocess.Popen(
        argv, cwd=cwd, env=dict(ENVIRONMENT, TMPDIR=str(cwd)) if cwd != REPO else ENVIRONMENT, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        screen = process.communicate(timeout=bound)[0].decode()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    seconds = time.monotonic() - began
    if expect is not None and process.returncode != expect:
        sys.exit("{} ended with {}:\n{}".format(argv, process.returncode, screen))
    return seconds, screen


def launch(folder, script, *arguments):
    """The command that a user types, with state and records of its own and a job that is new."""
    extra = {
        "script": script,
        "script_args": list(arguments),
        "master_port": PORT,
        "muster_state_dir": str(folder) + "/state/{{ inventory_hostname }}",
        "launch_runs_dir": str(folder / "runs"),
        "job": "bench-{}".format(time.monotonic_ns()),
    }
    return [str(BIN / "ansible-playbook"), str(REPO / "launch.yml"), "-e", json.dumps(extra)]


def bare(script, *arguments):
    """The same two torchrun commands, started by a shell at the same time; the cores shared as Muster shares them."""
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    command = "export OMP_NUM_THREADS={}; ".format(threads)
    for rank in (1, 0):
        words = [
            str(TORCHRUN), "--nnodes=2", "--nproc-per-node=1", "--node-rank={}".format(rank), "--master-addr=127.0.0.1",
            "--master-port={}".format(PORT), script, *arguments,
        ]  # fmt: skip
        command += " ".join(shlex.quote(word) for word in words) + (" & " if rank else "; code=$?; wait && exit $code")
    return ["sh", "-c", command]


def shown(name, values):
    """One line: median, minimum and maximum in seconds."""
    return "{:<52} median {:6.2f}  min {:6.2f}  max {:6.2f}".format(
        name, statistics.median(values), min(values), max(values)
    )


def against_bare(folder, pairs, script, *arguments):
    """Paired runs of launch.yml and bare torchrun; prints both and the ratio."""
    mine, theirs = [], []
    for number in range(pairs + 1):  # the first pair warms the caches
        try:
            pair = [
                timed(launch(folder, script, *arguments), folder)[0],
                timed(bare(script, *arguments), folder, bound=BARE_SECONDS)[0],
            ]
        except subprocess.TimeoutExpired as hung:
            print("left out a pair: {} took more than {:g} s".format(" ".join(hung.cmd)[:60], hung.timeout))
            continue
        if number:
            mine.append(pair[0])
            theirs.append(pair[1])
    name = " ".join((script, *arguments[:1]))
    print(shown("launch.yml, " + name, mine))
    print(shown("bare torchrun, " + name, theirs))
    ratios = [one / other for one, other in zip(mine, theirs, strict=True)]
    print("{:<52} median {:6.2f}  min {:6.2f}  max {:6.2f}  (goal: at most 1.3)".format(
        "  ratio", statistics.median(ratios), min(ratios), max(ratios)))  # fmt: skip


def to_the_cause(folder, runs, peers):
    """Seconds from a rank's exception to the sentence on the screen; by then every process is gone."""
    seconds = []
    for number in range(runs):
        rank = str(number % 2)
        argv = launch(folder, "fault.py", "raise", rank, peers) + ["-e", "follow=all"]
        process = subprocess.Popen(
            argv, cwd=folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        failed = ended = None
        for line in process.stdout:
            text = line.decode()
            found = re.search(r"fails at ([\d.]+)", text)
            failed = float(found.group(1)) if found else failed
            if re.match(r"job \S+ failed: rank {0} on node{0}, fault.py".format(rank), text):
                ended = time.time()
        process.wait()
        if failed is None or ended is None:
            sys.exit("a run did not fail as it should")
        seconds.append(ended - failed)
    print(shown("exception to cause on the screen, peers " + peers, seconds) + "  (goal: at most 2)")


def main():
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5, help="counted runs of each (default 5)")
    pairs = parser.parse_args().pairs
    machine = (time.strftime("%Y-%m-%d"), os.cpu_count(), platform.platform(), platform.python_version())
    print("{}, {} cores, {}, Python {}".format(*machine))
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        folder = Path(name)
        for path in (*SCRIPTS.glob("*.py"), REPO / "files" / "train.py"):
            (folder / path.name).write_bytes(path.read_bytes())
        for script, *arguments in (("steps.py", "0"), ("steps.py", "3"), ("train.py", "--no-resume", "--data", str(DIGITS))):
            against_bare(folder, pairs, script, *arguments)
        for peers in ("idle", "collective"):
            to_the_cause(folder, pairs, peers)
        site = [str(BIN / "ansible-playbook"), str(REPO / "site.yml")]
        timed(site, REPO)
        runs = [timed(site, REPO) for _ in range(pairs)]
        if any(re.search(r"changed=[1-9]", text) for _, text in runs):
            sys.exit("a second site.yml changed something:\n" + runs[0][1])
        print(shown("second site.yml, changed=0", [seconds for seconds, _ in runs]) + "  (goal: at most 5)")


if __name__ == "__main__":
    main()
