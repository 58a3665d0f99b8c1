"""torchrun without a rendezvous: starts the ranks of this node and waits for them."""

import argparse
import os
import subprocess
import time

OPTIONS = (
    "nnodes", "nproc-per-node", "node-rank", "master-addr", "master-port", "rdzv-backend", "rdzv-id", "rdzv-conf",
    "max-restarts", "monitor-interval", "start-method",
)  # fmt: skip


class Failure:
    """One failed rank, as torch's ProcessFailure."""

    def __init__(self, local_rank, pid, exitcode):
        self.local_rank, self.pid, self.exitcode, self.timestamp = local_rank, pid, exitcode, int(time.time())


class ChildFailedError(Exception):
    """As torch's."""

    def __init__(self, failures):
        super().__init__("ranks failed")
        self.failures = failures


def get_args_parser():
    """Options of an old torch: no --local-addr."""
    parser = argparse.ArgumentParser()
    for option in OPTIONS:
        parser.add_argument("--" + option, "--" + option.replace("-", "_"))
    parser.add_argument("--no-python", "--no_python", action="store_true")
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


def main(argv):
    """Run the ranks of one node."""
    options = get_args_parser().parse_args(argv)
    count, ranks = int(options.nproc_per_node), []
    for local_rank in range(count):
        env = dict(os.environ, LOCAL_RANK=str(local_rank), WORLD_SIZE=str(count * int(options.nnodes)))
        env["RANK"] = str(count * int(options.node_rank) + local_rank)
        command = [options.training_script, *options.training_script_args]
        ranks.append(subprocess.Popen(command, env=env, start_new_session=True))
    while any(rank.poll() is None for rank in ranks) and not any(rank.poll() for rank in ranks):
        time.sleep(0.1)
    failures = {number: Failure(number, rank.pid, rank.poll()) for number, rank in enumerate(ranks) if rank.poll()}
    if failures:
        raise ChildFailedError(failures)
