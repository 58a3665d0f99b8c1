"""From logs and exits to the one cause and its sentence."""

import textwrap

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import causes

WORK = "/s/jobs/exp7/work"
PLAIN = """\
epoch 1 loss 0.5
Traceback (most recent call last):
  File "/s/jobs/exp7/work/train.py", line 60, in <module>
    main()
  File "/s/jobs/exp7/work/train.py", line 41, in main
    raise ValueError("bad batch in shard 17")
ValueError: bad batch in shard 17
"""
CHAINED = """\
Traceback (most recent call last):
  File "/s/jobs/exp7/work/data.py", line 5, in read
    return table[key]
           ~~~~~^^^^^
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/s/jobs/exp7/work/train.py", line 9, in <module>
    read("x")
  File "/s/jobs/exp7/work/data.py", line 7, in read
    raise RuntimeError("no row x") from None
RuntimeError: no row x
"""
IN_TORCH = """\
Traceback (most recent call last):
  File "/s/jobs/exp7/work/train.py", line 60, in <module>
    main()
  File "/s/jobs/exp7/work/sub/loop.py", line 12, in step
    loss.backward()
  File "/opt/env/lib/python3.11/site-packages/torch/_tensor.py", line 522, in backward
    torch.autograd.backward(
  File "/opt/env/lib/python3.11/site-packages/torch/autograd/__init__.py", line 266, in backward
    Variable._execution_engine.run_backward(  # Calls into the C++ engine
RuntimeError: element 0 of tensors does not require grad
"""
SYNTAX = """\
starting
  File "/s/jobs/exp7/work/train.py", line 3
    def main(:
             ^
SyntaxError: invalid syntax
"""
WORKER = """\
Traceback (most recent call last):
  File "/s/jobs/exp7/work/train.py", line 41, in main
    for batch in loader:
  File "/opt/env/lib/python3.11/site-packages/torch/_utils.py", line 733, in reraise
    raise exception
ValueError: Caught ValueError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/opt/env/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 351, in _worker_loop
    data = fetcher.fetch(index)
  File "/s/jobs/exp7/work/data.py", line 12, in __getitem__
    raise ValueError("bad row")
ValueError: bad row
"""


def marked(text, rank=1):
    """The log as torch writes it once there is a process group."""
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("Traceback"))
    return "\n".join(lines[:first] + ["[rank{}]: {}".format(rank, line) for line in lines[first:]]) + "\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PLAIN, ("ValueError", "bad batch in shard 17", "train.py", 41)),
        (marked(PLAIN), ("ValueError", "bad batch in shard 17", "train.py", 41)),
        (marked(PLAIN, 123), ("ValueError", "bad batch in shard 17", "train.py", 41)),
        (CHAINED, ("RuntimeError", "no row x", "data.py", 7)),
        (marked(CHAINED), ("RuntimeError", "no row x", "data.py", 7)),
        (IN_TORCH, ("RuntimeError", "element 0 of tensors does not require grad", "sub/loop.py", 12)),
        (SYNTAX, ("SyntaxError", "invalid syntax", "train.py", 3)),
        (WORKER, ("ValueError", "bad row", "data.py", 12)),
        (PLAIN.replace(": bad batch in shard 17\n", "\n"), ("ValueError", "", "train.py", 41)),
        (PLAIN.replace("\nValueError:", "\npkg.errors.Bad:"),
         ("pkg.errors.Bad", "bad batch in shard 17", "train.py", 41)),
        (PLAIN.replace("\nValueError: bad batch in shard 17", "\nKeyboardInterrupt"),
         ("KeyboardInterrupt", "", "train.py", 41)),
        (PLAIN + "  and\nmore\n", ("ValueError", "bad batch in shard 17 and more", "train.py", 41)),
        (PLAIN + "\nsomething else\n", ("ValueError", "bad batch in shard 17", "train.py", 41)),
        (PLAIN + "[W1201 03:00:00 x.cpp:1] Warning: leak\n", ("ValueError", "bad batch in shard 17", "train.py", 41)),
        ("\x00\x1b[31m garbage\n" + PLAIN, ("ValueError", "bad batch in shard 17", "train.py", 41)),
        (PLAIN.replace("bad batch", "a: b: c"), ("ValueError", "a: b: c in shard 17", "train.py", 41)),
        (PLAIN + PLAIN.replace("line 41", "line 42"), ("ValueError", "bad batch in shard 17", "train.py", 42)),
        (PLAIN.replace("  File \"/s/jobs/exp7/work/train.py\", line 60", "garbage\n  File \"/x.py\", line 1"),
         ("ValueError", "bad batch in shard 17", "train.py", 41)),
    ],
)  # fmt: skip
def test_the_exception_and_its_place(text, expected):
    found = causes.parse_log(text, WORK)
    assert (found["type"], found["message"], found["file"], found["line"]) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "epoch 1 loss 0.5\n",
        "ValueError: said by nobody\n",
        "Traceback (most recent call last):\n",
        PLAIN[: PLAIN.index("ValueError: ")],  # cut off before its last line
        'Fatal Python error: Segmentation fault\n\nThread 0x1 (most recent call first):\n  File "/x", line 3 in main\n',
    ],
)
def test_logs_without_an_exception(text):
    assert causes.parse_log(text, WORK) is None


def test_the_deepest_frame_is_named_where_none_is_the_users():
    found = causes.parse_log(IN_TORCH, "/elsewhere")
    assert found["file"] == "/opt/env/lib/python3.11/site-packages/torch/autograd/__init__.py" and found["line"] == 266
    assert causes.parse_log(PLAIN)["file"] == WORK + "/train.py"


def test_a_folder_beside_the_working_folder_is_not_in_it():
    assert causes.parse_log(PLAIN, "/s/jobs/exp7/wor")["file"] == WORK + "/train.py"
    assert causes.parse_log(PLAIN, WORK + "/")["file"] == "train.py"


def test_the_traceback_is_the_last_one_without_marks():
    assert causes.parse_log(marked(PLAIN), WORK)["traceback"] == PLAIN.split("\n", 1)[1].rstrip("\n")
    assert causes.parse_log(CHAINED, WORK)["traceback"].splitlines()[0] == "Traceback (most recent call last):"
    assert "KeyError" not in causes.parse_log(CHAINED, WORK)["traceback"]
    assert causes.parse_log("before\n" + SYNTAX, WORK)["traceback"] == SYNTAX.split("\n", 1)[1].rstrip("\n")


def test_long_messages_and_tracebacks_are_bounded():
    found = causes.parse_log(PLAIN.replace("bad batch", "x" * 50000), WORK)
    assert len(found["message"]) == 600 and len(found["traceback"]) == 8000


LOCAL_CLASS = PLAIN.replace("\nValueError:", "\n__main__.main.<locals>.BadBatch:")
IGNORED = PLAIN + textwrap.dedent("""\
    Exception ignored in: <function Loader.__del__ at 0x7f>
    Traceback (most recent call last):
      File "/s/jobs/exp7/work/data.py", line 99, in __del__
        self.close()
    AttributeError: 'Loader' object has no attribute 'file'
    """)
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/s/jobs/exp7/work/train.py", line 4, in <module>
  |     raise ExceptionGroup("two things", [ValueError("a"), TypeError("b")])
  | ExceptionGroup: two things (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: a
    +---------------- 2 ----------------
    | TypeError: b
    +------------------------------------
"""
HANDLED = PLAIN.replace("ValueError: bad batch in shard 17", "ValueError: handled") + "epoch 2\nepoch 3\ndone\n"
STACK = 'Stack (most recent call last):\n  File "/s/jobs/exp7/work/train.py", line 3, in f\n    g()\ndone\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(LOCAL_CLASS, "BadBatch", id="a class made in a function"),
        pytest.param(IGNORED, "ValueError", id="'Exception ignored in' after the cause"),
        pytest.param(GROUP, "ExceptionGroup", id="an exception group"),
        pytest.param(
            PLAIN.replace("\nValueError", "\nW1201 03:00 x.cpp] leak\nValueError"), "ValueError", id="a line between"
        ),
        pytest.param(STACK, None, id="a printed stack is no exception"),
    ],
)
def test_logs_that_are_easily_misread(text, expected):
    found = causes.parse_log(text, WORK)
    assert (found and found["type"].rsplit(".", 1)[-1]) == expected


def test_a_traceback_without_heading_begins_at_its_frame():
    assert causes.parse_log(SYNTAX, WORK)["traceback"] == SYNTAX.split("\n", 1)[1].rstrip("\n")


def test_a_relative_frame_lies_in_the_working_folder():
    text = IN_TORCH.replace(WORK + "/", "")
    assert causes.parse_log(text, WORK)["file"] == "sub/loop.py"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\nb\n\n  \n", "b"), ("", ""), ("\n", ""), ("  x  \n", "x"), ("y" * 300, "y" * 200)],
)
def test_the_last_line(text, expected):
    assert causes.last_line(text) == expected


def rank_exit(rank=0, time=1.0, error=None, host="n1", **fields):
    """An event of a rank's end."""
    return dict({"kind": "exit", "host": host, "time": time, "rank": rank, "local_rank": 0, "error": error}, **fields)


def raised(kind, message, file="train.py", line=41):
    return {"type": kind, "message": message, "file": file, "line": line, "traceback": ""}


CLOSED = raised("RuntimeError", "[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:3141")
BAD = raised("ValueError", "bad batch in shard 17")
LOST = {"kind": "lost", "host": "n2", "time": 0.5, "text": "n2 is lost: silence; look there"}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (rank_exit(error=CLOSED, code=1), True),
        (rank_exit(error=raised("torch.distributed.DistNetworkError", "x"), code=1), True),
        (rank_exit(error=raised("ConnectionResetError", "[Errno 104] Connection reset by peer"), code=1), True),
        (rank_exit(error=raised("BrokenPipeError", "[Errno 32] broken pipe"), code=1), True),
        (rank_exit(error=raised("RuntimeError", "Timed out waiting 1800000ms for recv operation"), code=1), True),
        (
            rank_exit(
                error=raised("torch.distributed.DistBackendError", "NCCL communicator was aborted on rank 1"), code=1
            ),
            True,
        ),
        (rank_exit(error=BAD, code=1), False),
        (rank_exit(code=3, last_line="Connection closed by peer"), False),
        (rank_exit(signal=9, last_line="Connection closed by peer"), False),
        (rank_exit(signal=6, last_line="Watchdog caught collective operation timeout: WorkNCCL"), True),
        (rank_exit(signal=6, last_line="double free or corruption"), False),
        (rank_exit(signal=6), False),
        (LOST, False),
    ],
)
def test_which_events_only_echo_another(event, expected):
    assert causes.is_secondary(event) is expected


BAD_EVENT, ECHO = rank_exit(1, 9.0, BAD, code=1), rank_exit(0, 1.0, CLOSED, code=1)
KILLED, EXIT3 = rank_exit(2, 2.0, signal=9), rank_exit(3, 3.0, code=3, last_line="bye")
TORCHRUN = {"kind": "torchrun", "host": "n1", "time": 0.1, "text": "torchrun on n1 failed"}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], None),
        ([ECHO], ECHO),
        ([ECHO, BAD_EVENT], BAD_EVENT),
        ([LOST, BAD_EVENT], BAD_EVENT),
        ([ECHO, LOST], LOST),
        ([LOST, TORCHRUN, ECHO], TORCHRUN),
        ([BAD_EVENT, EXIT3, KILLED], KILLED),
        ([BAD_EVENT, EXIT3, ECHO, LOST], EXIT3),
    ],
)
def test_the_one_cause(events, expected):
    assert causes.pick(events) is expected
    assert causes.pick(list(reversed(events))) is expected


WHO = "rank 1 on n2"


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (dict(error=BAD, code=1), WHO + ", train.py:41: ValueError: bad batch in shard 17"),
        (dict(error=raised("AssertionError", ""), code=1), WHO + ", train.py:41: AssertionError"),
        (dict(code=3, last_line="bye"), WHO + ' ended with exit code 3 without a traceback; its last line was "bye"'),
        (dict(code=3, last_line=""), WHO + " ended with exit code 3 and printed nothing"),
        (dict(signal=11, last_line="x"), WHO + ' was killed by SIGSEGV (signal 11); its last line was "x"'),
        (dict(signal=9), WHO + " was killed by SIGKILL (signal 9), not by Muster; look for who did, the kernel's "
         "memory killer included"),
        (dict(signal=9, oom=True), WHO + " was killed for memory by the kernel (SIGKILL); give it less to hold or the "
         "host more memory"),
        (dict(signal=6, error=BAD), WHO + " was killed by SIGABRT (signal 6) after ValueError: bad batch in shard 17"),
        (dict(signal=70), WHO + " was killed by signal 70 (signal 70)"),
    ],
)  # fmt: skip
def test_sentences(event, expected):
    assert causes.sentence(rank_exit(1, host="n2", **event)) == expected


def test_a_lost_node_speaks_for_itself():
    assert causes.sentence(LOST) == "n2 is lost: silence; look there"


def test_a_killed_rank_after_an_exception_without_message():
    told = causes.sentence(rank_exit(1, host="n2", signal=6, error=raised("AssertionError", "")))
    assert told == WHO + " was killed by SIGABRT (signal 6) after AssertionError"


def test_an_exit_code_is_told_beside_an_exception_that_was_handled():
    error = causes.parse_log(HANDLED, WORK)
    assert "exit code 3" in causes.sentence(rank_exit(1, error=error, code=3, last_line="done"))
