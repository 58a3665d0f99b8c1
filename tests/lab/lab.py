"""A lab: hosts on a network of their own, brought up together and removed without a trace."""

import json
import os
import secrets
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

from . import controller, images, network, processes, settings
from .common import CACHE, STATE, Busy, LabError, Locked, call, missing, say, take_lock, write
from .host import KINDS, Host, kind, traces
from .inventory import write_inventory

RECORDS = STATE / "records.lock"


def names():
    """Names of all labs that this machine has traces of."""
    return sorted(path.name for path in STATE.iterdir() if path.is_dir()) if STATE.is_dir() else []


class Lab:
    """A lab by its name. ``up`` makes it and keeps it locked until ``down`` or the end of this process."""

    def __init__(self, name="lab"):
        """Read what there is of the lab; nothing is locked or started."""
        if not name or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii() or len(name) > 40:
            raise LabError("a lab's name has letters, digits, - and _ only, and {!r} has others".format(name))
        self.name, self.folder = name, STATE / name
        self.descriptor = None
        self.number, self.hosts = 0, {}
        self._read()

    def _read(self):
        try:
            record = json.loads((self.folder / "lab.json").read_text())
        except (OSError, ValueError):
            record = {}
        self.number = record.get("number", 0)
        self.hosts = {name: Host(self, name) for name in record.get("hosts", [])}

    def host(self, name):
        """One of its hosts."""
        if name not in self.hosts:
            raise LabError("the lab {} has no host {}; it has {}".format(self.name, name, " ".join(self.hosts) or "none"))
        return self.hosts[name]

    def ssh_options(self):
        """Options of ssh by which its hosts are known for certain."""
        return "-o UserKnownHostsFile={} -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes".format(self.folder / "known_hosts")

    def lock(self):
        """Take the lab for this process; Busy where another live process has it."""
        if self.descriptor is None:
            self.descriptor = take_lock(self._lock_path())
            if self.descriptor is None:
                text = "the lab {} is held by another live process, such as a test run; wait for it or end it"
                raise Busy(text.format(self.name))

    def _lock_path(self):
        return STATE / (self.name + ".lock")

    def unlock(self):
        """Give the lab back; its hosts run on."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def up(self, hosts=tuple(KINDS), workers=0, timeout=90):
        """Make the lab anew, whatever is left of an older one, and wait until every host takes a login.

        Returns the path of the inventory. Where it fails nothing is left of it.
        """
        wanted = [*hosts, *("w{}".format(number) for number in range(1, workers + 1))]
        unknown = [name for name in hosts if name not in KINDS]
        if unknown or len(set(hosts)) != len(hosts) or not 0 <= workers <= 200:
            raise LabError("hosts are some of {}, each once, and at most 200 workers; found {}".format(" ".join(KINDS), wanted))
        why = missing()
        if why:
            raise LabError(why)
        self.lock()
        self._remove()
        try:
            return self._up(wanted, timeout)
        except BaseException:
            self.down()
            raise

    def _up(self, wanted, timeout):
        began = time.monotonic()
        layers = images.layers([kind(name)["image"] for name in wanted])
        with Locked(RECORDS):
            others = [Lab(name) for name in names()]
            self.number = network.free_number(lab.number for lab in others)
            used = sorted({path.relative_to(images.IMAGES).parts[0] for lower in layers.values() for path in lower})
            self.folder.mkdir(parents=True)
            self.folder.chmod(0o700)
            write(self.folder / "lab.json", json.dumps({"number": self.number, "hosts": wanted, "images": used}))
            self._read()
            settings.up()
            network.make(self.number, self.name)
        ready = time.monotonic()
        call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "muster-lab", "-f", self.folder / "key"])
        ways, mtu = controller.Ways(), network.mtu()
        for host in self.hosts.values():
            host.prepare(layers[host.kind["image"]], ways, mtu)
        lines = ""
        for host in self.hosts.values():
            where = host.address if host.port == 22 else "[{}]:{}".format(host.address, host.port)
            lines += "{} {}\n".format(where, host.public_key())
        write(self.folder / "known_hosts", lines)
        for host in self.hosts.values():
            host.power_on()
        for host in self.hosts.values():  # they boot side by side; a login costs more than the waiting
            host.wait_ssh(timeout)
            host.run(["ldconfig"])  # makes the controller's Python known to the loader
        self._ask()
        path = write_inventory(self, self.hosts.values())
        say(
            "{} up in {:.1f} s, {:.1f} s of them for images: {}".format(
                self.name, time.monotonic() - began, ready - began, " ".join(self.hosts)
            )
        )
        return path

    def _ask(self):
        """Give n1 the user ``ask``, whose sudo wants a password; secrets.json has it."""
        if "n1" not in self.hosts:
            return
        password = secrets.token_urlsafe(12)
        write(self.folder / "secrets.json", json.dumps({"ask_password": password}) + "\n", 0o600)
        script = (
            "useradd -m -s /bin/bash -G sudo ask && chpasswd && install -d -m 700 -o ask -g ask ~ask/.ssh"
            " && install -m 600 -o ask -g ask ~ml/.ssh/authorized_keys ~ask/.ssh/"
        )
        self.host("n1").run(script, input="ask:{}\n".format(password))

    def password(self):
        """Password of the user ``ask`` on n1."""
        return json.loads((self.folder / "secrets.json").read_text())["ask_password"]

    def down(self):
        """Remove every trace of the lab; the images stay for the next one."""
        self.lock()
        self._remove()
        with Locked(RECORDS):
            self._lock_path().unlink()
            if list(STATE.iterdir()) == [RECORDS]:
                RECORDS.unlink()
                STATE.rmdir()
        self.unlock()

    def _remove(self):
        found = sorted(set(self.hosts) | set(traces(self.folder)))
        hosts = [Host(self, name) for name in found]
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(host.remove) for host in hosts]:
                done.result()
        with Locked(RECORDS):
            others = [name for name in names() if name != self.name]
            if self.number:
                network.remove(self.number)
            if not others:
                settings.down()
            if self.folder.exists():  # last, since it says what is to be removed
                shutil.rmtree(str(self.folder))
            images.prune(_images_in_use())
        for group in processes.cgroups(self.name, ""):
            processes.remove_cgroup(group)
        self.number, self.hosts = 0, {}


def _images_in_use():
    used = set()
    for name in names():
        try:
            used.update(json.loads((STATE / name / "lab.json").read_text()).get("images", []))
        except (OSError, ValueError):
            continue
    return used


def clean():
    """Remove the cached images too; no lab may be left."""
    left = names()
    if left:
        raise LabError("the labs {} still use the images".format(" ".join(left)))
    with Locked(CACHE / "lock"):
        shutil.rmtree(str(CACHE))
