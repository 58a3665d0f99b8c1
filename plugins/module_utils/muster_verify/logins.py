"""Whether the cluster's user gets from this host to others by name, without a question and with a known host key."""

import hashlib
import os
import subprocess

from . import connecting

BOUND = 10.0
WORKERS = 32
# Where it leads: the machine's id, so that a name which leads to another machine is seen. Nothing is written there.
COMMAND = "cat /etc/machine-id"


def argv(user, name):
    """The command; everything that could ask, forward or outlive it is off."""
    options = (
        "BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=5", "ControlMaster=no", "ControlPath=none",
        "ForwardAgent=no", "ClearAllForwardings=yes", "LogLevel=ERROR",
    )  # fmt: skip
    words = [word for option in options for word in ("-o", option)]
    return ["ssh", "-n", "-T"] + words + ["-l", user, "--", name, COMMAND]


def try_all(user, names):
    """Log in to every host: ``{name: {"ok", "machine", "detail"}}``."""
    found = {}

    def work(name):
        found[name] = login(user, name)

    connecting.in_parallel(work, list(names), WORKERS)
    return found


def login(user, name):
    """Log in once; ``machine`` is the fingerprint of the machine where it led."""
    environ = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    try:
        done = subprocess.run(
            argv(user, name), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=BOUND,
            env=dict(environ, LC_ALL="C"), check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"ok": False, "detail": "timed out after {:g} s".format(BOUND)}
    except OSError as error:
        return {"ok": False, "detail": "ssh cannot be run: {}".format(error.strerror)}
    if done.returncode == 255:
        return {"ok": False, "detail": done.stderr.decode("utf-8", "replace").strip()[-600:]}
    return {"ok": True, "machine": machine(done.stdout)}


def machine(content):
    """Fingerprint of the content of /etc/machine-id, or None where it is empty."""
    text = content.strip()
    return hashlib.sha256(text).hexdigest()[:16] if text else None
