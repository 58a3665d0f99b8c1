"""Why a host cannot be reached, from what ssh said; pure."""

import re

# What stands in ssh's complaint, and what to tell and do about it; the first that fits.
KNOWN = [
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key is not the one that known_hosts has, expected the same; if the host was installed anew, remove the old "
        "key by ssh-keygen -R and log in once by hand",
    ),
    (
        r"Host key verification failed|No \S+ host key is known|authenticity of host",
        "its host key is unknown, expected it in known_hosts; log in once by hand and compare the key",
    ),
    (
        r"Permission denied \(([^)]*)\)|Too many authentication failures",
        "it refuses the login, expected a key that it accepts; see ansible_user and ansible_ssh_private_key_file",
    ),
    (r"Could not resolve hostname", "its name does not resolve, expected an address; correct ansible_host"),
    (r"Connection refused", "nothing listens on its SSH port, expected sshd; see ansible_host, ansible_port and the host"),
    (r"timed out|No route to host|Network is unreachable", "it does not answer, expected SSH to work; see whether it is up"),
]


def explain(text):
    """One clause: found, expected, fix.

    Args:
        text: what Ansible or ssh printed, of any length.
    """
    for pattern, told in KNOWN:
        if re.search(pattern, text, re.IGNORECASE):
            return told
    flat = " ".join(text.split())
    return flat if len(flat) <= 300 else flat[:297] + "..."
