"""Runs ranks of files/train.py for test_train.py. Not imported by pytest: the Python that has torch runs it.

It imports torch once and then forks a process for each rank that it is asked for, as the import takes longer than what
most tests do. Requests come as lines of JSON on stdin, answers go to stdout:

    {"run": {"argv": [...], "env": {...}, "cwd": "...", "out": "...", "err": "...", <hooks>}}   ->   {"pid": 12}
    {"poll": 12}                                           ->   {"code": null}, or the exit code, or minus the signal

The rank leads a process group of its own, and is killed when this process ends. The hooks, all optional:

    script: true         a new Python that runs the script, as a user's; no other hook works with it
    log: true            print a line "STEP {...}" for each step, with a checksum of its samples and its loss, and at
                         the end "LEAVE n": so many DDP models are alive when the process group is to be destroyed
    sigterm_at: n        a SIGTERM to itself, twice, in the n-th step of this run
    sigkill_at: n        a SIGKILL to itself, likewise
    raise_at: n          a ValueError, likewise
    full_disk: true      torch.save writes half a file and raises OSError
    tensorboard: "none"  as if it were not installed; "fake": a writer that prints "SCALAR {...}"
    call: name           a function of this file in place of the script
"""

import ctypes
import gc
import json
import os
import signal
import sys
import types
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "files"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import train  # noqa: E402


def serve():
    """Answer requests until stdin ends. Returns the request in the new process of a rank, and None at the end."""
    for line in sys.stdin:
        request = json.loads(line)
        if "run" in request:
            pid = os.fork()
            if pid == 0:
                return request["run"]
            answer = {"pid": pid}
        else:
            pid, status = os.waitpid(request["poll"], os.WNOHANG)
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
            answer = {"code": code if pid else None}
        print(json.dumps(answer), flush=True)
    return None


def become(request):
    """Make this process what the request describes, as far as a new process would be."""
    os.setsid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    os.chdir(request["cwd"])
    os.environ.update(request["env"])
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, request["out"], os.O_WRONLY | os.O_CREAT),
                                (2, request["err"], os.O_WRONLY | os.O_CREAT)):
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    if request.get("script"):
        os.execv(sys.executable, [sys.executable, train.__file__, *request["argv"]])
    if request.get("full_disk"):
        torch.save = write_half
    if request.get("tensorboard") == "none":
        sys.modules["tensorboard"] = None
    elif request.get("tensorboard") == "fake":
        sys.modules["torch.utils.tensorboard"] = types.ModuleType("torch.utils.tensorboard")
        sys.modules["torch.utils.tensorboard"].SummaryWriter = FakeWriter
    hook_steps(request)
    if request.get("log"):
        hook_leave()


def hook_leave():
    real_leave = train.World.leave

    def leave(world):
        models = sum(type(thing) is train.DistributedDataParallel for thing in gc.get_objects())
        print("LEAVE", models, flush=True)
        real_leave(world)

    train.World.leave = leave


def hook_steps(request):
    real_backward, calls = train.Trainer.backward, []

    def backward(trainer, group):
        calls.append(None)
        if len(calls) == request.get("sigterm_at"):
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
        if len(calls) == request.get("sigkill_at"):
            os.kill(os.getpid(), signal.SIGKILL)
        if len(calls) == request.get("raise_at"):
            raise ValueError("bad batch in shard 17")
        loss, samples = real_backward(trainer, group)
        if request.get("log"):
            weights = torch.arange(64.0).view(8, 8)
            checksum = sum(float((pixels * weights).sum()) for pixels, _ in group)
            lr = trainer.optimizer.param_groups[0]["lr"]
            print("STEP", json.dumps({"epoch": trainer.epoch, "step": trainer.step, "samples": samples, "lr": lr,
                                      "checksum": checksum, "loss": round(float(loss), 4)}), flush=True)
        return loss, samples

    train.Trainer.backward = backward


def write_half(state, file):
    file.write(b"half of a checkpoint")
    file.flush()
    raise OSError(28, "No space left on device")


class FakeWriter:
    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        print("SCALAR closed", flush=True)

    def add_scalar(self, name, value, step):
        print("SCALAR", json.dumps([name, value, step]), flush=True)


def gradients(argv):
    """Print how far the gradients of accumulated batches are from that of one batch with the samples of all ranks.

    Three groups of batches: whole, short, and short with a small last batch.
    """
    args = train.parse_arguments(argv)
    train_set, test_set = train.split_digits(*train.load_digits(args.data))
    world = train.join_world("cpu", 60)
    trainer = train.Trainer(args, world, train_set, test_set)
    trainer.net.eval()  # no dropout
    pixels, labels = train_set.tensors
    exchanges = []
    if world.size > 1:
        def count(state, bucket):
            exchanges.append(None)
            dist.all_reduce(bucket.buffer())
            future = torch.futures.Future()
            future.set_result(bucket.buffer() / world.size)
            return future
        trainer.model.register_comm_hook(None, count)
    for sizes in ([16, 16, 16], [16, 16], [16, 5]):
        count_here = sum(sizes)
        begin = world.rank * count_here
        group = list(zip(pixels[begin:begin + count_here].split(sizes), labels[begin:begin + count_here].split(sizes)))
        exchanges.clear()
        trainer.optimizer.zero_grad()
        _, samples = trainer.backward(group)
        got = torch.cat([parameter.grad.flatten() for parameter in trainer.net.parameters()])
        trainer.optimizer.zero_grad()
        every = slice(0, count_here * world.size)
        loss = torch.nn.functional.cross_entropy(trainer.net(pixels[every]), labels[every])
        wanted = torch.cat([gradient.flatten() for gradient in
                            torch.autograd.grad(loss, list(trainer.net.parameters()))])
        print("GRADIENT", json.dumps({"samples": samples, "exchanges": len(exchanges), "size": float(wanted.norm()),
                                      "error": float((got - wanted).norm())}), flush=True)
    if world.size > 1:
        dist.destroy_process_group()


def streams(argv):
    """Print a checksum of the first weights, before DDP could have made them equal, and what dropout would draw."""
    args = train.parse_arguments(argv)
    train_set, test_set = train.split_digits(*train.load_digits(args.data))
    world = train.World(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), torch.device("cpu"))
    train.DistributedDataParallel = lambda net, device_ids: net
    trainer = train.Trainer(args, world, train_set, test_set)
    weights = sum(float(parameter.double().abs().sum()) for parameter in trainer.net.parameters())
    print("STREAM", json.dumps({"weights": weights, "dropout": float(torch.rand(())),
                                "indices": list(trainer.sampler)}), flush=True)


if __name__ == "__main__":
    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])  # the first optimizer imports 800 modules, in two seconds
    gc.collect()
    gc.freeze()  # the ranks need not look through all of this again when they end
    rank = serve()
    if rank is not None:
        become(rank)
        try:
            globals()[rank["call"]](rank["argv"]) if rank.get("call") else train.main(rank["argv"])
            code = 0
        except SystemExit as error:  # as Python takes it, but without the half second in which it frees all of torch
            code = error.code if isinstance(error.code, int) else 1
            if not isinstance(error.code, int):
                print(error.code, file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
