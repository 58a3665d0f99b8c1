#!/usr/bin/python
# Copyright (c) The Muster founders
# SPDX-License-Identifier: Apache-2.0
"""The documentation of muster.cluster.preflight. The action plugin of the same name does it all, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: preflight
short_description: Name everything that stands in the way of setting up the hosts
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - The second step of the role P(muster.cluster.preflight#role). It reads what M(muster.cluster.survey) found on all hosts of
    the play and fails once, with one sentence per fault of any host, before anything has been changed.
  - It looks at the operating system, its Python, root and systemd, the package manager, free space, the clock, two firewalls
    at once, two names for one host, and hosts that could not be looked at.
  - It checks that every member of the cluster has an IP address of its own in the inventory, and that the hosts of the play
    hold theirs.
  - It checks the roles' variables in the inventory. A misspelt one is a fault, with the name that was likely meant, and so is a
    value of another type than the role needs. A variable that only begins as a role's do is a warning.
options:
  members:
    description:
      - Inventory names of all hosts of the cluster, in the play or not. Empty means those of the play.
    type: list
    elements: str
    required: true
  min_free_mb:
    description:
      - Megabytes that must be free in C(/) and C(/var).
    type: int
    required: true
  min_tmp_mb:
    description:
      - Megabytes that must be free in C(/tmp).
    type: int
    required: true
  max_clock_skew:
    description:
      - Seconds by which a host's clock may differ from the controller's.
    type: int
    required: true
  other_systems:
    description:
      - Whether systems of the Debian and Red Hat families will do that Muster does not know.
    type: bool
    required: true
attributes:
  action:
    description: Has an action plugin of the same name, which does it all on the controller.
    support: full
  check_mode:
    description: Works in check mode as always.
    support: full
  diff_mode:
    description: It changes nothing.
    support: none
notes:
  - The task must run once (C(run_once)), after a task of M(muster.cluster.survey) whose result is registered as
    C(__preflight_survey).
  - The requirements are those of all hosts. A host for which the inventory has one of the variables C(preflight_min_free_mb),
    C(preflight_min_tmp_mb), C(preflight_max_clock_skew) and C(preflight_other_systems) has its own.
seealso:
  - module: muster.cluster.survey
"""

EXAMPLES = r"""
- name: Name every fault of every host
  muster.cluster.preflight:
    members: "{{ groups['torch_nodes'] }}"
    min_free_mb: 1000
    min_tmp_mb: 200
    max_clock_skew: 60
    other_systems: false
  run_once: true
"""

RETURN = r"""
findings:
  description: One sentence per fault.
  type: list
  elements: str
  returned: always
  sample: ["n2 has 12 MB free in /tmp, expected 200 MB; make room there, or lower preflight_min_tmp_mb"]
hosts:
  description: The hosts that were judged.
  type: list
  elements: str
  returned: always
  sample: ["n1", "n2"]
"""
