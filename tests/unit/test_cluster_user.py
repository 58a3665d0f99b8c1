"""The cluster's user: what is made, what is mended, and what is refused with a sentence."""

import copy

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_survey import users
from ansible_collections.muster.cluster.plugins.plugin_utils import cluster_user

WISH = {"name": "muster", "uid": 8600, "gid": "8600", "shell": "/bin/bash", "create": True, "state_dir": "/srv/m"}
ACCOUNT = {"uid": 8600, "gid": 8600, "home": "/home/muster", "shell": "/bin/bash", "groups": ["muster"], "local": True}
FOLDER = {"kind": "folder", "uid": 8600, "gid": 8600, "owner": "muster", "mode": "0755", "link": None}
PATHS = ("/srv/m", "/srv/m/jobs", "/srv/m/envs")
DONE = {
    "name": "muster",
    "account": ACCOUNT,
    "gid": 8600,
    "uids": {"0": "root", "1000": "ml", "8600": "muster"},
    "gids": {"0": "root", "1000": "ml", "8600": "muster"},
    "paths": {path: FOLDER for path in PATHS},
}
FRESH = dict(
    DONE, account=None, gid=None, uids={"0": "root", "1000": "ml"}, gids={"0": "root"}, paths=dict.fromkeys(PATHS)
)  # fmt: skip


def decide(survey, others=None, **changes):
    """A decision for n1; ``others``: accounts of further hosts."""
    accounts = dict({"n1": survey["account"]}, **(others or {}))
    return cluster_user.decide("n1", dict(WISH, **changes), survey, accounts)


def survey(base, **changes):
    return copy.deepcopy(dict(base, **changes))


def with_folder(path, **changes):
    """A host that is as wanted but for one folder; None: it is not there."""
    paths = dict(DONE["paths"])
    paths[path] = dict(FOLDER, **changes) if changes else None
    return survey(DONE, paths=paths)


def test_a_fresh_host():
    assert decide(FRESH) == {
        "todo": True, "group": True, "account": True, "folders": list(PATHS), "uid": 8600, "gid": 8600,
    }  # fmt: skip


@pytest.mark.parametrize(
    "found",
    [
        DONE,
        survey(DONE, gid=None),  # the group of this number has another name
        survey(DONE, account=dict(ACCOUNT, shell="/bin/zsh", local=False)),
        with_folder("/srv/m/jobs"),  # removed with the last job
        with_folder("/srv/m/envs", link="/data/envs"),
    ],
)
def test_nothing_to_do(found):
    assert decide(found) == {"todo": False, "group": False, "account": False, "folders": [], "uid": 8600, "gid": 8600}


@pytest.mark.parametrize(
    ("found", "group", "account", "folders"),
    [
        (survey(DONE, account=dict(ACCOUNT, shell="/usr/sbin/nologin")), False, True, []),
        (survey(DONE, account=None, uids={}), False, True, []),
        (with_folder("/srv/m/envs"), False, False, ["/srv/m/envs"]),
        (with_folder("/srv/m", mode="0777"), False, False, ["/srv/m"]),
        (with_folder("/srv/m", uid=0, gid=0, owner="root"), False, False, ["/srv/m"]),
        (with_folder("/srv/m/jobs", gid=0), False, False, ["/srv/m/jobs"]),
    ],
)
def test_what_is_mended(found, group, account, folders):
    assert decide(found) == {
        "todo": True, "group": group, "account": account, "folders": folders, "uid": 8600, "gid": 8600,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("found", "changes", "sentence"),
    [
        (survey(DONE, account=dict(ACCOUNT, uid=1001)), {}, "n1: found the account muster with uid 1001 and gid 8600, expected"),
        (survey(DONE, account=dict(ACCOUNT, gid=100)), {}, "n1: found the account muster with uid 8600 and gid 100, expected"),
        (FRESH, {"uid": 1000}, "n1: found the uid 1000 taken by ml, expected it to be free for muster; set another"),
        (FRESH, {"gid": 0}, "found the cluster's user to be root or to have no id of its own,"),
        (survey(FRESH, name="root"), {"name": "root"}, "found the cluster's user to be root or to have no id of its own,"),
        (FRESH, {"name": "bob"}, "found bob here and muster in what all roles read, expected the same; set muster_user alone"),
        (FRESH, {"state_dir": "/m"}, "found /m here and /srv/m in what all roles read, expected the same; set muster_state_dir"),
        (survey(FRESH, gid=500), {}, "n1: found the group muster with gid 500, expected 8600; set cluster_user_gid"),
        (survey(FRESH, gids={"8600": "hpc"}), {}, "n1: found the gid 8600 taken by the group hpc, expected it to be free"),
        (FRESH, {"create": False}, "n1: found no account muster, expected it to be there since cluster_user_create is"),
        (with_folder("/srv/m", uid=1000, owner="ml"), {}, "n1: found /srv/m to belong to ml, whose jobs may run in it, expected"),
        (
            with_folder("/srv/m", uid=0, owner="root", mode="1777"), {},
            "n1: found /srv/m to be root's and of use to others, expected a folder for muster alone; set muster_state_dir to one "
            "in it, such as /srv/m/muster",
        ),
        (with_folder("/srv/m/envs", kind="other"), {}, "n1: found /srv/m/envs to be no folder, expected one; move it away"),
        (
            with_folder("/srv/m", uid=0, owner="root", link="/data/m"), {},
            "n1: found /srv/m to be a link to /data/m with owner root and mode 0755, expected muster and 0755; mend that folder",
        ),
    ],
)  # fmt: skip
def test_refusals(found, changes, sentence):
    with pytest.raises(Refusal) as caught:
        decide(found, **changes)
    assert str(caught.value).startswith(sentence)


def test_an_account_that_is_there_is_taken_as_it_is():
    found = survey(DONE, account=dict(ACCOUNT, uid=1000, gid=100, shell="/bin/zsh"))
    found["paths"] = {path: dict(FOLDER, uid=1000, gid=100) for path in PATHS}
    plan = decide(found, {"n2": dict(ACCOUNT, uid=1000, gid=100), "n3": None}, create=False)
    assert plan == {"todo": False, "group": False, "account": False, "folders": [], "uid": 1000, "gid": 100}


def test_ids_that_differ_are_told_once_for_all_hosts():
    accounts = {"n1": ACCOUNT, "n2": dict(ACCOUNT, uid=1001), "n3": ACCOUNT, "n4": None}
    with pytest.raises(Refusal) as caught:
        cluster_user.decide("n1", dict(WISH, create=False), DONE, accounts)
    assert "muster with uid 1001 and gid 8600 on n2, uid 8600 and gid 8600 on n1 n3; expected the same" in str(caught.value)
    assert cluster_user.decide("n3", dict(WISH, create=False), DONE, accounts)["todo"] is False


def test_accounts_by_number():
    text = "root:x:0:0::/root:/bin/sh\ntoor:x:0:0:::\nml:x:1000:\n+nis\nbad:x:y:\n\n"
    assert users.numbers(text) == {"0": "root", "1000": "ml"}


def test_the_section(tmp_path):
    (tmp_path / "jobs").mkdir(mode=0o700)
    (tmp_path / "envs").symlink_to("jobs")
    found = users.look({"user": "root", "state_dir": str(tmp_path)})
    assert found["account"]["uid"] == 0 and found["account"]["local"] is True
    assert found["gid"] == 0 and found["uids"]["0"] == "root" and found["name"] == "root"
    jobs, envs = (found["paths"][str(tmp_path / name)] for name in ("jobs", "envs"))
    assert (jobs["kind"], jobs["mode"], jobs["link"]) == ("folder", "0700", None)
    assert envs["link"] == str(tmp_path / "jobs")
    nobody = users.look({"user": "no-such-user", "state_dir": str(tmp_path / "none")})
    assert nobody["account"] is None and nobody["gid"] is None and set(nobody["paths"].values()) == {None}
