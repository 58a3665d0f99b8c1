#!/usr/bin/python
# Copyright (c) The Muster founders
# SPDX-License-Identifier: Apache-2.0
"""The module muster.cluster.firewall: options in, result out. What it does stands in module_utils/muster_firewall."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: firewall
short_description: Let members and administrators in, and nobody else
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - Sets the rules of ufw or firewalld that a cluster needs, in one call, and leaves everybody else's rules alone. SSH comes
    first, the denial of everything else last.
  - A change is guarded. A unit of systemd puts everything back after O(rollback_seconds) unless an action of the same name,
    in front of this module, has confirmed the change over a fresh connection. A connection that was there before proves
    nothing, since firewalls let it live on.
  - Muster's own rules are told from others by their comment (C(muster ...), ufw) and by their priority (29500, firewalld). Of
    other rules only those are replaced that open SSH to the whole world although O(admin_networks) restricts it. Those that
    open the ports of jobs to the whole world stay, with a warning each.
  - More than 16 members are told to the firewall as the fewest networks that hold exactly their addresses.
requirements:
  - Linux with systemd, Python 3.8 or later and root's rights on the host
  - ufw 0.35 or later, or firewalld 0.9 or later
options:
  state:
    description:
      - V(present) makes the firewall as wanted.
      - V(confirm) keeps the change that was made under O(guard). The action does it by itself.
    type: str
    choices: [present, confirm]
    default: present
  backend:
    description:
      - Which firewall the host has. Needed for O(state=present).
    type: str
    choices: [ufw, firewalld]
  guard:
    description:
      - Word that tells one change from another, made by the action.
    type: str
  members:
    description:
      - The members' names with the addresses from which they come; this host may be among them.
    type: dict
    default: {}
  keep_members_in:
    description:
      - Networks in which Muster's own rules stay although no member in O(members) needs them, for runs that do not know
        all of the members' addresses.
    type: list
    elements: str
    default: []
  admin_networks:
    description:
      - Networks from which SSH and O(service_ports) are open.
    type: list
    elements: str
    default: [0.0.0.0/0, "::/0"]
  ssh_ports:
    description:
      - Ports of sshd. That of the connection over which the module came is added.
    type: list
    elements: int
    default: []
  rendezvous_ports:
    description:
      - A port or a range of ports that is open to the members, beside the range that the host's programs take ports from.
    type: str
    default: "29500:29999"
  ephemeral_ports:
    description:
      - The range that the host's programs take ports from, where it is about to be set. Empty means the one in force.
    type: str
    default: ""
  service_ports:
    description:
      - Ports and ranges that are open to O(admin_networks), which must not be the whole world then.
    type: list
    elements: str
    default: []
  time_server:
    description:
      - Whether the members get their time from this host (123/udp).
    type: bool
    default: false
  rollback_seconds:
    description:
      - Seconds after which a change that nobody has confirmed is undone.
    type: int
    default: 60
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying the firewall.
    support: full
  diff_mode:
    description: Returns details on what has changed or would change, when in diff mode.
    support: full
    details:
      - Each rule is a line.
  platform:
    description: Target systems.
    support: full
    platforms: posix
"""

EXAMPLES = r"""
- name: Shut out everybody but members and administrators
  muster.cluster.firewall:
    backend: ufw
    members:
      n1: [192.0.2.11]
      n2: [192.0.2.12]
    admin_networks: [192.0.2.0/24]
    ssh_ports: [22]
"""

RETURN = r"""
guarded:
  description: Whether a change was made that awaits its confirmation.
  type: bool
  returned: success
confirmed:
  description: Whether the change is there to stay.
  type: bool
  returned: when a change was made
fresh:
  description: Whether the confirmation came over another connection than the change.
  type: bool
  returned: for O(state=confirm)
commands:
  description: The commands that made the change, or would make it.
  type: list
  elements: list
  returned: for O(state=present)
  sample: [["ufw", "allow", "proto", "tcp", "from", "192.0.2.12", "to", "any", "port", "22", "comment", "muster ssh"]]
client:
  description: The controller's address as the host sees it, empty where there is no SSH.
  type: str
  returned: for O(state=present)
  sample: 192.0.2.1
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.muster_firewall import change, guard, host

ARGUMENTS: dict[str, dict[str, Any]] = {
    "state": {"type": "str", "choices": ["present", "confirm"], "default": "present"},
    "backend": {"type": "str", "choices": ["ufw", "firewalld"]},
    "guard": {"type": "str"},
    "members": {"type": "dict", "default": {}},
    "keep_members_in": {"type": "list", "elements": "str", "default": []},
    "admin_networks": {"type": "list", "elements": "str", "default": ["0.0.0.0/0", "::/0"]},
    "ssh_ports": {"type": "list", "elements": "int", "default": []},
    "rendezvous_ports": {"type": "str", "default": "29500:29999"},
    "ephemeral_ports": {"type": "str", "default": ""},
    "service_ports": {"type": "list", "elements": "str", "default": []},
    "time_server": {"type": "bool", "default": False},
    "rollback_seconds": {"type": "int", "default": 60},
}


def present(module: AnsibleModule) -> dict[str, Any]:
    """Make the firewall as wanted; returns the result."""
    firewall = change.Host(module.params["backend"], module.params)
    plan, guarded = firewall.ensure(module.params["guard"], module.check_mode)
    for sentence in firewall.warnings():
        module.warn(sentence)
    result = {
        "changed": bool(plan.steps),
        "guarded": guarded,
        "commands": [step.argv for step in plan.steps],
        "client": firewall.client[0] if firewall.client else "",
    }
    if module._diff:
        name = module.params["backend"]
        before, after = ("".join(line + "\n" for line in lines) for lines in (plan.before, plan.after))
        result["diff"] = {"before_header": name, "after_header": name, "before": before, "after": after}
    return result


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        required_if=[("state", "present", ["backend"]), ("state", "confirm", ["guard"])],
    )
    try:
        if os.geteuid() != 0:
            raise Refusal("the login is no root's, expected root's rights for the firewall; set ansible_become to true")
        if module.params["state"] == "confirm":
            result = dict(guard.confirm(module.params["guard"], host.connection()), changed=False)
        else:
            result = present(module)
    except Refusal as refusal:
        module.fail_json(msg=str(refusal))
    except OSError as error:
        module.fail_json(msg="found {}, expected to read and write the firewall's files; see the disk of the host".format(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
