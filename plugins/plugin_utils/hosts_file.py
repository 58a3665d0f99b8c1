"""What a host's /etc/hosts needs so that every member resolves every member."""

import ipaddress

from ansible_collections.muster.cluster.plugins.module_utils.entries import merge
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal


def decide(host, members, survey):
    """What there is to do on one host.

    Args:
        host: inventory name.
        members: ``{name: address}``.
        survey: the section ``hosts``.

    Returns:
        ``{"todo": bool, "wish": {"members", "own", "hostname"}, "notes": [sentence]}``; the wish is what the module ``entries``
        takes.

    Raises:
        Refusal: there are no members, or an address is none.
    """
    if not members:
        raise Refusal("hosts_file_members is empty, expected the members of the cluster; name them")
    for name, address in members.items():
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise Refusal(
                "{} has the address {!r}, expected an IP address, since it goes into /etc/hosts; correct muster_address".format(
                    name, address
                )
            ) from None
    wish = {
        "members": {name: {"address": address} for name, address in members.items()},
        "own": host if host in members else "",
        "hostname": survey["hostname"],
    }
    text = survey["text"] or ""
    notes = []
    if survey["rewritten_by"]:
        notes.append(
            "{}: found cloud-init to write /etc/hosts anew at every boot, which takes the members out of it; expected "
            "manage_etc_hosts: false in {}, set it there".format(host, survey["rewritten_by"])
        )
    return {"todo": merge("hosts", text, wish)[0] != text, "wish": wish, "notes": notes}
