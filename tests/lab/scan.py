"""Which TCP ports of a host answer another one: a connect to every port, as a stranger would try."""

import json

# Run on the host that asks. A port that is shut out by dropping says nothing, so as many as possible are asked at once.
SCRIPT = """
import errno, json, resource, select, socket, sys, time
address, first, last, parallel, patience = sys.argv[1], *map(int, sys.argv[2:5]), float(sys.argv[5])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
parallel = min(parallel, hard - 64) if hard > 0 else parallel
family = socket.AF_INET6 if ":" in address else socket.AF_INET
found = {"open": [], "refused": []}
for start in range(first, last + 1, parallel):
    poll, waiting = select.epoll(), {}

    def look(until):
        while waiting and time.monotonic() < until:
            for number, _ in poll.poll(max(0.0, until - time.monotonic()), 4096):
                sock, port = waiting.pop(number)
                poll.unregister(number)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                sock.close()
                if code in (0, errno.ECONNREFUSED):
                    found["refused" if code else "open"].append(port)

    for port in range(start, min(start + parallel, last + 1)):
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        code = sock.connect_ex((address, port))
        if code == errno.EINPROGRESS:
            waiting[sock.fileno()] = (sock, port)
            poll.register(sock.fileno(), select.EPOLLOUT | select.EPOLLERR | select.EPOLLHUP)
        else:
            sock.close()
            if code in (0, errno.ECONNREFUSED):
                found["refused" if code else "open"].append(port)
    look(time.monotonic() + patience)
    for sock, _ in waiting.values():
        sock.close()
    poll.close()
print(json.dumps(found))
"""


def scan(asker, address, first=1, last=65535, parallel=16384, patience=0.9, timeout=60):
    """Try to connect from one host to every port of another.

    Args:
        asker: the Host that asks.
        address: whom it asks.
        first, last: the ports, both included.
        parallel: how many are asked at once.
        patience: seconds to wait for an answer after the last question; from one second on the kernel asks again.
        timeout: seconds for all of it.

    Returns:
        ``{"open": ports that took the connection, "refused": ports that are let through and on which nobody listens}``,
        as sets; all others are shut out.
    """
    words = ["python3", "-c", SCRIPT, address, first, last, parallel, patience]
    answer = json.loads(asker.run(words, timeout=timeout).stdout)
    return {kind: set(ports) for kind, ports in answer.items()}


def connects(asker, address, port, patience=3.0):
    """Whether one host can connect to one port of another."""
    return port in scan(asker, address, port, port, 1, patience)["open"]
