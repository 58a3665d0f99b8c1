"""Log bytes of ranks as lines that a terminal can bear; pure."""

import codecs
import re

# CSI and OSC sequences, then whatever other escape or control character is left (tabs stay).
ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()*+][0-9A-Za-z]|\x1b[@-Z\\-_]|"
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
LIMIT = 2000


def clean(line):
    """One line without escapes; a carriage return rewrites what stood before it, as tqdm means it."""
    if "\r" in line:
        parts = [part for part in line.rstrip("\r").split("\r") if part.strip()]
        line = parts[-1] if parts else ""
    line = ESCAPES.sub("", line)
    if len(line) > LIMIT:
        line = line[:LIMIT] + " [{} more characters]".format(len(line) - LIMIT)
    return line


class Lines:
    """Cuts the bytes of one log into lines; what has no newline yet waits, up to a bound."""

    def __init__(self):
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data, final=False):
        """Bytes in, whole clean lines out; ``final`` gives the rest too."""
        text = self._rest + self._decoder.decode(data, final)
        lines = text.split("\n")
        self._rest = lines.pop()
        if len(self._rest) > 20 * LIMIT:
            # Of an endless line the beginning counts, unless it is being rewritten.
            self._rest = self._rest[-LIMIT:] if "\r" in self._rest else self._rest[: 20 * LIMIT]
        if final and self._rest:
            lines.append(self._rest)
            self._rest = ""
        return [clean(line) for line in lines]


def table(rows):
    """Rows of text as aligned columns; the first row is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def shown_ranks(ranks):
    """``0-3`` for [0, 1, 2, 3], ``-`` for none."""
    if not ranks:
        return "-"
    return str(ranks[0]) if len(ranks) == 1 else "{}-{}".format(ranks[0], ranks[-1])


def shown_exit(ranks, exits, outcome):
    """How a node's ranks ended: ``0``, ``3``, ``SIGKILL (rank 2)``, ``ended by Muster``."""
    from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.causes import signal_name

    told = []
    for rank in ranks:
        status = exits.get(str(rank))
        if status is None:
            told.append("ended by Muster" if outcome != "finished" else "?")
        elif "signal" in status:
            told.append(signal_name(status["signal"]))
        else:
            told.append(str(status["code"]))
    if not told:
        return "-"
    if len(set(told)) == 1:
        return told[0]
    return ", ".join("{} (rank {})".format(text, rank) for text, rank in zip(told, ranks, strict=True) if text != "0")
