#!/usr/bin/python
# Copyright (c) The Muster founders
# SPDX-License-Identifier: Apache-2.0
"""The documentation of muster.cluster.launch_report. The action plugin of the same name does it all, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: launch_report
short_description: Tell once what a task has found on every host
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - The last step of the C(status) and C(stop) of the role P(muster.cluster.launch#role). It prints one table of all
    hosts from what a task before has registered on each.
  - A host that was unreachable, or whose task failed, stands in the table of the jobs with the reason. A stop fails in
    that case, since what ran there may still run, and where no host knows the job.
options:
  purpose:
    description:
      - V(status) lists jobs, from a registered result of M(muster.cluster.torchrun_info).
      - V(stop) tells how a stop went, from a registered result of M(muster.cluster.torchrun).
    type: str
    choices: [status, stop]
    required: true
  register:
    description:
      - Name of the variable that the task before has registered.
    type: str
    required: true
  nodes:
    description:
      - The hosts in node-rank order, as M(muster.cluster.launch_plan) returns them.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description:
          - The host's name in the inventory.
        type: str
        required: true
      address:
        description:
          - The address under which the other hosts reach it. It is not read here.
        type: str
  job:
    description:
      - Name of the job. Needed for O(purpose=stop).
    type: str
attributes:
  action:
    description: Has an action plugin of the same name, which does it all on the controller.
    support: full
  check_mode:
    description: Can run in check mode and return what it would do without changing a node.
    support: full
    details:
      - It only reads.
  diff_mode:
    description: Returns details on what has changed, when in diff mode.
    support: none
notes:
  - The task must run once (C(run_once)).
seealso:
  - module: muster.cluster.launch_plan
  - module: muster.cluster.torchrun
  - module: muster.cluster.torchrun_info
"""

EXAMPLES = r"""
- name: Show the jobs that the task before has found
  muster.cluster.launch_report:
    purpose: status
    job: "{{ __launch_plan.job }}"
    nodes: "{{ __launch_plan.nodes }}"
    register: __launch_known
  run_once: true
"""

RETURN = r"""
msg:
  description: The lines that were printed, or why the stop failed.
  type: str
  returned: always
muster_said:
  description: Tells the callback P(muster.cluster.plain#callback) that C(msg) needs no frame.
  type: bool
  returned: always
"""
