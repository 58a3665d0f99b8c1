#!/usr/bin/env python3
"""Train a small network on handwritten digits with DistributedDataParallel; read it, and start your own from it.

    python train.py                                          one process, no process group
    torchrun --standalone --nproc-per-node 2 train.py        two processes on this machine
    ansible-playbook launch.yml -e script=train.py           every machine of the inventory

Everything a process has to know of the others comes from the variables that torchrun sets: RANK, LOCAL_RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT. WORLD_SIZE is the number of processes; nodes times processes per node is not, as nodes may
run unequal numbers. It needs torch 2.0 or later and nothing else; TensorBoard is used where it is installed.

The run goes on by itself from its checkpoint, which lies on the disk of rank 0's machine only. SIGTERM ends it in order:
all ranks stop after the same step, rank 0 writes a last checkpoint, and every rank exits with 0.
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
from typing import Any, ContextManager, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

Batch = Tuple[Tensor, Tensor]  # pixels [n, 1, 8, 8] float32 of 0..1, labels [n] int64 of 0..9

TEST_SHARE = 0.2
SPLIT_SEED = 0  # not --seed: what is test data must never depend on an option, or a resumed run trains on it
BROADCAST_BYTES = 64 * 2**20  # a checkpoint travels in pieces, so that it takes little of a GPU's memory
STOP_CHECK_STEPS = {"cpu": 1, "cuda": 10}  # asking all ranks makes the host wait for its GPU: not at every step there


# ---------------------------------------------------------------------------------------------------- the processes
class World(NamedTuple):
    """This process among the others: global rank, world size, and the device that it computes on."""

    rank: int
    size: int
    device: torch.device

    def say(self, text: str, every_rank: bool = False) -> None:
        """Print a line at once, on rank 0 or on every rank. One write keeps lines of several ranks whole."""
        if every_rank or self.rank == 0:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def reduce(self, values: Tensor, op: Any = dist.ReduceOp.SUM) -> Tensor:
        """Combine a tensor of any shape over all ranks, in place; every rank has to call this, and gets the same."""
        if self.size > 1:
            dist.all_reduce(values, op=op)
        return values


def join_world(device_name: str, timeout: float) -> World:
    """Choose the device, meet the other processes, and report.

    ``device_name`` is auto, cpu or cuda; ``timeout`` is in seconds and bounds the meeting and every collective after it.
    """
    rank, local_rank, size = (int(os.environ.get(name, default)) for name, default in
                              (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 1)))
    device = torch.device("cpu")
    if device_name == "cuda" or (device_name == "auto" and torch.cuda.is_available()):
        if local_rank >= torch.cuda.device_count():
            sys.exit(f"train.py: LOCAL_RANK is {local_rank}, but {socket.gethostname()} shows {torch.cuda.device_count()} "
                     "CUDA devices: start at most one process for each, or use --device cpu")
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    if size > 1:
        options: Dict[str, Any] = {}
        if device.type == "cuda" and "device_id" in inspect.signature(dist.init_process_group).parameters:
            options["device_id"] = device  # since torch 2.3: NCCL connects now, and not within the first step
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=datetime.timedelta(seconds=timeout), **options)
    world = World(rank, size, device)
    world.say(f"Rank {rank}, World Size {size}, host {socket.gethostname()}, device {device}, torch {torch.__version__}",
              every_rank=True)
    return world


class StopSignal:
    """Remembers a SIGTERM instead of dying of it. A second one changes nothing."""

    def __init__(self) -> None:
        self.received = False
        signal.signal(signal.SIGTERM, self._remember)

    def _remember(self, signum: int, frame: Any) -> None:
        self.received = True


# --------------------------------------------------------------------------------------------------------- the data
def load_digits(path: Path) -> Batch:
    """Read a gzipped CSV file without header; each line has 64 pixels of 0..16, then the label 0..9.

    Returns pixels [n, 1, 8, 8], float32 of 0..1, and labels [n], int64. Exits with a sentence when it cannot.
    """
    try:
        with gzip.open(path, "rt", encoding="ascii", newline="") as file:
            rows = [[int(cell) for cell in row] for row in csv.reader(file)]
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        sys.exit(f"train.py: cannot read the digits in {path}: {error}")
    for number, row in enumerate(rows, start=1):
        if len(row) != 65 or not 0 <= min(row) <= max(row) <= 16 or row[64] > 9:
            sys.exit(f"train.py: {path}, line {number}: expected 64 pixels of 0..16 and a label of 0..9, as whole numbers")
    if len(rows) < 2:
        sys.exit(f"train.py: {path} has {len(rows)} lines: at least one to train with and one to test with are needed")
    table = torch.tensor(rows)
    return table[:, :64].float().div(16).view(-1, 1, 8, 8), table[:, 64]


def split_digits(pixels: Tensor, labels: Tensor) -> Tuple[TensorDataset, TensorDataset]:
    """Shuffle and divide into train and test set, in the same way in every process and every run."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SPLIT_SEED))
    test, train = order.split([math.ceil(len(order) * TEST_SHARE), len(order) - math.ceil(len(order) * TEST_SHARE)])
    return TensorDataset(pixels[train], labels[train]), TensorDataset(pixels[test], labels[test])


class ResumableSampler(DistributedSampler):
    """A DistributedSampler that can begin in the middle of an epoch: it leaves out the rank's first ``skip`` samples.

    Like its base it repeats a few samples where the data set does not divide by the ranks, so that every rank has the
    same number of them. The base works without a process group when it is told rank and world size.
    """

    skip = 0

    def __iter__(self) -> Iterator[int]:
        return itertools.islice(super().__iter__(), self.skip, None)

    def __len__(self) -> int:
        return max(0, self.num_samples - self.skip)


def grouped(batches: Iterable[Batch], size: int) -> Iterator[List[Batch]]:
    """Lists of ``size`` batches each, and of what is left at the end."""
    iterator = iter(batches)
    return iter(lambda: list(itertools.islice(iterator, size)), [])


# -------------------------------------------------------------------------------------------------------- the model
class Net(nn.Module):
    """Two convolutions and a linear layer, 30,000 parameters.

    GroupNorm, not BatchNorm: its result depends on the sample alone, so that neither the number of ranks nor gradient
    accumulation changes what is learned, and no running statistics have to be kept equal between ranks.
    """

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, kernel_size=3, padding=1), nn.GroupNorm(4, 32), nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=3, padding=1), nn.GroupNorm(8, 64), nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64 * 4 * 4, 10))

    def forward(self, pixels: Tensor) -> Tensor:
        """Pixels [n, 1, 8, 8] to logits [n, 10]."""
        return self.classifier(self.features(pixels))


# ---------------------------------------------------------------------------------------------------- the checkpoint
def write_checkpoint(path: Path, state: Dict[str, Any]) -> None:
    """Replace the file as a whole: whatever happens, the old or the new checkpoint is there, never half of one."""
    temporary = path.with_name(path.name + ".tmp")  # in the same folder: a rename is atomic within a file system only
    with open(temporary, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself survives a power loss
    finally:
        os.close(folder)


def read_checkpoint(path: Path, world: World) -> Optional[Dict[str, Any]]:
    """Read rank 0's checkpoint on every rank: the file is on rank 0's machine, the others get its bytes from there.

    Returns None where rank 0 has no such file. Every rank exits when it is damaged.
    """
    data, problem = bytearray(), ""
    if world.rank == 0 and path.exists():
        try:
            data = bytearray(path.read_bytes())
            decode_checkpoint(data)
        except Exception as error:  # torch.load raises many classes; whichever it is, the reader has to do the same
            problem = (f"cannot read the checkpoint {path}, it is damaged or not from this script "
                       f"({type(error).__name__}): move it away, or start anew with --no-resume")
    if world.size > 1:
        # Bytes, not broadcast_object_list: that one needs numpy, and unpickles whatever it is sent.
        size = torch.tensor(-1 if problem else len(data), device=world.device)
        dist.broadcast(size, src=0)
        if world.rank != 0:
            data, problem = bytearray(max(0, int(size))), "rank 0 cannot read the checkpoint" if size < 0 else ""
        if data and not problem:
            for piece in torch.frombuffer(data, dtype=torch.uint8).split(BROADCAST_BYTES):  # shares data's memory
                on_device = piece.to(world.device)
                dist.broadcast(on_device, src=0)
                piece.copy_(on_device)
    if problem:
        sys.exit(f"train.py: {problem}")
    return decode_checkpoint(data) if data else None


def decode_checkpoint(data: bytearray) -> Dict[str, Any]:
    """Make a checkpoint of its bytes, with all tensors on the CPU. ``weights_only`` keeps a file from running code."""
    state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    missing = {"model", "optimizer", "scheduler", "scaler", "rng", "epoch", "step", "world_size"} - set(state)
    if missing:
        raise KeyError(*sorted(missing))
    return state


# ------------------------------------------------------------------------------------------------------ the training
class Evaluation(NamedTuple):
    """Sums over the test set: right answers, cross entropy in nats, samples."""

    correct: float
    loss: float
    samples: float


class Trainer:
    """Model, optimizer and data of a run, and where it stands.

    ``epoch`` epochs are done, and ``step`` optimizer steps of the one that follows.
    """

    def __init__(self, args: argparse.Namespace, world: World, train_set: TensorDataset, test_set: TensorDataset) -> None:
        self.args, self.world, self.device = args, world, world.device
        self.epoch = self.step = 0
        self.trained_samples, self.trained_seconds = 0.0, 0.0

        torch.manual_seed(args.seed)  # the same first weights on every rank ...
        self.net = Net().to(self.device)
        torch.manual_seed(args.seed + 1_000_003 * (world.rank + 1))  # ... and then other dropout masks on each
        self.model: nn.Module = self.net
        if world.size > 1:
            device_ids = [self.device.index] if self.device.type == "cuda" else None
            self.model = DistributedDataParallel(self.net, device_ids=device_ids)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=args.lr)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, gamma=0.85)
        self.amp_dtype = self.choose_amp_dtype()
        use_scaler = self.amp_dtype == torch.float16  # small gradients vanish in float16; bfloat16 has float32's range
        self.scaler = (torch.amp.GradScaler("cuda", enabled=use_scaler) if hasattr(torch.amp, "GradScaler")
                       else torch.cuda.amp.GradScaler(enabled=use_scaler))  # its name before torch 2.3

        pin = self.device.type == "cuda"
        # The sampler has the same seed on every rank: each takes its part of one common order.
        self.sampler = ResumableSampler(train_set, num_replicas=world.size, rank=world.rank, seed=args.seed)
        # A loader with a generator of its own takes nothing from the one that dropout uses, so a resumed run repeats it.
        self.loader = DataLoader(train_set, args.batch_size, sampler=self.sampler, pin_memory=pin,
                                 generator=torch.Generator().manual_seed(args.seed))
        self.steps_per_epoch = math.ceil(self.sampler.num_samples / (args.batch_size * args.accumulate))
        # Testing repeats nothing: disjoint parts, of unequal length or even empty. Only the sums meet.
        part = Subset(test_set, range(world.rank, len(test_set), world.size))
        self.test_loader = DataLoader(part, batch_size=256, pin_memory=pin)
        # Which samples make up step s of epoch e follows from these; a checkpoint holds them.
        self.order = {"world_size": world.size, "batch_size": args.batch_size, "accumulate": args.accumulate,
                      "seed": args.seed, "train_samples": len(train_set)}

    def choose_amp_dtype(self) -> Optional[torch.dtype]:
        """bfloat16 where every rank's GPU has it, else float16, and None (float32) without CUDA or with --no-amp."""
        if self.device.type != "cuda" or self.args.amp is False:
            if self.args.amp:
                self.world.say("mixed precision is off: it needs CUDA")
            return None
        has_bfloat16 = torch.cuda.get_device_capability(self.device)[0] >= 8
        agreed = self.world.reduce(torch.tensor(int(has_bfloat16), device=self.device), dist.ReduceOp.MIN)
        return torch.bfloat16 if agreed else torch.float16

    def autocast(self) -> ContextManager:
        return torch.autocast(self.device.type, dtype=self.amp_dtype, enabled=self.amp_dtype is not None)

    def backward(self, group: Sequence[Batch]) -> Tuple[Tensor, int]:
        """Accumulate the gradient of the mean loss over all samples of a group of batches, on all ranks.

        Each batch counts by its samples, and the divisor is what the group really holds: the last group of an epoch is
        often shorter and its last batch smaller. Returns this rank's summed loss (scalar, nats) and its samples.
        """
        samples = sum(len(labels) for _, labels in group)
        loss_sum = torch.zeros((), device=self.device)
        for number, (pixels, labels) in enumerate(group, start=1):
            pixels, labels = pixels.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True)
            # Ranks exchange gradients in the group's last backward pass only; it sends the whole sum.
            silent = number < len(group) and isinstance(self.model, DistributedDataParallel)
            with self.model.no_sync() if silent else contextlib.nullcontext():
                with self.autocast():
                    loss = F.cross_entropy(self.model(pixels), labels, reduction="sum")
                self.scaler.scale(loss / samples).backward()  # DDP takes the mean over ranks, which have equal counts
            loss_sum += loss.detach()
        return loss_sum, samples

    def train_epoch(self, stop: StopSignal, profiler: Optional[torch.profiler.profile]) -> Optional[Tuple[float, float]]:
        """Train from where the run stands to the end of the epoch, writing checkpoints on the way.

        Returns the mean loss in nats and the samples per second of all ranks, or None when a SIGTERM stopped it.
        """
        every, total = self.args.checkpoint_every, torch.zeros(2, dtype=torch.float64, device=self.device)
        self.sampler.set_epoch(self.epoch)  # without it every epoch has the order of the first
        self.sampler.skip = self.step * self.args.accumulate * self.args.batch_size
        self.model.train()
        started = time.perf_counter()
        for group in grouped(self.loader, self.args.accumulate):
            loss_sum, samples = self.backward(group)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()
            total += torch.stack([loss_sum.double(), torch.full_like(loss_sum, samples, dtype=torch.float64)])
            self.step += 1
            done = self.epoch * self.steps_per_epoch + self.step
            if self.step == self.steps_per_epoch:
                self.scheduler.step()
                self.epoch, self.step = self.epoch + 1, 0
            stopping = self.all_agree_to_stop(stop)
            if stopping or self.step == 0 or (every and done % every == 0):
                self.save()
            if stopping:
                return None
            if profiler is not None:
                profiler.step()
        loss_sum, samples = self.world.reduce(total).tolist()
        seconds = time.perf_counter() - started
        self.trained_samples += samples
        self.trained_seconds += seconds
        return loss_sum / samples, samples / seconds

    def all_agree_to_stop(self, stop: StopSignal) -> bool:
        """True on all ranks after the same step, once any rank has had a SIGTERM: one that went on would wait forever."""
        if self.step % STOP_CHECK_STEPS[self.device.type]:
            return False
        return bool(self.world.reduce(torch.tensor(int(stop.received), device=self.device), dist.ReduceOp.MAX))

    @torch.no_grad()
    def evaluate(self) -> Evaluation:
        """Test every sample of the test set once, whatever the world size."""
        self.net.eval()
        sums = torch.zeros(3, dtype=torch.float64, device=self.device)
        for pixels, labels in self.test_loader:
            pixels, labels = pixels.to(self.device), labels.to(self.device)
            with self.autocast():
                logits = self.net(pixels)  # not the DDP model: ranks have unequal numbers of batches
            loss = F.cross_entropy(logits.float(), labels, reduction="sum")
            sums += torch.stack([(logits.argmax(1) == labels).sum().double(), loss.double(), sums.new_tensor(len(labels))])
        return Evaluation(*self.world.reduce(sums).tolist())

    def save(self) -> None:
        """Write a checkpoint on rank 0. All ranks have to call this: each hands over the state of its generator."""
        on_cuda = self.device.type == "cuda"
        mine = (torch.cuda.get_rng_state(self.device) if on_cuda else torch.get_rng_state()).to(self.device)
        rng = [torch.empty_like(mine) for _ in range(self.world.size)] if self.world.size > 1 else [mine]
        if self.world.size > 1:
            dist.all_gather(rng, mine)
        if self.world.rank == 0:
            write_checkpoint(self.args.checkpoint, {
                "model": self.net.state_dict(),  # the plain model's: its names lack DDP's "module."
                "optimizer": self.optimizer.state_dict(), "scheduler": self.scheduler.state_dict(),
                "scaler": self.scaler.state_dict(), "rng": [state.cpu() for state in rng],
                "epoch": self.epoch, "step": self.step, **self.order,
            })

    def restore(self, state: Dict[str, Any]) -> None:
        """Go on from a checkpoint: at the next step, or at the start of its epoch if the data now come in other steps."""
        self.net.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        if state["scaler"]:  # empty where the checkpoint was written without one
            self.scaler.load_state_dict(state["scaler"])
        self.epoch, self.step = state["epoch"], state["step"]
        changed = [f"{name} was {state.get(name)} and is {value}" for name, value in self.order.items()
                   if state.get(name) != value]
        if changed and self.step:
            self.world.say(f"epoch {self.epoch + 1} starts again: {', '.join(changed)}")
            self.step = 0
        mine = None if changed else state["rng"][self.world.rank]
        if mine is not None and self.device.type == "cuda" and len(mine) == len(torch.cuda.get_rng_state(self.device)):
            torch.cuda.set_rng_state(mine, self.device)
        elif mine is not None and self.device.type == "cpu" and len(mine) == len(torch.get_rng_state()):
            torch.set_rng_state(mine)
        self.world.say(f"resuming from {self.args.checkpoint} at {self.position()}")

    def position(self) -> str:
        return f"epoch {self.epoch + 1}, step {self.step + 1} of {self.steps_per_epoch}"


# --------------------------------------------------------------------------------------------------- what one may see
def make_profiler(folder: Optional[Path], world: World) -> ContextManager[Optional[torch.profiler.profile]]:
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


def make_writer(folder: Optional[Path], world: World) -> Any:
    """A TensorBoard writer on rank 0 when a folder is given and TensorBoard is installed, else None."""
    if folder is None or world.rank != 0:
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        world.say(f"no TensorBoard records: {error}")
        return None
    return SummaryWriter(str(folder))


def run(args: argparse.Namespace, world: World, trainer: Trainer, stop: StopSignal) -> None:
    """Train until ``args.epochs`` epochs are done in all, or until a SIGTERM, and print what comes of it."""
    started, result = time.perf_counter(), None
    writer = make_writer(args.tensorboard, world)
    with make_profiler(args.profile, world) as profiler:
        while trainer.epoch < args.epochs:
            trained = trainer.train_epoch(stop, profiler)
            if trained is None:
                world.say(f"stopped by SIGTERM; the checkpoint {args.checkpoint} goes on at {trainer.position()}")
                return
            loss, speed = trained
            result = trainer.evaluate()
            accuracy = 100 * result.correct / result.samples
            world.say(f"epoch {trainer.epoch} of {args.epochs}, loss {loss:.4f}, test accuracy {accuracy:.2f} %, "
                      f"{speed:.0f} samples/s")
            if writer is not None:
                scalars = {"loss/train": loss, "loss/test": result.loss / result.samples, "accuracy/test": accuracy,
                           "samples per second": speed}
                for name, value in scalars.items():
                    writer.add_scalar(name, value, trainer.epoch)
    if writer is not None:
        writer.close()
    if result is None:
        world.say(f"nothing to train: {trainer.epoch} epochs are done, and --epochs is {args.epochs}")
        result = trainer.evaluate()
    speed = trainer.trained_samples / trainer.trained_seconds if trainer.trained_seconds else 0.0
    world.say(f"test accuracy {100 * result.correct / result.samples:.2f} % ({result.correct:.0f} of {result.samples:.0f} "
              f"samples), {speed:.0f} samples/s in training, {time.perf_counter() - started:.1f} s")


# ----------------------------------------------------------------------------------------------------- command line
def at_least(kind: type, minimum: float) -> Any:
    """A type for argparse: a finite number of that kind, not below the minimum."""
    def number(text: str) -> Any:
        value = kind(text)
        if not minimum <= value < math.inf:
            raise argparse.ArgumentTypeError(f"{text} is not a number of {minimum} or more")
        return value
    number.__name__ = kind.__name__  # argparse names it in its messages: "invalid int value"
    return number


def parse_arguments(argv: Optional[Sequence[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="train.py", description="Train a digit classifier on every process of torchrun.")
    add = parser.add_argument
    add("--data", type=Path, default=Path(__file__).resolve().with_name("digits.csv.gz"), metavar="PATH",
        help="gzipped CSV, 64 pixels and a label per line (default: digits.csv.gz beside this script)")
    add("--epochs", type=at_least(int, 0), default=10, metavar="N",
        help="epochs in all, with those that the checkpoint has (default: %(default)s)")
    add("--batch-size", type=at_least(int, 1), default=32, metavar="N",
        help="samples per process and batch (default: %(default)s)")
    add("--accumulate", type=at_least(int, 1), default=1, metavar="N",
        help="batches whose gradients make one optimizer step (default: %(default)s)")
    add("--lr", type=at_least(float, 0), default=3e-3, metavar="RATE",
        help="learning rate of the first epoch; a checkpoint's wins (default: %(default)s)")
    add("--seed", type=at_least(int, 0), default=0, metavar="N",
        help="of the first weights, the order of the data and dropout (default: %(default)s)")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: CUDA where there is one (default)")
    add("--amp", action="store_true", default=None, help="mixed precision; on by default, and possible, on CUDA only")
    add("--no-amp", dest="amp", action="store_false", help="compute in float32 everywhere")
    add("--checkpoint", type=Path, default=Path("checkpoint.pt"), metavar="PATH",
        help="written and read by rank 0 only; its run goes on if it exists (default: %(default)s)")
    add("--checkpoint-every", type=at_least(int, 1), metavar="N",
        help="write it after every N steps too, not only after each epoch")
    add("--no-resume", dest="resume", action="store_false", help="start anew and overwrite the checkpoint")
    add("--timeout", type=at_least(float, 1), default=600, metavar="SECONDS",
        help="how long to wait for the other processes (default: %(default)s)")
    add("--profile", type=Path, metavar="DIR", help="write DIR/rank-<rank>.json, a chrome trace of three steps")
    add("--tensorboard", type=Path, metavar="DIR", help="write TensorBoard scalars there, if it is installed")
    return parser.parse_args(argv)


def main(argv: Optional[Sequence[str]] = None) -> None:
    args = parse_arguments(argv)
    train_set, test_set = split_digits(*load_digits(args.data))  # before the others wait for this process
    world = join_world(args.device, args.timeout)
    stop = StopSignal()  # from here on; while it waits for the others a SIGTERM may simply end the process
    trainer = Trainer(args, world, train_set, test_set)
    if world.rank == 0:
        args.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    state = read_checkpoint(args.checkpoint, world) if args.resume else None
    if state is not None:
        trainer.restore(state)
    run(args, world, trainer, stop)
    # On the good path only. After an exception the other ranks are busy elsewhere, and leaving in order would wait for
    # them: the traceback ends this process, and its closed connections end theirs.
    if world.size > 1:
        dist.destroy_process_group()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # all is saved: a late one shall not spoil the exit code


if __name__ == "__main__":
    main()
