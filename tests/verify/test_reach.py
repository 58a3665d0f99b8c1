"""Who reaches whom: members each other, on a rendezvous port and on an ephemeral one; others nobody."""

import pytest

from . import scripts

RANGE = (29500, 29999)
SECONDS = 120
TIMEOUT = 3


@pytest.fixture(scope="module")
def listeners(cluster):
    """``{name: (address, [ports])}``: real listeners on every member, ended afterwards, or by themselves after two minutes."""
    found, pids = {}, {}
    try:
        for member in cluster.members:
            node = cluster.node(member["name"])
            asked = node.plain(scripts.python(scripts.LISTEN, member["address"], *RANGE, SECONDS))
            assert asked.rc == 0, "{} cannot listen at {}: {}".format(node.name, member["address"], asked.stderr)
            *ports, pids[node.name] = asked.stdout.split()
            found[node.name] = (member["address"], ports)
        yield found
    finally:
        for name, pid in pids.items():
            cluster.node(name).plain("kill " + pid)


def met(node, run, targets):
    """What a host meets at ``[(name, address, port)]``: ``{(name, address, port): text}``."""
    words = ["{}/{}".format(address, port) for _, address, port in targets]
    asked = run(scripts.python(scripts.CONNECT, TIMEOUT, *words))
    assert asked.rc == 0, "{}: {}".format(node.name, asked.stderr)
    lines = [line.split(" ", 1)[1] for line in asked.stdout.splitlines() if line.split(" ")[0] in words]
    return dict(zip(targets, lines, strict=True))


def targets(listeners, apart_from):
    """All listeners but those of one host."""
    return [(name, address, port) for name, (address, ports) in listeners.items() if name != apart_from for port in ports]


@pytest.mark.units("ufw", "firewalld")
def test_members_reach_each_other(node, listeners):
    shut = [
        "{} cannot reach {} at {} port {}: {}".format(node.name, *target, text)
        for target, text in met(node, node.plain, targets(listeners, node.name)).items()
        if text != "ok"
    ]
    assert not shut, "; ".join(shut)


def test_a_stranger_reaches_no_member(cluster, listeners, request):
    """Not even the rendezvous port: whoever gets there runs code as the jobs' user."""
    name = request.config.getoption("outside", None)
    if not name:
        pytest.skip("name a host that is no member by --outside")
    assert cluster.member(name) is None, "{} is a member, expected a host that is none; name another by --outside".format(name)
    stranger = cluster.node(name)
    reached = [
        "{} reaches {} at {} port {}".format(name, *target)
        for target, text in met(stranger, stranger.root, targets(listeners, name)).items()
        if text == "ok"
    ]
    assert not reached, "; ".join(reached)


@pytest.mark.units("ufw", "firewalld")
def test_a_firewall_is_there_after_a_reboot(managed):
    if not managed.firewall:
        pytest.skip("firewall_enabled is false")
    # The service of ufw is active and enabled where ufw itself is off; its status tells, and holds for the next boot too.
    asked = managed.root(
        "systemctl is-enabled ufw.service >/dev/null 2>&1 && ufw status | grep -x 'Status: active'; "
        "systemctl is-enabled firewalld.service >/dev/null 2>&1 && firewall-cmd --state 2>/dev/null; true"
    )
    found = asked.stdout.splitlines()
    told = "{}: {}, expected one of ufw and firewalld to be active, now and at boot".format(managed.name, found or "neither")
    assert found in (["Status: active"], ["running"]), told
