#!/usr/bin/python
# Copyright (c) The Muster founders
# SPDX-License-Identifier: Apache-2.0
"""The documentation of muster.cluster.launch_plan. The action plugin of the same name does it all, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: launch_plan
short_description: Plan a launch of torchrun, once for all nodes
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - The first step of the role P(muster.cluster.launch#role). It reads the launch's options, decides which hosts take
    part and with which node ranks, packs the files to ship, and writes the plan to a private file on the controller.
  - Everything that can be refused without asking a node is refused here, in one sentence that says what was found, what
    was expected and what to do.
  - Extra variables (C(-e)) win over O(options). They are read raw, without templating, under their short names
    (C(script)) and under those of the role (C(launch_script)). One that nothing reads is refused, with the name that was
    likely meant.
  - With a job's name and neither script nor module, the launch comes back to the job of that name and ships nothing.
options:
  purpose:
    description:
      - V(launch) plans a launch.
      - For V(status), V(logs) and V(stop) it only reads which job is meant, from the extra variables and O(options).
    type: str
    choices: [launch, status, logs, stop]
    default: launch
  group:
    description:
      - All hosts of the cluster in node-rank order; the first is the head. Needed for O(purpose=launch) only.
      - Where hosts of it are missing in the play, the launch is refused unless O(options.allow_partial) is set.
    type: list
    elements: str
  runs_dir:
    description:
      - Folder of the records on the controller, relative to where ansible-playbook was started. Needed for
        O(purpose=launch) only.
    type: str
  options:
    description:
      - The launch's options below the extra variables. One that is empty counts as not given.
      - O(purpose=launch) needs O(options.max_restarts), O(options.wait), O(options.master_port),
        O(options.join_timeout), O(options.stop_grace), O(options.allow_partial) and O(options.force), and one of
        O(options.script), O(options.module) and O(options.job).
    type: dict
    required: true
    suboptions:
      script:
        description:
          - The script, looked for where ansible-playbook was started, then among the project's C(files).
        type: str
      module:
        description:
          - A dotted name as after C(python -m), in place of a script.
        type: str
      script_args:
        description:
          - Arguments of the script, a list, or one string that is split as a shell splits it.
        type: raw
      nproc_per_node:
        description:
          - Processes per node. A number from 1 to 1024, or V(auto) (one per GPU, one where there is none), V(gpu), or
            V(cpu) (one per core).
          - It is checked only; each host's own is read where the host is started.
        type: raw
      env:
        description:
          - Environment of the ranks. It is checked only; each host's own is read where the host is started.
          - An extra variable of this name is merged into it, name by name.
        type: dict
      python_env:
        description:
          - Name of the Python environment, one that C(site.yml) has made. It is refused where a host has
            C(muster_python) as well.
        type: str
      job:
        description:
          - Name of the job. Left out, it is the script's name and the time.
        type: str
      max_restarts:
        description:
          - How often the whole job is started again after a failure.
        type: int
      wait:
        description:
          - Whether the launch lasts until the job ends, or only until training has begun.
        type: bool
      follow:
        description:
          - Whose lines are shown while the job runs, those of the head or of all nodes.
        type: str
        choices: [head, all]
        required: true
      master_port:
        description:
          - Port of the rendezvous on the head. A job uses up to 16 ports from there on.
        type: int
      join_timeout:
        description:
          - Seconds within which every node must answer the roll call.
        type: float
      stop_grace:
        description:
          - Seconds between SIGTERM and SIGKILL when the job is stopped.
        type: float
      chdir:
        description:
          - Working folder of the ranks, a folder of the shipped copy or an absolute path on the nodes. Left out, it is
            the top of the shipped copy.
        type: str
      ship:
        description:
          - What to ship, a list of paths or globs below the code's root, or one string of them with commas between.
          - Left out, these are in a git work tree its tracked and untracked-not-ignored files, elsewhere the script
            alone.
        type: raw
      allow_partial:
        description:
          - Whether to launch on the hosts that are left where C(--limit) or a failure has taken some away.
        type: bool
      force:
        description:
          - Whether to stop a running job of this name and to start a finished one again.
        type: bool
attributes:
  action:
    description: Has an action plugin of the same name, which does it all on the controller.
    support: full
  check_mode:
    description: Can run in check mode and return what it would do without changing a node.
    support: full
    details:
      - The plan is made as always, so that the steps after it can show the exact command of every host.
  diff_mode:
    description: Returns details on what has changed, when in diff mode.
    support: none
notes:
  - The task must run once (C(run_once)), in a play of strategy C(linear) and without C(serial).
seealso:
  - module: muster.cluster.torchrun
  - module: muster.cluster.launch_follow
  - module: muster.cluster.launch_collect
  - module: muster.cluster.launch_verdict
"""

EXAMPLES = r"""
- name: Plan the launch
  muster.cluster.launch_plan:
    group: "{{ groups['torch_nodes'] }}"
    runs_dir: runs
    options:
      script: train.py
      script_args: ["--epochs", "3"]
      nproc_per_node: auto
      max_restarts: 0
      wait: true
      follow: head
      master_port: 29500
      join_timeout: 60
      stop_grace: 30
      allow_partial: false
      force: false
  run_once: true
  register: __launch_plan

- name: Read which job is to be stopped
  muster.cluster.launch_plan:
    purpose: stop
    options:
      job: exp7
      follow: head
  run_once: true
  register: __launch_plan
"""

RETURN = r"""
plan_file:
  description: Path of the plan on the controller, readable by its user alone, since it holds the job's key.
  type: str
  returned: success and O(purpose=launch)
  sample: /home/ada/muster/.ansible/tmp/ansible-local-4242/muster-x1y2z3/plan.json
job:
  description: Name of the job; null where O(purpose=status) asks for all.
  type: str
  returned: success
  sample: train-20261201-093000
run_id:
  description: Identifies this start among all of the same name.
  type: str
  returned: success and O(purpose=launch)
  sample: 3f9c1e77a2d4
record:
  description: Folder of the job's record on the controller.
  type: str
  returned: success and O(purpose=launch)
  sample: /home/ada/muster/runs/train-20261201-093000
nodes:
  description: The hosts in node-rank order, for a launch with the addresses under which the others reach them.
  type: list
  elements: dict
  returned: success
  sample: [{"name": "n1", "address": "192.0.2.11"}, {"name": "n2", "address": "192.0.2.12"}]
wait:
  description: Whether the launch lasts until the job ends.
  type: bool
  returned: success and O(purpose=launch)
follow:
  description: Whose lines are to be shown, V(head) or V(all).
  type: str
  returned: success
python_env:
  description: Name of the Python environment; empty where none was named.
  type: str
  returned: success
muster_said:
  description: Tells the callback P(muster.cluster.plain#callback) to print C(msg) as it is.
  type: bool
  returned: when it is refused
msg:
  description: Why it is refused, one sentence.
  type: str
  returned: when it is refused
  sample: "launch refused: found neither script nor module, expected one; write -e script=train.py"
"""
