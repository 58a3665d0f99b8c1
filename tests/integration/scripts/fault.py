"""A training whose rank WHO fails in the way MODE a second after the beginning; the others are in a collective or idle."""

import os
import signal
import sys
import time

mode, who = sys.argv[1], int(sys.argv[2])
peers = sys.argv[3] if len(sys.argv) > 3 else "idle"
rank = int(os.environ["RANK"])
if mode == "import" and rank == who:
    import module_of_no_such_name  # noqa: F401

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

dist.init_process_group("gloo")
print("Rank {}, World Size {}".format(rank, dist.get_world_size()), flush=True)
if rank == who:
    time.sleep(0.5)
    print("fails at {:.3f}".format(time.time()), flush=True)
    if mode == "raise":
        raise ValueError("bad batch in shard 17")
    if mode == "exit":
        sys.exit(3)
    if mode in ("kill", "segv"):
        os.kill(os.getpid(), signal.SIGKILL if mode == "kill" else signal.SIGSEGV)
if peers == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
while peers == "collective":
    dist.all_reduce(torch.ones(1))
time.sleep(120)
