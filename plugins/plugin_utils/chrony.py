"""What chrony needs on a host: its sources, its options, which daemons give way; pure."""

import re
import shlex

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal

from . import role_variables

# The first words of the template: whether a file is Muster's.
MARK = "# Muster keeps this file (role chrony)"
# Before each line that the host followed before Muster came.
KEPT = "# kept: "
# Directives that name sources, or files with such.
SOURCES = ("server", "pool", "peer", "refclock", "sourcedir", "confdir", "include")


def kept(text, others):
    """What a host followed before Muster came, so that a head goes on following it.

    Args:
        text: of chrony's configuration, or None.
        others: ``{path: text}`` of other daemons' configurations; what they name wins a place if chrony's is not Muster's yet.

    Returns:
        lines of chrony.conf.
    """
    lines = (text or "").splitlines()
    if lines and lines[0].startswith(MARK):
        return [line[len(KEPT) :] for line in lines if line.startswith(KEPT)]
    found = ["server {} iburst".format(name) for name in named_by(others)]
    found += [" ".join(line.split()) for line in lines if line.split(None, 1)[:1] and line.split()[0].lower() in SOURCES]
    return list(dict.fromkeys(found))


def named_by(others):
    """Servers that somebody has written into another daemon's configuration; the public pool, which is stock, is none."""
    found = []
    for path, text in sorted(others.items()):
        pattern = r"^\s*NTP\s*=(.*)$" if "timesyncd" in path else r"^\s*(?:servers?|pool)\s+(\S+)"
        for value in re.findall(pattern, text or "", re.MULTILINE):
            found += [name for name in value.split() if not re.search(r"(^127\.127\.|(^|\.)pool\.ntp\.org$)", name)]
    return found


def sources(upstream, isolated, kept_lines):
    """The lines by which the head follows others.

    Args:
        upstream: names, addresses, or lines in chrony's own words.
        isolated: whether it follows nobody.
        kept_lines: from :func:`kept`, for a head of which nothing else is said.

    Raises:
        Refusal: an entry is neither a name nor a line that names a source.
    """
    if isolated and upstream:
        raise Refusal("found both chrony_isolated and chrony_upstream, expected one of them; empty the other")
    if isolated:
        return []
    return [directive(str(entry)) for entry in upstream] or kept_lines


def directive(entry):
    """``ntp.example.org`` as a line of chrony.conf; a line that is one already stays. Raises Refusal."""
    words = entry.split()
    if len(words) == 1 and re.match(r"^[\w.:-]+$", words[0]):
        return "server {} iburst".format(words[0])
    if len(words) > 1 and words[0] in ("server", "pool", "peer", "refclock") and "\n" not in entry.strip():
        return " ".join(words)
    raise Refusal(
        "chrony_upstream has {!r}, expected a name, an address, or a line of chrony.conf that begins with server, pool, peer or "
        "refclock; correct it in the inventory".format(entry)
    )


def options(text, variable, free, ours):
    """The file that holds chronyd's command line, with ``-x`` where the host may not set its clock.

    Args:
        text: of the file, or None.
        variable: its variable with the options.
        free: whether the host may set its clock.
        ours: whether Muster has put ``-x`` there; only then it is taken away again.

    Returns:
        the text; that of before where nothing is to do.
    """
    lines = (text or "").splitlines()
    found = [number for number, line in enumerate(lines) if re.match(r"\s*{}\s*=".format(variable), line)]
    try:
        # The value is quoted as a whole, or not at all.
        words = " ".join(shlex.split(lines[found[-1]].split("=", 1)[1])).split() if found else []
    except ValueError:
        words = []
    wanted = words if "-x" in words or free else words + ["-x"]
    if free and ours:
        wanted = [word for word in words if word != "-x"]
    if wanted == words:
        return text
    line = '{}="{}"'.format(variable, " ".join(wanted))
    if found:
        lines[found[-1]] = line
    else:
        lines.append(line)
    return "\n".join(lines) + "\n"


def plan(survey, place, config, missing, dropin):
    """What is to be done on a host.

    Args:
        survey: all that was found on it.
        place: ``{"service", "config", "options", "variable", "dropin"}`` of the host's family.
        config: wanted text of chrony's configuration.
        missing: packages that are not there.
        dropin: wanted text of the drop-in of a host that may not set its clock.

    Returns:
        a dictionary with only what is to be done: ``install``, ``stop`` (names of services), ``config`` (True), ``options`` (text
        of the file), ``dropin`` (``present`` or ``absent``), ``start`` (True); empty where nothing is.
    """
    found, free = survey["time"], survey["system"]["cap_sys_time"]
    files, daemons = found["chrony"]["files"], found["daemons"]
    there = files.get(place["dropin"])
    given = files.get(place["options"])
    words = options(given, place["variable"], free, there is not None)
    own = daemons.get(place["service"], {})
    wanted = {
        "install": list(missing),
        "stop": [
            name for name, state in daemons.items() if name not in ("chrony", "chronyd") and (state["active"] or state["enabled"])
        ],
        "config": files.get(place["config"]) != config,
        "options": words if words != given else None,
        "dropin": ("absent" if free else "present") if there != (None if free else dropin) else None,
        "start": not (own.get("active") and own.get("enabled")),
    }
    return {name: value for name, value in wanted.items() if value}


def report(systems):
    """What is said of hosts whose clock is not theirs to set: one sentence, or none.

    Args:
        systems: ``{name: the survey's section system}``.
    """
    bound = [name for name, system in systems.items() if not system["cap_sys_time"]]
    if not bound:
        return ""
    several = len(bound) > 1
    return (
        "{} may not set {} clock, so chronyd serves and compares time there without setting it (-x); the time of such a "
        "container is that of the machine beneath it, see to the clock there".format(
            role_variables.listed(bound), "their" if several else "its"
        )
    )
