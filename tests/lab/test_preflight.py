"""The roles preflight and packages on real hosts: what is refused before anything is touched, locks, lists, no network.

Packages are tried on the spare host, so that the others stay as they were.
"""

import json
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest

SURVEY, VERDICT = "Look at every host", "Name every fault of every host"
INSTALL, REMEMBER = "Install what is missing", "Remember what is there now"
SITE = """
- hosts: torch_nodes
  gather_facts: false
  vars: {ansible_become: true, ansible_become_user: root}
  roles:
    - role: muster.cluster.preflight
      vars: {preflight_members: "{{ groups['torch_nodes'] }}"}
  post_tasks:
    - name: Touch the host
      ansible.builtin.file: {path: /opt/touched, state: touch, mode: "0644"}
"""
PACKAGES = """
- hosts: spare
  gather_facts: false
  vars: {ansible_become: true, ansible_become_user: root}
  roles:
    - role: muster.cluster.packages
"""
# A Python whose clock is an hour ahead.
SKEWED = """
mkdir -p /opt/skewed
cat >/opt/skewed/python <<'END'
#!/bin/sh
# The host is asked in isolation from such a folder.
for word do shift; case $word in -I|-S) ;; *) set -- "$@" "$word" ;; esac; done
PYTHONPATH=/opt/skewed exec /usr/bin/python3 "$@"
END
printf 'import time\\nreal = time.time\\ntime.time = lambda: real() + 3600\\n' >/opt/skewed/sitecustomize.py
chmod +x /opt/skewed/python
"""
# Holds a lock as apt does, in the background, for so many seconds; prints its process id.
HOLDER = """
import fcntl, os, sys, time
pid = os.fork()
if pid:
    print(pid)
    sys.exit()
os.setsid()
for number in range(3):
    os.dup2(os.open("/dev/null", os.O_RDWR), number)
stream = open(sys.argv[1], "a")
fcntl.lockf(stream, fcntl.LOCK_EX)
time.sleep(float(sys.argv[2]))
"""
# A package source in a folder with version $1 of muster-probe, and that version alone; apt knows no other source then.
REPOSITORY = """
set -eu
rm -rf /opt/source
mkdir -p /opt/source/probe/DEBIAN
cd /opt/source
printf 'Package: muster-probe\\nVersion: %s\\nArchitecture: all\\n' $1 >probe/DEBIAN/control
printf 'Maintainer: x <x@example.org>\\nDescription: x\\n' >>probe/DEBIAN/control
dpkg-deb --build probe probe_$1.deb >/dev/null
cp probe/DEBIAN/control Packages
echo "Filename: ./probe_$1.deb" >>Packages
echo "Size: $(stat -c %s probe_$1.deb)" >>Packages
echo "SHA256: $(sha256sum probe_$1.deb | cut -d ' ' -f 1)" >>Packages
echo 'deb [trusted=yes] copy:/opt/source ./' >sources.list
cat >/etc/apt/apt.conf.d/99probe <<END
Dir::Etc { SourceList "/opt/source/sources.list"; SourceParts "-"; };
APT::Get::List-Cleanup "0";
END
"""
INSTALLED = "dpkg-query -W -f '${db:Status-Abbrev}${Package}\\n' | sed -n 's/^ii  *//p'"


@pytest.fixture
def play(run_playbook, lab, tmp_path):
    """``play(text, options="", hosts=None, **extra)``: run a playbook; ``hosts`` are added to the inventory's torch_nodes."""

    def run(text, options="", hosts=None, **extra):
        playbook = tmp_path / "play.yml"
        playbook.write_text(textwrap.dedent(text))
        more = tmp_path / "more.yml"
        more.write_text(json.dumps({"torch_nodes": {"hosts": hosts or {}}}))
        return run_playbook(
            playbook, extravars=extra, cmdline="-i {} -i {} {}".format(lab.folder / "inventory", more, options), timeout=120
        )

    return run


def results(run, task):
    """``{host: (event, result)}`` of a task."""
    ends = [event for event in run.events if event["event"].startswith("runner_on_") and event["event"] != "runner_on_start"]
    return {end["event_data"]["host"]: (end["event"][len("runner_on_") :], end["event_data"].get("res") or {}) for end in ends
            if end["event_data"].get("task") == task}  # fmt: skip


def untouched(lab):
    """Whether no task has come to a host after the preflight."""
    return all(lab.host(name).run("test -e /opt/touched", check=False).returncode for name in ("n1", "n2", "n3"))


def test_good_hosts_pass_and_nothing_changes(play, lab):
    run = play(SITE.partition("  post_tasks")[0])
    assert run.rc == 0 and not run.stats["changed"], run.stdout
    assert "preflight: 3 hosts, no fault" in run.stdout
    assert set(results(run, VERDICT)) == {"n1"}
    facts = results(run, SURVEY)["n2"][1]["ansible_facts"]["muster"]
    assert facts["system"]["ssh_server_port"] == 2222 and facts["system"]["container"] == "systemd-nspawn"
    assert [lab.host("n2").interface, lab.host("n2").address] in facts["system"]["addresses"]
    assert facts["system"]["default_route"] == {"interface": "ens3", "via": lab.host("n2").address.rpartition(".")[0] + ".1"}
    assert facts["packages"]["manager"] == "apt" and facts["packages"]["lock"] is None and facts["packages"]["list_age"] > 0
    began, ended = facts["time"]["controller"]
    assert began - 1 < facts["time"]["now"] < ended + 1


@pytest.mark.parametrize("options", ["", "--check"])
def test_every_fault_of_every_host_is_told_at_once(play, lab, options):
    n1, n2 = lab.host("n1"), lab.host("n2")
    n1.run(SKEWED)
    login = {"ansible_user": "ml", "ansible_ssh_private_key_file": str(lab.folder / "key")}
    login["ansible_ssh_common_args"] = lab.ssh_options()
    silent = {"ansible_ssh_common_args": lab.ssh_options() + " -o ConnectTimeout=3"}
    hosts = {
        "n1": {"ansible_python_interpreter": "/opt/skewed/python", "python_env_min_free_mb": "lots"},
        "n2": {"packages_lock_timout": 9, "preflight_min_tmp_mb": 10**9},
        "n3": {"muster_address": "192.0.2.3"},
        "twin": dict(login, ansible_host=n2.address, ansible_port=2222, ansible_python_interpreter="/usr/bin/python3"),
        "ask": dict(login, ansible_host=n1.address, ansible_user="ask", muster_address="192.0.2.4"),
        "dead": dict(login, ansible_host=n1.address.rpartition(".")[0] + ".99", **silent),
    }
    try:
        run = play(SITE, options, hosts)
    finally:
        n1.run("rm -rf /opt/skewed")
    assert run.rc != 0 and untouched(lab) and not run.stats["changed"]
    ends = results(run, VERDICT)
    assert list(ends) == ["n1"] and ends["n1"][0] == "failed"
    said = ends["n1"][1]["msg"].splitlines()
    assert said[0] == "preflight found {} faults among 6 hosts, expected none; nothing has been changed:".format(len(said) - 1)
    for sentence in (
        "n1's clock is 3600 s ahead of this machine's, expected at most 60 s; it is a container",
        "MB free in /tmp, expected 1000000000 MB; make room there, or lower preflight_min_tmp_mb",
        "ask cannot be set up: its sudo asks for a password, expected none or yours; run with --ask-become-pass",
        "dead is unreachable: it does not answer, expected SSH to work; see whether it is up",
        "n2 and twin have one address, {}, expected one each".format(n2.address),
        "n3 does not have the address 192.0.2.3 (it has {}), expected one of its own".format(lab.host("n3").address),
        "n2 has the variable packages_lock_timout, which no role reads; did you mean packages_lock_timeout?",
        "n1 has 'lots' as python_env_min_free_mb, expected a whole number",
    ):
        assert any(sentence in line for line in said), (sentence, said)
    assert len(said) == 9, said


def test_the_addresses_of_all_members_count_under_limit(play, lab):
    run = play(SITE, "--limit n1", {"n3": {"muster_address": lab.host("n1").address}})
    assert run.rc != 0 and untouched(lab)
    assert "among 1 host" in run.stdout and "n1 and n3 have one address" in run.stdout


# ------------------------------------------------------------------------------------------------------------- packages


@pytest.fixture(scope="module")
def spare(lab):
    """The spare host; what is installed on it in the meantime is removed again."""
    host = lab.host("n4")
    before = set(host.run(INSTALLED).stdout.split())
    yield host
    more = sorted(set(host.run(INSTALLED).stdout.split()) - before)
    host.run(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "purge", *more], timeout=60)


def has(host, package):
    """Whether a package is installed."""
    return package in host.run(INSTALLED).stdout.split()


def test_check_mode_needs_nothing_on_an_untouched_host(play, spare):
    assert not has(spare, "python3-apt")
    run = play(PACKAGES, "--check --diff", packages_names=["tree"])
    assert run.rc == 0 and run.stats["changed"] == {"n4": 1}, run.stdout
    assert "+tree" in run.stdout and not has(spare, "tree") and not has(spare, "python3-apt")


def test_a_lock_is_waited_for_and_its_holder_named(play, spare, soon, tmp_path):
    pid = spare.run(["python3", "-c", HOLDER, "/var/lib/dpkg/lock-frontend", "100"]).stdout.strip()

    def let_go():
        soon(lambda: any("waits up to" in path.read_text() for path in tmp_path.glob("runner-*/artifacts/*/stdout")), 90)
        spare.run(["kill", pid])

    with ThreadPoolExecutor(1) as pool:
        letting = pool.submit(let_go)
        run = play(PACKAGES, packages_names=["tree"])
        letting.result()
    assert run.rc == 0 and run.stats["changed"] == {"n4": 1}, run.stdout
    assert "n4: waits up to 300 s for python3 (pid {}), which holds /var/lib/dpkg/lock-frontend".format(pid) in run.stdout
    assert run.stdout.count("waits up to") == 1 and has(spare, "tree")

    again = play(PACKAGES, packages_names=["tree"])
    assert again.rc == 0 and not again.stats["changed"]
    assert results(again, INSTALL)["n4"][0] == results(again, REMEMBER)["n4"][0] == "skipped"


def test_a_lock_that_is_held_for_too_long_is_one_sentence(play, spare):
    pid = spare.run(["python3", "-c", HOLDER, "/var/lib/apt/lists/lock", "100"]).stdout.strip()
    try:
        run = play(PACKAGES, packages_names=["hello"], packages_lock_timeout=4)
    finally:
        spare.run(["kill", pid])
    told = results(run, INSTALL)["n4"][1]
    assert run.rc != 0 and told["msg"] == (
        "n4: /var/lib/apt/lists/lock has been held by python3 (pid {0}) for 4 s, expected it free; see ps -fp {0} there, let it "
        "end, or raise packages_lock_timeout".format(pid)
    )
    assert not has(spare, "hello")


def test_a_stale_list_is_fetched_anew_once(play, spare):
    spare.run(["sh", "-c", REPOSITORY, "sh", "1"])
    spare.run("apt-get -q update")
    spare.run(["sh", "-c", REPOSITORY, "sh", "2"])
    try:
        run = play(PACKAGES, packages_names=["muster-probe"])
    finally:
        spare.run("rm -rf /opt/source /etc/apt/apt.conf.d/99probe /var/lib/apt/lists/*opt_source*")
    assert run.rc == 0 and run.stats["changed"] == {"n4": 1}, run.stdout
    assert spare.run("dpkg-query -W -f '${Version}' muster-probe").stdout == "2"


def test_no_way_to_a_mirror_is_one_sentence(play, spare):
    way = spare.run("ip route show default").stdout.split()
    spare.run("rm -f /var/cache/apt/archives/hello_* && ip route delete default")
    try:
        run = play(PACKAGES, packages_names=["hello"])
    finally:
        spare.run(["ip", "route", "add", *way])
    told = results(run, INSTALL)["n4"][1]["msg"]
    assert run.rc != 0 and "\n" not in told and told.startswith("n4: apt did not install hello (")
    assert told.endswith("it reaches no mirror; see its default route, its name servers and its proxy, or name a mirror that it "
                         "reaches")  # fmt: skip
    assert not has(spare, "hello")
