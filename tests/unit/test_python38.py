"""What runs on nodes runs on Python 3.8: parsed as such always, imported by a real one where there is one."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
AGENT = REPO / "plugins" / "module_utils" / "muster_agent"
FILES = sorted(AGENT.glob("*.py"))
PACKAGES = ("python_env", "muster_tools", "muster_verify", "muster_survey", "muster_firewall", "entries")
ON_NODES = FILES + sorted(path for package in PACKAGES for path in AGENT.parent.glob(package + "/*.py"))


def python38():
    """A Python 3.8, or None."""
    roots = [os.environ.get("PYENV_ROOT"), os.path.expanduser("~/.pyenv")]
    found = [str(path) for root in roots if root for path in sorted(Path(root).glob("versions/3.8.*/bin/python3.8"))]
    return next(iter(found), None) or shutil.which("python3.8")


@pytest.mark.parametrize("path", ON_NODES, ids=lambda path: "{}/{}".format(path.parent.name, path.name))
def test_the_syntax_is_that_of_python38(path):
    ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 8))


def test_nothing_but_the_standard_library_is_imported():
    allowed = set(sys.stdlib_module_names)
    for path in ON_NODES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            # conda's worker is imported to be sent on; rattler is there where it runs.
            known = {"muster_agent"} | ({"rattler"} if path.name.startswith("conda_worker") else set())
            strange = {name.split(".")[0] for name in names} - allowed - known
            assert not strange, "{} imports {}".format(path.name, ", ".join(sorted(strange)))


# The essence of what the tables of the other tests hold, by Python 3.8 itself.
ESSENCE = """
import asyncio, importlib, io, json, os, sys, tarfile
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
files = sorted(os.listdir(sys.argv[1] + "/muster_agent"))
names = [name[:-3] for name in files if name.endswith(".py") and name[0] != "_"]
for name in names:
    importlib.import_module("muster_agent." + name)
from muster_agent import causes, checked, cli, commands, control, facts, files, head, jobdir, network, procs, shipping
from muster_agent.errors import Refusal

spec = json.loads(sys.argv[2])
assert commands.by_hand(spec, 2).startswith("torchrun --nnodes=2 --nproc-per-node=2 --node-rank=1 ")
run = {"attempt": 0, "nproc": 1, "share": 1, "job_dir": "/j", "run_dir": "/r"}
assert commands.environment({}, spec, run, 4, {})["OMP_NUM_THREADS"] == "4"
try:
    checked.job_name("a/b")
    raise SystemExit("a/b was taken")
except Refusal:
    pass
try:
    {}["x"]
except KeyError:
    import traceback
    assert causes.parse_log(traceback.format_exc())["type"] == "KeyError"
assert procs.stat(os.getpid())["ppid"] == os.getppid() and procs.sweep("MUSTER_RUN", "nobody-has-this") == []
assert facts.gather()["python"] == "3.8" and ("lo", "127.0.0.1") in network.addresses()

job = jobdir.JobDir(sys.argv[3], "exp7")
job.create()
lock = job.lock()
assert job.locked() and job.lock() is None
stream = io.BytesIO()
with tarfile.open(fileobj=stream, mode="w") as archive:
    member = tarfile.TarInfo("train.py")
    member.size = 1
    archive.addfile(member, io.BytesIO(b"x"))
stream.seek(0)
shipping.install(stream, job)
assert files.read_json(job.at("shipped.json")) == ["train.py"]
assert cli.call({"do": "info", "state_dir": sys.argv[3], "job": "other"}) == {"jobs": {"other": {"state": "absent"}}}


async def talk():
    got = asyncio.get_event_loop().create_future()

    async def accept(reader, writer):
        channel = control.Channel(reader, writer, b"k", "head")
        await channel.handshake()
        got.set_result(await channel.receive())
        channel.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    channel = await control.connect("127.0.0.1", server.sockets[0].getsockname()[1], b"k")
    channel.send("join", node_rank=1)
    assert await asyncio.wait_for(got, 5) == {"kind": "join", "node_rank": 1}
    channel.close()
    server.close()
    lead = head.Head(dict(spec, join_timeout=0.05), lambda what, **fields: None, lambda attempt: None)
    return await asyncio.wait_for(lead.run(), 5)


assert asyncio.run(talk())["sentence"].startswith("job exp7 failed: n0, n1 did not answer the roll call within 0.05 s")
print(json.dumps(names))
"""


@pytest.mark.skipif(python38() is None, reason="there is no python3.8 on this machine")
def test_python38_runs_the_agent(make_spec, tmp_path):
    done = subprocess.run(
        [python38(), "-I", "-c", ESSENCE, str(AGENT.parent), json.dumps(make_spec()), str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout) == [path.stem for path in FILES if not path.name.startswith("_")]


# A look and a prediction where there is nothing yet, and all that an installation imports.
FIRST_ENVIRONMENT = """
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from module_utils.python_env import locks, pylock, solving
from module_utils.python_env.environment import Environment

params = dict(prefix=sys.argv[2] + "/e", cache_dir="", uv="/does/not/exist", tools="", python="", packages=True, lock=None)
params.update(asked="", lines=["torch"], lock_timeout=1, keep=2)
assert Environment(params, {}).act("look", True)["state"] == "none"
assert Environment(params, {}).act("present", True)["added"] == ["torch"]
wheel = pylock.parse('[[packages]]\\nname = "six"\\nversion = "1"\\nwheels = [{ path = "six-1-py3-none-any.whl" }]\\n', "/w")[0]
assert pylock.wheel_entry(wheel)["url"] == "file:///w/six-1-py3-none-any.whl"
"""


@pytest.mark.skipif(python38() is None, reason="there is no python3.8 on this machine")
def test_python38_runs_python_env(tmp_path):
    done = subprocess.run(
        [python38(), "-I", "-c", FIRST_ENVIRONMENT, str(AGENT.parents[1]), str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
