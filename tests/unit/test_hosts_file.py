"""What a host's /etc/hosts needs, decided on the controller from what the survey has read."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.entries import merge
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_survey import hosts
from ansible_collections.muster.cluster.plugins.plugin_utils import hosts_file

MEMBERS = {"n1": "10.0.0.1", "n2": "10.0.0.2"}


def survey(text, **changes):
    return dict({"text": text, "hostname": "web", "rewritten_by": None}, **changes)


def test_from_a_fresh_host_to_nothing_to_do():
    plan = hosts_file.decide("n1", MEMBERS, survey("127.0.1.1 web\n"))
    assert plan["todo"] is True and plan["notes"] == []
    assert plan["wish"]["members"] == {"n1": {"address": "10.0.0.1"}, "n2": {"address": "10.0.0.2"}}
    assert plan["wish"]["own"] == "n1" and plan["wish"]["hostname"] == "web"
    after = merge("hosts", "127.0.1.1 web\n", plan["wish"])[0]
    assert hosts_file.decide("n1", MEMBERS, survey(after))["todo"] is False


def test_a_host_without_a_file_and_one_that_is_no_member():
    plan = hosts_file.decide("out", MEMBERS, survey(None))
    assert plan["todo"] is True and plan["wish"]["own"] == ""


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ({}, "hosts_file_members is empty, expected the members of the cluster; name them"),
        ({"n1": "head.lan"}, "n1 has the address 'head.lan', expected an IP address, since it goes into /etc/hosts; correct"),
    ],
)
def test_refusals(members, sentence):
    with pytest.raises(Refusal) as caught:
        hosts_file.decide("n1", members, survey(""))
    assert str(caught.value).startswith(sentence)


def test_cloud_init_is_told():
    notes = hosts_file.decide("n1", MEMBERS, survey("", rewritten_by="/etc/cloud/cloud.cfg"))["notes"]
    assert len(notes) == 1 and notes[0].startswith("n1: found cloud-init to write /etc/hosts anew at every boot,")
    assert notes[0].endswith("expected manage_etc_hosts: false in /etc/cloud/cloud.cfg, set it there")


@pytest.mark.parametrize(
    ("files", "path"),
    [
        ([], None),
        ([("a", "users: []\n")], None),
        ([("a", "manage_etc_hosts: true\n")], "a"),
        ([("a", "manage_etc_hosts: 'localhost' # x\n")], "a"),
        ([("a", "manage_etc_hosts: True\r\n")], "a"),
        ([("a", "manage_etc_hosts: template\n"), ("b", "x: 1\n")], "a"),
        ([("a", "manage_etc_hosts: true\n"), ("b", "manage_etc_hosts: false\n")], None),
        ([("a", "manage_etc_hosts: false\n"), ("b", "manage_etc_hosts: true\n")], "b"),
        ([("a", "# manage_etc_hosts: true\n  manage_etc_hosts: true\n")], None),
    ],
)
def test_who_writes_the_file_anew(files, path):
    assert hosts.rewriter(files) == path


def test_the_section():
    found = hosts.look({})
    assert found["hostname"] and set(found) == {"text", "hostname", "rewritten_by"}
