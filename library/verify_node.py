#!/usr/bin/python
# Copyright (c) The Muster founders
# SPDX-License-Identifier: Apache-2.0
"""The documentation of muster.cluster.verify_node. The action plugin of the same name does it all, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: verify_node
short_description: Listen on a host for the other members, or connect from it to them
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - The second and the third step of the role P(muster.cluster.verify#role). Each is one raw command, which carries its code
    with it; nothing is copied to the host and nothing stays there.
  - With O(step=listen) the host looks at itself and leaves a process that listens on two ports of its cluster address. It
    runs as the cluster's user where the command is root's, and ends when every host has been there or after a bound, whatever
    becomes of the controller. A port that a job uses is left alone.
  - With O(step=connect) the host connects to all listeners, itself included. Both ends prove that they belong to this run. The
    head also logs in to every member.
  - A host that cannot be asked is no failure here; M(muster.cluster.verify_report) judges all hosts together.
options:
  step:
    description:
      - Which of the two steps. All hosts must have done the first before any does the second.
    type: str
    choices: [listen, connect]
    required: true
  plan:
    description:
      - Path of the plan on the controller, as M(muster.cluster.verify_plan) returns it.
    type: path
    required: true
  interpreter:
    description:
      - The Python that runs the command, as C(ansible_python_interpreter) names it; V(auto) takes the first that is 3.8 or
        later of those that Ansible would look for.
    type: str
    required: true
  python:
    description:
      - Path of the jobs' Python on this host, whose version and packages are read. Needed for O(step=connect).
    type: path
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
seealso:
  - module: muster.cluster.verify_plan
  - module: muster.cluster.verify_report
"""

EXAMPLES = r"""
- name: Listen on every host
  muster.cluster.verify_node:
    step: listen
    plan: "{{ __verify_plan.plan_file }}"
    interpreter: "{{ ansible_python_interpreter | default('auto') }}"
"""

RETURN = r"""
lost:
  description: Why the host could not be asked, in one sentence without its name.
  type: str
  returned: when the host could not be asked
refused:
  description: Why the host cannot listen, in one sentence without its name.
  type: str
  returned: when the host cannot listen
"""
