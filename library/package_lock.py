#!/usr/bin/python
# Copyright (c) The Muster founders
# SPDX-License-Identifier: Apache-2.0
"""The module muster.cluster.package_lock: waits until nobody holds the package manager."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: package_lock
short_description: Wait until nobody holds the package manager's lock
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - Waits until no process holds a lock of apt, dpkg, dnf or rpm, and tells which process does. It takes no lock itself.
options:
  timeout:
    description:
      - Seconds to wait at most; V(0) only looks.
    type: float
    default: 0
attributes:
  check_mode:
    description: It only looks.
    support: full
  diff_mode:
    description: It changes nothing.
    support: none
"""

EXAMPLES = r"""
- name: Wait for the package manager
  muster.cluster.package_lock:
    timeout: 300
"""

RETURN = r"""
lock:
  description: Who holds a lock still, null where nobody does.
  type: dict
  returned: success
  contains:
    path:
      description: The lock's file.
      type: str
      sample: /var/lib/dpkg/lock-frontend
    pid:
      description: Id of the process.
      type: int
      sample: 4242
    process:
      description: Its name.
      type: str
      sample: unattended-upgrade
waited:
  description: Seconds that it has waited.
  type: float
  returned: success
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.muster_survey import packages

PAUSE = 0.5
ARGUMENTS = {"timeout": {"type": "float", "default": 0}}


def main():
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    began = time.monotonic()
    manager = packages.manager()
    lock = packages.lock(manager)
    while lock and time.monotonic() - began < module.params["timeout"]:
        time.sleep(PAUSE)  # nothing tells when a lock is given back
        lock = packages.lock(manager)
    module.exit_json(changed=False, lock=lock, waited=round(time.monotonic() - began, 1))


if __name__ == "__main__":
    main()
