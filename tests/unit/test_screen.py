"""Bytes of logs as lines that a terminal can bear, and tables."""

import random

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils import screen


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("plain", "plain"),
        ("", ""),
        ("tabs\tstay", "tabs\tstay"),
        ("  indented", "  indented"),
        ("grüße 🙂 日本", "grüße 🙂 日本"),
        ("windows\r", "windows"),
        ("\r 10%|#\r 50%|###\r100%|#####", "100%|#####"),
        ("left over\r   ", "left over"),
        ("\r\r", ""),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[1;38;5;208mx\x1b[K\x1b[2J\x1b[?25l", "x"),
        ("\x1b]0;a title\x07x", "x"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("bell\x07 null\x00 back\x08 form\x0c esc\x1b", "bell null back form esc"),
        ("\x1bM\x1bcx", "cx"),
        ("c1 \x85\x9b\x7f", "c1 "),
        ("x" * 2000, "x" * 2000),
        ("x" * 2100, "x" * 2000 + " [100 more characters]"),
    ],
)
def test_clean(line, expected):
    assert screen.clean(line) == expected


def test_no_byte_reaches_the_terminal_as_a_command():
    line = "".join(chr(number) for number in range(256) if number != 10) * 3
    assert all(char == "\t" or char.isprintable() or char in "\xa0\xad" for char in screen.clean(line))


def fed(*chunks):
    """Lines after each chunk and the rest at the end."""
    cutter = screen.Lines()
    return [cutter.feed(chunk) for chunk in chunks] + [cutter.feed(b"", final=True)]


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([], [[]]),
        ([b"a\nb\n"], [["a", "b"], []]),
        ([b"a", b"b\nc"], [[], ["ab"], ["c"]]),
        ([b"\n\n"], [["", ""], []]),
        ([b"a\r\n"], [["a"], []]),
        ([b"gr\xc3", b"\xbc\n"], [[], ["grü"], []]),
        ([b"\xf0\x9f\x99", b"\x82"], [[], [], ["🙂"]]),
        ([b"cut \xf0\x9f"], [[], ["cut \ufffd"]]),
        ([b"bad \xff\xfe\n"], [["bad \ufffd\ufffd"], []]),
        ([b"\r 10%", b"\r 50%", b"\r100%\n"], [[], [], ["100%"], []]),
        ([b"\x1b[3", b"1mred\n"], [[], ["red"], []]),
    ],
)
def test_lines_come_whole(chunks, expected):
    assert fed(*chunks) == expected


def test_how_the_bytes_are_cut_does_not_matter():
    data = "epoch 1 grüße 🙂\n\r 10%\r 20%\r100%\n\x1b[31mred\x1b[0m\n\nlast".encode()
    whole = [line for lines in fed(data) for line in lines]
    rng = random.Random(7)
    for _ in range(50):
        cuts = sorted(rng.sample(range(1, len(data)), 8))
        chunks = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        assert [line for lines in fed(*chunks) for line in lines] == whole
    assert whole == ["epoch 1 grüße 🙂", "100%", "red", "", "last"]


def test_an_endless_line_is_bounded():
    cutter = screen.Lines()
    for _ in range(50):
        assert cutter.feed(b"x" * 10000) == []
    assert len(cutter._rest) <= 20 * screen.LIMIT
    (line,) = cutter.feed(b"\n")
    assert line.startswith("x" * screen.LIMIT + " [") and len(line) < screen.LIMIT + 50


def test_an_endless_progress_bar_keeps_its_last_state():
    cutter = screen.Lines()
    for number in range(3000):
        cutter.feed("\rstep {:>30}".format(number).encode())
    assert len(cutter._rest) <= 20 * screen.LIMIT + 50
    assert cutter.feed(b"\n") == ["step {:>30}".format(2999)]


def test_tables():
    rows = [("host", "ranks", "exit"), ("n0", "0-3", "0"), ("a-long-name", "-", "SIGKILL (rank 2)")]
    assert screen.table(rows) == [
        "host         ranks  exit",
        "n0           0-3    0",
        "a-long-name  -      SIGKILL (rank 2)",
    ]
    assert screen.table([("only", "heading")]) == ["only  heading"]


@pytest.mark.parametrize(("ranks", "expected"), [([], "-"), ([5], "5"), ([4, 5], "4-5"), ([0, 1, 2, 3], "0-3")])
def test_ranks(ranks, expected):
    assert screen.shown_ranks(ranks) == expected


ZERO = {"code": 0}


@pytest.mark.parametrize(
    ("exits", "outcome", "expected"),
    [
        ({"2": ZERO, "3": ZERO}, "finished", "0"),
        ({"2": {"code": 3}, "3": {"code": 3}}, "failed", "3"),
        ({"2": ZERO, "3": {"code": 3}}, "failed", "3 (rank 3)"),
        ({"2": {"signal": 9}}, "failed", "SIGKILL (rank 2), ended by Muster (rank 3)"),
        ({"2": {"signal": 9}, "3": {"code": 1}}, "failed", "SIGKILL (rank 2), 1 (rank 3)"),
        ({}, "failed", "ended by Muster"),
        ({}, "stopped", "ended by Muster"),
        ({"2": ZERO}, "finished", "? (rank 3)"),
        ({"2": {"signal": 70}, "3": {"signal": 70}}, "failed", "signal 70"),
    ],
)
def test_exits(exits, outcome, expected):
    assert screen.shown_exit([2, 3], exits, outcome) == expected
    assert screen.shown_exit([], {}, outcome) == "-"


def test_the_choice_of_a_character_set_is_an_escape():
    assert screen.clean("\x1b(B\x1b[mx") == "x"
