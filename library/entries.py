#!/usr/bin/python
# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The module muster.cluster.entries: options in, result out. What it does stands in module_utils/entries."""

DOCUMENTATION = r"""
---
module: entries
short_description: Keep the members of a cluster in the hosts file, the known hosts or an account's authorized keys
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - Brings the entries of all members into a file that holds others' lines too. These stay as they are and where they are, and
    entries of hosts that are no longer members go.
  - The file is read anew under a lock and replaced whole, so that writers that come at once lose nothing. Owner, mode and
    SELinux context stay.
  - In a user's home everything is done with that user's rights, and no link is followed.
options:
  kind:
    description:
      - V(hosts) keeps one block of lines in the hosts file. Names of members go from other lines that give them another
        address, and the host's own names from loopback lines.
      - V(known_hosts) keeps the members' public host keys in lines that end in C(muster:NAME).
      - V(authorized_keys) keeps the public keys of members in lines that end in C(muster:NAME), each good from given addresses
        only.
    type: str
    choices: [hosts, known_hosts, authorized_keys]
    required: true
  members:
    description:
      - The members by name, each with C(address) for O(kind=hosts); with C(address), C(ports) and C(keys) for
        O(kind=known_hosts); with C(keys) and C(from), a list of addresses or networks, for O(kind=authorized_keys).
      - C(keys) is a list of public keys. Without it the keys that the file has for this member stay.
    type: dict
    required: true
  own:
    description:
      - Name of this host among the members, for O(kind=hosts).
    type: str
    default: ""
  hostname:
    description:
      - The name that this host has itself, for O(kind=hosts); it is kept beside O(own).
    type: str
    default: ""
  path:
    description:
      - The file of O(kind=hosts) or O(kind=known_hosts), F(/etc/hosts) or F(/etc/ssh/ssh_known_hosts) unless it is given.
    type: path
  user:
    description:
      - The account whose F(~/.ssh/authorized_keys) is meant by O(kind=authorized_keys).
    type: str
attributes:
  check_mode:
    description: Tells what would change and changes nothing. An account that is not there yet counts as one without keys.
    support: full
  diff_mode:
    description: Returns the file before and after.
    support: full
  platform:
    description: Target systems.
    support: full
    platforms: posix
"""

EXAMPLES = r"""
- name: Let every member resolve every member
  muster.cluster.entries:
    kind: hosts
    members:
      n1: {address: 192.0.2.11}
      n2: {address: 192.0.2.12}
    own: n1
    hostname: "{{ ansible_facts['muster']['hosts']['hostname'] }}"

- name: Let the head in
  muster.cluster.entries:
    kind: authorized_keys
    user: muster
    members:
      n1:
        keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB6rLFKn1sJkYcXTwGrrn1VJbWlqb4cWyPVOGKSVLJYX]
        from: [192.0.2.11]
"""

RETURN = r"""
path:
  description: Path of the file.
  type: str
  returned: always
notes:
  description: Sentences about lines of others' that are at odds with the members' entries and were left alone.
  type: list
  elements: str
  returned: success
"""

import ipaddress
import pwd

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.entries import KINDS, storing

PATHS = {"hosts": "/etc/hosts", "known_hosts": "/etc/ssh/ssh_known_hosts"}


def argument_spec():
    """The module's arguments."""
    return {
        "kind": {"type": "str", "choices": list(KINDS), "required": True},
        "members": {"type": "dict", "required": True},
        "own": {"type": "str", "default": ""},
        "hostname": {"type": "str", "default": ""},
        "path": {"type": "path"},
        "user": {"type": "str"},
    }


def complaint(kind, members):
    """What is wrong with the members, in one sentence; None where nothing is."""
    needed = {"hosts": ("address",), "known_hosts": ("address", "ports"), "authorized_keys": ("from",)}[kind]
    for name, member in members.items():
        lacking = [key for key in needed if not (isinstance(member, dict) and member.get(key))]
        if lacking:
            return "found the member {} without {}, expected it; correct members".format(name, " and ".join(lacking))
        try:
            ipaddress.ip_address(member.get("address", "::"))
        except ValueError:
            return "found the address {} of {}, expected an IP address; correct members".format(member["address"], name)
        for key in member.get("keys") or []:
            if len(str(key).split()) < 2 or "\n" in str(key).strip():
                return "found the key {!r} of {}, expected a type and a key in one line; correct members".format(key, name)
    return None


def main():
    """Run as a module."""
    module = AnsibleModule(
        argument_spec=argument_spec(),
        supports_check_mode=True,
        required_if=[("kind", "authorized_keys", ("user",))],
        mutually_exclusive=[("path", "user")],
    )
    params = module.params
    kind = params["kind"]
    wrong = complaint(kind, params["members"])
    if wrong:
        module.fail_json(msg=wrong)
    if kind != "authorized_keys":
        place = storing.of_root(params["path"] or PATHS[kind])
    else:
        try:
            place = storing.of_user(pwd.getpwnam(params["user"]), "authorized_keys")
        except KeyError:
            if not module.check_mode:
                module.fail_json(msg="found no account {}, expected it; make it first".format(params["user"]))
            place = storing.Place("~{}/.ssh".format(params["user"]), "authorized_keys")
    try:
        done = storing.edit(place, kind, params, module.check_mode)
    except storing.Fault as fault:
        module.fail_json(msg=str(fault), path=place.path)
    except OSError as error:
        module.fail_json(
            msg="could not bring the members into {} ({}), expected to read and write it; see to its owner and disk".format(
                place.path, error.strerror or error
            ),
            path=place.path,
        )
    result = {
        "changed": done["before"] != done["after"] or bool(done["tightened"]),
        "path": place.path,
        "notes": done["notes"],
    }
    if module._diff:
        headers = {"before_header": place.path, "after_header": place.path}
        result["diff"] = [dict(headers, before=done["before"], after=done["after"])]
        for path, before, after in done["tightened"]:
            result["diff"].append({"before": "{} {:04o}\n".format(path, before), "after": "{} {:04o}\n".format(path, after)})
    module.exit_json(**result)


if __name__ == "__main__":
    main()
