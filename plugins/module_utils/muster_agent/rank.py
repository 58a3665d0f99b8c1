"""The few lines between torchrun and a rank: its log, its record, its tie to torchrun; then the script itself."""

import os

from . import files, procs


def main(arguments):
    """``rank PYTHON -u SCRIPT ...``: replaces itself by that command; never returns."""
    procs.die_with_parent(int(os.environ.pop("MUSTER_TORCHRUN_PID")))
    folder = os.path.join(os.environ["MUSTER_RUN_DIR"], "attempt-" + os.environ["MUSTER_ATTEMPT"])
    rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    log = os.open(os.path.join(folder, "rank-{}.log".format(rank)), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    own = procs.stat(os.getpid()) or {"start": None}
    record = {"pid": os.getpid(), "start": own["start"], "rank": rank, "local_rank": local_rank}
    files.write_json(os.path.join(folder, "rank-{}.json".format(rank)), record)
    try:
        os.execvp(arguments[0], arguments)
    except OSError as error:
        os.write(2, "{}: {}\n".format(arguments[0], error.strerror).encode())
        os._exit(127)
