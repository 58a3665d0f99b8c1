"""Which clock follows which."""

import pytest

DAEMONS = ("chrony", "chronyd", "systemd-timesyncd", "ntpd", "ntpsec", "ntp", "openntpd")


@pytest.mark.units("chrony", "chronyd", "systemd-timesyncd")
def test_there_is_one_time_daemon(managed):
    asked = managed.root("systemctl is-active {}; true".format(" ".join(name + ".service" for name in DAEMONS)))
    active = {name for name, state in zip(DAEMONS, asked.stdout.split(), strict=False) if state == "active"}
    # Debian's chrony answers to both names.
    found = sorted({"chrony" if name == "chronyd" else name for name in active})
    assert found == ["chrony"], "{} has {}, expected chrony alone".format(managed.name, ", ".join(found) or "no time daemon")


@pytest.mark.units("chrony", "chronyd")
def test_members_follow_the_head(managed, cluster):
    # A daemon that was started a moment ago needs some seconds to choose.
    asked = managed.root("chronyc -n -c tracking | grep -v 'Not synchronised' || { sleep 10; chronyc -n -c tracking; }")
    fields = asked.stdout.strip().split(",")
    assert len(fields) > 13, "{}: chronyc says {}".format(managed.name, (asked.stdout + asked.stderr).strip())
    assert fields[13] != "Not synchronised", "{} follows no clock; see chronyc sources there".format(managed.name)
    others = [member["address"] for member in cluster.members if member["name"] != cluster.head]
    if managed.name == cluster.head:
        assert fields[1] not in others, "the head {} follows the member at {}".format(managed.name, fields[1])
    else:
        expected = cluster.member(cluster.head)["address"]
        assert fields[1] == expected, "{} follows {}, expected the head at {}".format(managed.name, fields[1], expected)
