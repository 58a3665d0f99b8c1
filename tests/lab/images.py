"""Root file systems of the hosts: made once by mmdebstrap, kept in a cache, shared by all labs as lower layers of overlays."""

import hashlib
import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict

from . import controller
from .common import CACHE, Locked, call, say

IMAGES = CACHE / "images"
DAYS = 7  # older package lists name versions that mirrors no longer have

# What an ordinary server has, and not what Muster's roles bring: no acl, no python3-venv, no compiler, no chrony.
COMMON = (
    "systemd-sysv dbus libpam-systemd systemd-timesyncd python3 openssh-server iproute2 sudo ca-certificates procps kmod"
    " netbase tzdata less"
).split()

# Run in the new root; $1 is its folder. Timesyncd skips containers and wants the right to set the clock, which a container
# must not have: it runs all the same, asks the controller, where nobody answers, and so keeps its traffic in the lab.
CUSTOMIZE = r"""set -eu
cd "$1"
rm -f etc/ssh/ssh_host_* etc/machine-id var/lib/dbus/machine-id etc/hostname etc/resolv.conf
ln -s /dev/null etc/systemd/system/systemd-firstboot.service
mv etc/apt/sources.list.d/*.sources etc/apt/sources.list.d/debian.sources 2>/dev/null || :
rm -f etc/systemd/system/ssh*.wants/sshd-keygen.service
mkdir -p var/log/journal etc/systemd/system/systemd-timesyncd.service.d
printf '[Unit]\nConditionVirtualization=\nConditionCapability=\n[Service]\nAmbientCapabilities=\n' \
    >etc/systemd/system/systemd-timesyncd.service.d/container.conf
chroot . useradd --create-home --shell /bin/bash ml
printf 'ml ALL=(ALL) NOPASSWD: ALL\n' >etc/sudoers.d/ml
chmod 0440 etc/sudoers.d/ml
"""

# Images by name: a release with packages, or a layer on another image with a command that is run on it.
RECIPES: Dict[str, Any] = {
    "bookworm": {"suite": "bookworm", "packages": COMMON},
    "trixie": {"suite": "trixie", "packages": [*COMMON, "nftables"]},
    "ufw": {"on": "bookworm", "command": "apt-get install -y ufw"},
    # The administrator has moved sshd to another port, and opened that.
    "firewalld": {
        "on": "bookworm",
        "command": "apt-get install -y firewalld && firewall-offline-cmd --add-port=2222/tcp"
        " && printf 'Port 2222\\n' >/etc/ssh/sshd_config.d/port.conf",
    },
}


# A builder ends with the `up` that wants its image, however that ends, and with it all that it runs and has mounted.
ALONE = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private", "--pid", "--fork"]
ALONE += ["--kill-child", "--mount-proc"]


def key(name):
    """Name of an image's folder: it changes with the recipe, and with how the controller reaches its registry."""
    recipe = RECIPES[name]
    below = key(recipe["on"]) if "on" in recipe else [CUSTOMIZE, _sources(recipe), controller.apt_options()]
    digest = hashlib.sha256(json.dumps([recipe, below], sort_keys=True).encode()).hexdigest()
    return "{}-{}".format(name, digest[:12])


def _sources(recipe):
    return controller.apt_sources(recipe["suite"])


def _newest(name):
    """Folder of the newest finished image of this name and its age in days; None and infinity where there is none."""
    found = sorted(IMAGES.glob(key(name) + "-*"), key=lambda path: int(path.name.rsplit("-", 1)[1]))
    if not found:
        return None, float("inf")
    return found[-1], (time.time() - int(found[-1].name.rsplit("-", 1)[1])) / 86400


def layers(names):
    """Make what is missing of these images; returns {name: folders, the upper one first}."""
    wanted = sorted(set(names))
    bases = sorted({RECIPES[name].get("on", name) for name in wanted})
    with Locked(CACHE / "lock", wait=1200):
        shutil.rmtree(str(CACHE / "making"), ignore_errors=True)  # of a builder that was killed
        (CACHE / "making").mkdir(parents=True)
        CACHE.chmod(0o700)  # apt's options may hold a proxy's password
        IMAGES.mkdir(exist_ok=True)
        with ThreadPoolExecutor(4) as pool:
            base = dict(zip(bases, pool.map(_base, bases)))
            made = dict(zip(wanted, pool.map(lambda name: _stack(name, base), wanted)))
        shutil.rmtree(str(CACHE / "making"))
    return made


def _stack(name, base):
    below = base[RECIPES[name].get("on", name)]
    return [_layer(name, below), below] if "on" in RECIPES[name] else [below]


def _finish(name, made):
    done = IMAGES / "{}-{}".format(key(name), int(time.time()))
    made.rename(done)
    return done


def _base(name):
    there, age = _newest(name)
    if age < DAYS:
        return there
    recipe, began = RECIPES[name], time.monotonic()
    say("making the image {} by mmdebstrap, about a minute".format(name))
    work = CACHE / "making"
    sources, customize, made = work / (name + ".sources"), work / (name + ".sh"), work / name
    sources.write_text(_sources(recipe))
    customize.write_text(CUSTOMIZE)
    argv = [*ALONE, "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--format=directory", "--skip=cleanup/apt/lists"]
    argv += ["--include=" + ",".join(recipe["packages"]), "--customize-hook=sh {} \"$1\"".format(customize)]
    argv += ["--aptopt=" + line for line in controller.apt_options().splitlines()]
    argv += [recipe["suite"], str(made)] + ([str(sources)] if sources.read_text() else [])
    call(argv, timeout=900, env=dict(os.environ, LC_ALL="C.UTF-8", TMPDIR=str(work)))
    done = _finish(name, made)
    say("made the image {} in {:.0f} s".format(name, time.monotonic() - began))
    return done


def _layer(name, below):
    there, age = _newest(name)
    # A layer fits the very image that it was made on.
    if there is not None and age < DAYS and (there / "below").read_text() == below.name:
        return there / "tree"
    say("making the image {}".format(name))
    began, made = time.monotonic(), CACHE / "making" / name
    for folder in ("tree", "work", "root"):
        (made / folder).mkdir(parents=True)
    ways = controller.Ways()
    tree = Tree(made / "tree", [below])
    for path in ("/etc/resolv.conf", controller.BUNDLE):
        if path in ways.files:
            tree.write(path, ways.files[path])
    script = made / "make.sh"
    script.write_text(
        "set -eu\n{mount}\nexport SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1\n"
        "mount -t tmpfs tmpfs /run\n"  # what nspawn leaves there goes with this mount
        "exec systemd-nspawn --quiet --directory={root} --machine=muster-image --pipe --register=no --keep-unit"
        " --resolv-conf=off --timezone=off --setenv=DEBIAN_FRONTEND=noninteractive --setenv=LC_ALL=C.UTF-8"
        ' sh -euc "$1"\n'.format(mount=mount_line(made / "root", [below], made / "tree", made / "work"), root=made / "root")
    )
    command = RECIPES[name]["command"] + " && apt-get clean && rm -f /etc/resolv.conf"
    call([*ALONE, "sh", script, command], timeout=600)
    for folder in ("work", "root"):
        shutil.rmtree(str(made / folder))
    (made / "below").write_text(below.name)
    script.unlink()
    done = _finish(name, made)
    say("made the image {} in {:.0f} s".format(name, time.monotonic() - began))
    return done / "tree"


def mount_line(root, lower, upper, work):
    """Shell line that mounts a host's file system."""
    return "mount -t overlay overlay -o lowerdir={},upperdir={},workdir={} {}".format(
        ":".join(str(folder) for folder in lower), upper, work, root
    )


class Tree:
    """The upper layer of a host that is not running, written to as if from inside."""

    def __init__(self, upper, lower):
        """``upper``: the layer's folder; ``lower``: the folders below it, the upper one first."""
        self.upper, self.lower = upper, lower
        upper.mkdir(parents=True, exist_ok=True)
        upper.chmod(0o755)  # whatever the umask: it is the root of the host

    def folder(self, path, mode=0o755, owner=0):
        """Make a folder and those above it. One that a lower layer has keeps its mode and owner: the upper one's count."""
        path = Path("/", path)
        made = self.upper / str(path)[1:]
        if made.is_dir():
            return made
        if path != Path("/"):
            self.folder(path.parent, mode, owner)
        made.mkdir(parents=True)
        for lower in self.lower:
            below = lower / str(path)[1:]
            if below.is_dir():
                mode, owner = below.stat().st_mode & 0o7777, below.stat().st_uid
                break
        made.chmod(mode)
        os.chown(str(made), owner, owner)
        return made

    def write(self, path, text, mode=0o644, owner=0, folders=0o755):
        """Write a file; ``folders`` is the mode of new folders above it, which get its owner."""
        path = Path("/", path)
        made = self.folder(path.parent, folders, owner) / path.name
        made.write_text(text)
        made.chmod(mode)
        os.chown(str(made), owner, owner)


def keep_archives(upper):
    """Keep the packages that a host has fetched for the hosts to come: each is fetched once on a machine."""
    kept = CACHE / "archives"
    kept.mkdir(parents=True, exist_ok=True)
    for package in (upper / "var/cache/apt/archives").glob("*.deb"):
        if not (kept / package.name).exists():
            aside = kept / ".{}.{}".format(package.name, os.getpid())
            shutil.copyfile(str(package), str(aside))
            aside.rename(kept / package.name)


def give_archives(tree):
    """Put the kept packages where a host's apt looks first; what does not fit its lists it fetches all the same."""
    folder = tree.folder("/var/cache/apt/archives")
    for package in (CACHE / "archives").glob("*.deb"):
        try:
            os.link(str(package), str(folder / package.name))
        except OSError:
            shutil.copyfile(str(package), str(folder / package.name))


def prune(used):
    """Remove images that are out of date, unless their folder's name is in ``used`` by a lab."""
    current = {_newest(name)[0] for name in RECIPES}
    for folder in IMAGES.glob("*"):
        if folder not in current and folder.name not in used:
            shutil.rmtree(str(folder), ignore_errors=True)  # what stays is out of date and goes with the next lab
