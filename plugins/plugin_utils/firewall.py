"""Which firewall a host has, and who its peers are; pure."""

import ipaddress

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_firewall import rules
from ansible_collections.muster.cluster.plugins.plugin_utils import addressing, role_variables

KINDS = ("ufw", "firewalld")
OTHER = {"ufw": "firewalld", "firewalld": "ufw"}
USUAL = {"debian": "ufw", "redhat": "firewalld"}


def backend(facts, wish, host):
    """The firewall that Muster manages on a host: the active one, else the installed one, else the family's usual one.

    Args:
        facts: all that the survey found.
        wish: ``auto``, ``ufw`` or ``firewalld``.
        host: inventory name, for the sentence.

    Raises:
        Refusal: there are two, a third one sets rules too, or none fits.
    """
    found, family = facts["firewall"], facts["system"]["family"]
    active = [kind for kind in KINDS if found[kind]["active"]]
    installed = [kind for kind in KINDS if found[kind]["installed"]]
    if len(active) == 2:
        raise Refusal(
            "{}: found ufw and firewalld both active, expected one of them; stop one with `ufw disable` or `systemctl disable "
            "--now firewalld`".format(host)
        )
    others = found.get("others") or []
    if others:
        raise Refusal(
            "{}: found {} active or started at boot, expected none beside ufw or firewalld, since they undo each other's rules; "
            "move its rules there and disable it with `systemctl disable --now {}`, or set firewall_enabled to false".format(
                host, role_variables.listed(others), " ".join(others)
            )
        )
    if wish == "auto":
        usual = USUAL.get(family, "")
        chosen = (active or [kind for kind in installed if kind == usual] or installed or [usual])[0]
        if not chosen:
            raise Refusal(
                "{}: found neither ufw nor firewalld, expected one of them; install one, or set firewall_enabled to "
                "false".format(host)
            )
        return chosen
    if wish not in KINDS:
        raise Refusal("{}: firewall_backend is {!r}, expected auto, ufw or firewalld; correct it".format(host, wish))
    if OTHER[wish] in active:
        raise Refusal(
            "{}: found {} active while firewall_backend is {}, expected one firewall; stop it, or set firewall_backend to "
            "auto".format(host, OTHER[wish], wish)
        )
    if wish == "firewalld" and wish not in installed and family == "debian":
        raise Refusal(
            "{}: found no firewalld while firewall_backend is firewalld, expected it installed, since its package on this system "
            "starts it at once and may shut out SSH; install it by hand, or set firewall_backend to auto".format(host)
        )
    return wish


def peers(members, hostvars):
    """From which addresses the members come: their cluster addresses, and those in their data networks.

    Data addresses are known of hosts that this run has looked at. Where it leaves some out, as ``--limit`` does, the rules in
    the data networks are to stay as they are.

    Args:
        members: inventory names.
        hostvars: every host's variables.

    Returns:
        ``{"members": {name: [addresses]}, "keep": [networks]}``.

    Raises:
        Refusal: an address cannot be found, or a data network is none.
    """
    found, keep = {}, []
    for name, address in addressing.addresses(members, hostvars).items():
        found[name] = [address]
        network = hostvars[name].get("muster_data_network")
        if not network:
            continue
        try:
            wanted = ipaddress.ip_network(str(network), strict=False)
        except ValueError:
            raise Refusal(
                "{} has muster_data_network {!r}, expected a network like 10.1.0.0/16; correct it".format(name, network)
            ) from None
        facts = (hostvars[name].get("ansible_facts") or {}).get("muster")
        if facts is None:
            keep += [str(wanted)] if str(wanted) not in keep else []
            continue
        others = [pair[1].split("%")[0] for pair in facts["system"]["addresses"]]
        found[name] += [other for other in others if ipaddress.ip_address(other) in wanted and other not in found[name]]
    return {"members": found, "keep": keep}


def shut_out(host, client, networks, members, seconds):
    """The sentence about a change that shut out the controller, and was undone.

    Args:
        host: inventory name.
        client: the controller's address as the host saw it; empty where it is not known.
        networks: ``firewall_admin_networks``.
        members: ``{name: [addresses]}``.
        seconds: after which it was undone.
    """
    let_in = rules.check_networks("firewall_admin_networks", networks or list(rules.WORLD))
    shown = ", ".join(let_in)
    let_in += [rules.network(address) for addresses in (members or {}).values() for address in addresses]
    seen = " ({} as {} sees it)".format(client, host) if client else ""
    told = "{}: the new rules shut out the controller{}".format(host, seen)
    if client and rules.holds(let_in, client):
        return (
            "{}, although firewall_admin_networks ({}) lets it in; they were undone after {} s: see what else filters SSH on the "
            "host".format(told, shown, seconds)
        )
    return (
        "{}, expected firewall_admin_networks ({}) to contain it; they were undone after {} s: add {} to "
        "firewall_admin_networks".format(told, shown, seconds, client or "the controller's address")
    )


def gone(host, why, seconds, patience):
    """The sentence about a host that did not come back after ``seconds + patience``."""
    return (
        "{}: no new connection within {} s after the change of the firewall ({}), expected it to be undone after {} s; look at "
        "`journalctl -u muster-firewall-rollback` on its console".format(host, seconds + patience, why, seconds)
    )


def late(host, seconds):
    """The sentence about a change that was undone although nothing kept the controller out."""
    return (
        "{}: the change of the firewall was undone after {} s, before it could be confirmed, expected host and controller to be "
        "faster; set firewall_rollback_seconds higher and run the playbook again".format(host, seconds)
    )


def broken(host, why):
    """The sentence about a connection that did not last as long as the change."""
    return (
        "{}: the SSH connection broke while the firewall was changed ({}), expected it to last; nothing has changed or it was "
        "undone: run the playbook again".format(host, why)
    )


def old_connection(host, seconds):
    """The sentence about a connection that cannot be made anew."""
    return (
        "{}: found the old SSH connection in place of a new one, expected a new one to prove the new rules, so they are undone "
        "after {} s; leave ControlMaster and ControlPath out of the SSH arguments in the inventory".format(host, seconds)
    )
