"""Lines of a file that is Muster's in part: what is others' stays as it is, byte by byte."""

import re

MARK = "muster:"


def split(text):
    """The lines of a text with their ends; only a line feed ends a line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def owner(comment):
    """Whose entry a line is by the last word of its comment: the NAME of ``muster:NAME``, or None for a line of others'."""
    last = comment.split()[-1:]
    return last[0][len(MARK) :] if last and last[0].startswith(MARK) else None


def replaced(lines, owner_of, wanted):
    """The text with the members' lines as wanted.

    Args:
        lines: from :func:`split`.
        owner_of: function from a line to the name of its member, None for a line of others'.
        wanted: ``{name: [line without its end]}``; members that are not in it lose their lines.

    Returns:
        the text. A member's lines stand where its first one stood, new ones at the end.
    """
    out, seen = [], set()

    def put(name):
        seen.add(name)
        out.extend(line + "\n" for line in wanted[name])

    for line in lines:
        name = owner_of(line)
        if name is None:
            out.append(line)
        elif name in wanted and name not in seen:
            put(name)
    new = [name for name in wanted if name not in seen and wanted[name]]
    if new and out and not out[-1].endswith("\n"):
        out[-1] += "\n"
    for name in new:
        put(name)
    return "".join(out)
