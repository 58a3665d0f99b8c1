"""Small programs for the hosts, standard library only; each is given to ``python3 -I -c``."""

import shlex

# argv: address, first and last rendezvous port, seconds. Prints a free port of those, an ephemeral one and its own id, and
# answers each connection with MUSTER until it is ended or the seconds have passed.
LISTEN = """
import os, signal, socket, sys, threading
address, first, last, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
def listen(port):
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, port))
    sock.listen(64)
    return sock
for port in range(first, last + 1):
    try:
        one = listen(port)
        break
    except OSError:
        continue
two = listen(0)
reading, writing = os.pipe()
if os.fork():
    os.close(writing)
    print(one.getsockname()[1], two.getsockname()[1], os.read(reading, 20).decode())
    sys.exit(0)
os.setsid()
signal.alarm(seconds)
null = os.open(os.devnull, os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(null, number)
def serve(sock):
    while True:
        other = sock.accept()[0]
        other.sendall(b"MUSTER")
        other.close()
threading.Thread(target=serve, args=(one,), daemon=True).start()
os.write(writing, str(os.getpid()).encode())
os.close(writing)
serve(two)
"""

# argv: seconds, then address/port ... Prints one line for each: "address/port ok" or what was met.
CONNECT = """
import socket, sys, threading
met = {}
def visit(target):
    address, port = target.rsplit("/", 1)
    try:
        with socket.create_connection((address, int(port)), float(sys.argv[1])) as sock:
            met[target] = "ok" if sock.recv(6) == b"MUSTER" else "something else answers"
    except OSError as error:
        met[target] = error.strerror or str(error)
threads = [threading.Thread(target=visit, args=(target,)) for target in sys.argv[2:]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for target in sys.argv[2:]:
    print(target, met[target])
"""

# argv: a command, then user@host ... Logs in to all at once; prints {"user@host": [exit code, output]} as JSON.
LOGIN = """
import json, subprocess, sys, threading
options = ["BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=5", "ControlPath=none"]
words = [word for option in options for word in ("-o", option)]
found = {}
def login(target):
    user, name = target.split("@", 1)
    try:
        done = subprocess.run(["ssh", "-n", "-T"] + words + ["-l", user, "--", name, sys.argv[1]], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=15)
        found[target] = [done.returncode, done.stdout.decode("utf-8", "replace")]
    except subprocess.TimeoutExpired:
        found[target] = [255, "no answer within 15 s"]
threads = [threading.Thread(target=login, args=(target,)) for target in sys.argv[2:]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(found))
"""


def python(script, *arguments):
    """A command for a shell."""
    return "python3 -I -c {} {}".format(shlex.quote(script), " ".join(shlex.quote(str(word)) for word in arguments))
