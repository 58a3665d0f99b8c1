"""Launches that go well: what the ranks are given, what is shipped, what is shown, what is kept."""

import json
import re
import subprocess
import time

from conftest import REPO

ODD = ["--name", "two words", "quote ' and \"", "$HOME `id`", "line\nbreak", "ünïcödé ✓", "", "{{ 6*7 }}", "--", "-e"]


def report(cluster, job, rank):
    """What tests/integration/scripts/report.py wrote."""
    path = cluster.job_dir(cluster.hosts[rank], job) / "work" / "rank-{}.report.json".format(rank)
    return json.loads(path.read_text())


def test_arguments_environment_and_record(cluster):
    """Arguments arrive untouched, the environment is the job's own, and no secret is kept."""
    env = {"TOKEN": "hunter2 & more", "TEMPLATE": "{{ 6*7 }}", "PET_NNODES": "9"}
    done = cluster.play(script="report.py", script_args=ODD, env=env, job="r")
    assert done.rc == 0, done.stdout
    for rank in (0, 1):
        found = report(cluster, "r", rank)
        assert found["argv"][1:] == ODD
        assert found["env"]["TOKEN"] == "hunter2 & more" and found["env"]["TEMPLATE"] == "{{ 6*7 }}"
        assert found["env"]["RANK"] == str(rank) and found["env"]["WORLD_SIZE"] == "2"
        assert found["env"]["GLOO_SOCKET_IFNAME"] == "lo" and found["env"]["PYTHONUNBUFFERED"] == "1"
        assert int(found["env"]["OMP_NUM_THREADS"]) >= 1
        assert not [name for name in found["env"] if name.startswith(("PET_", "ANSIBLE_"))]
        assert found["files"] == ["rank-{}.report.json".format(rank), "report.py"]
    record = cluster.runs / "r"
    assert json.loads((record / "result.json").read_text())["outcome"] == "finished"
    assert json.loads((record / "plan.json").read_text())["env_names"] == ["PET_NNODES", "TEMPLATE", "TOKEN"]
    assert (record / "commands.txt").read_text().count("--node-rank=") == 2
    whats = [json.loads(line)["what"] for line in (record / "node1" / "timeline.jsonl").read_text().splitlines()]
    assert whats.index("started") < whats.index("torch imported") < whats.index("rendezvous") < whats.index("ended")
    assert "report of rank 1" in (record / "node1" / "attempt-0" / "rank-1.log").read_text()
    kept = subprocess.run(["grep", "-rl", "hunter2", str(record)], stdout=subprocess.PIPE, check=False).stdout
    assert kept == b""
    spec = cluster.job_dir("node0", "r") / "spec.json"
    assert spec.stat().st_mode & 0o777 == 0o600 and spec.parent.stat().st_mode & 0o777 == 0o700
    cluster.assert_nothing_left()


def test_a_git_work_tree_ships_what_git_knows(cluster):
    git = ["git", "-C", str(cluster.stand)]
    (cluster.stand / ".gitignore").write_text("*.bin\n")
    (cluster.stand / "data.bin").write_text("ignored")
    package = cluster.stand / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "train.py").write_text("import runpy\nrunpy.run_path('report.py')\n")
    for command in (["init", "-q"], ["add", "report.py"]):
        subprocess.run(git + command, check=True)
    done = cluster.play(module="pkg.train", script_args="a 'b c'", job="m")
    assert done.rc == 0, done.stdout
    found = report(cluster, "m", 0)
    assert "data.bin" not in found["files"] and {".gitignore", "fault.py", "pkg", "report.py"} <= set(found["files"])
    assert found["argv"][1:] == ["a", "b c"]


def test_ship_says_otherwise_and_what_the_job_wrote_stays(cluster):
    (cluster.stand / "data").mkdir()
    (cluster.stand / "data" / "a.txt").write_text("1")
    first = cluster.play(script="report.py", ship=["data"], job="s")
    assert first.rc == 0, first.stdout
    assert report(cluster, "s", 0)["files"] == ["data", "rank-0.report.json", "report.py"]
    (cluster.job_dir("node0", "s") / "work" / "checkpoint.pt").write_text("precious")
    (cluster.stand / "data" / "a.txt").unlink()
    (cluster.stand / "data" / "b.txt").write_text("2")
    again = cluster.play(script="report.py", ship=["data/*"], job="s", force=True)
    assert again.rc == 0, again.stdout
    work = cluster.job_dir("node0", "s") / "work"
    assert (work / "checkpoint.pt").read_text() == "precious"
    assert [path.name for path in (work / "data").iterdir()] == ["b.txt"]
    assert len(list((cluster.job_dir("node0", "s") / "earlier").iterdir())) == 1


def test_working_folder(cluster):
    (cluster.stand / "sub").mkdir()
    (cluster.stand / "sub" / "report.py").write_text((cluster.stand / "report.py").read_text())
    subprocess.run(["git", "init", "-q", str(cluster.stand)], check=True)
    below = cluster.play(script="sub/report.py", chdir="sub", job="c")
    assert below.rc == 0, below.stdout
    work = cluster.job_dir("node0", "c") / "work" / "sub"
    found = json.loads((work / "rank-0.report.json").read_text())
    assert found["cwd"] == str(work) and found["argv"][0] == "report.py"
    elsewhere = cluster.folder / "elsewhere"
    elsewhere.mkdir()
    absolute = cluster.play(script="report.py", chdir=str(elsewhere), job="d")
    assert absolute.rc == 0, absolute.stdout
    assert json.loads((elsewhere / "rank-1.report.json").read_text())["cwd"] == str(elsewhere)
    cluster.assert_nothing_left()


def test_several_processes_per_node(cluster):
    done = cluster.play(script="report.py", nproc_per_node=2, job="n")
    assert done.rc == 0, done.stdout
    ranks = {rank: json.loads((cluster.job_dir("node{}".format(rank // 2), "n") / "work" /
             "rank-{}.report.json".format(rank)).read_text())["env"] for rank in range(4)}  # fmt: skip
    assert [(env["LOCAL_RANK"], env["GROUP_RANK"], env["WORLD_SIZE"]) for env in ranks.values()] == [
        ("0", "0", "4"), ("1", "0", "4"), ("0", "1", "4"), ("1", "1", "4")]  # fmt: skip


def test_lines_are_live_and_marked(cluster):
    """A line is on the screen within seconds of its newline, with host and rank; escapes are gone."""
    (cluster.stand / "live.py").write_text(
        "import sys, time\n"
        "sys.stdout.write('\\x1b[31mred\\x1b[0m\\n'); sys.stdout.write('1%\\r50%\\r100%\\n')\n"
        "for i in range(6):\n    print('at {:.3f}'.format(time.time())); time.sleep(0.5)\n"
    )
    process = cluster.begin(script="live.py", job="l", follow="all")
    late = {}
    while process.poll() is None:
        for host, moment in re.findall(r"(node\d:\d) \| at ([\d.]+)", process.screen.read_text()):
            late.setdefault((host, moment), time.time() - float(moment))
        time.sleep(0.05)
    screen = process.screen.read_text()
    assert process.returncode == 0, screen
    assert "node0:0 | red\n" in screen and "node1:1 | 100%\n" in screen and "\x1b" not in screen
    assert {host for host, _ in late} == {"node0:0", "node1:1"} and len(late) == 12
    # The promise is 1.5 s; a loaded machine may be late once.
    assert sorted(late.values())[-2] < 3


def test_the_end_is_a_table_and_a_sentence(cluster):
    process = cluster.begin(script="report.py", job="t")
    assert process.wait(60) == 0
    lines = [line for line in process.screen.read_text().splitlines() if line]
    assert lines[-5].split() == ["host", "node", "rank", "ranks", "exit", "seconds"]
    assert re.fullmatch(r"node0 +0 +0 +0 +[\d.]+", lines[-4]) and re.fullmatch(r"node1 +1 +1 +0 +[\d.]+", lines[-3])
    assert lines[-1].startswith("job t finished: every one of 2 ranks ended with 0")


def test_check_mode_prints_the_commands_and_starts_nothing(cluster):
    done = cluster.play(script="report.py", script_args=["a b"], check=True, job="k")
    assert done.rc == 0, done.stdout
    shape = r"node{0}: \S+/torchrun --nnodes=2 --nproc-per-node=1 --node-rank={0} --master-addr=127.0.0.1 --master-port={1} " \
        r"report.py 'a b'"  # fmt: skip
    for rank in (0, 1):
        assert re.search(shape.format(rank, cluster.port), done.stdout), done.stdout
    assert not list(cluster.state.glob("*/jobs/*")) and not cluster.runs.exists() and cluster.processes() == []


def test_status_logs_and_part_of_the_group(cluster):
    done = cluster.play(script="report.py", cmdline="--limit node1", allow_partial=True, job="p")
    assert done.rc == 0, done.stdout
    assert cluster.read("node1", "p", "result.json")["world_size"] == 1
    status = cluster.play("playbooks/status.yml")
    assert status.rc == 0 and re.search(r"p +node1 +0 +0 +finished", status.stdout), status.stdout
    logs = cluster.play("playbooks/logs.yml", "--limit node1", job="p")
    assert logs.rc == 0 and "node1:0 | report of rank 0" in logs.stdout


def test_an_inventory_with_variables_of_the_same_names_is_not_disturbed(cluster):
    inventory = cluster.folder / "inventory"
    inventory.mkdir()
    (inventory / "hosts.yml").write_text((REPO / "inventory/local/hosts.yml").read_text())
    (inventory / "group_vars").mkdir()
    local = (REPO / "inventory/local/group_vars/torch_nodes.yml").read_text()
    local = local.replace("{{ inventory_dir | dirname | dirname }}", str(REPO))
    (inventory / "group_vars" / "torch_nodes.yml").write_text(
        local + "env: production\njob: plumber\nscript: nothing.py\nwait: for me\nlaunch_env: {FROM: inventory}\n"
    )
    done = cluster.play(script="report.py", inventory=inventory, job="i", env={"ALSO": "extra"})
    assert done.rc == 0, done.stdout
    found = report(cluster, "i", 0)["env"]
    assert found["FROM"] == "inventory" and found["ALSO"] == "extra"


def test_wait_false_in_both_spellings(cluster):
    (cluster.stand / "slow.py").write_text("import time\ntime.sleep(60)\n")
    one = cluster.play(script="slow.py", job="w", cmdline="-e wait=false")
    assert one.rc == 0 and "job w runs on node0, node1" in one.stdout
    assert cluster.play("playbooks/stop.yml", job="w").rc == 0
    two = cluster.play(script="slow.py", job="w2", wait=False)
    assert two.rc == 0 and "job w2 runs on node0, node1" in two.stdout
    assert cluster.play("playbooks/stop.yml", job="w2").rc == 0
    cluster.assert_nothing_left()


def test_a_killed_controller_leaves_no_secret(cluster):
    """What lies on the controller while a job runs holds neither the key nor the environment."""
    (cluster.stand / "slow.py").write_text("import time\nprint('begun')\ntime.sleep(60)\n")
    process = cluster.begin(script="slow.py", job="z", env={"TOKEN": "hunter2"})
    cluster.wait_for(lambda: "begun" in process.screen.read_text())
    key = json.loads((cluster.job_dir("node0", "z") / "spec.json").read_text())["key"]
    for secret in ("hunter2", key):
        found = subprocess.run(["grep", "-rl", secret, str(REPO / ".ansible")], stdout=subprocess.PIPE, check=False).stdout
        assert found == b""
    assert cluster.play("playbooks/stop.yml", job="z").rc == 0
    assert process.wait(30) != 0


def test_coming_back_to_a_job_that_has_ended(cluster):
    """Log, record, verdict and exit code, as if one had stayed; for a failed job too."""
    (cluster.stand / "short.py").write_text("import sys, time\nprint('begun')\ntime.sleep(3)\nsys.exit(int(sys.argv[1]))\n")
    for job, code in (("good", 0), ("bad", 3)):
        assert cluster.play(script="short.py", script_args=[str(code)], job=job, wait=False).rc == 0
        cluster.wait_for(lambda job=job: cluster.read("node0", job, "result.json"), 30)
        back = cluster.play(job=job)
        assert (back.rc == 0) == (code == 0), back.stdout
        assert "job {} has ended on node0, node1".format(job) in back.stdout and "node0:0 | begun" in back.stdout
        assert (cluster.runs / job / "node1" / "attempt-0" / "rank-1.log").exists()
        assert json.loads((cluster.runs / job / "result.json").read_text())["outcome"] == ("finished" if code == 0 else "failed")
    assert "ended with exit code 3" in back.messages()[0]


def test_the_record_of_an_earlier_run_is_kept(cluster):
    assert cluster.play(script="report.py", job="twice").rc == 0
    first = json.loads((cluster.runs / "twice" / "plan.json").read_text())["run_id"]
    assert cluster.play(script="report.py", job="twice", force=True).rc == 0
    assert sorted(path.name for path in cluster.runs.iterdir()) == ["twice", "twice-" + first]


def test_records_are_not_shipped(cluster):
    """They lie untracked in the user's work tree and would grow with every launch."""
    subprocess.run(["git", "init", "-q", str(cluster.stand)], check=True)
    (cluster.stand / "runs" / "old").mkdir(parents=True)
    (cluster.stand / "runs" / "old" / "result.json").write_text("{}")
    cluster.variables["launch_runs_dir"] = "runs"
    assert cluster.play(script="report.py", job="g").rc == 0
    assert "runs" not in report(cluster, "g", 0)["files"] and "report.py" in report(cluster, "g", 0)["files"]


def test_torchrun_leaves_no_folder_in_tmp(cluster):
    """It would make one per start."""
    tmp = cluster.folder / "tmp"
    tmp.mkdir()
    assert cluster.play(script="report.py", job="e", env={"TMPDIR": str(tmp)}).rc == 0
    assert list(tmp.iterdir()) == []
