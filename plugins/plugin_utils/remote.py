"""One request to a node: a raw command with everything on its stdin, so that nothing is copied and no module runs."""

import json
import os
import re
import shlex

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import cli

from . import unreachable

AGENT = os.path.join(os.path.dirname(os.path.dirname(__file__)), "module_utils", "muster_agent")

# Reads one JSON line, the agent's sources and, for a start, a tar; imports the agent from memory and does the request.
BOOT = """\
import json,sys,importlib.abc,importlib.util
i=sys.stdin.buffer
h=json.loads(i.readline())
s=json.loads(i.read(h["agent_bytes"]))
class F(importlib.abc.MetaPathFinder,importlib.abc.Loader):
 def find_spec(self,n,p=None,t=None):
  f=n.replace("muster_agent.","") if "." in n else "__init__"
  if n.split(".")[0]=="muster_agent" and f+".py" in s:
   return importlib.util.spec_from_loader(n,self,is_package=f=="__init__")
 def exec_module(self,m):
  f=m.__name__.replace("muster_agent.","") if "." in m.__name__ else "__init__"
  exec(compile(s[f+".py"],"muster_agent/"+f+".py","exec"),m.__dict__)
sys.meta_path.insert(0,F())
sys.dont_write_bytecode=True
from muster_agent import cli
r=h["request"]
if r["do"]=="start":r["sources"]=s
cli.answer(cli.call(r,i if h["code"] else None))
"""


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


def boot_stdin(request, sources, code=b""):
    """What goes to :func:`boot_command`: a JSON line, the sources, the tar."""
    packed = json.dumps(sources).encode()
    head = json.dumps({"request": request, "agent_bytes": len(packed), "code": bool(code)}).encode()
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
