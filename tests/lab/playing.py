"""What tests that play site.yml on the whole lab share."""

import re


def changed(run):
    """Changed tasks per host, those without any left out."""
    return {host: count for host, count in run.stats.get("changed", {}).items() if count}


def pairs(run):
    """How many pairs the verdict of verify.yml counts: ``(good, all)``."""
    found = re.search(r"(\d+) of (\d+) pairs", run.stdout)
    assert found, run.stdout[-3000:]
    return int(found.group(1)), int(found.group(2))


def player(run_playbook, lab):
    """``play(playbook="site.yml", options="", extravars=None, bad=False)`` on the lab's inventory; ``bad``: it must fail."""

    def play(playbook="site.yml", options="", extravars=None, bad=False, inventory=None):
        where = "-i {}".format(inventory or lab.folder / "inventory")
        done = run_playbook(playbook, extravars=extravars, cmdline="{} {}".format(where, options), timeout=600)
        assert (done.rc != 0) == bad, done.stdout[-6000:]
        return done

    return play
