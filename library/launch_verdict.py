#!/usr/bin/python
# Copyright (c) The Muster founders
# SPDX-License-Identifier: Apache-2.0
"""The documentation of muster.cluster.launch_verdict. The action plugin of the same name does it all, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: launch_verdict
short_description: End a launch with one sentence and an exit code
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - The last step of the role P(muster.cluster.launch#role). From what every host has answered it makes one outcome. It
    completes the record on the controller, prints the failing rank's traceback, a table of all hosts and one sentence,
    and fails unless every rank has ended with 0.
  - What the hosts have answered is read from what the tasks of M(muster.cluster.torchrun),
    M(muster.cluster.launch_follow) and M(muster.cluster.launch_collect) registered as C(__launch_start),
    C(__launch_follow) and C(__launch_collect).
  - A user's exception or a killed process counts above the errors of its peers, which lose the connection to it, and
    above timeouts; among equals the first counts.
options:
  plan:
    description:
      - Path of the plan on the controller, as M(muster.cluster.launch_plan) returns it in C(plan_file). Its folder is
        removed.
    type: str
    required: true
  record:
    description:
      - Folder of the job's record on the controller, as M(muster.cluster.launch_plan) returns it.
    type: str
    required: true
attributes:
  action:
    description: Has an action plugin of the same name, which does it all on the controller.
    support: full
  check_mode:
    description: Can run in check mode and return what it would do without changing a node.
    support: full
    details:
      - In check mode it prints the exact torchrun command of every host, and fails where a host has refused.
  diff_mode:
    description: Returns details on what has changed, when in diff mode.
    support: none
notes:
  - The task must run once (C(run_once)).
seealso:
  - module: muster.cluster.launch_plan
  - module: muster.cluster.launch_collect
"""

EXAMPLES = r"""
- name: Give the verdict on the job that the tasks before have planned, started, followed and collected
  muster.cluster.launch_verdict:
    plan: "{{ __launch_plan.plan_file }}"
    record: "{{ __launch_plan.record }}"
  run_once: true
"""

RETURN = r"""
job:
  description: Name of the job.
  type: str
  returned: always
  sample: exp7
msg:
  description: The launch's one sentence.
  type: str
  returned: always
  sample: "job exp7 failed: rank 1 on n2, train.py:41: ValueError: bad batch in shard 17"
record:
  description: Folder of the job's record on the controller.
  type: str
  returned: when every rank has ended with 0
  sample: /home/ada/muster/runs/exp7
muster_said:
  description: Tells the callback P(muster.cluster.plain#callback) that the launch has ended and C(msg) needs no frame.
  type: bool
  returned: always
"""
