"""Names, the cluster's user and its keys on real hosts, under a user of the test's own; what is changed is put back."""

import json
import re
import shutil
import tempfile

import pytest

USER, STATE = "ident", "/srv/ident"
FILES = "etc/hosts etc/ssh/ssh_known_hosts etc/ssh/ssh_config.d/50-muster.conf"
SSH = "runuser -u {} -- ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=5 ".format(USER)
SAVE = "cd / && mkdir /root/before && for file in {}; do [ ! -e $file ] || cp -a --parents $file /root/before; done".format(FILES)
PUT_BACK = (
    "cd / && rm -rf {state} {files} && cp -a /root/before/. / && rm -rf /root/before"
    " && userdel -rf {user} 2>&1; rm -rf /home/{user}; ! id {user} 2>&1"
).format(state=STATE, files=FILES, user=USER)


@pytest.fixture(scope="module")
def pair(lab):
    """n1, the head, and n2, whose sshd is at port 2222; their files are put back at the end."""
    hosts = [lab.host("n1"), lab.host("n2")]
    for host in hosts:
        host.run(SAVE)
    yield hosts
    for host in hosts:
        host.run(PUT_BACK)


@pytest.fixture
def play(run_playbook, lab, tmp_path):
    """``play(options="", **variables)``: the three roles on n1 and n2; its finished run."""
    members = ["n1", "n2"]
    plays = [
        {
            "hosts": "n1:n2",
            "gather_facts": False,
            "vars": {"ansible_become": True, "ansible_become_user": "root"},
            "roles": [
                {"role": "muster.cluster.hosts_file", "vars": {"hosts_file_members": members}},
                {"role": "muster.cluster.cluster_user"},
                {"role": "muster.cluster.ssh_keys", "vars": {"ssh_keys_members": members}},
            ],
        }
    ]
    (tmp_path / "identity.yml").write_text(json.dumps(plays))

    def run(options="", bad=False, **variables):
        values = {"muster_user": USER, "muster_state_dir": STATE, "cluster_user_uid": 8601, "cluster_user_gid": 8601}
        where = "-i {} {}".format(lab.folder / "inventory", options)
        done = run_playbook(tmp_path / "identity.yml", extravars=dict(values, **variables), cmdline=where, timeout=180)
        assert (done.rc != 0) == bad, done.stdout[-6000:]
        return done

    return run


def changed(run):
    """Changed tasks per host, those without any left out."""
    return {host: count for host, count in run.stats.get("changed", {}).items() if count}


def calls(run):
    """The modules that were run, those of the controller alone left out."""
    asked = {event["event_data"]["task_action"] for event in run.events if event["event"] == "runner_on_ok"}
    return {name for name in asked if not re.fullmatch(r"ansible\.builtin\.(include_\w+|validate_argument_spec)", name)}


def test_check_mode_on_untouched_hosts(play, pair):
    run = play("--check --diff")
    assert set(changed(run)) == {"n1", "n2"}
    for line in ("+{} n1", "+n1,{} ssh-ed25519 ", "+Host n2 ", "+    Port 2222"):
        assert line.format(pair[0].address) in run.stdout
    assert "Would make /home/{}/.ssh/id_ed25519 and authorise it on every member.".format(USER) in run.stdout
    for host in pair:
        assert host.run("id {}".format(USER), check=False).returncode != 0
        assert host.run("test ! -e {} && ls /root/before".format(STATE)).returncode == 0


def test_the_head_reaches_every_member_and_its_key_is_good_from_nowhere_else(play, pair):
    n1, n2 = pair
    first = play("--diff -v")
    assert set(changed(first)) == {"n1", "n2"} and "PRIVATE KEY" not in first.stdout
    again = play()
    assert not changed(again) and calls(again) == {"muster.cluster.survey"}
    for where, name in (("n1", "n1"), (n1.address, "n1"), ("n2", "n2"), (n2.address, "n2")):
        assert n1.run(SSH + "{} hostname".format(where)).stdout.strip() == name
    for host in pair:
        assert host.run("id {}".format(USER)).stdout.startswith("uid=8601({0}) gid=8601({0})".format(USER))
        assert host.run("stat -c '%U %G %a' {0} {0}/jobs {0}/envs".format(STATE)).stdout == "{0} {0} 755\n".format(USER) * 3
        assert host.run("getent ahostsv4 n1 n2 | cut -d' ' -f1 | sort -u").stdout.split() == [n1.address, n2.address]
    stolen = n1.run("cat /home/{}/.ssh/id_ed25519".format(USER)).stdout
    n2.run("umask 077; cat >/home/{0}/stolen; chown {0} /home/{0}/stolen".format(USER), input=stolen)
    refused = n2.run(SSH + "-i /home/{}/stolen n1 true".format(USER), check=False)
    assert refused.returncode == 255 and "Permission denied" in refused.stderr


def test_drift_is_shown_and_put_right_and_others_lines_stay(play, pair):
    n1, n2 = pair
    n2.run(
        "rm /home/{}/.ssh/authorized_keys; chmod 777 {}; printf '192.0.2.9\\tn1 other # by hand' >>/etc/hosts;"
        " sed -i /muster:n1/d /etc/ssh/ssh_known_hosts; echo 'other ssh-rsa AAAA by hand' >>/etc/ssh/ssh_known_hosts".format(
            USER, STATE
        )
    )
    look = "cat /etc/hosts /etc/ssh/ssh_known_hosts; stat -c '%n %a %Y %i' /{}".format(FILES.replace(" ", " /"))
    before = [host.run(look).stdout for host in pair]
    predicted = play("--check --diff --limit n2")
    assert changed(predicted) == {"n2": 2} and [host.run(look).stdout for host in pair] == before
    assert re.search(r"^-192\.0\.2\.9\s+n1 other # by hand", predicted.stdout, re.MULTILINE)
    # Without the head its keys are not known; the rest is put right, and one sentence says what to run.
    limited = play("--limit n2")
    assert changed(limited) == {"n2": 2}
    assert limited.stdout.count("n1: not in this run, and its key not yet authorised on every host of it") == 1
    assert "192.0.2.9\tother # by hand" in n2.run("cat /etc/hosts").stdout
    assert set(changed(play())) == {"n2"}
    assert "other ssh-rsa AAAA by hand\n" in n2.run("cat /etc/ssh/ssh_known_hosts").stdout
    assert n1.run(look).stdout == before[0]
    assert n1.run(SSH + "n2 hostname").stdout.strip() == "n2"


def test_ids_that_are_taken_or_differ_are_refused_and_nothing_is_changed(play, pair):
    _n1, n2 = pair
    run = play(bad=True, cluster_user_uid=8602)
    assert "n2: found the account ident with uid 8601 and gid 8601, expected 8602 and 8601;" in run.stdout
    n2.run("sed -i 's/^{0}:x:8601:/{0}:x:8603:/' /etc/passwd && chown {0} {1} {1}/*".format(USER, STATE))
    run = play(bad=True, cluster_user_create=False)
    told = "found the account ident with uid 8601 and gid 8601 on n1, uid 8603 and gid 8601 on n2; expected the same"
    assert told in run.stdout and run.stats["failures"] == {"n1": 1}  # once for all
    assert not changed(run) and "Authorise" not in run.stdout
    assert n2.run("id -u {}".format(USER)).stdout.strip() == "8603"


def test_twenty_writes_over_ten_connections_at_once_lose_no_line(lab, run_playbook, tmp_path):
    """Ten controllers that know one host each write into two files of one host."""
    host = lab.host("n4")
    paths = tempfile.mkdtemp(prefix="mi", dir="/tmp")  # the name of a socket has to be short
    names = ["h{}".format(number) for number in range(10)]
    common = {
        "ansible_host": host.address,
        "ansible_user": "ml",
        "ansible_ssh_private_key_file": str(lab.folder / "key"),
        "ansible_ssh_common_args": lab.ssh_options(),
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_become": True,
    }
    hosts = {name: dict(common, ansible_control_path="{}/{}".format(paths, name)) for name in names}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts, "vars": {"names": names}}}))
    # Every name is a member, and each host knows its own key alone.
    wish = (
        "{{%- set out = {{}} -%}}{{%- for name in names -%}}{{%- set _ = out.update({{name: {{ {} , 'keys':"
        " ['ssh-ed25519 AAAA' ~ name] if name == inventory_hostname else none}} }}) -%}}{{%- endfor -%}}{{{{ out }}}}"
    )
    known = {"kind": "known_hosts", "path": "/srv/known_hosts", "members": wish.format("'address': '192.0.2.1', 'ports': [22]")}
    opened = {"kind": "authorized_keys", "user": "writer", "members": wish.format("'from': ['192.0.2.1']")}
    tasks = [
        # sshd takes ten newcomers at once and no more.
        {"name": "Open the connections", "ansible.builtin.raw": "true", "throttle": 2, "changed_when": False},
        {"name": "Pin a host key", "muster.cluster.entries": known},
        {"name": "Authorise a key", "muster.cluster.entries": opened},
    ]
    (tmp_path / "writers.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    host.run("useradd -m writer && echo '# by hand' >/srv/known_hosts")
    try:
        run = run_playbook(tmp_path / "writers.yml", cmdline="-i {}".format(tmp_path / "hosts.json"), timeout=120)
        assert run.rc == 0 and changed(run) == dict.fromkeys(names, 2), run.stdout[-6000:]
        known = host.run("cat /srv/known_hosts").stdout.splitlines()
        assert known[0] == "# by hand" and sorted(line.split(":")[-1] for line in known[1:]) == names
        opened = host.run("cat /home/writer/.ssh/authorized_keys").stdout.splitlines()
        assert sorted(line.split(":")[-1] for line in opened) == names
        assert host.run("stat -c '%U %a' /home/writer/.ssh/authorized_keys").stdout == "writer 600\n"
        assert host.run("ls -A /srv").stdout.split() == ["known_hosts"]
        assert host.run("ls -A /home/writer/.ssh").stdout.split() == ["authorized_keys"]
    finally:
        host.run("userdel -rf writer 2>&1; rm -f /srv/known_hosts")
        shutil.rmtree(paths)
