"""The signed line protocol over real loopback connections."""

import asyncio
import json

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import control

KEY, OTHER = b"k" * 32, b"o" * 32


def play(head, node, key=KEY, node_key=None):
    """Run both sides over loopback, both within 5 s; ``head`` and ``node`` are coroutine functions of a channel.

    Returns:
        what each returned or the :class:`Broken` that it raised, as ``(head's, node's)``.
    """

    async def run():
        heads = asyncio.get_event_loop().create_future()

        async def accept(reader, writer):
            channel = control.Channel(reader, writer, key, "head")
            try:
                await channel.handshake()
                heads.set_result(await head(channel))
            except control.Broken as error:
                heads.set_result(error)
            finally:
                channel.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=control.LIMIT)
        port = server.sockets[0].getsockname()[1]
        channel = await control.connect("127.0.0.1", port, node_key or key)
        try:
            nodes = await node(channel)
        except control.Broken as error:
            nodes = error
        finally:
            channel.close()
        found = await asyncio.wait_for(heads, 5)
        server.close()
        return found, nodes

    return asyncio.run(asyncio.wait_for(run(), 5))


async def silence(channel):
    """Say nothing; the end of the other side is the end of this one."""
    try:
        return await channel.receive()
    except control.Broken as error:
        return error


def test_both_sides_understand_each_other():
    async def head(channel):
        got = [await channel.receive(), await channel.receive()]
        channel.send("begin", attempt=0, text="grüße\n\0")
        await channel.drain()
        return got

    async def node(channel):
        channel.send("join", node_rank=1)
        channel.send("beat")
        return await channel.receive()

    heads, nodes = play(head, node)
    assert heads == [{"kind": "join", "node_rank": 1}, {"kind": "beat"}]
    assert nodes == {"kind": "begin", "attempt": 0, "text": "grüße\n\0"}


def test_another_jobs_key_is_refused_on_both_sides():
    async def node(channel):
        channel.send("join", node_rank=1)
        return await silence(channel)

    heads, nodes = play(lambda channel: channel.receive(), node, node_key=OTHER)
    assert isinstance(heads, control.Broken) and "another job's key" in str(heads)

    async def head(channel):
        channel.send("begin")
        return await silence(channel)

    heads, nodes = play(head, lambda channel: channel.receive(), node_key=OTHER)
    assert isinstance(nodes, control.Broken) and "another job's key" in str(nodes)


def signed(channel, counter, role="node", key=KEY, body=b'{"kind": "stop"}'):
    """One line as the protocol signs it."""
    return control.signature(key, role, channel._challenges, counter, body).encode() + b" " + body + b"\n"


@pytest.mark.parametrize(
    ("line", "accepted"),
    [
        (lambda channel: signed(channel, 0), True),
        (lambda channel: signed(channel, 0).replace(b"stop", b"beat"), False),
        (lambda channel: signed(channel, 0, key=OTHER), False),
        (lambda channel: signed(channel, 1), False),
        (lambda channel: signed(channel, 0, role="head"), False),
        (lambda channel: b'{"kind": "stop"}\n', False),
        (lambda channel: b"\n", False),
        (lambda channel: b" \n", False),
        (lambda channel: b"\xff\xfe\n", False),
        (lambda channel: b"GET / HTTP/1.1\r\n", False),
    ],
    ids=[
        "signed",
        "tampered",
        "other key",
        "other counter",
        "reflected",
        "unsigned",
        "empty",
        "space",
        "bytes",
        "http",
    ],
)
def test_only_a_signed_line_is_taken(line, accepted):
    async def node(channel):
        channel._writer.write(line(channel))
        return await silence(channel)

    heads, _ = play(lambda channel: channel.receive(), node)
    assert heads == {"kind": "stop"} if accepted else "wrong signature" in str(heads)


def test_a_replayed_line_is_refused():
    async def head(channel):
        return [await channel.receive(), await silence(channel)]

    async def node(channel):
        channel._writer.write(signed(channel, 0) * 2)
        return await silence(channel)

    (first, second), _ = play(head, node)
    assert first == {"kind": "stop"} and "wrong signature" in str(second)


def test_a_line_of_another_connection_is_refused():
    lines = []

    async def record(channel):
        lines.append(signed(channel, 0))
        channel._writer.write(lines[0])
        return await silence(channel)

    async def repeat(channel):
        channel._writer.write(lines[0])
        return await silence(channel)

    assert play(lambda channel: channel.receive(), record)[0] == {"kind": "stop"}
    assert "wrong signature" in str(play(lambda channel: channel.receive(), repeat)[0])


def test_an_endless_line_is_broken_off():
    async def node(channel):
        channel._writer.write(b"x" * (control.LIMIT + 200000))
        return await silence(channel)

    heads, _ = play(lambda channel: channel.receive(), node)
    assert isinstance(heads, control.Broken)


def test_a_long_line_within_the_limit_is_taken():
    text = "x" * (control.LIMIT - 1000)

    async def node(channel):
        channel.send("hello", text=text)
        return await silence(channel)

    heads, _ = play(lambda channel: channel.receive(), node)
    assert heads == {"kind": "hello", "text": text}


def test_the_end_of_the_peer_is_told():
    async def at_once(channel):
        return None

    heads, _ = play(lambda channel: channel.receive(), at_once)
    assert isinstance(heads, control.Broken) and str(heads) == "the connection was closed"


def stranger(answer):
    """What :func:`control.connect` says to a server that answers with these bytes and closes."""

    async def run():
        async def accept(reader, writer):
            writer.write(answer)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        try:
            await control.connect("127.0.0.1", server.sockets[0].getsockname()[1], KEY)
        finally:
            server.close()

    return asyncio.run(asyncio.wait_for(run(), 5))


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH_9.6\r\n", b"\xff\xfe\n", b"220 mail\n", b"x" * 500, b""])
def test_a_stranger_at_the_port_is_broken_off(answer):
    with pytest.raises(control.Broken):
        stranger(answer)


def test_a_silent_stranger_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(control, "HANDSHAKE_SECONDS", 0.1)

    async def run():
        async def accept(reader, writer):
            await reader.read()
            writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        try:
            await control.connect("127.0.0.1", server.sockets[0].getsockname()[1], KEY)
        finally:
            server.close()

    with pytest.raises(control.Broken, match="no handshake"):
        asyncio.run(asyncio.wait_for(run(), 5))


def test_a_closed_port_is_an_oserror():
    with pytest.raises(OSError):
        asyncio.run(asyncio.wait_for(control.connect("127.0.0.1", 1, KEY), 5))


def test_the_signature_binds_all_its_parts():
    base = control.signature(KEY, "node", "c" * 64, 0, b"{}")
    others = [
        control.signature(OTHER, "node", "c" * 64, 0, b"{}"),
        control.signature(KEY, "head", "c" * 64, 0, b"{}"),
        control.signature(KEY, "node", "d" * 64, 0, b"{}"),
        control.signature(KEY, "node", "c" * 64, 1, b"{}"),
        control.signature(KEY, "node", "c" * 64, 0, b"{ }"),
    ]
    assert len({base, *others}) == 6 and len(base) == 64


def test_lines_on_the_wire_are_json(make_spec):
    async def head(channel):
        line = await channel._reader.readline()
        return json.loads(line.partition(b" ")[2].decode())

    async def node(channel):
        channel.send("join", spec=make_spec())
        return await silence(channel)

    assert play(head, node)[0] == {"kind": "join", "spec": make_spec()}
