"""Small programs for the hosts, standard library only; each is given to ``python3 -I -c``."""

import base64
import shlex
import zlib

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


# argv: a prefix. Prints the first paths in it, and of the folders above it that lead there, which others than the owner of its
# Python, or root, have or may write: "mode owner path".
WRITABLE = """
import os, stat, sys
prefix = os.path.realpath(sys.argv[1])
own = {0, os.stat(prefix).st_uid}
found = []
def look(path):
    status = os.lstat(path)
    mode = stat.S_IMODE(status.st_mode)
    open_to_others = not stat.S_ISLNK(status.st_mode) and mode & 0o022 and not mode & stat.S_ISVTX
    if status.st_uid not in own or open_to_others:
        found.append("%o %d %s" % (mode, status.st_uid, path))
above = prefix
while above != "/":
    above = os.path.dirname(above)
    look(above)
look(prefix)
for folder, folders, files in os.walk(prefix):
    for name in folders + files:
        look(os.path.join(folder, name))
    if len(found) > 20:
        break
for line in found[:20]:
    print(line)
"""


def python(script, *arguments, interpreter="python3"):
    """A command for a shell."""
    words = " ".join(shlex.quote(str(word)) for word in arguments)
    return "{} -I -c {} {}".format(shlex.quote(interpreter), shlex.quote(script), words)


def packed(script):
    """A long program as a short one, without quotes that a shell in a shell would multiply."""
    text = base64.b64encode(zlib.compress(script.encode(), 9)).decode()
    return "import base64,zlib;exec(zlib.decompress(base64.b64decode({!r})).decode())".format(text)
