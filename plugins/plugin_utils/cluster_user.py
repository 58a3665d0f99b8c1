"""What a host needs so that the cluster's user is the same everywhere and owns the state folder."""

import os

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal

# The modes that the agent gives these folders, too. Others may look at names there; a job's own folder is 0700.
MODE = "0755"
# Folders of the system, which become nobody's own.
SHARED = (
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root", "/run",
    "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/local", "/var", "/var/cache", "/var/lib", "/var/log", "/var/tmp",
)  # fmt: skip


def decide(host, wish, survey, accounts):
    """What there is to do on one host.

    Args:
        host: inventory name.
        wish: ``{"name", "uid", "gid", "shell", "create", "state_dir"}``.
        survey: the section ``users``.
        accounts: ``{host: account or None}`` of the hosts of this run that were looked at, in their order, this one among them.

    Returns:
        ``{"todo": bool, "group": bool, "account": bool, "folders": [path], "uid", "gid"}``.

    Raises:
        Refusal: what is there is not what is wanted, and is not Muster's to change.
    """
    for variable, mine, looked_at in (
        ("muster_user", wish["name"], survey["name"]),
        ("muster_state_dir", wish["state_dir"], min(survey["paths"], key=len)),
    ):
        if mine != looked_at:
            raise Refusal(
                "found {} here and {} in what all roles read, expected the same; set {} alone".format(mine, looked_at, variable)
            )
    name, account = wish["name"], survey["account"]
    uid, gid = int(wish["uid"]), int(wish["gid"])
    make_group = make_account = False
    if name == "root" or (wish["create"] and not (0 < uid < 2**32 - 1 and 0 < gid < 2**32 - 1)):
        raise Refusal(
            "found the cluster's user to be root or to have no id of its own, expected an unprivileged user; correct "
            "muster_user, cluster_user_uid or cluster_user_gid"
        )
    if wish["create"]:
        _check_ids(host, name, uid, gid, survey)
        make_group = account is None and survey["gid"] is None
        # What a directory service says of an account is its own.
        make_account = account is None or (account["local"] and account["shell"] != wish["shell"])
    else:
        _check_same(host, name, accounts)
        uid, gid = account["uid"], account["gid"]
    folders = _folders(host, wish, uid, gid, survey["paths"])
    return {
        "todo": make_group or make_account or bool(folders),
        "group": make_group,
        "account": make_account,
        "folders": folders,
        "uid": uid,
        "gid": gid,
    }


def _check_ids(host, name, uid, gid, survey):
    """Neither another account's id nor the account's other ids are ever changed."""
    account = survey["account"]
    if account:
        if (account["uid"], account["gid"]) != (uid, gid):
            raise Refusal(
                "{}: found the account {} with uid {} and gid {}, expected {} and {}; set cluster_user_uid and cluster_user_gid, "
                "or cluster_user_create: false to take it as it is, or another muster_user".format(
                    host, name, account["uid"], account["gid"], uid, gid
                )
            )
        return
    if str(uid) in survey["uids"]:
        raise Refusal(
            "{}: found the uid {} taken by {}, expected it to be free for {}; set another cluster_user_uid".format(
                host, uid, survey["uids"][str(uid)], name
            )
        )
    if survey["gid"] not in (None, gid):
        raise Refusal(
            "{}: found the group {} with gid {}, expected {}; set cluster_user_gid".format(host, name, survey["gid"], gid)
        )
    if survey["gid"] is None and str(gid) in survey["gids"]:
        raise Refusal(
            "{}: found the gid {} taken by the group {}, expected it to be free for {}; set another cluster_user_gid".format(
                host, gid, survey["gids"][str(gid)], name
            )
        )


def _check_same(host, name, accounts):
    """An account that is somebody else's to make is there, with the same ids on every host."""
    if accounts[host] is None:
        raise Refusal(
            "{}: found no account {}, expected it to be there since cluster_user_create is false; make it with the ids that it "
            "has on the other hosts, or set cluster_user_create: true".format(host, name)
        )
    if host != next(iter(accounts)):
        return  # one host says it for all
    hosts = {}
    for other, account in accounts.items():
        if account is not None:
            hosts.setdefault((account["uid"], account["gid"]), []).append(other)
    if len(hosts) > 1:
        table = ", ".join(
            "uid {} and gid {} on {}".format(ids[0], ids[1], " ".join(names)) for ids, names in sorted(hosts.items(), key=str)
        )
        raise Refusal(
            "found the account {} with {}; expected the same on every host, so that files of one host are its own on another; "
            "give it one uid and one gid, or name another account in muster_user".format(name, table)
        )


def _folders(host, wish, uid, gid, paths):
    """The folders that are to be made or mended; nothing in them is touched."""
    top = wish["state_dir"]
    found = []
    for path in (top, top + "/jobs", top + "/envs"):
        there = paths[path]
        if there is None:
            found.append(path)
            continue
        if there["kind"] != "folder":
            raise Refusal("{}: found {} to be no folder, expected one; move it away".format(host, path))
        if there["uid"] not in (0, uid):
            raise Refusal(
                "{}: found {} to belong to {}, whose jobs may run in it, expected {}; set muster_state_dir to another folder, or "
                "end the jobs and run chown -R {}:{} on it".format(host, path, there["owner"], wish["name"], uid, gid)
            )
        if path == top and there["uid"] == 0 != uid and (path in SHARED or int(there["mode"], 8) & 0o022):
            raise Refusal(
                "{}: found {} to be root's and of use to others, expected a folder for {} alone; set muster_state_dir to one in "
                "it, such as {}".format(host, path, wish["name"], os.path.join(path, wish["name"]))
            )
        if (there["uid"], there["gid"], there["mode"]) != (uid, gid, MODE):
            if there["link"]:
                raise Refusal(
                    "{}: found {} to be a link to {} with owner {} and mode {}, expected {} and {}; mend that folder".format(
                        host, path, there["link"], there["owner"], there["mode"], wish["name"], MODE
                    )
                )
            found.append(path)
    # The agent removes the folder of jobs with the last job and makes it with the next.
    return [] if found == [top + "/jobs"] and paths[top + "/jobs"] is None else found
