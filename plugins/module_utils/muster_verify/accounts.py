"""Who the process is, and how it becomes less than root."""

import os
import pwd


def find(name):
    """The passwd entry of a user, or None."""
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def own_name():
    """Login name of this process's user, or its uid."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def drop(entry):
    """Become the user of a passwd entry for good; raises OSError.

    Args:
        entry: of an ordinary user; None where there is no such user, so that nothing is dropped.
    """
    if entry is None or entry.pw_uid == 0:
        return
    os.initgroups(entry.pw_name, entry.pw_gid)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    os.environ.update(HOME=entry.pw_dir, USER=entry.pw_name, LOGNAME=entry.pw_name)
    os.chdir("/")
