"""Launches with a stub in place of torch: one that imports at once, an old one, a broken one; on every Python there is."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPO

STUB = Path(__file__).parent / "stub_torch"
SCRIPT = """
import os, sys, time
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "on Python %d.%d" % sys.version_info[:2])
if sys.argv[1:] == [os.environ["RANK"]]:
    raise ValueError("at once")
time.sleep(0 if len(sys.argv) == 1 else 60)
"""


def pythons():
    """This Python, and the oldest that nodes may have where it is installed."""
    old = [shutil.which("python3.8"), *map(str, Path.home().glob(".pyenv/versions/3.8.*/bin/python"))]
    check = [path for path in old if path and subprocess.run([path, "-c", ""], stderr=subprocess.DEVNULL).returncode == 0]
    return [sys.executable] + check[:1]


@pytest.fixture(params=pythons(), ids=["this", "oldest"][: len(pythons())])
def stub(request, cluster):
    """A prefix whose torch is the stub; returns `(python, folder of its torch)`."""
    prefix = cluster.folder / "prefix"
    subprocess.run([request.param, "-m", "venv", "--without-pip", str(prefix)], check=True)
    site = next(prefix.glob("lib/python3*/site-packages"))
    shutil.copytree(STUB / "torch", site / "torch")
    (cluster.stand / "stub.py").write_text(SCRIPT)
    return str(prefix / "bin" / "python"), site / "torch"


def test_a_torch_that_is_ready_before_the_roll_call(cluster, stub):
    """Also: options that this torch does not know are left out, or its parser would refuse them."""
    done = cluster.play(script="stub.py", job="s", muster_python=stub[0], nproc_per_node=2, follow="all")
    assert done.rc == 0, done.stdout
    assert re.search(r"node1:3 \| rank 3 of 4 on Python 3\.\d+", done.stdout)
    cluster.assert_nothing_left()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_fails_at_once(cluster, stub, rank):
    done = cluster.play(script="stub.py", script_args=[str(rank)], job="s", muster_python=stub[0])
    assert done.rc != 0
    assert done.messages() == ["job s failed: rank {0} on node{0}, stub.py:5: ValueError: at once".format(rank)]
    cluster.assert_nothing_left()


def test_a_torch_that_cannot_be_imported(cluster, stub):
    """On one node alone: its library is missing, say."""
    with open(stub[1] / "__init__.py", "a", encoding="utf-8") as stream:
        stream.write(
            "import os\nif os.environ.get('MUSTER_HOST') == 'node1':\n    raise ImportError('libcudart.so.12: cannot open')\n"
        )
    done = cluster.play(script="stub.py", job="s", muster_python=stub[0])
    assert done.rc != 0
    assert done.messages() == ["job s failed: torch cannot be imported on node1: ImportError: libcudart.so.12: cannot open"]
    cluster.assert_nothing_left()


def test_nodes_with_different_torch_do_not_start(cluster, stub):
    """The roll call names both versions and hosts; the job never runs."""
    other = cluster.folder / "other"
    shutil.copytree(Path(stub[0]).parents[1], other, symlinks=True)
    version = next(other.glob("lib/python3*/site-packages/torch/version.py"))
    version.write_text(version.read_text().replace("2.0.0", "2.1.0"))
    python = "{{{{ '{}/bin/python' if inventory_hostname == 'node1' else '{}' }}}}".format(other, stub[0])
    done = cluster.play(script="stub.py", job="s", muster_python=python)
    assert done.rc != 0
    expected = "job s failed: torch differs: 2.0.0 on node0; 2.1.0 on node1; expected the same on every node; run site.yml"
    assert len(done.messages()) == 1 and done.messages()[0].startswith(expected)
    assert not cluster.log("s", 0) and not cluster.log("s", 1)
    cluster.assert_nothing_left()


def test_nodes_with_different_packages_do_not_start(cluster, stub):
    """The roll call names node and package; one has another version, one has other files under the same version."""
    other = cluster.folder / "other"
    shutil.copytree(Path(stub[0]).parents[1], other, symlinks=True)
    for site, record in ((stub[1].parent, "x.py,sha256=aa,1\n"), (other / stub[1].parent.relative_to(Path(stub[0]).parents[1]),
                         "x.py,sha256=bb,1\n")):  # fmt: skip
        (site / "same-1.0.dist-info").mkdir()
        (site / "same-1.0.dist-info" / "RECORD").write_text(record)
    (site / "more-2.0.dist-info").mkdir()
    python = "{{{{ '{}/bin/python' if inventory_hostname == 'node1' else '{}' }}}}".format(other, stub[0])
    done = cluster.play(script="stub.py", job="s", muster_python=python)
    assert done.rc != 0
    assert done.messages() == [
        "job s failed: the environment of node1 differs from that of node0: more 2.0 should not be there, same 1.0 has other "
        "files; expected the same on every node; run site.yml"
    ]
    cluster.assert_nothing_left()


def test_a_daemon_without_environment_does_not_outlive_its_job(cluster, stub):
    """It forks twice, opens a session of its own and clears its environment; the job ends well."""
    pid_file = cluster.folder / "daemon"
    daemon = "import os, time; open({!r}, 'w').write(str(os.getpid())); time.sleep(60)".format(str(pid_file))
    (cluster.stand / "daemon.py").write_text(
        "import os, subprocess, sys, time\n"
        "if os.environ['RANK'] == '0':\n"
        "    subprocess.Popen([sys.executable, '-c', {!r}], env={{}}, start_new_session=True)\n"
        "    while not (os.path.exists({!r}) and os.path.getsize({!r})): time.sleep(0.05)\n".format(
            daemon, str(pid_file), str(pid_file)
        )
    )
    done = cluster.play(script="daemon.py", job="s", muster_python=stub[0])
    assert done.rc == 0, done.stdout
    pid = int(pid_file.read_text())
    assert not Path("/proc/{}".format(pid)).exists() or "Z" in Path("/proc/{}/stat".format(pid)).read_text()
    cluster.assert_nothing_left()


@pytest.mark.parametrize("folder", ["x/{{ inventory_hostname }}", "~/x/{{ inventory_hostname }}"])
def test_a_state_folder_that_is_not_absolute(cluster, stub, folder):
    cluster.variables["muster_state_dir"] = folder
    done = cluster.play(script="stub.py", job="s", muster_python=stub[0])
    assert done.rc != 0 and "launch refused: node0: muster_state_dir is" in done.messages()[0]


def test_plans_of_killed_controllers_are_forgotten(cluster, stub):
    """Killed between plan and start, a controller leaves key and environment; the next launch removes them."""
    left = REPO / ".ansible" / "tmp" / "ansible-local-test" / "muster-4194305-x"  # no process can have that id
    left.mkdir(parents=True, exist_ok=True)
    assert cluster.play(script="stub.py", job="s", muster_python=stub[0]).rc == 0
    assert not left.exists()
    left.parent.rmdir()
