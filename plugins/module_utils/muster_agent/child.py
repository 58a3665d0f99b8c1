"""The process that *is* torchrun: imports torch, says so, waits for "go", calls ``torch.distributed.run.main``.

The supervisor talks to it by two pipes: a JSON line on stdin is "go", JSON lines on the descriptor named in the
arguments are what it reports. It dies with its supervisor, and its ranks die with it.
"""

import importlib
import json
import os
import sys
import threading
import time

from . import procs


def describe(status):
    """A waitid result as ``{"code": N}`` or ``{"signal": N}``."""
    if status.si_code == os.CLD_EXITED:
        return {"code": status.si_status}
    return {"signal": status.si_status}


def watch_ranks(report):
    """Report the end of every child the moment it ends, without reaping it: that is torchrun's to do."""
    seen = set()
    while True:
        try:
            status = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            time.sleep(0.05)
            continue
        if status is not None and status.si_pid not in seen:
            seen.add(status.si_pid)
            report("exit", pid=status.si_pid, time=time.time(), **describe(status))
        time.sleep(0.01)


def first_failures(error):
    """What a ChildFailedError knows of its ranks: ``[{"local_rank", "code" or "signal", "time"}]``."""
    found = []
    for failure in getattr(error, "failures", {}).values():
        code = failure.exitcode
        status = {"signal": -code} if code < 0 else {"code": code}
        found.append(dict(status, local_rank=failure.local_rank, pid=failure.pid, time=float(failure.timestamp)))
    return found


def torch_facts(torch, run):
    """Versions, and the option names that this torch's torchrun knows."""
    flags = set()
    for action in run.get_args_parser()._actions:
        flags.update(name.replace("_", "-") for name in action.option_strings)
    cuda = getattr(torch.version, "cuda", None)
    nccl = None
    if cuda and torch.distributed.is_nccl_available():
        nccl = ".".join(str(part) for part in torch.cuda.nccl.version())
    return {
        "torch": str(torch.__version__),
        "cuda": cuda,
        "nccl": nccl,
        "gloo": torch.distributed.is_available(),
        "flags": sorted(flags),
    }


def main(arguments):
    """``torchrun DESCRIPTOR PARENT_PID``."""
    output = os.fdopen(int(arguments[0]), "w", encoding="utf-8")
    os.set_inheritable(output.fileno(), False)
    procs.die_with_parent(int(arguments[1]))
    lock = threading.Lock()

    def report(kind, **fields):
        with lock:
            output.write(json.dumps(dict(fields, kind=kind)) + "\n")
            output.flush()

    try:
        # By name, since an agent on a host without torch must still load.
        torch = importlib.import_module("torch")
        run = importlib.import_module("torch.distributed.run")
        report("ready", **torch_facts(torch, run))
    except Exception as error:
        report("broken", text="{}: {}".format(type(error).__name__, error))
        raise
    line = sys.stdin.readline()
    if not line:
        return 1
    go = json.loads(line)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.environ.clear()
    os.environ.update(go["env"], MUSTER_TORCHRUN_PID=str(os.getpid()))
    os.chdir(go["cwd"])
    threading.Thread(target=watch_ranks, args=(report,), daemon=True).start()
    try:
        run.main(go["argv"])
        report("end", ok=True, failures=[])
    except BaseException as error:  # SystemExit and torchrun's SignalException too: whatever ends it must be told
        report("end", ok=False, failures=first_failures(error), text="{}: {}".format(type(error).__name__, error)[:2000])
        raise
    return 0
