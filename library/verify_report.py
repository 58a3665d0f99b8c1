#!/usr/bin/python
# Copyright (c) The Muster founders
# SPDX-License-Identifier: Apache-2.0
"""The documentation of muster.cluster.verify_report. The action plugin of the same name does it all, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: verify_report
short_description: Give the verdict on a cluster
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - The last step of the role P(muster.cluster.verify#role). It prints who reaches whom, as a table of up to 16 hosts, and
    one sentence for every fault with the hosts, what was expected and what to do; it writes the record, a folder with
    C(verify.json) and C(matrix.txt); and it fails if anything did.
options:
  plan:
    description:
      - Path of the plan on the controller, as M(muster.cluster.verify_plan) returns it. It and the hosts' answers beside it are
        removed.
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
      - In check mode the task is skipped.
  diff_mode:
    description: Returns details on what has changed, when in diff mode.
    support: none
notes:
  - The task must run once (C(run_once)).
seealso:
  - module: muster.cluster.verify_plan
  - module: muster.cluster.verify_node
"""

EXAMPLES = r"""
- name: Tell what was found
  muster.cluster.verify_report:
    plan: "{{ __verify_plan.plan_file }}"
  run_once: true
"""

RETURN = r"""
msg:
  description: The verdict in one sentence; where it failed, with the first fault.
  type: str
  returned: always
  sample: "cluster of 3 hosts verified: 6 of 6 pairs reach each other (0.4 ms at most), SSH from n1 to 3 of 3"
faults:
  description: One sentence per fault.
  type: list
  elements: str
  returned: always
  sample: ["n2 cannot reach n1 at 192.0.2.1 port 41234 (no answer within 3 s), expected it open to members: the firewall of n1
    lacks tcp 32768:60999 from 192.0.2.2; run site.yml --tags firewall"]
record:
  description: Folder of the record on the controller.
  type: path
  returned: always
  sample: /home/alice/muster/runs/verify-20261201-093000
muster_said:
  description: Tells the callback P(muster.cluster.plain#callback) that C(msg) needs no frame.
  type: bool
  returned: always
"""
