"""One host of a lab: its file system, its boots, and what a test does to it."""

import shlex
import shutil
import subprocess
import time
import uuid

from . import images, network, processes
from .common import LabError, call, write

# Debian 12's apt leaves ufw inactive and starts firewalld; n4 and out are bare.
KINDS = {
    "n1": {"image": "ufw", "interface": "eth0"},
    "n2": {"image": "firewalld", "interface": "ens3", "port": 2222},
    "n3": {"image": "trixie", "interface": "enp1s0"},
    "n4": {"image": "bookworm", "interface": "host0"},
    "out": {"image": "bookworm", "interface": "eth0"},
}

# $$ is the keeper. Everything that a boot makes (mounts, interfaces, cable) is in namespaces that vanish with its last
# process, so that a host without power is silent and nothing is left to be removed.
KEEPER = """#!/bin/sh
# Keeps {name} of the lab {lab} running: boots it again for as long as it ends by a reboot.
for group in {cgroups}; do
  mkdir -p "$group" && echo $$ >"$group/cgroup.procs"
done
while :; do
  ip link delete {veth} 2>/dev/null || :
  unshare --mount --net --propagation private sh {folder}/boot.sh $$
  code=$?
  [ $code = 133 ] || break
done
echo "keeper: systemd-nspawn ended with $code"
"""

BOOT = """#!/bin/sh
# Boots {name} of the lab {lab}, in network and mount namespaces of its own; $1 is the keeper, on the bridge's side.
set -eu
ip link set lo up
ip link add {interface} mtu {mtu} address {mac} type veth peer name {veth} mtu {mtu} netns "$1"
nsenter --net="/proc/$1/ns/net" ip link set {veth} master {bridge} up
ip address add {address}/24 dev {interface}
ip link set {interface} up
ip route add default via {gateway}
# The same address on every host, as Docker has it.
ip link add docker0 type bridge
ip address add 172.17.0.1/16 dev docker0
ip link set docker0 up
mount -t tmpfs tmpfs /run
{mount}
export SYSTEMD_NSPAWN_API_VFS_WRITABLE=network SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
exec systemd-nspawn --directory={root} --machine={name} --boot --capability=CAP_NET_ADMIN --register=no --keep-unit \\
  --console=pipe --resolv-conf=off --timezone=off --link-journal=no {binds}
"""


def kind(name):
    """What is particular about a host; the workers w1, w2 ... are like n1."""
    return KINDS["n1"] if name not in KINDS and name[:1] == "w" else KINDS[name]


def last_byte(name):
    """Last number of a host's address."""
    return 20 + int(name[1:]) if name not in KINDS else 11 + list(KINDS).index(name)


class Host:
    """A host of a lab; ``lab`` gives name, folder, number and the way to log in.

    Attributes: ``name``, ``address``, ``port`` (of its sshd), ``interface``, ``folder`` (its part of the lab's folder),
    ``root`` (where it sees its file system mounted; from outside it is empty).
    """

    def __init__(self, lab, name):
        """Describe a host, which may run or not."""
        self.lab, self.name, self.kind = lab, name, kind(name)
        self.interface, self.port = self.kind["interface"], self.kind.get("port", 22)
        self.address = network.address(lab.number, last_byte(name))
        self.folder = lab.folder / "hosts" / name
        self.root = self.folder / "root"
        self.veth = network.veth(lab.number, name)

    def prepare(self, lower, ways, mtu):
        """Lay out its file system and the scripts that boot it."""
        for folder in ("work", "root"):
            (self.folder / folder).mkdir(parents=True)
        tree = images.Tree(self.folder / "upper", lower)
        for path, text in ways.files.items():
            tree.write(path, text, 0o600 if path.startswith("/etc/apt/auth") else 0o644)
        tree.write("/etc/hostname", self.name + "\n")
        tree.write("/etc/machine-id", uuid.uuid4().hex + "\n", 0o444)
        lines = ["127.0.0.1 localhost", "127.0.1.1 " + self.name, "::1 localhost ip6-localhost ip6-loopback", *ways.hosts]
        tree.write("/etc/hosts", "\n".join(lines) + "\n")
        tree.write(
            "/etc/systemd/timesyncd.conf.d/lab.conf", "[Time]\nNTP={}\nFallbackNTP=\n".format(network.address(self.lab.number, 1))
        )
        tree.write("/home/ml/.ssh/authorized_keys", (self.lab.folder / "key.pub").read_text(), 0o600, 1000, 0o700)
        key = tree.folder("/etc/ssh") / "ssh_host_ed25519_key"
        call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "root@" + self.name, "-f", key])
        images.give_archives(tree)
        number = self.lab.number
        words = {
            "name": self.name,
            "lab": self.lab.name,
            "folder": self.folder,
            "root": self.root,
            "cgroups": " ".join(str(path) for path in processes.cgroups(self.lab.name, self.name)),
            "veth": self.veth,
            "interface": self.interface,
            "address": self.address,
            "mac": "02:4d:55:00:{:02x}:{:02x}".format(number, last_byte(self.name)),
            "mtu": mtu,
            "bridge": network.bridge(number),
            "gateway": network.address(number, 1),
            "mount": images.mount_line(self.root, lower, self.folder / "upper", self.folder / "work"),
            "binds": " ".join("--bind-ro=" + shlex.quote(folder) for folder in ways.binds()),
        }
        write(self.folder / "boot.sh", BOOT.format(**words))
        write(self.folder / "keeper.sh", KEEPER.format(**words))

    def public_key(self):
        """Its SSH host key, as in known_hosts."""
        text = (self.folder / "upper/etc/ssh/ssh_host_ed25519_key.pub").read_text()
        return " ".join(text.split()[:2])

    def pid(self):
        """Id of its first process as the controller sees it, None where it does not run."""
        for nspawn in processes.with_argument("--directory={}".format(self.root)):
            found = processes.init_of(nspawn)
            if found:
                return found
        return None

    def power_on(self):
        """Start it; it boots in the background."""
        if self.pid():
            raise LabError("{} runs already".format(self.name))
        with open(str(self.folder / "console.log"), "a") as log:
            # Its parent is the machine's first process from the beginning, so that nobody here has to wait for it.
            argv = ["setsid", "--fork", "sh", str(self.folder / "keeper.sh")]
            subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", check=True, timeout=10)

    def power_off(self):
        """Take its power away: nothing on it gets a chance to say good-bye, and its address falls silent."""
        # The keeper first, or it would boot the host again; the first process takes all others along.
        keepers = processes.with_argument(self.folder / "keeper.sh")
        booting = processes.with_argument(self.folder / "boot.sh") | processes.with_argument("--directory={}".format(self.root))
        first = {self.pid()} - {None}
        left = processes.kill(keepers) | processes.kill(first | booting)
        groups = processes.cgroups(self.lab.name, self.name)
        for group in groups:
            left |= processes.kill(processes.in_cgroup(group))
        call(["ip", "link", "delete", self.veth], check=False)
        for group in groups:
            processes.remove_cgroup(group)
        if left:
            raise LabError("{}: the processes {} outlive SIGKILL".format(self.name, sorted(left)))

    def remove(self):
        """Remove it altogether, keeping the packages that it has fetched."""
        self.power_off()
        images.keep_archives(self.folder / "upper")
        shutil.rmtree(str(self.folder))

    def run(self, command, check=True, timeout=30, **options):
        """Run a command on it as root, past SSH and every firewall; a string is given to its shell.

        Returns the finished process with its output as text; ``input`` may hold what it reads.
        """
        first = self.pid()
        if first is None:
            raise LabError("{} does not run".format(self.name))
        argv = ["sh", "-c", command] if isinstance(command, str) else [str(word) for word in command]
        return call(self.entry(first, timeout) + argv, check=check, timeout=timeout + 10, **options)

    def entry(self, first, timeout=None):
        """Words before a command that put it onto the host; ``first`` is its first process."""
        # Without the rights that the host's own processes lack: the clock is the controller's.
        argv = ["nsenter", "-t", str(first), "-m", "-u", "-i", "-n", "-p", "--"]
        argv += ["env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"]
        argv += ["USER=root", "LOGNAME=root", "setpriv", "--bounding-set=-sys_time,-sys_module,-sys_boot,-sys_rawio", "--"]
        return argv if timeout is None else [*argv, "timeout", "-k", "2", str(timeout)]

    def ssh_argv(self, command=(), user="ml", connect=5):
        """The ssh command that logs in on it, with the pinned host key and the lab's key alone."""
        argv = ["ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "ConnectTimeout={}".format(connect), "-p", str(self.port)]
        argv += ["-i", str(self.lab.folder / "key"), *shlex.split(self.lab.ssh_options()), "{}@{}".format(user, self.address)]
        return argv + ([command] if isinstance(command, str) else list(command))

    def ssh(self, command, check=True, timeout=30, user="ml", **options):
        """Run a command on it as ``ml`` by way of SSH; a string is given to the shell of ``ml``, so are words in a list."""
        words = command if isinstance(command, str) else " ".join(shlex.quote(str(word)) for word in command)
        return call(self.ssh_argv(words, user, min(timeout, 10)), check=check, timeout=timeout, **options)

    def answers(self, timeout=2):
        """Whether a login on it works now."""
        try:
            return self.ssh("true", check=False, timeout=timeout).returncode == 0
        except LabError:
            return False

    def wait_ssh(self, timeout=60):
        """Wait until a login on it works; returns the seconds that took."""
        began = time.monotonic()
        while not self.answers():
            if time.monotonic() - began > timeout:
                tail = "\n".join(self.console().splitlines()[-15:])
                raise LabError("{} did not answer SSH within {} s; its console ends with:\n{}".format(self.name, timeout, tail))
            time.sleep(0.1)  # until sshd listens a try fails at once
        return time.monotonic() - began

    def reboot(self, timeout=60):
        """Reboot it as its administrator would; returns when it is on its way up again and the old system is gone."""
        before = self.pid()
        self.run("systemctl reboot", check=False)
        until = time.monotonic() + timeout
        while processes.alive(before) or self.pid() in (None, before):
            if time.monotonic() > until:
                raise LabError("{} did not reboot within {} s".format(self.name, timeout))
            time.sleep(0.05)  # an init is no child of ours to be waited for

    def cut(self):
        """Pull its network cable on the bridge's side."""
        call(["ip", "link", "set", self.veth, "down"])

    def mend(self):
        """Plug its network cable in again."""
        call(["ip", "link", "set", self.veth, "up"])

    def journal(self, unit=None):
        """Its journal as text, of one unit or all."""
        return self.run(["journalctl", "--no-pager", "-o", "short-precise", *(["-u", unit] if unit else [])]).stdout

    def console(self):
        """What it and its keeper have written on the console."""
        path = self.folder / "console.log"
        return path.read_text(errors="replace") if path.exists() else ""


def traces(folder):
    """Names of the hosts that a lab's folder has traces of."""
    hosts = folder / "hosts"
    return sorted(path.name for path in hosts.iterdir()) if hosts.is_dir() else []
