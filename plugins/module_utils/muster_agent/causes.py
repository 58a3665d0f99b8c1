"""From what every node saw to the one cause; pure.

An *event* is a dictionary: ``kind`` (``exit``, ``lost``, ``stall``), ``host``, ``time`` (seconds since the epoch, by the
head's clock), and for ``exit`` also ``rank``, ``local_rank``, ``code`` or ``signal``, ``error`` (of :func:`parse_log`),
``last_line`` and ``oom``.
"""

import re
import signal as signals

# What a rank says when it merely notices that another one is gone. Source: messages of gloo, NCCL and c10d's store.
SECONDARY = re.compile(
    r"Connection (closed|reset) by peer|Connection refused|Broken pipe|recvValue failed|sendBytes failed|"
    r"Socket (Timeout|closed)|Timed out waiting|timeout after|DistNetworkError|NCCL (communicator was aborted|error)|"
    r"ncclRemoteError|remote process (exited|has terminated)|failed to (recv|connect|send)|"
    r"Application timeout caused pair closure|Watchdog caught collective operation timeout|"
    r"Failed to connect|The client socket has (failed|timed out)",
    re.IGNORECASE,
)
HEADING = re.compile(r"^(?P<group>\s*\+ Exception Group )?(Original )?Traceback \(most recent call last\):")
MARGIN = re.compile(r"^\s*\| ?")
FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(, in (?P<function>.*))?$')
# "ValueError: text", "pkg.mod.Error: text", "main.<locals>.Bad: text", "KeyboardInterrupt"
RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*(?:\.<locals>\.[\w.]+)*)(?:: (?P<message>.*))?$")
# Python prints these without a heading.
SYNTAX = re.compile(r"^(?:SyntaxError|IndentationError|TabError): ")
# So many lines of somebody else may stand inside a traceback: ranks, threads and C++ share one log.
STRAY_LINES = 3
# torch marks the lines of an uncaught exception, once there is a process group.
RANK_MARK = re.compile(r"^\[rank\d+\]: ?")
SIGKILL = int(signals.SIGKILL)


def parse_log(text, work_folder=""):
    """The last exception that Python printed.

    Args:
        text: the end of a rank's log.
        work_folder: the job's working folder; the deepest frame inside it is the place that is named.

    Returns:
        ``{"type", "message", "file", "line", "traceback"}``, or None where there is no exception.
    """
    lines = [RANK_MARK.sub("", line) for line in text.splitlines()]
    for start in range(len(lines) - 1, -1, -1):
        heading = HEADING.match(lines[start])
        if heading and not (start and lines[start - 1].startswith("Exception ignored")):
            block = lines[start:]
            if heading.group("group"):
                block = [block[0]] + [MARGIN.sub("", line) for line in block[1:]]
        elif FRAME.match(lines[start]) and any(SYNTAX.match(line) for line in lines[start + 1 : start + 5]):
            block = lines[start:]
        else:
            continue
        found = _parse_block(block, work_folder.rstrip("/") + "/" if work_folder else None)
        if found:
            return found
    return None


def _indented(line):
    return line[:1] in (" ", "\t", "") or set(line) <= set("~^ ")


def _parse_block(block, work_folder):
    """The exception of a block of lines that begins with a heading or a frame, or None."""
    frames, last, stray = [], None, 0
    for index, line in enumerate(block):
        match = FRAME.match(line)
        if match:
            frames.append(match.groupdict())
            last, stray = index, 0
        elif index and not _indented(line):
            stray += 1
            if HEADING.match(line) or stray > STRAY_LINES:
                break
    if last is None:
        return None
    for index in range(last + 1, len(block)):
        line = block[index]
        if _indented(line):
            continue
        match = RAISED.match(line)
        if match and (match.group("message") is not None or match.group("type").rsplit(".", 1)[-1][0].isupper()):
            return _describe(block, index, match, frames, work_folder)
        stray += 1
        if stray > STRAY_LINES:
            break
    return None


def _describe(block, index, match, frames, work_folder):
    """What :func:`parse_log` returns, from the line ``index`` that names the exception."""
    message = [match.group("message") or ""]
    for more in block[index + 1 : index + 4]:
        if not more.strip() or more.startswith(("Traceback", "Original Traceback", "During handling", "[", "Exception", "+-+")):
            break
        message.append(more.strip())
    place, name = frames[-1], frames[-1]["file"]
    for frame in frames:
        file = frame["file"]
        if work_folder and file.startswith(work_folder):
            place, name = frame, file[len(work_folder) :]
        elif work_folder and not file.startswith(("/", "<")):  # Python 3.8 names the script as it was started
            place, name = frame, file
    return {
        "type": match.group("type"),
        "message": " ".join(part for part in message if part)[:600],
        "file": name,
        "line": int(place["line"]),
        "traceback": "\n".join(block[: index + len(message)])[-8000:],
    }


def last_line(text, limit=200):
    """The last line of a log that says something, shortened; '' where there is none."""
    for line in reversed(text.splitlines()):
        if line.strip():
            return line.strip()[:limit]
    return ""


def is_secondary(event):
    """Whether the event only reports that somebody else is gone."""
    if event["kind"] != "exit":
        return False
    error = event.get("error")
    if error:
        return bool(SECONDARY.search("{}: {}".format(error["type"], error["message"])))
    if event.get("signal") == int(signals.SIGABRT):
        return bool(SECONDARY.search(event.get("last_line", "")))
    return False


def weight(event):
    """How far an event is from being the cause: 0 the user's exception, exit or kill, 1 a lost node, 2 an echo."""
    if is_secondary(event):
        return 2
    if event["kind"] == "exit":
        return 0
    return 1


def pick(events):
    """The one cause among ``events``, or None where there are none."""
    ranked = sorted(events, key=lambda event: (weight(event), event["time"]))
    return ranked[0] if ranked else None


def signal_name(number):
    """``SIGKILL`` for 9; ``signal 70`` where it has no name."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return "signal {}".format(number)


def _raised(error):
    return "{}: {}".format(error["type"], error["message"]) if error["message"] else error["type"]


def sentence(event):
    """What happened, in one sentence without the job's name."""
    if event["kind"] != "exit":
        return event["text"]
    who = "rank {} on {}".format(event["rank"], event["host"])
    if event.get("oom"):
        return "{} was killed for memory by the kernel (SIGKILL); give it less to hold or the host more memory".format(who)
    if event.get("signal"):
        text = "{} was killed by {} (signal {})".format(who, signal_name(event["signal"]), event["signal"])
        if event.get("error"):
            text += " after " + _raised(event["error"])
        elif event["signal"] == SIGKILL:
            text += ", not by Muster; look for who did, the kernel's memory killer included"
        elif event.get("last_line"):
            text += '; its last line was "{}"'.format(event["last_line"])
        return text
    error = event.get("error")
    if error:
        # An uncaught exception ends Python with 1; another code means that this one was handled.
        code = " (exit code {})".format(event["code"]) if event.get("code") not in (None, 1) else ""
        return "{}, {}:{}: {}{}".format(who, error["file"], error["line"], _raised(error), code)
    text = "{} ended with exit code {}".format(who, event["code"])
    if event.get("last_line"):
        text += ' without a traceback; its last line was "{}"'.format(event["last_line"])
    else:
        text += " and printed nothing"
    return text
