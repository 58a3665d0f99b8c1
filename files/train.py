#!/usr/bin/env python3
"""Train a small network on handwritten digits with DistributedDataParallel; read it, and start your own from it.

    python train.py                                          one process, no process group
    torchrun --standalone --nproc-per-node 2 train.py        two processes on this machine
    ansible-playbook launch.yml -e script=train.py           every machine of the inventory

What a process has to know of the others comes from the variables that torchrun sets: RANK, LOCAL_RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT. WORLD_SIZE is the number of processes; nodes times processes per node is not, as nodes may
run unequal numbers. It needs torch 2.0 or later and nothing else; TensorBoard is used where it is installed.

The run goes on by itself from its checkpoint, which lies on the disk of rank 0's machine only. SIGTERM ends it in
order: all ranks stop after the same step, rank 0 writes a last checkpoint, and every rank exits with 0.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import datetime
import gzip
import inspect
import io
import itertools
import math
import os
import signal
import socket
import sys
import time
import zlib
from pathlib import Path
from typing import Any, ContextManager, Iterable, Iterator, NamedTuple, Sequence, Tuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

Batch = Tuple[Tensor, Tensor]  # pixels [n, 1, 8, 8], float32 of 0..1, and labels [n], int64 of 0..9

TEST_SHARE = 0.2
SPLIT_SEED = 0  # not --seed: if an option chose the test data, a resumed run could train on them
BROADCAST_BYTES = 64 * 2**20  # a checkpoint travels in pieces, so that it takes little of a GPU's memory
STOP_CHECK_STEPS = {"cpu": 1, "cuda": 10}  # on CUDA the question makes the host wait for its GPU: not at every step


class World(NamedTuple):
    """This process among the others: its global rank, the world size, and the device that it computes on."""

    rank: int
    size: int
    device: torch.device

    def say(self, text: str, every_rank: bool = False) -> None:
        """Print a line at once, on rank 0 or on every rank. A single write keeps the lines of several ranks whole."""
        if every_rank or self.rank == 0:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def reduce(self, values: Tensor, op: Any = dist.ReduceOp.SUM) -> Tensor:
        """Combine a tensor of any shape over all ranks, in place. Every rank calls this, and gets the same."""
        if self.size > 1:
            dist.all_reduce(values, op=op)
        return values

    def leave(self) -> None:
        """Part from the other processes, in order: for the good path only. After an exception the others are elsewhere,
        and this could wait for them; a process that just ends breaks its connections, and the others see that.
        """
        if self.size > 1:
            dist.destroy_process_group()


def join_world(device_name: str, timeout: float) -> World:
    """Choose the device, meet the other processes, and say so.

    ``device_name`` is auto, cpu or cuda. ``timeout``, in seconds, bounds the meeting and every collective after it.
    """
    rank, local_rank = int(os.environ.get("RANK", 0)), int(os.environ.get("LOCAL_RANK", 0))
    size, host = int(os.environ.get("WORLD_SIZE", 1)), socket.gethostname()
    device = torch.device("cpu")
    if device_name == "cuda" or (device_name == "auto" and torch.cuda.is_available()):
        devices = torch.cuda.device_count()
        if local_rank >= devices:
            sys.exit(f"train.py: local rank {local_rank} has no GPU, as {host} shows {devices} CUDA devices: "
                     "start one process for each, or use --device cpu")
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    if size > 1:
        options: dict[str, Any] = {}
        if device.type == "cuda" and "device_id" in inspect.signature(dist.init_process_group).parameters:
            options["device_id"] = device  # not in torch 2.0: NCCL connects now, and not within the first step
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=datetime.timedelta(seconds=timeout), **options)
    world = World(rank, size, device)
    world.say(f"Rank {rank}, World Size {size}, host {host}, {device}, torch {torch.__version__}", every_rank=True)
    return world


class StopSignal:
    """Remembers a SIGTERM instead of dying of it. A second one changes nothing."""

    def __init__(self) -> None:
        self.received = False
        signal.signal(signal.SIGTERM, self._remember)

    def _remember(self, signum: int, frame: Any) -> None:
        self.received = True


def load_digits(path: Path) -> Batch:
    """Read a gzipped CSV file without header, each line 64 pixels of 0..16 and then the label, 0..9.

    Returns pixels [n, 1, 8, 8], float32 of 0..1, and labels [n], int64. Exits with a sentence when it cannot.
    """
    try:
        with gzip.open(path, "rt", encoding="ascii", newline="") as file:
            rows = [[int(cell) for cell in row] for row in csv.reader(file)]
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        sys.exit(f"train.py: cannot read the digits in {path}: {error}")
    for number, row in enumerate(rows, start=1):
        if len(row) != 65 or min(row) < 0 or max(row) > 16 or row[64] > 9:
            sys.exit(f"train.py: {path}, line {number}: expected 64 pixels of 0..16 and a label of 0..9")
    if len(rows) < 2:
        sys.exit(f"train.py: {path} has {len(rows)} lines: one to train and one to test with are the least")
    table = torch.tensor(rows)
    return table[:, :64].float().div(16).view(-1, 1, 8, 8), table[:, 64]


def split_digits(pixels: Tensor, labels: Tensor) -> tuple[TensorDataset, TensorDataset]:
    """Shuffle and divide into train and test set, in the same way in every process and every run."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SPLIT_SEED))
    tests = math.ceil(len(order) * TEST_SHARE)
    test, train = order[:tests], order[tests:]
    return TensorDataset(pixels[train], labels[train]), TensorDataset(pixels[test], labels[test])


class ResumableSampler(DistributedSampler):
    """A DistributedSampler that can begin in the middle of an epoch: it leaves out the rank's first ``skip`` samples.

    Where the data set does not divide by the ranks it repeats a few samples, so that every rank has as many. It needs
    no process group when it is told rank and world size.
    """

    skip = 0

    def __iter__(self) -> Iterator[int]:
        return itertools.islice(super().__iter__(), self.skip, None)

    def __len__(self) -> int:
        return self.num_samples - self.skip


def grouped(batches: Iterable[Batch], size: int) -> Iterator[list[Batch]]:
    """Lists of ``size`` batches, and at last of those that are left."""
    iterator = iter(batches)
    return iter(lambda: list(itertools.islice(iterator, size)), [])


class Net(nn.Module):
    """Two convolutions and a linear layer, 29,000 parameters.

    GroupNorm, not BatchNorm: its result depends on the sample alone. So neither the number of ranks nor gradient
    accumulation changes what is learned, and there are no running statistics that ranks would have to agree on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, kernel_size=3, padding=1), nn.GroupNorm(4, 32), nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=3, padding=1), nn.GroupNorm(8, 64), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Dropout(0.5), nn.Linear(64 * 4 * 4, 10),
        )

    def forward(self, pixels: Tensor) -> Tensor:
        """Pixels [n, 1, 8, 8] to logits [n, 10]."""
        return self.layers(pixels)


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Replace the file as a whole: whatever happens, the old or the new checkpoint is there, never half of one."""
    temporary = path.with_name(path.name + ".tmp")  # in the same folder: renaming is atomic within a file system only
    with open(temporary, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # so that the new name survives a power loss, too
    finally:
        os.close(folder)


def parse_checkpoint(data: bytearray) -> dict[str, Any]:
    """Make a checkpoint of its bytes, tensors on the CPU. ``weights_only`` keeps a file from running code."""
    state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    missing = {"model", "optimizer", "scheduler", "scaler", "rng", "device", "epoch", "step"} - set(state)
    if missing:
        raise KeyError(*sorted(missing))
    return state


def read_checkpoint(path: Path, world: World) -> dict[str, Any] | None:
    """Give rank 0's checkpoint to every rank: the file is on its machine, and the others get the bytes from there.

    Returns None where rank 0 has no such file. Every rank exits when the file is damaged.
    """
    data, problem = bytearray(), ""
    if world.rank == 0 and path.exists():
        try:
            data = bytearray(path.read_bytes())
            parse_checkpoint(data)
        except Exception as error:  # torch.load raises many classes; to the reader they all mean the same
            problem = (f"cannot read the checkpoint {path}, it is damaged or not from this script "
                       f"({type(error).__name__}): move it away, or start anew with --no-resume")
    if world.size > 1:
        size = torch.tensor(-1 if problem else len(data), device=world.device)
        dist.broadcast(size, src=0)
        if world.rank != 0:
            data = bytearray(max(0, int(size)))
            problem = "rank 0 cannot read the checkpoint" if size < 0 else ""
        if size > 0:  # bytes, as broadcast_object_list needs numpy and unpickles whatever it is sent
            for piece in torch.frombuffer(data, dtype=torch.uint8).split(BROADCAST_BYTES):  # these share data's memory
                on_device = piece.to(world.device)
                dist.broadcast(on_device, src=0)
                piece.copy_(on_device)
    if problem:  # known to all ranks, so all are here
        world.leave()
        sys.exit(f"train.py: {problem}")
    return parse_checkpoint(data) if data else None


class Evaluation(NamedTuple):
    """Sums over the test set: right answers, cross entropy in nats, samples."""

    correct: float
    loss: float
    samples: float

    @property
    def accuracy(self) -> float:
        """In per cent."""
        return 100 * self.correct / self.samples


class Trainer:
    """Model, optimizer and data of a run, and where it stands: after ``epoch`` epochs and ``step`` optimizer steps."""

    def __init__(self, args: argparse.Namespace, world: World, train_set: TensorDataset, test_set: TensorDataset):
        self.args, self.world, self.device = args, world, world.device
        self.epoch = self.step = 0
        self.trained_samples, self.trained_seconds = 0, 0.0
        on_cuda = self.device.type == "cuda"

        torch.manual_seed(args.seed)  # the same first weights on every rank ...
        self.net = Net().to(self.device)
        torch.manual_seed(args.seed + 1_000_003 * (world.rank + 1))  # ... and then other dropout masks on each
        self.generator: Any = torch.cuda if on_cuda else torch  # the module whose random numbers dropout takes
        self.model: nn.Module = self.net
        if world.size > 1:
            self.model = DistributedDataParallel(self.net, device_ids=[self.device.index] if on_cuda else None)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=args.lr)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, gamma=0.85)  # a step per epoch
        self.amp_dtype = self.choose_amp_dtype()
        use_scaler = self.amp_dtype == torch.float16  # its small gradients vanish; bfloat16 has float32's range
        self.scaler = (torch.amp.GradScaler("cuda", enabled=use_scaler) if hasattr(torch.amp, "GradScaler")
                       else torch.cuda.amp.GradScaler(enabled=use_scaler))  # its name before torch 2.3

        # The sampler has the same seed on every rank: each takes its part of one common order.
        self.sampler = ResumableSampler(train_set, num_replicas=world.size, rank=world.rank, seed=args.seed)
        # A generator of its own, as loaders draw a number for each epoch: dropout's would be disturbed by a resume.
        self.loader = DataLoader(train_set, args.batch_size, sampler=self.sampler, pin_memory=on_cuda,
                                 generator=torch.Generator().manual_seed(args.seed))
        self.steps_per_epoch = math.ceil(self.sampler.num_samples / (args.batch_size * args.accumulate))
        # Testing repeats no sample: the parts are disjoint, may be of unequal length or empty, and only sums meet.
        part = Subset(test_set, range(world.rank, len(test_set), world.size))
        self.test_loader = DataLoader(part, batch_size=256, pin_memory=on_cuda)
        # The samples of a step follow from these. A checkpoint holds them, to tell whether the same ones would come.
        self.order = {"world_size": world.size, "batch_size": args.batch_size, "accumulate": args.accumulate,
                      "seed": args.seed, "train_samples": len(train_set)}

    def choose_amp_dtype(self) -> torch.dtype | None:
        """bfloat16 where every rank's GPU has it, else float16; None, which is float32, without CUDA or AMP."""
        if self.device.type != "cuda" or self.args.amp is False:
            if self.args.amp:
                self.world.say("mixed precision is off: it needs CUDA")
            return None
        has_bfloat16 = torch.cuda.get_device_capability(self.device)[0] >= 8
        agreed = self.world.reduce(torch.tensor(int(has_bfloat16), device=self.device), dist.ReduceOp.MIN)
        return torch.bfloat16 if agreed else torch.float16

    def autocast(self) -> ContextManager[Any]:
        return torch.autocast(self.device.type, dtype=self.amp_dtype, enabled=self.amp_dtype is not None)

    def backward(self, group: Sequence[Batch]) -> tuple[Tensor, int]:
        """Set the gradient of the mean loss over all samples that a group of batches has on all ranks.

        Each batch counts by its samples, and the divisor is what the group really holds: an epoch's last group is
        often shorter, and its last batch smaller. Returns this rank's summed loss (scalar, nats) and its samples.
        """
        samples = sum(len(labels) for _, labels in group)
        loss_sum = torch.zeros((), device=self.device)
        for number, (pixels, labels) in enumerate(group, start=1):
            pixels, labels = pixels.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True)
            # The ranks exchange gradients in the group's last backward pass only; it sends the sum of all.
            silent = number < len(group) and isinstance(self.model, DistributedDataParallel)
            with self.model.no_sync() if silent else contextlib.nullcontext():
                with self.autocast():
                    loss = F.cross_entropy(self.model(pixels), labels, reduction="sum")
                self.scaler.scale(loss / samples).backward()  # DDP takes the mean over ranks: all have equal counts
            loss_sum += loss.detach()
        return loss_sum, samples

    def train_epoch(self, stop: StopSignal, profiler: torch.profiler.profile | None) -> tuple[float, float] | None:
        """Train from where the run stands to the end of the epoch, and write checkpoints.

        Returns the mean loss in nats and the samples per second of all ranks, or None when a SIGTERM ended it.
        """
        loss_sum, samples, started = torch.zeros((), device=self.device), 0, time.perf_counter()
        self.sampler.set_epoch(self.epoch)  # without it every epoch has the order of the first
        self.sampler.skip = self.step * self.args.accumulate * self.args.batch_size
        self.model.train()
        for group in grouped(self.loader, self.args.accumulate):
            group_loss, group_samples = self.backward(group)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()
            loss_sum += group_loss  # stays on the device: to read it here would make the host wait for the GPU
            samples += group_samples * self.world.size
            self.step += 1
            steps = self.epoch * self.steps_per_epoch + self.step
            if self.step == self.steps_per_epoch:
                self.scheduler.step()
                self.epoch, self.step = self.epoch + 1, 0
            stopping = self.all_agree_to_stop(stop)
            if stopping or self.step == 0 or (self.args.checkpoint_every and steps % self.args.checkpoint_every == 0):
                self.save()
            if stopping:
                return None
            if profiler is not None:
                profiler.step()
        loss = self.world.reduce(loss_sum).item() / samples
        seconds = time.perf_counter() - started
        self.trained_samples += samples
        self.trained_seconds += seconds
        return loss, samples / seconds

    def all_agree_to_stop(self, stop: StopSignal) -> bool:
        """True on all ranks after the same step, once any has had a SIGTERM: one that went on would wait forever."""
        if self.step % STOP_CHECK_STEPS[self.device.type]:
            return False
        return bool(self.world.reduce(torch.tensor(int(stop.received), device=self.device), dist.ReduceOp.MAX))

    @torch.no_grad()
    def evaluate(self) -> Evaluation:
        """Test every sample of the test set once, whatever the world size. Every rank gets the whole result."""
        self.net.eval()
        sums = torch.zeros(3, dtype=torch.float64, device=self.device)
        for pixels, labels in self.test_loader:
            pixels, labels = pixels.to(self.device), labels.to(self.device)
            with self.autocast():
                logits = self.net(pixels)  # not through DDP: the ranks have unequal numbers of batches
                loss = F.cross_entropy(logits, labels, reduction="sum")
            sums += torch.stack([(logits.argmax(1) == labels).float().sum(), loss, torch.full_like(loss, len(labels))])
        return Evaluation(*self.world.reduce(sums).tolist())

    def save(self) -> None:
        """Write a checkpoint on rank 0. Every rank calls this, as each hands over the state of its generator."""
        mine = self.generator.get_rng_state().to(self.device)
        rng = [mine]
        if self.world.size > 1:
            rng = [torch.empty_like(mine) for _ in range(self.world.size)]
            dist.all_gather(rng, mine)
        if self.world.rank == 0:
            write_checkpoint(self.args.checkpoint, {
                "model": self.net.state_dict(),  # not DDP's, whose names begin with "module."
                "optimizer": self.optimizer.state_dict(), "scheduler": self.scheduler.state_dict(),
                "scaler": self.scaler.state_dict(), "rng": [state.cpu() for state in rng],
                "device": self.device.type, "epoch": self.epoch, "step": self.step, **self.order,
            })

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint at its next step, or where its epoch began if the steps now have other samples."""
        self.net.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        if state["scaler"]:  # empty where it was not in use
            self.scaler.load_state_dict(state["scaler"])
        self.epoch, self.step = state["epoch"], state["step"]
        changes = [f"{name} was {state.get(name)} and is {value}" for name, value in self.order.items()
                   if state.get(name) != value]
        if changes and self.step:
            self.world.say(f"epoch {self.epoch + 1} starts again: {', '.join(changes)}")
            self.step = 0
        if not changes and state["device"] == self.device.type:
            self.generator.set_rng_state(state["rng"][self.world.rank])
        self.world.say(f"resuming from {self.args.checkpoint} at {self.position()}")

    def position(self) -> str:
        """What comes next, counted from 1."""
        return f"epoch {self.epoch + 1}, step {self.step + 1} of {self.steps_per_epoch}"


def make_profiler(folder: Path | None, world: World) -> ContextManager[torch.profiler.profile | None]:
    """A profiler of three steps near the start, for chrome://tracing or ui.perfetto.dev; nothing without a folder."""
    if folder is None:
        return contextlib.nullcontext()
    folder.mkdir(parents=True, exist_ok=True)
    activities = [torch.profiler.ProfilerActivity.CPU]
    if world.device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    return torch.profiler.profile(
        activities=activities, schedule=torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=1),
        on_trace_ready=lambda profile: profile.export_chrome_trace(str(folder / f"rank-{world.rank}.json")))


def make_writer(folder: Path | None, world: World) -> ContextManager[Any]:
    """A TensorBoard writer on rank 0 when a folder is given and TensorBoard is installed; nothing otherwise."""
    if folder is not None and world.rank == 0:
        try:
            from torch.utils.tensorboard import SummaryWriter
            return SummaryWriter(str(folder))
        except ImportError as error:
            world.say(f"no TensorBoard scalars: {error}")
    return contextlib.nullcontext()


def run(args: argparse.Namespace, world: World, train_set: TensorDataset, test_set: TensorDataset) -> None:
    """Train until ``args.epochs`` epochs are done in all, or until a SIGTERM, and print how it goes."""
    started, result, stop = time.perf_counter(), None, StopSignal()
    state = read_checkpoint(args.checkpoint, world) if args.resume else None
    trainer = Trainer(args, world, train_set, test_set)
    if state is not None:
        trainer.restore(state)
    with make_profiler(args.profile, world) as profiler, make_writer(args.tensorboard, world) as writer:
        while trainer.epoch < args.epochs:
            trained = trainer.train_epoch(stop, profiler)
            if trained is None:
                world.say(f"stopped by SIGTERM: the checkpoint {args.checkpoint} goes on at {trainer.position()}")
                return
            loss, speed = trained
            result = trainer.evaluate()
            world.say(f"epoch {trainer.epoch} of {args.epochs}: loss {loss:.4f}, "
                      f"test accuracy {result.accuracy:.2f} %, {speed:.0f} samples/s")
            if writer is not None:
                for name, value in (("loss/train", loss), ("loss/test", result.loss / result.samples),
                                    ("accuracy/test", result.accuracy), ("samples per second", speed)):
                    writer.add_scalar(name, value, trainer.epoch)
    if result is None:
        world.say(f"nothing to train: {trainer.epoch} epochs are done, and --epochs is {args.epochs}")
        result = trainer.evaluate()
    speed = trainer.trained_samples / trainer.trained_seconds if trainer.trained_seconds else 0.0
    world.say(f"test accuracy {result.accuracy:.2f} % ({result.correct:.0f} of {result.samples:.0f} samples), "
              f"{speed:.0f} samples/s, {time.perf_counter() - started:.1f} s")


def at_least(kind: type, minimum: float) -> Any:
    """A type for argparse: a finite number of that kind, and not below the minimum."""
    def number(text: str) -> Any:
        value = kind(text)
        if not minimum <= value < math.inf:
            raise argparse.ArgumentTypeError(f"{text} is not a number of {minimum} or more")
        return value
    number.__name__ = kind.__name__  # for argparse's "invalid int value"
    return number


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="train.py", description="Train a classifier of digits with torchrun.")
    add = parser.add_argument
    add("--data", type=Path, default=Path(__file__).resolve().with_name("digits.csv.gz"), metavar="PATH",
        help="gzipped CSV, 64 pixels and a label per line (default: digits.csv.gz beside this script)")
    add("--epochs", type=at_least(int, 0), default=10, metavar="N",
        help="epochs in all, those of the checkpoint included (default: %(default)s)")
    add("--batch-size", type=at_least(int, 1), default=32, metavar="N",
        help="samples per process and batch (default: %(default)s)")
    add("--accumulate", type=at_least(int, 1), default=1, metavar="N",
        help="batches whose gradients make one optimizer step (default: %(default)s)")
    add("--lr", type=at_least(float, 0), default=3e-3, metavar="RATE",
        help="learning rate of the first epoch; that of a checkpoint wins (default: %(default)s)")
    add("--seed", type=at_least(int, 0), default=0, metavar="N",
        help="of the first weights, the order of the data, and dropout (default: %(default)s)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto, the default, is CUDA if there is one")
    add("--amp", action="store_true", default=None, help="mixed precision; without a word it is on if there is CUDA")
    add("--no-amp", dest="amp", action="store_false", help="float32 everywhere")
    add("--checkpoint", type=Path, default=Path("checkpoint.pt"), metavar="PATH",
        help="where rank 0 keeps it, and goes on from if it is there (default: %(default)s)")
    add("--checkpoint-every", type=at_least(int, 1), metavar="N",
        help="write it after every N steps, too; after each epoch it always is")
    add("--no-resume", dest="resume", action="store_false", help="start anew and overwrite the checkpoint")
    add("--timeout", type=at_least(float, 1), default=600, metavar="SECONDS",
        help="how long to wait for the other processes (default: %(default)s)")
    add("--profile", type=Path, metavar="DIR", help="write DIR/rank-<rank>.json, a chrome trace of three steps")
    add("--tensorboard", type=Path, metavar="DIR", help="write TensorBoard scalars there, if it is installed")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    train_set, test_set = split_digits(*load_digits(args.data))  # if this fails, no other rank is waiting yet
    if int(os.environ.get("RANK", 0)) == 0:
        args.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    world = join_world(args.device, args.timeout)
    # All that uses the process group lives within run() and is gone before the group is. The other way round, DDP would
    # be the last to hold it, and when Python then frees it, gloo's thread and Python's lock can wait for each other.
    run(args, world, train_set, test_set)
    world.leave()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # all is saved: a late one must not spoil the exit code


if __name__ == "__main__":
    main()
    # Everything is saved and printed. torch 2.13 on the CPU was seen to abort about once in 15 runs while Python takes
    # itself down ("terminate called without an active exception"), which would make a failure of a finished training.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
