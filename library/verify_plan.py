#!/usr/bin/python
# Copyright (c) The Muster founders
# SPDX-License-Identifier: Apache-2.0
"""The documentation of muster.cluster.verify_plan. The action plugin of the same name does it all, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: verify_plan
short_description: Plan the proof of a cluster
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - The first step of the role P(muster.cluster.verify#role). It decides which hosts take part, under which addresses, and
    for how long listeners may live; and it makes the private folder on the controller through which the hosts' answers go
    from one task to the next.
  - The hosts are those of O(members) that are in the play, so that C(--limit) proves a part; the report says so.
options:
  members:
    description:
      - Inventory names of the cluster's members, in node-rank order.
    type: list
    elements: str
    required: true
  user:
    description:
      - Name of the cluster's user.
    type: str
    required: true
  ssh:
    description:
      - Whether the head logs in to every member.
    type: bool
    required: true
  clocks:
    description:
      - Whether clocks are compared.
    type: bool
    required: true
  clock_limit:
    description:
      - How many seconds a clock may be off the head's.
    type: float
    required: true
  versions:
    description:
      - Whether versions are compared.
    type: bool
    required: true
  bandwidth:
    description:
      - Whether bandwidth is measured.
    type: bool
    required: true
  port:
    description:
      - The rendezvous port that is tried.
    type: int
    required: true
  port_range:
    description:
      - The first and the last port that are open to members beside the ephemeral ones, as in V(29500:29999).
    type: str
    required: true
  timeout:
    description:
      - Seconds to wait for a connection.
    type: int
    required: true
  runs_dir:
    description:
      - Folder of the records on the controller, relative to where the user stands.
    type: path
    required: true
attributes:
  action:
    description: Has an action plugin of the same name, which does it all on the controller.
    support: full
  check_mode:
    description: Can run in check mode and return what it would do without changing a node.
    support: full
    details:
      - It prints what would be proved.
  diff_mode:
    description: Returns details on what has changed, when in diff mode.
    support: none
notes:
  - The task must run once (C(run_once)).
seealso:
  - module: muster.cluster.verify_node
  - module: muster.cluster.verify_report
"""

EXAMPLES = r"""
- name: Plan the proof
  muster.cluster.verify_plan:
    members: "{{ groups['torch_nodes'] }}"
    user: muster
    ssh: true
    clocks: true
    clock_limit: 0.5
    versions: true
    bandwidth: false
    port: 29500
    port_range: "29500:29999"
    timeout: 3
    runs_dir: runs
  run_once: true
  register: __verify_plan
"""

RETURN = r"""
plan_file:
  description: Path of the plan on the controller; empty in check mode.
  type: str
  returned: success
msg:
  description: Why the proof was refused, in one sentence.
  type: str
  returned: failure
"""
