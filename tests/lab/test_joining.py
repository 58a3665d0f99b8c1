"""A host joins the cluster of the lab; last, since the cluster is larger from here on."""

from .playing import changed, pairs, player
from .test_preflight import HOLDER


def test_a_host_joins_by_one_run(run_playbook, lab, tmp_path):
    """It has no package list, and its packages are locked for 40 s."""
    play = player(run_playbook, lab)
    n4 = lab.host("n4")
    n4.run("rm -rf /var/lib/apt/lists/*")
    pid = n4.run(["python3", "-c", HOLDER, "/var/lib/dpkg/lock-frontend", "40"]).stdout.strip()
    more = tmp_path / "more.yml"
    more.write_text("---\ntorch_nodes:\n  children:\n    spare:\n")
    both = "{} -i {}".format(lab.folder / "inventory", more)
    run = play(inventory=both)
    assert pairs(run) == (12, 12)
    assert "n4: waits up to 300 s for python3 (pid {}), which holds /var/lib/dpkg/lock-frontend".format(pid) in run.stdout
    assert not changed(play(inventory=both))
    for name in ("n1", "n2", "n3"):
        assert "n4" in lab.host(name).run(["cat", "/etc/hosts"]).stdout
