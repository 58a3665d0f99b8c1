"""One request to a node: a raw command with everything on its stdin, so that nothing is copied and no module runs."""

import json
import os
import re
import shlex

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import cli

from . import unreachable

MODULE_UTILS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "module_utils")
AGENT = os.path.join(MODULE_UTILS, "muster_agent")

# Reads one JSON line, sources and, for a start, a tar; imports the package from memory and does the request. The packages stand
# side by side below one name, as they do in module_utils; the files of others than the one asked have their package's name.
BOOT = """\
import json,sys,importlib.abc,importlib.util
i=sys.stdin.buffer
h=json.loads(i.readline())
s=json.loads(i.read(h["agent_bytes"]))
p="shipped."+h["package"]
def k(n):
 _,a,f=(n.split(".")+["",""])[:3]
 return (a+"/" if a!=h["package"] else "")+(f or "__init__")+".py"
class F(importlib.abc.MetaPathFinder,importlib.abc.Loader):
 def find_spec(self,n,q=None,t=None):
  if n=="shipped" or n.startswith("shipped.") and k(n) in s:
   return importlib.util.spec_from_loader(n,self,is_package=n.count(".")<2)
 def exec_module(self,m):
  n=m.__name__
  if n!="shipped":exec(compile(s[k(n)],n[8:].replace(".","/")+".py","exec"),m.__dict__)
sys.meta_path.insert(0,F())
sys.dont_write_bytecode=True
r=h["request"]
if r["do"]=="start":r["sources"]=s
cli=importlib.import_module(p+".cli")
cli.answer(cli.call(r,i if h["code"] else None))
"""

# The first of several Pythons that is new enough; each has to prove it, since a name may be a shim that finds nothing.
FIRST_PYTHON = """\
for p in {}; do "$p" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' >/dev/null 2>&1 && exec "$p" -I -c {}; done; \
echo 'found no Python 3.8 or later' >&2; exit 127"""


class NodeError(Exception):
    """A node could not be asked; ``unreachable`` tells a lost connection from a node that cannot answer."""

    def __init__(self, text, unreachable=False):
        super().__init__(text)
        self.unreachable = unreachable


def agent_sources(folder=AGENT):
    """The agent's files: ``{name: text}``."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                found[name] = stream.read()
    return found


def boot_command(python):
    """The shell command that serves :func:`boot_stdin`; isolated from the login's Python settings."""
    return "{} -I -c {}".format(shlex.quote(python), shlex.quote(BOOT))


def first_boot_command(pythons):
    """:func:`boot_command` by the first of several interpreters that is there and new enough."""
    return FIRST_PYTHON.format(" ".join(map(shlex.quote, pythons)), shlex.quote(BOOT))


def boot_stdin(request, sources, code=b"", package="muster_agent"):
    """What goes to :func:`boot_command`: a JSON line, the sources, the tar.

    Args:
        request: what the ``call`` of the package's ``cli`` is given.
        sources: ``{file name: text}`` of the package; ``other/name.py`` for a file of another one that it imports.
        code: the tar.
        package: the package of ``module_utils`` that is asked.
    """
    packed = json.dumps(sources).encode()
    head = json.dumps({"request": request, "agent_bytes": len(packed), "code": bool(code), "package": package}).encode()
    return head + b"\n" + packed + code


def shipped_command(python, job_dir, request):
    """The shell command that asks the agent which lies beside a job; nothing has to be sent."""
    agent = os.path.join(job_dir, "agent", "muster_agent")
    return " ".join(shlex.quote(word) for word in (python, "-I", "-S", agent, "call", json.dumps(request)))


def parse_answer(stdout):
    """The JSON value between the marks, or None; whatever a login script printed around it is ignored."""
    match = re.search(re.escape(cli.BEGIN) + "(.*?)" + re.escape(cli.END), stdout, re.DOTALL)
    return json.loads(match.group(1)) if match else None


def explain(python, result):
    """Why a node gave no answer, in one sentence without the host's name."""
    # A banner on stdout says nothing where there is an error on stderr.
    text = (result.get("stderr") or "").strip() or (result.get("stdout") or "").strip()
    last = text.splitlines()[-1].strip() if text else "no output"
    if result.get("rc") in (126, 127) and ("not found" in text or "No such file" in text or "ermission" in text):
        return "found no usable Python at {} ({}), expected the job's environment; run ansible-playbook site.yml, or name " \
            "a Python that has torch by muster_python".format(python, last)  # fmt: skip
    return "{} gave no answer (exit code {}): {}; see whether it runs there".format(python, result.get("rc"), last[:300])


def ask(action, python, command, stdin=None):
    """Run a raw command by an action and return the agent's answer.

    Args:
        action: the running ActionBase.
        python: interpreter, for messages.
        command: shell command.
        stdin: bytes or None.

    Raises:
        NodeError: no connection, or no answer; the text has no host name.
    """
    try:
        result = action._low_level_execute_command(command, sudoable=True, in_data=stdin)
    except AnsibleConnectionFailure as error:
        raise NodeError("is unreachable: {}".format(unreachable.explain(str(error))), unreachable=True) from None
    answer = parse_answer(result.get("stdout") or "")
    if answer is None:
        if result.get("rc") == 255:
            told = unreachable.explain(result.get("stderr") or "the connection ended without a word")
            raise NodeError("is unreachable: {}".format(told), unreachable=True)
        raise NodeError(explain(python, result))
    return answer


def request(action, python, content, code=b""):
    """Send the agent along with a request; see :func:`ask`."""
    return ask(action, python, boot_command(python), boot_stdin(content, agent_sources(), code))
