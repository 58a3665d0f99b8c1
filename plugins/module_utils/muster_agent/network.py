"""Addresses, interfaces and ports of this host."""

import fcntl
import ipaddress
import os
import socket
import struct
import subprocess

from . import procs

SIOCGIFADDR = 0x8915


def listen(address, port):
    """A listening TCP socket that no child inherits; raises OSError."""
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(128)
    except OSError:
        sock.close()
        raise
    return sock


def port_free(port):
    """Whether ``port`` can be listened on at all addresses, as torch's store does."""
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((address, port))
            sock.listen(1)
        except OSError as error:
            if error.errno == 98:
                return False
        finally:
            sock.close()
    return True


def parse_listeners(text, port):
    """``[(inode, uid)]`` of the sockets that listen on ``port``, from the text of /proc/net/tcp or tcp6."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
            found.append((fields[9], int(fields[7])))
    return found


def port_holder(port):
    """Who listens on ``port``: ``pid 12 (alice: nc -l 29500)``, or the user alone where the process is hidden."""
    listeners = []
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path, encoding="ascii") as stream:
                listeners += parse_listeners(stream.read(), port)
        except OSError:
            continue
    names = {"socket:[{}]".format(inode) for inode, _ in listeners}
    for pid in procs.pids() if names else []:
        folder = "/proc/{}/fd".format(pid)
        try:
            for descriptor in os.listdir(folder):
                try:
                    if os.readlink(os.path.join(folder, descriptor)) in names:
                        return procs.describe(pid)
                except OSError:
                    continue
        except OSError:
            continue
    if listeners:
        return "a process of {} (its pid is hidden from this user)".format(procs.user_name(listeners[0][1]))
    return "a process that this user cannot see"


def is_local(address):
    """Whether ``address`` belongs to this host."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        try:
            sock.bind((address, 0))
            return True
        except OSError:
            return False


def addresses():
    """``[(interface, address)]`` of this host, from ``ip`` where there is one, else the first IPv4 address of each."""
    try:
        text = subprocess.run(
            ["ip", "-o", "addr", "show"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=5, check=True
        ).stdout.decode("utf-8", "replace")
        return parse_ip_addr(text)
    except (OSError, subprocess.SubprocessError):
        pass
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            try:
                packed = fcntl.ioctl(sock.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found.append((name, socket.inet_ntoa(packed[20:24])))
            except OSError:
                continue
    return found


def parse_ip_addr(text):
    """``[(interface, address)]`` from the output of ``ip -o addr show``."""
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[2] in ("inet", "inet6"):
            found.append((fields[1].split("@")[0], fields[3].split("/")[0]))
    return found


def same_address(one, other):
    """Whether two texts are one address; a zone (``%eth0``) does not count."""
    return ipaddress.ip_address(one.split("%")[0]) == ipaddress.ip_address(other.split("%")[0])


def interface_of(address, pairs):
    """The interface among ``pairs`` that holds ``address``; all of 127.0.0.0/8 is lo's; None where none does."""
    if ipaddress.ip_address(address).is_loopback:
        return "lo"
    for name, held in pairs:
        if same_address(held, address):
            return name
    return None


def interface_in(network, pairs):
    """The interface among ``pairs`` that has an address within ``network`` (CIDR), or None."""
    wanted = ipaddress.ip_network(network, strict=False)
    for name, held in pairs:
        if ipaddress.ip_address(held.split("%")[0]) in wanted:
            return name
    return None
