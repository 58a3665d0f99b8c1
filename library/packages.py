#!/usr/bin/python
# Copyright (c) The Muster founders
# SPDX-License-Identifier: Apache-2.0
"""The documentation of muster.cluster.packages. The action plugin of the same name does it all, by Ansible's own modules."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: packages
short_description: Install packages in one transaction of apt or dnf
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - Installs by M(ansible.builtin.apt) or M(ansible.builtin.dnf) what M(muster.cluster.survey) has not found on the host, in one
    transaction and without recommended packages.
  - Where another process holds the package manager, that is waited for, and the process is named on the screen.
  - apt's list of packages is fetched where it is older than O(list_max_age) or has turned out to be stale, dnf's in the second
    case alone.
  - A fault is one sentence with host, cause and fix.
options:
  names:
    description:
      - Names of the packages, as the host's package manager knows them.
    type: list
    elements: str
    required: true
  lock_timeout:
    description:
      - Seconds to wait while another process holds the package manager.
    type: int
    required: true
  list_max_age:
    description:
      - Seconds for which apt's list of packages is used without asking.
    type: int
    required: true
attributes:
  action:
    description: Has an action plugin of the same name, which calls Ansible's modules.
    support: full
  check_mode:
    description: Tells what would be installed, from the survey alone, so that the host needs no python3-apt for it.
    support: full
  diff_mode:
    description: Returns the names of what is installed.
    support: full
"""

EXAMPLES = r"""
- name: Install chrony
  muster.cluster.packages:
    names: [chrony]
    lock_timeout: 300
    list_max_age: 86400
"""

RETURN = r"""
installed:
  description: Names of the packages that were missing.
  type: list
  elements: str
  returned: always
  sample: ["chrony"]
details:
  description: What the package manager said.
  type: str
  returned: failure
"""
