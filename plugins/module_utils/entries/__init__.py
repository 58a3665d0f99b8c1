"""Files that are Muster's in part only: the hosts file, the known hosts of ssh, the keys that open an account.

``merge`` is pure: the controller asks it whether there is anything to do, from the texts that the survey has read, and the module
``entries`` lets it write, from the texts that it reads anew under a lock. Runs on hosts: standard library, Python 3.8.
"""

from . import authorized_keys, hosts, known_hosts

KINDS = {"hosts": hosts.merge, "known_hosts": known_hosts.merge, "authorized_keys": authorized_keys.merge}


def merge(kind, text, wish):
    """A file's text with the members' entries in it.

    Args:
        kind: one of :data:`KINDS`.
        text: of the file; empty where there is none.
        wish: ``{"members": {name: {...}}, ...}``; what a member's dictionary holds depends on the kind, see its module.

    Returns:
        ``(text, notes)``: notes are sentences about lines that are others' and at odds with ours.
    """
    return KINDS[kind](text, wish)
