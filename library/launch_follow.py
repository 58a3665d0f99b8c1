#!/usr/bin/python
# Copyright (c) The Muster founders
# SPDX-License-Identifier: Apache-2.0
"""The documentation of muster.cluster.launch_follow. The action plugin of the same name does it all, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: launch_follow
short_description: Show the log lines of a job while it runs
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - The third step of the role P(muster.cluster.launch#role). It shows new lines of the ranks' logs on the screen, marked
    C(host:rank |), and ends with the job.
  - It only reads. Ctrl-C, a closed terminal or a lost connection leave the job running; how to come back and how to stop
    the job is printed before the first line.
  - A node that cannot be reached is asked again for two minutes.
  - Terminal escapes in the lines are removed, and a line is cut after 2000 characters.
  - An agent that shows no life for 25 seconds, though its node answers, is not followed any longer.
  - A launch that some host has refused, by what its task of M(muster.cluster.torchrun) registered as C(__launch_start),
    is not followed.
options:
  plan:
    description:
      - Path of the plan on the controller, as M(muster.cluster.launch_plan) returns it in C(plan_file). Every node has
        what it needs by now, so that the job's key, its environment and the shipped files are removed from there.
      - Needed unless O(launched=false).
    type: str
  job:
    description:
      - Name of the job.
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
      - Folder of the record on the controller. One of another run of the same name is renamed before this run's is written.
      - Only for O(launched=true).
    type: path
  until:
    description:
      - V(end) shows lines until the job has ended.
      - V(running) returns as soon as training has begun.
    type: str
    choices: [end, running]
    default: end
  launched:
    description:
      - Whether this play has started the job. With V(false) nothing that a task before has registered is looked at, check
        mode makes no difference, a job that the host does not know is refused, and the closing sentence is shown.
    type: bool
    default: true
attributes:
  action:
    description: Has an action plugin of the same name, which does it all on the controller.
    support: full
  check_mode:
    description: Can run in check mode and return what it would do without changing a node.
    support: full
    details:
      - In check mode nothing has been started, so that there is nothing to show and the task is skipped, unless
        O(launched=false).
  diff_mode:
    description: Returns details on what has changed, when in diff mode.
    support: none
notes:
  - Run it once (C(run_once)) to show the head's lines, or on all hosts to show those of every node.
seealso:
  - module: muster.cluster.launch_plan
  - module: muster.cluster.torchrun_info
"""

EXAMPLES = r"""
- name: Follow the job that the tasks before have planned and started
  muster.cluster.launch_follow:
    plan: "{{ __launch_plan.plan_file }}"
    job: "{{ __launch_plan.job }}"
    nodes: "{{ __launch_plan.nodes }}"
    python: /var/lib/muster/envs/default/bin/python
    state_dir: /var/lib/muster
  run_once: true
  register: __launch_follow

- name: Show what a job writes that was started at another time
  muster.cluster.launch_follow:
    job: exp7
    nodes:
      - name: n1
      - name: n2
    python: /var/lib/muster/envs/default/bin/python
    state_dir: /var/lib/muster
    launched: false
  run_once: true
"""

RETURN = r"""
state:
  description:
    - V(running) where O(until=running) and training has begun; otherwise how the job ended on this host, as
      M(muster.cluster.torchrun_info) names it; V(frozen) where its agent shows no life; V(unknown) where the host could
      not be asked.
  type: str
  returned: success
  sample: finished
told:
  description: Why the host could not be asked, in one sentence; null where it could.
  type: str
  returned: success
sentence:
  description: How the job ended, in one sentence; null where no agent could say.
  type: str
  returned: when the job has ended
  sample: "job exp7 finished: every one of 4 ranks ended with 0 in 31.2 s"
muster_said:
  description: Tells the callback P(muster.cluster.plain#callback) that C(msg) needs no frame.
  type: bool
  returned: O(launched=false)
msg:
  description: The job's closing sentence, or why there is nothing to show.
  type: str
  returned: O(launched=false)
"""
