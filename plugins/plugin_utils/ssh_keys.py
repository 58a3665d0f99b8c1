"""What a host needs so that the cluster's user reaches every member by key: known hosts, ports, authorized keys."""

import fnmatch

from ansible_collections.muster.cluster.plugins.module_utils.entries import known_hosts, merge
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal

HEADING = "# Written by Ansible: where members of the cluster take logins at another port than 22.\n"


def holders(members, everywhere):
    """The members that hold a key pair: the head, or all."""
    return list(members) if everywhere else list(members)[:1]


def decide(host, members, wish, looked):
    """What there is to do on one host, once the keys are made.

    Args:
        host: inventory name.
        members: ``{name: address}``, the head first.
        wish: ``{"user", "everywhere", "from"}``; ``from``: addresses or networks beside the holders' own.
        looked: ``{name: {"survey", "port", "made"}}`` of the members and this host: all sections or None where the host is not in
            this run; the inventory's port; the public key that was made in this run, or None.

    Returns:
        ``{"todo": [word], "known_hosts", "authorized_keys", "client_ports", "coming": [name], "notes": [sentence]}``: words are
        ``known_hosts``, ``authorized_keys``, ``client_ports`` and ``coming``; the first two hold the members for the module
        ``entries``, the third a text; ``coming`` names holders whose key is still to be made.

    Raises:
        Refusal: there are no members.
    """
    if not members:
        raise Refusal("ssh_keys_members is empty, expected the members of the cluster, the head first; name them")
    mine = looked[host]["survey"]["ssh"]
    pinned = {name: _pinned(name, address, looked[name], mine) for name, address in members.items()}
    keys, coming, unknown = {}, [], []
    for name in holders(members, wish["everywhere"]):
        survey = looked[name]["survey"]
        key = looked[name]["made"] or (survey["ssh"]["user_key"] if survey else None)
        keys[name] = {"keys": [key] if key else None, "from": [members[name]] + [str(one) for one in wish["from"]]}
        if not key:
            (coming if survey else unknown).append(name)
    known, known_notes = _merged("known_hosts", mine["known_hosts"], pinned)
    opened, key_notes = _merged("authorized_keys", mine["authorized_keys"], keys)
    ports = client_ports(pinned)
    notes = ["{}: in /etc/ssh/ssh_known_hosts {}".format(host, note) for note in known_notes]
    notes += ["{}: in authorized_keys of {} {}".format(host, wish["user"], note) for note in key_notes]
    notes += complaints(host, wish["user"], looked[host]["survey"]["users"]["account"], mine)
    if ports and not mine["client_includes"]:
        notes.append(
            "{}: found /etc/ssh/ssh_config without Include /etc/ssh/ssh_config.d/*.conf, expected it, since the members' ports "
            "stand there; add it".format(host)
        )
    absent = [name for name in unknown if "muster:{}".format(name) not in (mine["authorized_keys"] or "").split()]
    if absent:
        notes.append(
            "{0}: not in this run, and its key not yet authorised on every host of it, expected both; run the playbook once more "
            "without --limit, or with {0} in it".format(", ".join(absent))
        )
    loose = any(mode and int(mode, 8) & 0o022 for name, mode in mine["modes"].items() if name != "home")
    todo = {
        "known_hosts": known != (mine["known_hosts"] or ""),
        "client_ports": ports != (mine["client_ports"] or ""),
        "authorized_keys": opened != (mine["authorized_keys"] or "") or loose,
        "coming": bool(coming),
    }
    return {
        "todo": [word for word, due in todo.items() if due],
        "known_hosts": pinned,
        "authorized_keys": keys,
        "client_ports": ports,
        "coming": coming,
        "notes": notes,
    }


def _merged(kind, text, members):
    return merge(kind, text or "", {"members": members})


def _pinned(name, address, found, mine):
    """A member's address, ports and host keys; of one that is not in this run as far as this host's file has them."""
    survey = found["survey"]
    if survey:
        ports, port = list(survey["ssh"]["ports"]), survey["system"].get("ssh_server_port")
        if port and port not in ports:
            ports.append(port)  # seen by the connection, though the configuration does not have it
        return {"address": address, "ports": ports, "keys": survey["ssh"]["host_keys"] or None}
    ports = known_hosts.ports(mine["known_hosts"] or "", name) or [int(found["port"] or 22)]
    return {"address": address, "ports": ports, "keys": None}


def client_ports(pinned):
    """The text that tells ssh the ports of the members; empty where all take logins at 22."""
    text = ""
    for name, member in pinned.items():
        if 22 not in member["ports"]:
            words = [name] if name == member["address"] else [name, member["address"]]
            text += "Host {}\n    Port {}\n".format(" ".join(words), member["ports"][0])
    return HEADING + text if text else ""


def complaints(host, user, account, found):
    """Why sshd would not let the user in by the key, as far as its configuration tells: a list of sentences."""
    server = found["server"]
    groups = account["groups"] if account else [user]
    notes = []
    for word, wanted, mine in (
        ("AllowUsers", True, [user]),
        ("AllowGroups", True, groups),
        ("DenyUsers", False, [user]),
        ("DenyGroups", False, groups),
    ):
        patterns = server[word.lower()]
        # What stands after @ are addresses, which are not ours to judge.
        hit = any(fnmatch.fnmatchcase(name, pattern.split("@")[0]) for pattern in patterns for name in mine)
        if patterns and hit is not wanted and not (hit and any("@" in pattern for pattern in patterns)):
            notes.append(
                "{}: found {} {} in the configuration of sshd, which keeps {} out, expected it to be let in; change that "
                "line".format(host, word, " ".join(patterns), user)
            )
    if server["pubkeyauthentication"][:1] == ["no"]:
        notes.append(
            "{}: found PubkeyAuthentication no in the configuration of sshd, expected yes; change that line".format(host)
        )
    files = server["authorizedkeysfile"]
    if files and not any(path in (".ssh/authorized_keys", "%h/.ssh/authorized_keys") for path in files):
        notes.append(
            "{}: found AuthorizedKeysFile {} in the configuration of sshd, expected .ssh/authorized_keys among them, where the "
            "members' keys are; add it".format(host, " ".join(files))
        )
    home = found["modes"]["home"]
    if home and int(home, 8) & 0o022:
        notes.append(
            "{}: found the home of {} with mode {}, expected one that nobody else can write, since sshd takes no keys from it "
            "otherwise; run chmod go-w on it".format(host, user, home)
        )
    return notes
