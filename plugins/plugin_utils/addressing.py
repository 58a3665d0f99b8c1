"""The address under which the other members reach a host."""

import socket

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal


def address_of(host, variables):
    """A member's cluster address: muster_address, else what ansible_host (else the name) resolves to on the controller.

    Args:
        host: inventory name.
        variables: the host's variables.

    Raises:
        Refusal: the name does not resolve.
    """
    given = variables.get("muster_address")
    if given:
        return str(given)
    name = str(variables.get("ansible_host") or host)
    try:
        return socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0]
    except OSError:
        raise Refusal(
            "{} has no muster_address and its name {} does not resolve, expected an address that the other members reach; "
            "set muster_address in the inventory".format(host, name)
        ) from None


def addresses(members, hostvars):
    """``{host: address}`` of ``members`` in their order; raises Refusal."""
    return {host: address_of(host, hostvars[host]) for host in members}
