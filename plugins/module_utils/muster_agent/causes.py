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
FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(, in (?P<function>.*))?$')
# "ValueError: text", "pkg.mod.Error: text", "KeyboardInterrupt"
RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
# torch marks the lines of an uncaught exception, once there is a process group.
RANK_MARK = re.compile(r"^\[rank\d+\]: ?")
SIGKILL, SIGTERM = int(signals.SIGKILL), int(signals.SIGTERM)


def parse_log(text, work_folder=""):
    """The last exception that Python printed.

    Args:
        text: the end of a rank's log.
        work_folder: the job's working folder; the deepest frame inside it is the place that is named.

    Returns:
        ``{"type", "message", "file", "line", "traceback"}``, or None where there is no exception.
    """
    lines = [RANK_MARK.sub("", line) for line in text.splitlines()]
    last_frame = None
    for index in range(len(lines) - 1, -1, -1):
        if FRAME.match(lines[index]):
            last_frame = index
            break
    if last_frame is None:
        return None
    first = last_frame
    while first > 0 and not lines[first].startswith("Traceback (most recent call last)"):
        if lines[first][:1] not in (" ", "\t", "") and first != last_frame:
            first += 1
            break
        first -= 1
    frames = [match.groupdict() for match in map(FRAME.match, lines[first : last_frame + 1]) if match]
    for index in range(last_frame + 1, len(lines)):
        line = lines[index]
        if line[:1] in (" ", "\t", "") or set(line) <= set("~^ "):
            continue
        match = RAISED.match(line)
        if not match:
            return None
        message = [match.group("message") or ""]
        for more in lines[index + 1 : index + 4]:
            if not more.strip() or more.startswith(("Traceback", "During handling", "[", "Exception")):
                break
            message.append(more.strip())
        inside = [frame for frame in frames if work_folder and frame["file"].startswith(work_folder.rstrip("/") + "/")]
        place = (inside or frames)[-1]
        name = place["file"]
        if inside:
            name = name[len(work_folder.rstrip("/")) + 1 :]
        return {
            "type": match.group("type"),
            "message": " ".join(part for part in message if part)[:600],
            "file": name,
            "line": int(place["line"]),
            "traceback": "\n".join(lines[first : index + len(message)])[-8000:],
        }
    return None


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
            text += " after {type}: {message}".format(**event["error"])
        elif event["signal"] == SIGKILL:
            text += ", not by Muster; look for who did, the kernel's memory killer included"
        return text
    error = event.get("error")
    if error:
        told = ": " + error["message"] if error["message"] else ""
        return "{}, {}:{}: {}{}".format(who, error["file"], error["line"], error["type"], told)
    text = "{} ended with exit code {}".format(who, event["code"])
    if event.get("last_line"):
        text += ' without a traceback; its last line was "{}"'.format(event["last_line"])
    else:
        text += " and printed nothing"
    return text
