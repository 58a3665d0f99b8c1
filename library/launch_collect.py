#!/usr/bin/python
# Copyright (c) The Muster founders
# SPDX-License-Identifier: Apache-2.0
"""The documentation of muster.cluster.launch_collect. The action plugin of the same name does it all, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: launch_collect
short_description: Bring the record of a job from a node to the controller
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - The fourth step of the role P(muster.cluster.launch#role). It waits until a job has ended on this host and unpacks
    the node's result, timeline, facts and logs into a folder of the host's name in O(record). Of a longer log the last
    4 MiB are brought.
  - Nothing secret is among them, since the node's specification of the job stays there.
  - Where a host has refused the launch, by what its task of M(muster.cluster.torchrun) registered as C(__launch_start),
    it calls the launch off on the hosts that had begun. A job that never ran leaves no trace.
  - A host that cannot be asked is no failure here; M(muster.cluster.launch_verdict) judges all hosts together.
options:
  job:
    description:
      - Name of the job.
    type: str
    required: true
  run_id:
    description:
      - Identifies the start that is called off where a host has refused, as M(muster.cluster.launch_plan) returns it.
    type: str
    required: true
  nodes:
    description:
      - The hosts of the job in node-rank order, as M(muster.cluster.launch_plan) returns them.
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
  python:
    description:
      - Path of the job's Python on this host.
    type: str
    required: true
  state_dir:
    description:
      - Folder of Muster's state on this host.
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
      - In check mode nothing has been started, so that there is nothing to collect and the task is skipped.
  diff_mode:
    description: Returns details on what has changed, when in diff mode.
    support: none
notes:
  - It runs on every host of the job.
seealso:
  - module: muster.cluster.launch_plan
  - module: muster.cluster.launch_verdict
"""

EXAMPLES = r"""
- name: Collect the record of the job that the tasks before have planned, started and followed
  muster.cluster.launch_collect:
    job: "{{ __launch_plan.job }}"
    run_id: "{{ __launch_plan.run_id }}"
    nodes: "{{ __launch_plan.nodes }}"
    python: /var/lib/muster/envs/default/bin/python
    state_dir: /var/lib/muster
    record: "{{ __launch_plan.record }}"
  register: __launch_collect
"""

RETURN = r"""
state:
  description:
    - How the job ended on this host, as M(muster.cluster.torchrun_info) names it; V(absent) where it holds nothing of
      this run; V(unknown) where it could not be asked.
  type: str
  returned: when the record was asked for
  sample: finished
result:
  description: The job's result as this host knows it, the content of its C(result.json); null where there is none.
  type: dict
  returned: when the record was asked for
  sample: {"job": "exp7", "outcome": "finished", "world_size": 4}
lost:
  description: Why the host could not be asked, in one sentence.
  type: str
  returned: when the host could not be asked
"""
