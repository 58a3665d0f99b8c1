"""Figures of ``site.yml`` on the lab's booted hosts, controller and hosts on the same cores.

1. First run on untouched hosts, with its slowest tasks as a table, and the run after it, for each number of hosts.
2. What a further host adds to a run that changes nothing.

Needs root and what ``make lab-packages`` installs. ``--hosts 3,6,12`` sets the sizes, ``--runs N`` the number of second runs.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO))

import ansible_runner  # noqa: E402 - with the line below, which needs the clone on sys.path

from tests.lab.lab import Lab  # noqa: E402 - as above

BIN = Path(sys.executable).parent
NAMED = ("n1", "n2", "n3")
SLOWEST = 12


def play(inventory, folder, packages):
    """One run of ``site.yml``; ``packages`` take the place of the role build_tools' own where there are any.

    Returns:
        ``(seconds, changed, tasks)``: wall time, changed tasks per host, and wall seconds of every task by name.
    """
    folder.mkdir()
    began = time.monotonic()
    done = ansible_runner.run(
        private_data_dir=str(folder), project_dir=str(folder), playbook=str(REPO / "site.yml"), inventory=str(inventory),
        extravars={"build_tools_packages": packages},
        envvars={"ANSIBLE_CONFIG": str(REPO / "ansible.cfg"), "PATH": "{}:{}".format(BIN, os.environ["PATH"])},
        quiet=True, timeout=1800,
    )  # fmt: skip
    seconds = time.monotonic() - began
    if done.rc:
        with done.stdout as stream:
            sys.exit("site.yml ended with {}:\n{}".format(done.rc, stream.read()[-5000:]))
    tasks = {}
    for event in done.events:
        found = event.get("event_data") or {}
        if str(found.get("task_action")).endswith("meta"):
            continue  # it has no start of its own, but that of the task before
        if event["event"].startswith("runner_on_") and event["event"] != "runner_on_start" and found.get("start"):
            named = "{} : {}".format(found["role"].rpartition(".")[2], found["task"]) if found.get("role") else found["task"]
            tasks.setdefault((found["task_uuid"], named), []).append((found["start"], found["end"]))
    walls = {}
    for (_, name), spans in tasks.items():
        walls[name] = walls.get(name, 0) + wall(spans)
    return seconds, done.stats["changed"], walls


def wall(spans):
    """Seconds from the first start to the last end of ISO times."""
    starts, ends = zip(*spans)
    return (datetime.fromisoformat(max(ends)) - datetime.fromisoformat(min(starts))).total_seconds()


def measure(size, runs, packages):
    """First and later runs on ``size`` hosts, see :func:`play`.

    Returns:
        ``{"hosts", "first", "tasks", "again", "boot"}``, in seconds; ``again`` is a list.
    """
    lab = Lab("bench")
    try:
        began = time.monotonic()
        inventory = lab.up(NAMED, workers=size - len(NAMED))
        boot = time.monotonic() - began
        with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
            first, _, tasks = play(inventory, Path(name) / "first", packages)
            again = []
            for number in range(runs):
                seconds, changed, _ = play(inventory, Path(name) / str(number), packages)
                if changed:
                    sys.exit("a run that had nothing to do changed {}".format(json.dumps(changed)))
                again.append(seconds)
        return {"hosts": size, "boot": boot, "first": first, "tasks": tasks, "again": again}
    finally:
        lab.down()


def main():
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", default="3,6,12", help="numbers of hosts, from 3 (default 3,6,12)")
    parser.add_argument("--runs", type=int, default=5, help="repetitions of the run that changes nothing (default 5)")
    parser.add_argument("--packages", help="in place of the compilers, which take long to unpack, such as make,acl")
    options = parser.parse_args()
    packages = options.packages.split(",") if options.packages else []
    sizes = [int(word) for word in options.hosts.split(",")]
    measured = []
    for size in sizes:
        found = measure(size, options.runs, packages)
        measured.append(found)
        print("{hosts} hosts: booted in {boot:.1f} s, first run {first:.1f} s, again {again}".format(
            **dict(found, again=" ".join("{:.1f}".format(value) for value in found["again"]))), flush=True)  # fmt: skip
        for task, seconds in sorted(found["tasks"].items(), key=lambda item: -item[1])[:SLOWEST]:
            print("    {:6.1f} s  {}".format(seconds, task), flush=True)
    print("\n| hosts | first run | again, median (min to max) | changed |\n|---|---|---|---|")
    for found in measured:
        again = found["again"]
        figures = (found["first"], statistics.median(again), min(again), max(again))
        print("| {} | {:.1f} | {:.1f} ({:.1f} to {:.1f}) | 0 |".format(found["hosts"], *figures))
    for one, other in zip(measured, measured[1:]):
        added = (statistics.median(other["again"]) - statistics.median(one["again"])) / (other["hosts"] - one["hosts"])
        print("a further host, from {} to {}: {:.2f} s".format(one["hosts"], other["hosts"], added))


if __name__ == "__main__":
    main()
