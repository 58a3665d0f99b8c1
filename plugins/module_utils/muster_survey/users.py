"""The cluster's user and group, and the state folders."""

import grp
import os
import pwd
import stat

from . import reading


def look(options):
    """The section.

    Args:
        options: those of the module ``survey``; ``user`` and ``state_dir`` are read.

    Returns:
        ``name`` that was looked for, its ``account`` (``{"uid", "gid", "home", "shell", "groups", "local"}`` or None; ``local``:
        in /etc/passwd), ``gid`` of the group of the same name or None, ``uids`` and ``gids`` (``{number as text: name}`` of this
        host's own accounts and groups) and ``paths`` (``{path: {"kind", "uid", "gid", "owner", "mode", "link"} or None}`` of the
        state folder, jobs and envs in it; ``link``: what it leads to, None where it is none).
    """
    name, state_dir = options.get("user") or "", options.get("state_dir") or "/"
    uids = numbers(reading.text("/etc/passwd") or "")
    return {
        "name": name,
        "account": account(name, name in uids.values()),
        "gid": group_id(name),
        "uids": uids,
        "gids": numbers(reading.text("/etc/group") or ""),
        "paths": {path: folder(path) for path in (state_dir, state_dir + "/jobs", state_dir + "/envs")},
    }


def numbers(text):
    """``{number as text: name}`` of a file such as /etc/passwd; the first name of a number counts."""
    found = {}
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[2].isdigit():
            found.setdefault(fields[2], fields[0])
    return found


def account(name, local):
    """What the host knows of an account, from wherever it has its accounts; None where there is none."""
    try:
        found = pwd.getpwnam(name)
        groups = []
        for gid in os.getgrouplist(name, found.pw_gid):
            try:
                groups.append(grp.getgrgid(gid).gr_name)
            except KeyError:
                groups.append(str(gid))
    except (KeyError, OSError, ValueError):
        return None
    return {
        "uid": found.pw_uid,
        "gid": found.pw_gid,
        "home": found.pw_dir,
        "shell": found.pw_shell,
        "groups": groups,
        "local": local,
    }


def group_id(name):
    """The number of a group, or None."""
    try:
        return grp.getgrnam(name).gr_gid
    except (KeyError, ValueError):
        return None


def folder(path):
    """What lies at a path, or None."""
    try:
        linked = stat.S_ISLNK(os.lstat(path).st_mode)
        found = os.stat(path)
    except OSError:
        return None
    try:
        owner = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        owner = str(found.st_uid)
    return {
        "kind": "folder" if stat.S_ISDIR(found.st_mode) else "other",
        "uid": found.st_uid,
        "gid": found.st_gid,
        "owner": owner,
        "mode": "{:04o}".format(stat.S_IMODE(found.st_mode)),
        "link": os.path.realpath(path) if linked else None,
    }
