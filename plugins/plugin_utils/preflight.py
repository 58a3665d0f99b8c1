"""What stands in the way of setting up a cluster, one sentence per fault; pure.

A host is a dictionary of ``address`` (the inventory's, None without one), ``facts`` (what the survey found, None without one),
``fault`` (what Ansible said where the survey failed, else None), ``unreachable`` (whether the fault is one of the connection),
``python`` (the interpreter of the modules) and ``requirements`` (what this host wants otherwise than the others).
"""

import ipaddress
import re

from ansible_collections.muster.cluster.plugins.plugin_utils import role_variables, unreachable

# Systems on which Muster is meant to work, with the first version; None where any will do.
SYSTEMS = {
    "debian": "11",
    "ubuntu": "20.04",
    "rhel": "8",
    "rocky": "8",
    "almalinux": "8",
    "centos": "8",
    "fedora": None,
}
SYSTEMS_TOLD = "Debian 11, Ubuntu 20.04, Red Hat, Rocky, AlmaLinux or CentOS 8, Fedora, or a later one"
PYTHON = (3, 8)

# What stands in Ansible's words for a host that cannot be looked at, and what is told of it; the first that fits. ``{python}``
# is the interpreter.
FAULTS = [
    (
        r"Missing sudo password|sudo: a password is required|sudo: a terminal is required",
        "its sudo asks for a password, expected none or yours; run with --ask-become-pass, or allow the login user sudo "
        "without one",
    ),
    (r"Incorrect sudo password|[Ss]orry, try again", "its sudo refuses the password, expected the login user's; correct it"),
    (
        r"not in the sudoers file|not allowed to (?:execute|run sudo)",
        "its sudo refuses the login user, expected one who may become root; add the user to the group sudo (Debian) or wheel "
        "(Red Hat), or set ansible_user to another",
    ),
    (
        r"sudo: (?:command )?not found|sudo: No such file",
        "it has no sudo, expected it; install the package sudo there, or set ansible_become_method",
    ),
    (
        r"you must have a tty",
        "its sudo wants a terminal, expected none; remove requiretty from the sudoers there",
    ),
    (
        r"effective uid is not 0|must be owned by uid 0|no new privileges",
        "its sudo cannot become root, expected it to; its file system is mounted nosuid or the container forbids it",
    ),
    (
        r"[Tt]imeout \(\d+s\) waiting for privilege escalation|Timeout waiting for .*become",
        "its sudo does not answer, expected it at once; see whether it waits for a directory service or for a password",
    ),
    (
        r"requires? a minimum of Python|from __future__ import annotations|future feature annotations",
        "its Python ({python}) is too old for Ansible, expected 3.8 or later; install a newer one beside it and name it in "
        "ansible_python_interpreter",
    ),
    (
        r"python\S*: (?:not found|No such file|command not found)|interpreter .* was not found|"
        r"No python interpreters found|found no Python 3",
        "it has no Python at {python}, expected 3.8 or later; install python3 there, or correct ansible_python_interpreter",
    ),
    (
        r"Timed out after \d+ second",
        "it could not be looked at in two minutes, expected a second or two; see whether a disk hangs there (df) and "
        "what it does (top)",
    ),
    (r"No space left on device", "its disk is full, expected room to work; see df there"),
    (r"Read-only file system", "its file system is read-only, expected to write there; see dmesg and mount there"),
]


def findings(hosts, requirements):
    """Everything that is wrong with hosts, alone and together.

    Args:
        hosts: ``{name: host}`` as the module's text has it, in the order of the inventory.
        requirements: ``{"min_free_mb", "min_tmp_mb", "max_clock_skew", "other_systems"}``.

    Returns:
        sentences in the order of the hosts, then those about several.
    """
    told = []
    late = common_skew(hosts, requirements)
    for name, host in hosts.items():
        wanted = dict(requirements, **(host.get("requirements") or {}))
        facts = host.get("facts")
        if not facts:
            told.append(explain(name, host))
            continue
        told += system_findings(name, facts, wanted)
        told += disk_findings(name, facts["system"], wanted)
        if not late:
            told += clock_findings(name, facts, wanted["max_clock_skew"])
        told += service_findings(name, facts)
    return told + late + twins({name: host for name, host in hosts.items() if host.get("facts")})


def explain(name, host):
    """Why a host could not be looked at, one sentence."""
    text = str(host.get("fault") or "")
    if host.get("unreachable"):
        return "{} is unreachable: {}".format(name, unreachable.explain(text))
    for pattern, clause in FAULTS:
        if re.search(pattern, text):
            return "{} cannot be set up: {}".format(name, clause.format(python=host.get("python") or "unknown"))
    flat = " ".join(text.split()) or "it failed or was unreachable earlier in this run"
    return "{} cannot be set up: {}".format(name, flat if len(flat) <= 300 else flat[:297] + "...")


def system_findings(name, facts, wanted):
    """The operating system, its Python, root, systemd, the package manager."""
    system, told = facts["system"], []
    known = system["distribution"] in SYSTEMS
    least = SYSTEMS.get(system["distribution"])
    # Debian's testing and unstable have no version.
    old = bool(least) and bool(system["version"]) and numbers(system["version"]) < numbers(least)
    if old or not known and (system["family"] == "other" or not wanted["other_systems"]):
        told.append("{} runs {}, expected {}; {}".format(
            name, system["name"], SYSTEMS_TOLD,
            "take it out of the inventory, or install it anew" if old or system["family"] == "other" else
            "take it out of the inventory, or try it with preflight_other_systems: true",
        ))  # fmt: skip
    if numbers(system["python"])[:2] < PYTHON:
        told.append("{} has Python {}, expected 3.8 or later; install a newer one beside it and name it in "
                    "ansible_python_interpreter".format(name, system["python"]))  # fmt: skip
    if not system["root"]:
        told.append("{} was looked at by an ordinary user, expected root; set ansible_become to true and ansible_become_user "
                    "to root in the play".format(name))  # fmt: skip
    if not system["init_systemd"]:
        told.append("{} is not run by systemd, expected it, since services are started by it; boot the host with systemd, or "
                    "set muster_manage_hosts to false for it".format(name))  # fmt: skip
    if not facts["packages"]["manager"]:
        told.append("{} has neither apt-get nor dnf, expected one of them; install it, or set muster_manage_hosts to false "
                    "for this host".format(name))  # fmt: skip
    return told


def disk_findings(name, system, wanted):
    """Free space where packages and temporary files go; one sentence per disk."""
    told, seen = [], set()
    for path, least, variable in (
        ("/", wanted["min_free_mb"], "preflight_min_free_mb"),
        ("/var", wanted["min_free_mb"], "preflight_min_free_mb"),
        ("/tmp", wanted["min_tmp_mb"], "preflight_min_tmp_mb"),
    ):
        disk = system["disks"].get(path)
        if disk and disk["free_mb"] < least and disk["device"] not in seen:
            seen.add(disk["device"])
            told.append("{} has {} MB free in {}, expected {} MB; make room there, or lower {}".format(
                name, disk["free_mb"], path, least, variable))  # fmt: skip
    return told


def skew(facts):
    """By how many seconds a host's clock is surely ahead of this machine's, negative if behind; None where nobody looked.

    The host's clock was read between two moments of this machine's, so what can be explained by them is no difference.
    """
    now, bounds = facts["time"].get("now"), facts["time"].get("controller")
    if now is None or not bounds:
        return None
    return now - bounds[1] if now > bounds[1] else min(0.0, now - bounds[0])


def clock_findings(name, facts, most):
    """A clock so wrong that signatures and certificates are refused."""
    off = skew(facts)
    if off is None or abs(off) <= most:
        return []
    system = facts["system"]
    if system["container"] and not system["cap_sys_time"]:
        fix = "it is a container, so set the clock of the machine beneath it"
    else:
        fix = "set it there by date --set, as in: ssh {} sudo date --utc --set @$(date +%s)".format(name)
    return ["{}'s clock is {} s {} this machine's, expected at most {} s; {}".format(
        name, round(abs(off)), "ahead of" if off > 0 else "behind", most, fix)]  # fmt: skip


def common_skew(hosts, requirements):
    """The one sentence where all hosts, two at least, agree that this machine's clock is wrong; else none."""
    found = [skew(host["facts"]) for host in hosts.values() if host.get("facts")]
    most = requirements["max_clock_skew"]
    if len(found) < 2 or None in found or max(found) - min(found) > most or min(map(abs, found)) <= most:
        return []
    return ["this machine's clock is {} s {} that of all {} hosts that were looked at, expected at most {} s; set the clock "
            "here".format(round(abs(found[0])), "behind" if found[0] > 0 else "ahead of", len(found), most)]  # fmt: skip


def service_findings(name, facts):
    """What fights on a host."""
    firewall = facts["firewall"]
    if all((firewall.get(kind) or {}).get("active") for kind in ("ufw", "firewalld")):
        return ["{} has both ufw and firewalld active, expected one of them, since they undo each other's rules; stop one: "
                "ufw disable, or systemctl disable --now firewalld".format(name)]  # fmt: skip
    return []


def twins(hosts):
    """Two inventory names for one host, copies of one host, two hosts of one name.

    Two with one address in the inventory are left to :func:`address_findings`.
    """
    told, machines, names = [], {}, {}
    for name, host in hosts.items():
        system = host["facts"]["system"]
        twin = machines.setdefault(system["machine"], name) if system["machine"] else name
        if twin != name:
            if host.get("address") and host["address"] == hosts[twin].get("address"):
                continue
            if outer(system) & outer(hosts[twin]["facts"]["system"]):
                told.append("{} and {} are one host, expected two; correct ansible_host of one of them, or remove it".format(
                    twin, name))  # fmt: skip
            else:
                told.append("{0} and {1} have one /etc/machine-id, so one is a copy of the other, expected an id each; on {1} "
                            "remove the file, run systemd-machine-id-setup and reboot".format(twin, name))  # fmt: skip
            continue
        twin = names.setdefault(system["hostname"], name)
        if twin != name:
            told.append("{} and {} both call themselves {}, expected a name each; give one another by hostnamectl "
                        "set-hostname".format(twin, name, system["hostname"]))  # fmt: skip
    return told


def outer(system):
    """A host's addresses that others may reach: neither loopback nor link-local, nor of a bridge for containers."""
    found = set()
    for interface, text in system["addresses"]:
        address = ipaddress.ip_address(text.split("%")[0])
        if not (address.is_loopback or address.is_link_local or re.match(r"docker|br-|virbr|cni|lxc|lxd|podman", interface)):
            found.add(address)
    return found


def address_findings(addresses, systems):
    """Addresses that are none, are shared, or are not the host's own.

    Args:
        addresses: ``{name: address}`` of all members, from the inventory alone.
        systems: ``{name: the survey's section system}`` of those that were looked at.
    """
    told, owners = [], {}
    for name, text in addresses.items():
        try:
            owners.setdefault(ipaddress.ip_address(text), []).append(name)
        except ValueError:
            told.append("{} has the address {!r}, expected an IP address; set muster_address in the inventory".format(name, text))
    for address, names in owners.items():
        if len(names) > 1:
            told.append("{} have one address, {}, expected one each; correct muster_address or ansible_host in the "
                        "inventory".format(role_variables.listed(names), address))  # fmt: skip
        elif address.is_loopback:
            if len(addresses) > 1:
                told.append("{} has the address {}, which no other host reaches, expected one of its network; set "
                            "muster_address in the inventory".format(names[0], address))  # fmt: skip
        elif names[0] in systems:
            system = systems[names[0]]
            if address not in [ipaddress.ip_address(pair[1].split("%")[0]) for pair in system["addresses"]]:
                own = ", ".join(sorted(map(str, outer(system)))) or "none"
                told.append("{} does not have the address {} (it has {}), expected one of its own; set muster_address in the "
                            "inventory".format(names[0], address, own))  # fmt: skip
    return told


def numbers(version):
    """A version's leading numbers: ``(20, 4)`` for ``20.04``."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def message(told, hosts):
    """What ends the run: a line with the counts, then one per fault.

    Args:
        told: sentences.
        hosts: how many hosts the play has.
    """
    head = "preflight found {} fault{} among {} host{}, expected none; nothing has been changed:".format(
        len(told), "" if len(told) == 1 else "s", hosts, "" if hosts == 1 else "s"
    )
    return "\n".join([head] + ["  " + sentence for sentence in told])
