"""One request to a node: a raw command with everything on its stdin, so that nothing is copied and no module runs."""

import difflib
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


# Before a command that needs one of Muster's environments: where it is not there, the mark, then the Pythons of those that are.
NO_ENVIRONMENT = "muster: no such environment"
CHECK_ENVIRONMENT = """\
if ! command -v {python} >/dev/null 2>&1; then echo {mark} >&2; \
for p in {envs}/*/bin/python; do if [ -x "$p" ]; then echo "$p" >&2; fi; done; exit 127; fi; """

# Before a command that any Python will do for, since the job's own may be gone: the job's is preferred.
ANY_PYTHON = 'p={}; command -v "$p" >/dev/null 2>&1 || p=python3; exec "$p" '


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


def boot_command(python, any_python=False):
    """The shell command that serves :func:`boot_stdin`; isolated from the login's Python settings.

    Args:
        python: the interpreter.
        any_python: whether ``python3`` will do where that one is not there.
    """
    begin = ANY_PYTHON.format(shlex.quote(python)) if any_python else shlex.quote(python) + " "
    return "{}-I -c {}".format(begin, shlex.quote(BOOT))


def environment_of(python, state_dir):
    """The name of the environment of ``state_dir`` to which a Python's path belongs, or None."""
    folder, name = os.path.split(os.path.dirname(os.path.dirname(python)))
    return name if python == os.path.join(state_dir, "envs", name, "bin", "python") and folder else None


def check_environment(state_dir, python):
    """Shell text before :func:`boot_command` of a Python in an environment of ``state_dir``; see :func:`no_environment`."""
    envs = os.path.join(state_dir, "envs")
    return CHECK_ENVIRONMENT.format(python=shlex.quote(python), envs=shlex.quote(envs), mark=shlex.quote(NO_ENVIRONMENT))


def no_environment(name, state_dir, result):
    """What a node said that has no environment of this name, in one sentence without the host's name; None if it did not.

    Args:
        name: the environment.
        state_dir: folder of Muster's state there.
        result: of a raw command that began with :func:`check_environment`.
    """
    lines = [line.strip() for part in ("stderr", "stdout") for line in (result.get(part) or "").splitlines()]
    if NO_ENVIRONMENT not in lines:
        return None
    envs = os.path.join(state_dir, "envs")
    start, end = envs + "/", "/bin/python"
    found = [line[len(start) : -len(end)] for line in lines if line.startswith(start) and line.endswith(end)]
    near = difflib.get_close_matches(name, found, 1, 0.5)
    return (
        "found {} below {}, expected the environment {}{}; make it by ansible-playbook site.yml -e python_env_name={} -e "
        "python_env_spec=FILE, or name another by python_env".format(
            "the environments " + ", ".join(found) if len(found) > 1 else found[0] + " alone" if found else "no environments",
            envs, name, " (did you mean {}?)".format(near[0]) if near else "", name,
        )
    )  # fmt: skip


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
    """The shell command that asks the agent which lies beside a job; nothing has to be sent. Any Python will do."""
    agent = os.path.join(job_dir, "agent", "muster_agent")
    words = ("-I", "-S", agent, "call", json.dumps(request))
    return ANY_PYTHON.format(shlex.quote(python)) + " ".join(map(shlex.quote, words))


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


def ask(action, python, command, stdin=None, why=None):
    """Run a raw command by an action and return the agent's answer.

    Args:
        action: the running ActionBase.
        python: interpreter, for messages.
        command: shell command.
        stdin: bytes or None.
        why: callable(result of the command) that may know why there is no answer: a sentence without the host's name, or None.

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
        raise NodeError((why(result) if why else None) or explain(python, result))
    return answer


def request(action, python, content):
    """Send the agent along with a request about a job, for which any Python will do; see :func:`ask`."""
    return ask(action, python, boot_command(python, any_python=True), boot_stdin(content, agent_sources()))


def start(action, python, content, code):
    """Send the agent along with a request to start a job; see :func:`ask`.

    Args:
        action, python: see :func:`ask`.
        content: the request.
        code: the tar of the shipped files.
    """
    command, why = boot_command(python), None
    state_dir = content["spec"]["state_dir"]
    environment = environment_of(python, state_dir)
    if environment:
        command = check_environment(state_dir, python) + command

        def why(result):
            return no_environment(environment, state_dir, result)

    return ask(action, python, command, boot_stdin(content, agent_sources(), code), why)
