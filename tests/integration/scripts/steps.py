"""A short DDP training on random data: N seconds of steps, for measuring what is around them."""

import os
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
print("Rank {}, World Size {}".format(dist.get_rank(), dist.get_world_size()))
for _ in range(int(float(sys.argv[1]) * 20)):
    optimizer.zero_grad()
    model(torch.randn(32, 64)).square().mean().backward()
    optimizer.step()
    time.sleep(0.05)
print("done")
del model, optimizer  # before the group: torch may hang at exit where a DDP model outlives it
dist.destroy_process_group()
sys.stdout.flush()
os._exit(0)  # torch may abort while Python takes itself down
