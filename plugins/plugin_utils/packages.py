"""What a package manager's complaint means, and the one sentence that a user is told; pure."""

import re

# Kinds of complaint, the first that fits. apt's and dpkg's words, then dnf's.
KINDS = [
    ("locked", r"[Cc]ould not get lock|[Uu]nable to (?:acquire|lock)|Failed to lock|is another process using it|"
               r"[Ff]ailed to obtain (?:the )?(?:\w+ )?lock|lockfile|\.rpm\.lock"),
    ("clock", r"is not valid yet|not yet valid|certificate has expired|Release file .* expired"),
    ("network", r"Temporary failure resolving|[Cc]ould(?: not|n't) resolve|Network is unreachable|No route to host|"
                r"Could not connect|[Cc]onnection (?:timed out|refused)|Cannot initiate the connection|Curl error|"
                r"[Tt]imeout was reached|Unable to connect"),
    ("interrupted", r"dpkg was interrupted"),
    ("full", r"No space left on device|don't have enough free space|needs? .* more space|more space needed"),
    ("unsigned", r"unauthenticated packages|cannot be authenticated|NO_PUBKEY|is not signed|GPG check FAILED"),
    ("stale", r"404 +Not Found|Status code: 404|Unable to fetch some archives|installation candidate|Unable to locate package|"
              r"No package\(?s?\)? matching|[Hh]ash [Ss]um mismatch|Failed to fetch|Failed to download metadata|No match for|"
              r"No package .* available|Cannot download|All mirrors were tried"),
    ("broken", r"[Uu]nmet dependencies|held broken packages|nothing provides|conflicting requests"),
]  # fmt: skip
FIXES = {
    "clock": "its clock and the mirror's differ; set its clock",
    "network": "it reaches no mirror; see its default route, its name servers and its proxy, or name a mirror that it reaches",
    "interrupted": "an earlier installation was cut off; run dpkg --configure -a there",
    "full": "its disk is full; make room there",
    "stale": "its list of packages was fetched anew and has no such package; correct the name, or its package sources",
    "unsigned": "it has no key for what its package sources sign; see apt-get update or dnf makecache there",
    "broken": "packages there contradict each other; run apt-get --fix-broken install or dnf check there",
    "other": "run again with -v to read all that it said",
}
# What a new list of packages may put right.
OLD_LIST = ("stale", "unsigned")
# Lines of a complaint that say what it is.
TELLING = re.compile(r"^(?:E|W|Err|Error|error|dpkg|Problem)\b[^\w]", re.MULTILINE)


def kind(text):
    """``locked``, ``clock``, ``network``, ``interrupted``, ``full``, ``unsigned``, ``stale``, ``broken`` or ``other``.

    Args:
        text: what the package manager or its module said.
    """
    return next((name for name, pattern in KINDS if re.search(pattern, text)), "other")


def words(answer):
    """All that a module's failed answer says, as one text."""
    found = [answer.get(key) for key in ("msg", "stderr", "stdout", "module_stderr", "module_stdout")]
    return "\n".join([str(part) for part in found if part] + [str(part) for part in answer.get("failures") or []])


def shortened(text, most=200):
    """The line of a complaint that says most, flat: the first of a known kind, else the first error, else the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it said nothing"]
    # Modules put the command first, which says nothing.
    cut = [re.sub(r"^'.*' failed: ", "", line) for line in lines]
    best = next((line for line in cut if kind(line) != "other"), None)
    best = best or next((line for line in cut if TELLING.match(line)), cut[0])
    flat = " ".join(best.split())
    return flat if len(flat) <= most else flat[: most - 3] + "..."


def failure(host, manager, names, text):
    """The sentence for an installation that failed.

    Args:
        host: inventory name.
        manager: ``apt`` or ``dnf``.
        names: packages that were to be installed.
        text: what was said.
    """
    return "{}: {} did not install {} ({}), expected it to; {}".format(
        host, manager, few(names), shortened(text), FIXES[kind(text)] if kind(text) in FIXES else FIXES["other"]
    )


def held(host, lock, seconds):
    """The sentence for a lock that is held for too long.

    Args:
        host: inventory name.
        lock: ``{"path", "pid", "process"}``, or None where the holder does not show.
        seconds: how long it was waited for.
    """
    if not lock:
        return ("{}: the package manager was locked for {} s by a process that does not show, expected it free; try again, or "
                "raise packages_lock_timeout".format(host, seconds))  # fmt: skip
    return ("{0}: {1} has been held by {2} (pid {3}) for {4} s, expected it free; see ps -fp {3} there, let it end, or raise "
            "packages_lock_timeout".format(host, lock["path"], lock["process"], lock["pid"], seconds))  # fmt: skip


def few(names, most=4):
    """``gcc, make and 9 more``."""
    if len(names) <= most:
        return ", ".join(names)
    return "{} and {} more".format(", ".join(names[:most]), len(names) - most)


def missing(names, installed):
    """Those of ``names`` that are not installed; a version after ``=`` does not count."""
    have = set(installed)
    return [name for name in names if name.split("=")[0] not in have]
