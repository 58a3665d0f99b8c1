"""A rank that fails once, with ``max_restarts=2``, ten launches in a row: each must recover from its checkpoint.

Prints how many did and the seconds that each took; the exit code is 0 only if all did.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from launch_latency import SCRIPTS, launch, timed


def main():
    """Run the loop."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10, help="launches (default 10)")
    runs = parser.parse_args().runs
    seconds, good = [], 0
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        folder = Path(name)
        (folder / "once.py").write_bytes((SCRIPTS / "once.py").read_bytes())
        for number in range(runs):
            argv = launch(folder, "once.py") + ["-e", "max_restarts=2"]
            took, screen = timed(argv, folder, expect=None)
            result = json.loads(max((folder / "runs").glob("*/result.json"), key=lambda path: path.stat().st_mtime).read_text())
            well = result["outcome"] == "finished" and len(result["restarts"]) == 1 and "after 1 restart" in screen
            good += well
            seconds.append(took)
            print("run {:2}: {} in {:.1f} s".format(number + 1, "recovered" if well else result["sentence"], took), flush=True)
    print("{} of {} recovered, median {:.1f} s".format(good, runs, statistics.median(seconds)))
    sys.exit(good != runs)


if __name__ == "__main__":
    main()
