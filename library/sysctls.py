#!/usr/bin/python
# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""Set sysctls now and at boot, as far as the host lets them be set."""

DOCUMENTATION = r"""
module: sysctls
short_description: Set sysctls now and at boot, as far as the host lets them be set
version_added: 0.1.0
description:
  - Writes a file for C(/etc/sysctl.d) and the values into C(/proc/sys), all in one call.
  - What a host does not have or does not let be set, as much in a container, is no failure. It stands in the file as a comment
    and in the result.
  - Of sizes, such as C(net.core.rmem_max) or C(vm.max_map_count), the greater of what is wanted and what is in force is taken.
    Everything else is set as it is stated.
author:
  - The Muster founders
options:
  path:
    description: The file.
    type: path
    default: /etc/sysctl.d/60-muster.conf
  values:
    description: Names and values. A name whose value is empty is left out.
    type: dict
    required: true
  notes:
    description: Comments for the file, name to text.
    type: dict
    default: {}
attributes:
  check_mode:
    support: full
    description: It says what it would do.
  diff_mode:
    support: full
    description: The diff is that of the file, and of the values in force.
"""

EXAMPLES = r"""
- name: Set the sysctls
  muster.cluster.sysctls:
    values:
      net.core.somaxconn: 4096
      net.ipv4.ip_local_port_range: 32768 60999
"""

RETURN = r"""
set:
  description: What was not in force, name to value.
  returned: success
  type: dict
left:
  description: What the host does not let be set, name to C(wanted) and C(found), the latter null where there is no such setting.
  returned: success
  type: dict
"""

import errno
import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils import sysctls
from ansible_collections.muster.cluster.plugins.module_utils.muster_survey import reading


def argument_spec():
    """The module's arguments."""
    return {
        "path": {"type": "path", "default": "/etc/sysctl.d/60-muster.conf"},
        "values": {"type": "dict", "required": True},
        "notes": {"type": "dict", "default": {}},
    }


def put_in_force(module, decided, states):
    """Write the values that are not in force; what turns out to be read-only becomes ``leave``.

    Args:
        module: an AnsibleModule, for its ``fail_json``.
        decided: from ``sysctls.decide``; changed in place.
        states: what was in force.
    """
    for name, one in decided.items():
        if one["do"] != "set":
            continue
        try:
            with open(sysctls.path_of(name), "w", encoding="utf-8") as stream:
                stream.write(one["value"])
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                module.fail_json(msg="found {} = {}, expected {}, which the kernel refuses ({}); correct limits_sysctls".format(
                    name, states[name]["value"], one["value"], error.strerror))  # fmt: skip
            states[name]["writable"] = False


def write(module, path, text):
    """Put a file of mode 0644 in place, whole or not at all."""
    aside = os.path.join(module.tmpdir, "sysctls")
    with open(aside, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chmod(aside, 0o644)
    module.atomic_move(aside, path)
    os.chmod(path, 0o644)


def main():
    """Run as a module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    path, wanted = module.params["path"], module.params["values"]
    strange = [name for name in wanted if not sysctls.NAME.match(name)]
    if strange:
        module.fail_json(msg="found {!r}, expected the name of a sysctl such as net.core.somaxconn; correct "
                             "limits_sysctls".format(strange[0]))  # fmt: skip
    states = {name: sysctls.state(name) for name in wanted}
    decided = sysctls.decide(wanted, states)
    if not module.check_mode:
        put_in_force(module, decided, states)
        decided = sysctls.decide(wanted, states)
    text, before = sysctls.render(decided, module.params["notes"]), reading.text(path)
    done = {name: one["value"] for name, one in decided.items() if one["do"] == "set"}
    if text != before and not module.check_mode:
        write(module, path, text)
    result = {
        "changed": text != before or bool(done),
        "set": done,
        "left": {
            name: {"wanted": one["value"], "found": states[name]["value"]}
            for name, one in decided.items()
            if one["do"] == "leave"
        },
    }
    if module._diff:
        shown = "".join("{} = {}\n".format(name, states[name]["value"]) for name in done)
        result["diff"] = [
            {"before_header": path, "after_header": path, "before": before or "", "after": text},
            {
                "before_header": "in force",
                "after_header": "in force",
                "before": shown,
                "after": "".join("{} = {}\n".format(*pair) for pair in done.items()),
            },
        ]
    module.exit_json(**result)


if __name__ == "__main__":
    main()
