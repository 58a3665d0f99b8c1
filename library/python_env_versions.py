#!/usr/bin/python
# Copyright (c) The Muster founders
# SPDX-License-Identifier: Apache-2.0
"""The documentation of muster.cluster.python_env_versions. The action plugin of the same name does it all, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: python_env_versions
short_description: The controller's steps of a snapshot and of a rollback of a Python environment
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - What the playbooks C(snapshot.yml) and C(rollback.yml) decide for all hosts together, from what
    M(muster.cluster.python_env_info) has told on each.
options:
  step:
    description:
      - V(read) reads the extra variables C(python_env) and C(version), raw, and refuses what nothing reads.
      - V(write) writes C(lock.json) and C(environment.yml) of what is really installed into a folder of the environment's name,
        where every host has the same. A file that is as it should be is not touched.
      - V(choose) chooses the version to go back to, which every host must have.
      - V(tell) shows how the hosts have been switched.
    type: str
    choices: [read, write, choose, tell]
    required: true
  purpose:
    description:
      - Which of the two playbooks asks.
    type: str
    choices: [snapshot, rollback]
    required: true
  hosts:
    description:
      - The hosts in node-rank order.
    type: list
    elements: str
    required: true
  register:
    description:
      - Under which name a task before has registered its result on every host. For every step but V(read).
    type: str
  folder:
    description:
      - Folder on the controller below which a snapshot is written. For O(step=write).
    type: str
  version:
    description:
      - The version to go back to, as its id or the beginning of one. Empty means the one that the head used before. For
        O(step=choose).
    type: str
  chosen:
    description:
      - What O(step=choose) has returned. For O(step=tell).
    type: dict
  name:
    description:
      - Name of the environment. For O(step=tell).
    type: str
attributes:
  action:
    description: Has an action plugin of the same name, which does it all on the controller.
    support: full
  check_mode:
    description: Can run in check mode and return what it would do without writing a file.
    support: full
  diff_mode:
    description: Shows the files that are written.
    support: full
notes:
  - The task must run once (C(run_once)).
seealso:
  - module: muster.cluster.python_env_info
  - module: muster.cluster.python_env
"""

EXAMPLES = r"""
- name: Write what is installed
  muster.cluster.python_env_versions:
    step: write
    purpose: snapshot
    hosts: "{{ ansible_play_hosts_all }}"
    register: found
    folder: environments
  run_once: true
"""

RETURN = r"""
name:
  description: The environment that was asked for; empty where none was named.
  type: str
  returned: O(step=read)
version:
  description: The version that was asked for; empty where none was named.
  type: str
  returned: O(step=read)
folder:
  description: Where the files are.
  type: str
  returned: O(step=write)
to:
  description: Id of the lock of the version to go back to.
  type: str
  returned: O(step=choose)
  sample: 3f9a6c0d1e2b
hosts:
  description: The hosts that have to be switched.
  type: list
  elements: str
  returned: O(step=choose)
changes:
  description: What changes, as name, version now, version then; null for none.
  type: list
  elements: list
  returned: O(step=choose)
left:
  description: The lock ids that are left, each with its hosts.
  type: dict
  returned: O(step=choose)
users:
  description: Who still runs on a version that is left, each with the hosts.
  type: dict
  returned: O(step=choose)
muster_said:
  description: Tells the callback P(muster.cluster.plain#callback) that C(msg) needs no frame.
  type: bool
  returned: when it is refused, and O(step=tell)
msg:
  description: What was done, or why it is refused.
  type: str
  returned: O(step=write), O(step=tell), and when it is refused
"""
