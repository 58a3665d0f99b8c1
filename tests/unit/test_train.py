"""files/train.py, the packaged DDP script, run as its users run it.

The Python that runs pytest needs no torch: the ranks run in the one that MUSTER_TEST_PYTHON names, or else in the
environment that `make demo` makes. Ranks are started without torchrun, by the variables that it would set.
"""

import gzip
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "files" / "train.py"
HELPERS = Path(__file__).with_name("train_helpers.py")
TIMEOUT = 120  # seconds, for any process here; most need a hundredth of that
LAST_LINE = re.compile(r"test accuracy (\d+\.\d\d) % \((\d+) of (\d+) samples\), (\d+) samples/s, (\d+\.\d) s")


def environment():
    """The variables of pytest without those that torchrun sets, for a machine without GPUs."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("PET_", "TORCHELASTIC_", "MASTER_", "PYTHONWARNINGS"))
           and name not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", "PYTHONPATH")}
    env.update(CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", PYTHONDONTWRITEBYTECODE="1")
    return env


def rank_variables(rank, size, port):
    """What torchrun sets for a rank; nothing where there is no torchrun."""
    return {} if size == 0 else {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size),
                                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Rank:
    """A process of the script: its working folder, and what it has printed. ``poll`` gives its exit code or None."""

    def __init__(self, number, folder, pid, poll):
        self.number, self.folder, self.pid, self.poll = number, folder, pid, poll
        self.code = None

    @property
    def out(self):
        return self.folder.with_suffix(".out").read_text()

    @property
    def err(self):
        return self.folder.with_suffix(".err").read_text()

    @property
    def lines(self):
        return self.out.splitlines()

    def records(self, kind):
        """The JSON that follows this word at the beginning of a line, for each such line."""
        return [json.loads(line.split(" ", 1)[1]) for line in self.lines if line.startswith(kind + " ")]

    def ended(self):
        if self.code is None:
            self.code = self.poll()
        return self.code is not None

    def files(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())


def wait(ranks, timeout=TIMEOUT):
    """Wait until every rank has ended, and return their exit codes; none of them survives this."""
    deadline = time.monotonic() + timeout
    try:
        while not all([rank.ended() for rank in ranks]):
            assert time.monotonic() < deadline, "still running: " + ", ".join(
                f"rank {rank.number}: {rank.out}{rank.err}" for rank in ranks if rank.code is None)
            time.sleep(0.02)
    finally:
        kill(ranks)
    return [rank.code for rank in ranks]


def kill(ranks):
    for rank in ranks:
        if not rank.ended():
            os.kill(rank.pid, signal.SIGKILL)  # nobody has waited for it yet, so the number is still its own
            while not rank.ended():
                time.sleep(0.02)


@pytest.fixture(scope="session")
def torch_python():
    named = os.environ.get("MUSTER_TEST_PYTHON")
    python = Path(named) if named else ROOT / ".muster" / "env" / "bin" / "python"
    if not python.exists():
        pytest.fail(f"these tests need a Python with torch, and there is no {python}: run `make demo`, "
                    "or name one in MUSTER_TEST_PYTHON")
    return python


@pytest.fixture(scope="module")
def start_ranks(torch_python):
    """Start so many ranks of the script, as forks of one process that has imported torch already.

    ``hooks`` are for all ranks, ``only`` maps a rank to hooks of its own; see train_helpers.py. ``size=0`` is one
    process without torchrun's variables.
    """
    started = []
    server = subprocess.Popen([str(torch_python), str(HELPERS)], env=environment(), text=True, bufsize=1,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(request):
        server.stdin.write(json.dumps(request) + "\n")
        return json.loads(server.stdout.readline())

    def start(folder, *arguments, size=1, only=None, **hooks):
        port, ranks = free_port(), []
        for number in range(size or 1):
            place = folder / f"rank{number}"
            place.mkdir(parents=True, exist_ok=True)
            files = {"out": str(place.with_suffix(".out")), "err": str(place.with_suffix(".err"))}
            for path in files.values():
                Path(path).write_text("")
            pid = ask({"run": {"argv": list(arguments), "env": rank_variables(number, size, port), "cwd": str(place),
                               **files, **hooks, **(only or {}).get(number, {})}})["pid"]
            ranks.append(Rank(number, place, pid, lambda pid=pid: ask({"poll": pid})["code"]))
        started.extend(ranks)
        return ranks

    try:
        yield start
    finally:
        try:
            kill(started)
            server.stdin.close()
            server.wait(10)
        finally:
            server.kill()
            server.wait()
            server.stdout.close()


@pytest.fixture(scope="module")
def run_ranks(start_ranks):
    """Start ranks, and wait for their end."""
    def run(*arguments, timeout=TIMEOUT, **options):
        ranks = start_ranks(*arguments, **options)
        wait(ranks, timeout)
        return ranks
    return run


def codes(ranks):
    return [rank.code for rank in ranks]


def last_line(rank):
    """What the last line says: accuracy in per cent, right answers, samples tested, samples/s, seconds."""
    found = LAST_LINE.fullmatch(rank.lines[-1])
    assert found, rank.out + rank.err
    accuracy, correct, tested, speed, seconds = found.groups()
    return float(accuracy), int(correct), int(tested), int(speed), float(seconds)


def first_digits(path, lines):
    """A data file with the first lines of the real one."""
    with gzip.open(ROOT / "files" / "digits.csv.gz", "rt") as source, gzip.open(path, "wt") as target:
        for _ in range(lines):
            target.write(source.readline())
    return str(path)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Options for 300 digits, 240 of them to train with: 15 steps in an epoch of one rank, 8 in one of two."""
    return "--data", first_digits(tmp_path_factory.mktemp("data") / "small.csv.gz", 300), "--batch-size", "16"


# ----------------------------------------------------------------------------------------------- as the users run it
@pytest.mark.parametrize("size", [0, 2])
def test_learns_the_digits(run_ranks, tmp_path, size):
    ranks = run_ranks(tmp_path, size=size, script=True)
    assert codes(ranks) == [0] * len(ranks)
    assert [rank.err for rank in ranks] == [""] * len(ranks), "no warnings"
    for rank in ranks:
        assert rank.lines[0].startswith(f"Rank {rank.number}, World Size {len(ranks)}, ")
    accuracy, correct, tested, speed, seconds = last_line(ranks[0])
    assert accuracy >= 97
    assert tested == 360
    assert accuracy == pytest.approx(100 * correct / tested, abs=0.006)
    assert speed > 0
    assert 0 < seconds < TIMEOUT
    epochs = [line for line in ranks[0].lines if line.startswith("epoch ")]
    assert len(epochs) == 10
    assert all(re.fullmatch(r"epoch \d+ of 10: loss \d\.\d{4}, test accuracy \d+\.\d\d %, \d+ samples/s", line)
               for line in epochs)
    # Only rank 0 writes, and nothing but the checkpoint; the other ranks have said that they are there.
    assert [rank.files() for rank in ranks] == [["checkpoint.pt"], []][:len(ranks)]
    assert [len(rank.lines) for rank in ranks[1:]] == [1] * (len(ranks) - 1)


def test_sigterm_from_outside_ends_all_ranks_in_order(start_ranks, run_ranks, small, tmp_path):
    ranks = start_ranks(tmp_path, *small, "--epochs", "10000", size=2)
    deadline = time.monotonic() + TIMEOUT
    while "epoch 1 of" not in ranks[0].out:
        assert time.monotonic() < deadline and not any([rank.ended() for rank in ranks]), ranks[0].out + ranks[0].err
        time.sleep(0.02)
    for rank in ranks + ranks:
        os.kill(rank.pid, signal.SIGTERM)
    assert wait(ranks) == [0, 0]
    assert [rank.err for rank in ranks] == ["", ""]
    stopped = re.fullmatch(r"stopped by SIGTERM: the checkpoint checkpoint.pt goes on at (epoch (\d+), .*)",
                           ranks[0].lines[-1])
    assert stopped, ranks[0].out
    assert [rank.files() for rank in ranks] == [["checkpoint.pt"], []]
    again = run_ranks(tmp_path, *small, "--epochs", stopped.group(2), size=2)
    assert codes(again) == [0, 0]
    assert f"resuming from checkpoint.pt at {stopped.group(1)}" in again[0].lines
    last_line(again[0])


# ------------------------------------------------------------------------------------------------- stop and go on
@pytest.fixture(scope="module")
def uninterrupted(run_ranks, small, tmp_path_factory):
    """The steps of each rank in two epochs without an interruption, for one rank and for two."""
    def run(size):
        ranks = run_ranks(tmp_path_factory.mktemp("whole"), *small, "--epochs", "2", size=size, log=True)
        assert codes(ranks) == [0] * size
        last, = (line for line in ranks[0].lines if line.startswith("epoch 2 of 2: "))
        return [rank.records("STEP") for rank in ranks], last.split(", ")[1]
    return {size: run(size) for size in (1, 2)}


@pytest.mark.parametrize("size, stopper", [(1, 0), (2, 1)])
def test_sigterm_to_one_rank_stops_all_and_the_next_run_takes_the_next_step(
        run_ranks, uninterrupted, small, tmp_path, size, stopper):
    arguments = (*small, "--epochs", "2", "--checkpoint", "kept/here.pt")
    first = run_ranks(tmp_path, *arguments, size=size, log=True, only={stopper: {"sigterm_at": 5}})
    assert codes(first) == [0] * size
    before = [rank.records("STEP") for rank in first]
    steps = {1: 15, 2: 8}[size]
    assert f"stopped by SIGTERM: the checkpoint kept/here.pt goes on at epoch 1, step 6 of {steps}" in first[0].lines
    assert [len(early) for early in before] == [5] * size
    assert [rank.files() for rank in first] == [["kept/here.pt"], []][:size]

    second = run_ranks(tmp_path, *arguments, size=size, log=True)
    assert codes(second) == [0] * size
    assert [rank.err for rank in first + second] == [""] * 2 * size
    assert f"resuming from kept/here.pt at epoch 1, step 6 of {steps}" in second[0].lines
    whole, last_epoch = uninterrupted[size]
    # The same samples in the same order, none twice; the same losses, so also weights, optimizer and dropout.
    assert [early + rank.records("STEP") for early, rank in zip(before, second)] == whole
    # See the comment in main(): a rank whose DDP model outlives the process group may never end.
    assert [rank.records("LEAVE") for rank in first + second] == [[0]] * 2 * size
    assert any(line.startswith("epoch 2 of 2: ") and last_epoch in line for line in second[0].lines)


def test_a_killed_run_goes_on_from_its_last_checkpoint(run_ranks, uninterrupted, small, tmp_path):
    arguments = (*small, "--epochs", "2", "--checkpoint-every", "5")
    first = run_ranks(tmp_path, *arguments, sigkill_at=13)
    assert codes(first) == [-signal.SIGKILL]
    second = run_ranks(tmp_path, *arguments, log=True)
    assert codes(second) == [0]
    assert second[0].records("STEP") == uninterrupted[1][0][0][10:]


def test_another_world_size_starts_the_epoch_again(run_ranks, small, tmp_path):
    first = run_ranks(tmp_path, *small, "--epochs", "2", size=2, only={0: {"sigterm_at": 3}})
    assert codes(first) == [0, 0]
    second = run_ranks(tmp_path, *small, "--epochs", "1", log=True)
    assert codes(second) == [0]
    assert "epoch 1 starts again: world_size was 2 and is 1" in second[0].lines
    assert [step["step"] for step in second[0].records("STEP")] == list(range(15))


def test_with_all_epochs_done_it_evaluates_and_ends(run_ranks, small, tmp_path):
    arguments = (*small, "--epochs")
    assert codes(run_ranks(tmp_path, *arguments, "1")) == [0]
    checkpoint = tmp_path / "rank0" / "checkpoint.pt"
    before = checkpoint.stat().st_mtime_ns
    for epochs in ("1", "0"):
        rank, = run_ranks(tmp_path, *arguments, epochs)
        assert rank.code == 0
        assert f"nothing to train: 1 epochs are done, and --epochs is {epochs}" in rank.lines
        assert last_line(rank)[2] == 60
        assert checkpoint.stat().st_mtime_ns == before
    rank, = run_ranks(tmp_path, *arguments, "1", "--no-resume", log=True)
    assert rank.code == 0
    assert len(rank.records("STEP")) == 15
    assert checkpoint.stat().st_mtime_ns > before


def test_a_failed_write_leaves_the_old_checkpoint(run_ranks, small, tmp_path):
    arguments = (*small, "--epochs")
    assert codes(run_ranks(tmp_path, *arguments, "1")) == [0]
    before = (tmp_path / "rank0" / "checkpoint.pt").read_bytes()
    rank, = run_ranks(tmp_path, *arguments, "2", full_disk=True)
    assert rank.code == 1
    assert rank.err.splitlines()[-1] == "OSError: [Errno 28] No space left on device"
    assert (tmp_path / "rank0" / "checkpoint.pt").read_bytes() == before
    rank, = run_ranks(tmp_path, *arguments, "2")
    assert rank.code == 0
    assert rank.files() == ["checkpoint.pt"], "what the failed write left is gone"


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("content", [b"", b"no checkpoint at all", b"PK\x03\x04" + bytes(1000)])
def test_a_damaged_checkpoint_is_one_sentence(run_ranks, tmp_path, size, content):
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "checkpoint.pt").write_bytes(content)
    ranks = run_ranks(tmp_path, "--epochs", "1", size=size)
    assert codes(ranks) == [1] * size
    assert re.fullmatch(r"train.py: cannot read the checkpoint checkpoint.pt, it is damaged or not from this script "
                        r"\(\w+\): move it away, or start anew with --no-resume\n", ranks[0].err)
    assert [rank.err for rank in ranks[1:]] == ["train.py: rank 0 cannot read the checkpoint\n"] * (size - 1)


def test_an_exception_in_one_rank_ends_all(run_ranks, small, tmp_path):
    ranks = run_ranks(tmp_path, *small, size=2, only={1: {"raise_at": 3}})
    assert codes(ranks) == [1, 1]
    assert ranks[1].err.splitlines()[-1].endswith("ValueError: bad batch in shard 17")
    assert "Traceback" in ranks[0].err


# ------------------------------------------------------------------------------------------------- the right numbers
@pytest.mark.parametrize("lines, tested", [(100, 20), (7, 2)])  # shards of 7, 7, 6 and of 1, 1, 0 samples
def test_evaluation_counts_each_sample_once(run_ranks, tmp_path, lines, tested):
    data = first_digits(tmp_path / "some.csv.gz", lines)
    three = run_ranks(tmp_path, "--data", data, "--epochs", "1", size=3)
    assert codes(three) == [0, 0, 0]
    one = run_ranks(tmp_path, "--data", data, "--epochs", "1")  # only evaluates what the three have trained
    assert codes(one) == [0]
    assert last_line(three[0])[2] == tested
    assert last_line(three[0])[:3] == last_line(one[0])[:3]


@pytest.mark.parametrize("size", [1, 2])
def test_accumulated_gradients_equal_those_of_one_batch(run_ranks, tmp_path, size):
    ranks = run_ranks(tmp_path, "--batch-size", "16", size=size, call="gradients")
    assert codes(ranks) == [0] * size, ranks[0].err
    for rank in ranks:
        groups = rank.records("GRADIENT")
        assert [group["samples"] for group in groups] == [48, 32, 21]
        assert all(group["error"] < 1e-5 * group["size"] for group in groups), groups
        # One exchange of gradients for each group, where there are other ranks.
        assert [group["exchanges"] for group in groups] == [0 if size == 1 else 1] * 3


def test_accumulation_takes_fewer_steps_over_the_same_samples(run_ranks, uninterrupted, small, tmp_path):
    rank, = run_ranks(tmp_path, *small, "--epochs", "1", "--accumulate", "4", log=True)
    steps = rank.records("STEP")
    assert [step["samples"] for step in steps] == [64, 64, 64, 48]
    singles = [step["checksum"] for step in uninterrupted[1][0][0][:15]]
    assert [step["checksum"] for step in steps] == pytest.approx(
        [sum(singles[begin:begin + 4]) for begin in range(0, 15, 4)])


def test_epochs_and_ranks_differ_in_their_samples(uninterrupted):
    ranks, _ = uninterrupted[2]
    assert [len(steps) for steps in ranks] == [16, 16]
    checksums = [step["checksum"] for steps in ranks for step in steps]
    assert len(set(checksums)) == len(checksums)
    assert ranks[0][7]["lr"] > ranks[0][8]["lr"], "the learning rate falls after an epoch"


def test_seeds(run_ranks, small, tmp_path):
    ranks = run_ranks(tmp_path / "a", *small, "--seed", "5", size=2, call="streams")
    other = run_ranks(tmp_path / "b", *small, "--seed", "6", size=2, call="streams")
    (first,), (second,) = (rank.records("STREAM") for rank in ranks)
    (third,) = other[0].records("STREAM")
    assert first["weights"] == second["weights"] != third["weights"]
    assert len({first["dropout"], second["dropout"], third["dropout"]}) == 3
    assert sorted(set(first["indices"] + second["indices"])) == list(range(240))
    assert first["indices"] != third["indices"]


# ---------------------------------------------------------------------------------------------------- looking inside
def test_profile_writes_a_trace_for_each_rank(run_ranks, small, tmp_path):
    ranks = run_ranks(tmp_path, *small, "--epochs", "1", "--profile", "traces", size=2)
    assert codes(ranks) == [0, 0]
    for rank in ranks:
        trace = json.loads((rank.folder / "traces" / f"rank-{rank.number}.json").read_text())
        assert sum(event["name"].startswith("ProfilerStep#") for event in trace["traceEvents"]) >= 3


def test_tensorboard_gets_scalars_from_rank_0(run_ranks, small, tmp_path):
    ranks = run_ranks(tmp_path, *small, "--epochs", "2", "--tensorboard", "board", size=2, tensorboard="fake")
    assert codes(ranks) == [0, 0]
    scalars = [json.loads(line.split(" ", 1)[1]) for line in ranks[0].lines if line.startswith("SCALAR [")]
    names = ["loss/train", "loss/test", "accuracy/test", "samples per second"]
    assert [(name, step) for name, _, step in scalars] == [(name, step) for step in (1, 2) for name in names]
    assert "SCALAR closed" in ranks[0].lines
    assert "SCALAR" not in ranks[1].out


def test_without_tensorboard_a_line_says_so(run_ranks, small, tmp_path):
    rank, = run_ranks(tmp_path, *small, "--epochs", "1", "--tensorboard", "board", tensorboard="none")
    assert rank.code == 0
    assert sum(line.startswith("no TensorBoard scalars: ") for line in rank.lines) == 1
    last_line(rank)


# ------------------------------------------------------------------------------------------------------ what is wrong
@pytest.mark.parametrize("content, sentence", [
    (None, r"train.py: cannot read the digits in \S+: .*No such file or directory.*"),
    (b"1,2,3\n", r"train.py: cannot read the digits in \S+: Not a gzipped file .*"),
    (gzip.compress(b"0," * 64 + b"7\n")[:-12], r"train.py: cannot read the digits in \S+: .+"),
    (gzip.compress(b"0," * 64 + b"7\n1,2,3\n"), r"train.py: \S+, line 2: expected 64 pixels .*"),
    (gzip.compress(b"0," * 64 + b"10\n"), r"train.py: \S+, line 1: expected 64 pixels of 0..16 and a label of 0..9"),
    (gzip.compress(b"17," + b"0," * 63 + b"7\n"), r"train.py: \S+, line 1: expected 64 pixels .*"),
    (gzip.compress(b"pixel," * 64 + b"label\n"), r"train.py: cannot read the digits in \S+: invalid literal .*"),
    (gzip.compress(b"0," * 64 + b"7\n"), r"train.py: \S+ has 1 lines: .*"),
])
def test_missing_or_wrong_data_is_one_sentence(run_ranks, tmp_path, content, sentence):
    data = tmp_path / "data.csv.gz"
    if content is not None:
        data.write_bytes(content)
    rank, = run_ranks(tmp_path, "--data", str(data))
    assert rank.code == 1
    assert re.fullmatch(sentence + "\n", rank.err)


@pytest.mark.parametrize("option, value", [
    ("--epochs", "-1"), ("--epochs", "two"), ("--batch-size", "0"), ("--accumulate", "0"), ("--lr", "-0.1"),
    ("--lr", "nan"), ("--lr", "inf"), ("--seed", "-1"), ("--device", "tpu"), ("--checkpoint-every", "0"),
    ("--timeout", "0"),
])
def test_a_bad_option_is_refused(run_ranks, tmp_path, option, value):
    rank, = run_ranks(tmp_path, f"{option}={value}")
    assert rank.code == 2
    assert f"error: argument {option}: " in rank.err
    assert value in rank.err.splitlines()[-1]


def test_every_option_has_help(run_ranks, tmp_path):
    rank, = run_ranks(tmp_path, "--help")
    assert rank.code == 0
    for option in ("--data", "--epochs", "--batch-size", "--accumulate", "--lr", "--seed", "--device", "--amp",
                   "--no-amp", "--checkpoint", "--checkpoint-every", "--no-resume", "--timeout", "--profile",
                   "--tensorboard"):
        assert re.search(rf"^  {option}\b[^\n]*\s+[a-zA-Z]", rank.out, re.MULTILINE), option
