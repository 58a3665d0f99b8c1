"""Ten steps with a checkpoint each, broadcast from rank 0; rank 1 fails at step 5 of the first attempt."""

import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
step = torch.zeros(1, dtype=torch.int64)
if rank == 0 and os.path.exists("step.pt"):
    step = torch.load("step.pt", weights_only=True)
dist.broadcast(step, 0)
print("rank {} resumes at {}".format(rank, step.item()))
while step.item() < 10:
    if rank == 1 and step.item() == 5 and os.environ["MUSTER_ATTEMPT"] == "0":
        raise RuntimeError("failed on purpose")
    total = torch.ones(1)
    dist.all_reduce(total)
    step += 1
    if rank == 0:
        torch.save(step, "step.tmp")
        os.replace("step.tmp", "step.pt")
    dist.barrier()  # nobody fails before the checkpoint of this step is there
dist.destroy_process_group()
sys.stdout.flush()
os._exit(0)  # torch may abort while Python takes itself down
