"""The lab's command line; the last line that ``up`` writes on stdout is the path of an inventory."""

import argparse
import os
import signal
import subprocess
import sys

from . import lab
from .common import LabError, missing, say
from .host import KINDS


def arguments():
    """The parser."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description="Real systemd hosts on this machine.")
    verbs = parser.add_subparsers(dest="verb", required=True)

    def verb(name, text):
        made = verbs.add_parser(name, help=text, description=text)
        if name not in ("clean", "list"):
            made.add_argument("--name", default="lab", help="name of the lab (default: lab)")
        return made

    up = verb("up", "boot the hosts, the same lab anew if it is there; the last line is the path of the inventory")
    text = "some of " + " ".join(KINDS)
    up.add_argument("--hosts", nargs="*", default=list(KINDS), choices=list(KINDS), metavar="HOST", help=text)
    up.add_argument("--workers", type=int, default=0, metavar="COUNT", help="as many more hosts w1, w2 ...")
    down = verb("down", "remove every trace of a lab")
    down.add_argument("--all", action="store_true", help="of every lab")
    verb("clean", "remove every lab and the cached images")
    verb("list", "the labs and their hosts")
    for name, text in (
        ("run", "run a command on a host as root, past SSH and firewalls"),
        ("ssh", "log in on a host as ml, or run a command"),
    ):
        made = verb(name, text)
        made.add_argument("host")
        made.add_argument("command", nargs=argparse.REMAINDER, help="after --")
    for name, text in (
        ("reboot", "reboot a host and wait for it"),
        ("power-off", "take a host's power away"),
        ("power-on", "start a host and wait for it"),
        ("cut", "pull a host's network cable"),
        ("mend", "plug it in again"),
        ("journal", "a host's journal"),
    ):
        verb(name, text).add_argument("host")
    return parser


def _down(names):
    busy = False
    for name in names:
        try:
            lab.Lab(name).down()
            say("{} is gone".format(name))
        except LabError as error:
            say(str(error))
            busy = True
    return 1 if busy else 0


def _on_host(args):
    host = lab.Lab(args.name).host(args.host)
    if args.verb in ("run", "ssh"):
        command = args.command[1:] if args.command[:1] == ["--"] else args.command
        if args.verb == "ssh":
            return subprocess.run(host.ssh_argv(command)).returncode
        first = host.pid()
        if first is None:
            raise LabError("{} does not run".format(host.name))
        return subprocess.run(host.entry(first) + (command or ["bash"])).returncode
    if args.verb == "journal":
        print(host.journal(), end="")
    else:
        getattr(host, args.verb.replace("-", "_"))()
        if args.verb in ("reboot", "power-on"):
            say("{} answers after {:.1f} s".format(host.name, host.wait_ssh()))
    return 0


def _interrupt(number, frame):
    raise KeyboardInterrupt


def main():
    """Run one verb; returns the exit code."""
    args = arguments().parse_args()
    # Ended by Ctrl-C or SIGTERM, `up` removes what it has made so far; in the background of a script Ctrl-C is ignored.
    signal.signal(signal.SIGTERM, _interrupt)
    os.umask(0o022)
    try:
        why = missing()
        if why:
            raise LabError(why)
        if args.verb == "up":
            print(lab.Lab(args.name).up(args.hosts, args.workers))
        elif args.verb == "down":
            return _down(lab.names() if args.all else [args.name])
        elif args.verb == "clean":
            code = _down(lab.names())
            return code or lab.clean() or 0
        elif args.verb == "list":
            for name in lab.names():
                hosts = lab.Lab(name).hosts.values()
                print(name, " ".join("{}={}:{}".format(host.name, host.address, host.port) for host in hosts))
        else:
            return _on_host(args)
    except LabError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
