"""Parsers of what the kernel and ip tell, and ports of this machine."""

import os
import socket

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import network

IP_ADDR = """\
1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
1: lo    inet6 ::1/128 scope host \\       valid_lft forever preferred_lft forever
2: eth0    inet 10.0.0.2/24 brd 10.0.0.255 scope global dynamic eth0\\       valid_lft 3000sec preferred_lft 3000sec
2: eth0    inet 10.0.0.3/24 brd 10.0.0.255 scope global secondary eth0:1\\       valid_lft forever
2: eth0    inet6 fe80::1/64 scope link \\       valid_lft forever preferred_lft forever
5: eth1@if7    inet 192.168.7.2/16 scope global eth1\\       valid_lft forever preferred_lft forever
6: tun0    inet 10.8.0.1 peer 10.8.0.2/32 scope global tun0\\       valid_lft forever preferred_lft forever
7: ib0    link/infiniband 80:00 brd 00:ff

garbage
"""
PAIRS = [
    ("lo", "127.0.0.1"),
    ("lo", "::1"),
    ("eth0", "10.0.0.2"),
    ("eth0", "10.0.0.3"),
    ("eth0", "fe80::1"),
    ("eth1", "192.168.7.2"),
    ("tun0", "10.8.0.1"),
]


def test_the_output_of_ip():
    assert network.parse_ip_addr(IP_ADDR) == PAIRS
    assert network.parse_ip_addr("") == []


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.2", "eth0"), ("10.0.0.3", "eth0"), ("192.168.7.2", "eth1"), ("10.8.0.1", "tun0"), ("fe80::1", "eth0"),
        ("127.0.0.1", "lo"), ("127.0.0.9", "lo"), ("127.99.0.1", "lo"), ("::1", "lo"), ("10.0.0.9", None),
    ],
)  # fmt: skip
def test_the_interface_of_an_address(address, expected):
    assert network.interface_of(address, PAIRS) == expected


@pytest.mark.parametrize(
    ("cidr", "expected"),
    [
        ("10.0.0.0/24", "eth0"), ("192.168.0.0/16", "eth1"), ("10.8.0.0/16", "tun0"), ("fe80::/10", "eth0"),
        ("192.168.7.9/16", "eth1"), ("172.16.0.0/12", None), ("10.0.0.2", "eth0"), ("0.0.0.0/0", "lo"),
    ],
)  # fmt: skip
def test_the_interface_in_a_network(cidr, expected):
    assert network.interface_in(cidr, PAIRS) == expected


def test_no_pairs_no_interface():
    assert network.interface_of("10.0.0.2", []) is None and network.interface_in("10.0.0.0/8", []) is None


PROC_NET_TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000 100 0 0 10 0
   1: 0100007F:733C 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0000 20 4 30 10 -1
   2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 99 1 0000 100 0 0 10 0
   3: 0100007F:733
"""
PROC_NET_TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when
   0: 00000000000000000000000000000000:733C 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 \
 00000000 33        0 4713 1 0000000000000000 100 0 0 10 0
"""


@pytest.mark.parametrize(
    ("text", "port", "expected"),
    [
        (PROC_NET_TCP, 29500, [("4711", 1000)]),
        (PROC_NET_TCP, 22, [("99", 0)]),
        (PROC_NET_TCP, 40000, []),
        (PROC_NET_TCP6, 29500, [("4713", 33)]),
        ("", 22, []),
    ],
)
def test_who_listens_on_a_port(text, port, expected):
    assert network.parse_listeners(text, port) == expected


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1"])
def test_a_taken_port_is_not_free_and_its_holder_is_named(address):
    if ":" in address and not network.is_local(address):
        pytest.skip("this machine has no IPv6")
    sock = network.listen(address, 0)
    try:
        port = sock.getsockname()[1]
        assert not network.port_free(port)
        assert network.port_holder(port).startswith("pid {} (".format(os.getpid()))
    finally:
        sock.close()
    assert network.port_free(port)
    assert network.port_holder(port) == "a process that this user cannot see"


def test_a_port_in_time_wait_is_free():
    server = network.listen("127.0.0.1", 0)
    port = server.getsockname()[1]
    client = socket.create_connection(("127.0.0.1", port))
    accepted, _ = server.accept()
    server.close()
    accepted.close()  # the side that closes first keeps the port in TIME_WAIT
    client.close()
    assert network.port_free(port)


def test_no_child_inherits_a_listener():
    sock = network.listen("127.0.0.1", 0)
    assert not os.get_inheritable(sock.fileno())
    sock.close()


def test_listening_twice_fails():
    sock = network.listen("127.0.0.1", 0)
    try:
        with pytest.raises(OSError):
            network.listen("127.0.0.1", sock.getsockname()[1])
    finally:
        sock.close()


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1", True), ("127.0.0.77", True), ("192.0.2.1", False), ("not an address", False)],
)
def test_local_addresses(address, expected):
    assert network.is_local(address) is expected


def test_this_machine_has_its_loopback():
    assert ("lo", "127.0.0.1") in network.addresses()


def test_addresses_without_ip(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert ("lo", "127.0.0.1") in network.addresses()


def test_two_ways_to_write_one_address():
    assert network.interface_of("fd00:0:0::1", [("eth0", "fd00::1")]) == "eth0"
