"""The network of a lab: a bridge with the controller's address, and a way out to the package registries alone."""

import json
import os
import re
import signal
from pathlib import Path

from . import controller
from .common import LabError, call


def bridge(number):
    """Name of the bridge of lab ``number``."""
    return "mlab{}".format(number)


def veth(number, host):
    """Name of the bridge's end of a host's cable; a name has 15 characters at the most."""
    return "ml{}-{}".format(number, host)


def address(number, last):
    """Address in the network of lab ``number``; 1 is the controller."""
    return "10.199.{}.{}".format(number, last)


def free_number(taken):
    """Number of a lab whose network nobody uses, neither another lab nor this machine otherwise."""
    used = set(taken)
    text = call(["ip", "-4", "address"]).stdout + call(["ip", "-4", "route", "show", "table", "all"]).stdout
    used.update(int(found) for found in re.findall(r"\b10\.199\.(\d+)\.", text))
    for number in range(1, 251):
        if number not in used:
            return number
    raise LabError("every network from 10.199.1.0/24 to 10.199.250.0/24 is in use")


def mtu():
    """Largest packet of the way out: a bridge that lets larger ones in would lose them further on."""
    routes = json.loads(call(["ip", "-j", "-4", "route", "show", "default"]).stdout or "[]")
    for route in routes:
        try:
            return min(1500, int(Path("/sys/class/net", route["dev"], "mtu").read_text()))
        except (KeyError, OSError):
            continue
    return 1500


def make(number, name):
    """Make the bridge of a lab and the rules of its traffic. The caller holds the lock of the labs' records."""
    device = bridge(number)
    call(["ip", "link", "add", device, "mtu", mtu(), "type", "bridge"])
    call(["ip", "link", "set", device, "alias", "muster-lab " + name])
    call(["ip", "address", "add", address(number, 1) + "/24", "dev", device])
    call(["ip", "link", "set", device, "up"])
    # Out go names and packages, nothing else: what a test sends must not reach any other machine.
    rules = """
table ip muster_lab_{number} {{
  chain out {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {network} oifname != "{bridge}" masquerade
  }}
  chain through {{
    type filter hook forward priority filter; policy accept;
    iifname "{bridge}" oifname "{bridge}" accept
    iifname "{bridge}" ip daddr 10.199.0.0/16 drop
    iifname "{bridge}" udp dport 53 accept
    iifname "{bridge}" tcp dport {{ 53, {ports} }} accept
    iifname "{bridge}" drop
    oifname "{bridge}" ct state established,related accept
    oifname "{bridge}" drop
  }}
}}
""".format(
        number=number,
        network=address(number, 0) + "/24",
        bridge=device,
        ports=", ".join(str(port) for port in controller.ports()),
    )
    call(["nft", "-f", "-"], input=rules)


def end_logins(number):
    """End the ssh processes whose connections lead into the lab's network: the masters that Ansible leaves for a while.

    Such a master outlives its hosts by seconds, and the next lab's hosts have the same addresses and other keys.
    """
    listed = call(["ss", "-Htnp", "dst", address(number, 0) + "/24"], check=False).stdout
    for pid in re.findall(r'"ssh",pid=(\d+)', listed):
        try:
            os.kill(int(pid), signal.SIGTERM)
        except ProcessLookupError:
            continue


def remove(number):
    """Remove all that ``make`` made, as far as it is there."""
    end_logins(number)
    call(["ip", "link", "delete", bridge(number)], check=False)
    call(["nft", "delete", "table", "ip", "muster_lab_{}".format(number)], check=False)
