#!/usr/bin/python
# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The module muster.cluster.python_env_info. What it does stands in module_utils/python_env/inspecting.py."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: python_env_info
short_description: Tell what is really installed in a Python environment, and which versions of it there are
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - Reads an environment that M(muster.cluster.python_env) has made, its lock, what its packages' own records say, the versions
    that are kept for a way back, and who uses them. It changes nothing and asks neither uv nor the network.
options:
  prefix:
    description:
      - Path of the environment.
    type: path
    required: true
attributes:
  check_mode:
    description: Can run in check mode, since it changes nothing.
    support: full
  diff_mode:
    description: Has no diff, since it changes nothing.
    support: none
seealso:
  - module: muster.cluster.python_env
"""

EXAMPLES = r"""
- name: Read what is installed
  muster.cluster.python_env_info:
    prefix: /var/lib/muster/envs/default
  register: found
"""

RETURN = r"""
prefix:
  description: Path of the environment.
  type: str
  returned: always
  sample: /var/lib/muster/envs/default
name:
  description: Its name, the last part of the path.
  type: str
  returned: success
  sample: default
state:
  description: V(there), V(none), or V(other) for something that Muster has not made in this form.
  type: str
  returned: success
real:
  description: Path of the version that the prefix stands for; empty without one.
  type: str
  returned: success
lock_id:
  description: Id of the lock that it was made from; empty without one.
  type: str
  returned: success
  sample: 3f9a6c0d1e2b
lock:
  description: The lock; null where there is none.
  type: dict
  returned: success
environment_yml:
  description: What is really installed, as the text of an environment.yml with exact versions.
  type: str
  returned: success
fingerprint:
  description: sha256 over everything that is really installed, as the roll call of a launch compares it.
  type: str
  returned: success
contents:
  description: What the fingerprint is made of, name to version, build and the first digits of the hash.
  type: dict
  returned: success
  sample: {"numpy": ["2.4.3", "", "9f2c41aa01bc"]}
drift:
  description: What differs from what was installed, in words.
  type: list
  elements: str
  returned: success
  sample: ["numpy is 2.3.0 instead of 2.4.3"]
versions:
  description: The whole versions that are there, the one used last first.
  type: list
  elements: dict
  returned: success
  contains:
    id: {description: "Its folder's name, the lock id or that with a number behind it.", type: str}
    path: {description: Its folder, type: str}
    lock_id: {description: Its lock, type: str}
    used: {description: When it was last switched to in seconds since 1970, type: float}
    current: {description: Whether the prefix stands for it, type: bool}
    changes: {description: "What it has instead of the present one, as name, the present version and its own; null for none.",
              type: list}
    users: {description: "Who runs on it, jobs of Muster by their names.", type: list}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.python_env import inspecting
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault

ARGUMENTS: dict[str, dict[str, Any]] = {"prefix": {"type": "path", "required": True}}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    prefix = module.params["prefix"]
    try:
        module.exit_json(changed=False, prefix=prefix, **inspecting.inspect(prefix))
    except Fault as fault:
        module.fail_json(msg=fault.sentence, prefix=prefix)


if __name__ == "__main__":
    main()
