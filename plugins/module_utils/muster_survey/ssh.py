"""sshd's ports, host keys, known_hosts, and the keys of the cluster's user."""

import glob
import os
import pwd
import re
import stat

from ..entries import storing
from . import reading

SSHD = "/etc/ssh/sshd_config"
HOST_KEYS = "/etc/ssh/ssh_host_*_key"
KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
CLIENT = "/etc/ssh/ssh_config"
# Written by the role ssh_keys where members take logins at other ports than 22.
PORTS = "/etc/ssh/ssh_config.d/50-muster.conf"
KEY_NAME = "id_ed25519.pub"
PUBLIC_KEY = re.compile(r"(?:ssh|ecdsa|sk)-\S+ [A-Za-z0-9+/]+=*")
# Files that include each other without end.
INCLUDES_AT_MOST = 100


def look(options):
    """The section.

    Args:
        options: those of the module ``survey``; ``user`` is read.

    Returns:
        ``ports`` (those of sshd's configuration at which somebody listens, or all of them where that cannot be seen),
        ``host_keys`` (public, type and key), ``known_hosts`` (text of /etc/ssh/ssh_known_hosts or None), ``client_ports`` (text
        of Muster's own file of ports for ssh, or None), ``client_includes`` (whether ssh reads that file), ``server``
        (``{"allowusers", "allowgroups", "denyusers", "denygroups", "authorizedkeysfile", "pubkeyauthentication"}``, lists of
        words), ``user_key`` (public key of the cluster's user or None), ``authorized_keys`` (text or None) and ``modes``
        (``{"home", ".ssh", "authorized_keys"}``, texts such as 0700, or None).
    """
    server = directives(reading.text, SSHD, "/etc/ssh", single=("pubkeyauthentication", "authorizedkeysfile"))
    names = ("allowusers", "allowgroups", "denyusers", "denygroups", "authorizedkeysfile", "pubkeyauthentication")
    found = {
        "ports": listening(configured_ports(server)),
        "host_keys": host_keys([words[0] for words in server.get("hostkey", [])]),
        "known_hosts": reading.text(KNOWN_HOSTS),
        "client_ports": reading.text(PORTS),
        "client_includes": includes(reading.text(CLIENT) or "", PORTS),
        "server": {name: [word for words in server.get(name, []) for word in words] for name in names},
        "user_key": None,
        "authorized_keys": None,
        "modes": {"home": None, ".ssh": None, "authorized_keys": None},
    }
    try:
        account = pwd.getpwnam(options.get("user") or "")
    except (KeyError, ValueError):
        return found
    text, folder, mode = storing.peek(storing.of_user(account, "authorized_keys"))
    key = PUBLIC_KEY.match(storing.peek(storing.of_user(account, KEY_NAME))[0] or "")
    if not os.path.lexists(os.path.join(account.pw_dir, ".ssh", KEY_NAME[: -len(".pub")])):
        key = None  # the half that could log in is gone
    try:
        home = stat.S_IMODE(os.stat(account.pw_dir).st_mode)
    except OSError:
        home = None
    modes = {"home": home, ".ssh": folder, "authorized_keys": mode}
    return dict(
        found,
        user_key=key.group() if key else None,
        authorized_keys=text,
        modes={name: None if value is None else "{:04o}".format(value) for name, value in modes.items()},
    )


def directives(read, path, base, single=()):
    """The global part of an sshd_config and of what it includes: ``{keyword in small letters: [words of one line]}``.

    Args:
        read: function from a path to a text; None for a file that cannot be read.
        path: of the file.
        base: folder that relative names of included files mean.
        single: keywords of which only the first line counts.
    """
    found, budget = {}, [INCLUDES_AT_MOST]

    def take(name):
        budget[0] -= 1
        for line in (read(name) or "").splitlines():
            words = re.findall(r'"([^"]*)"|([^\s"]+)', re.sub(r"^(\s*\w+)\s*=\s*", r"\1 ", line))
            words = [quoted or bare for quoted, bare in words]
            if not words or words[0].startswith("#"):
                continue
            keyword, rest = words[0].lower(), words[1:]
            if keyword == "match":
                return  # what follows holds for some logins only, up to the end of the file
            if keyword == "include":
                for pattern in rest:
                    for included in sorted(glob.glob(os.path.join(base, pattern))) if budget[0] > 0 else []:
                        take(included)
            elif rest and not (keyword in single and keyword in found):
                found.setdefault(keyword, []).append(rest)

    take(path)
    return found


def configured_ports(server):
    """The ports of an sshd_config, from :func:`directives`."""
    ports = [int(words[0]) for words in server.get("port", []) if words[0].isdigit()] or [22]
    addresses = [re.fullmatch(r"(?:\[.*\]|[^:]+):(\d+)", words[0]) for words in server.get("listenaddress", [])]
    # An address without a port means the ports of the other lines.
    if addresses and all(addresses):
        ports = []
    return list(dict.fromkeys(ports + [int(found.group(1)) for found in addresses if found]))


def listening(ports):
    """Those of the ports at which somebody listens; all of them where none is seen."""
    heard = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (reading.text(table) or "").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 3 and fields[3] == "0A":
                heard.add(int(fields[1].rpartition(":")[2], 16))
    return [port for port in ports if port in heard] or ports


def host_keys(paths):
    """The public host keys, from the paths of the private ones that sshd names, the usual ones where it names none."""
    found = []
    for path in paths or sorted(glob.glob(HOST_KEYS)):
        key = PUBLIC_KEY.match(reading.text(path + ".pub") or "")
        if key and key.group() not in found:
            found.append(key.group())
    return found


def includes(text, path):
    """Whether an ssh_config includes the folder of ``path`` for every host."""
    for line in text.splitlines():
        words = re.sub(r"^(\s*\w+)\s*=\s*", r"\1 ", line).split()
        if words[:1] and words[0].lower() in ("host", "match") and words[1:] != ["*"] and words[1:] != ["all"]:
            return False
        if words[:1] and words[0].lower() == "include":
            patterns = [os.path.join("/etc/ssh", word.strip('"')) for word in words[1:]]
            if os.path.join(os.path.dirname(path), "*.conf") in patterns or os.path.join(os.path.dirname(path), "*") in patterns:
                return True
    return False
