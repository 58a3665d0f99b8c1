#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Tell what torchrun jobs a node knows, and what they print."""

from __future__ import annotations

DOCUMENTATION = r"""
module: torchrun_info
short_description: Tells the state and the new log lines of torchrun jobs
version_added: 0.1.0
description:
  - The state of one job or of all jobs on this node, as M(muster.cluster.torchrun) left them.
  - With O(name) also what its ranks on this node have printed since O(offsets), waiting for it up to O(wait) seconds.
author:
  - The Muster founders (@muster-cluster)
options:
  name:
    description: Name of one job; without it all.
    type: str
    aliases: [job]
  state_dir:
    description: Folder of Muster's state on the node.
    type: path
    default: /var/lib/muster
  offsets:
    description:
      - How many bytes of each rank's log are known already, by attempt and rank (C(0/3) is rank 3 of the first attempt), as
        RV(offsets) gave them last.
      - Of more than 512 KiB of new bytes the beginning is skipped.
    type: dict
    default: {}
  wait:
    description: Seconds to wait for new bytes or the end of the job; 0 answers at once.
    type: float
    default: 0
attributes:
  check_mode:
    description: Reads only.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
seealso:
  - module: muster.cluster.torchrun
"""

EXAMPLES = r"""
- name: See every job of a node
  muster.cluster.torchrun_info:
  register: known

- name: Wait up to a minute for the next lines of a job
  muster.cluster.torchrun_info:
    name: exp7
    offsets: "{{ before.offsets | default({}) }}"
    wait: 60
  register: before
"""

RETURN = r"""
jobs:
  description: What is known of each job, by name.
  returned: always
  type: dict
  contains:
    state:
      description: One of V(absent), V(running), V(finished), V(failed), V(stopped), V(lost).
      type: str
    phase:
      description: What the agent is doing.
      type: str
    attempt:
      description: Number of the present attempt, 0 before any restart.
      type: int
    since:
      description: When it began, or ended, in seconds since the epoch.
      type: float
    launched_by:
      description: Who started it, from where.
      type: str
    ranks:
      description: Global ranks of this node.
      type: list
      elements: int
    result:
      description: The job's result once it has ended, its one sentence included.
      type: dict
  sample: {"exp7": {"state": "running", "phase": "running", "attempt": 0, "ranks": [0]}}
chunks:
  description: New log bytes as text, one entry per rank.
  returned: with O(name)
  type: list
  elements: dict
  sample: [{"attempt": 0, "rank": 0, "skipped": 0, "text": "epoch 1\n"}]
offsets:
  description: To be given to the next call.
  returned: with O(name)
  type: dict
  sample: {"0/0": 8}
done:
  description: Whether the job has ended and every byte been given.
  returned: with O(name)
  type: bool
  sample: false
"""

import base64

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import checked, cli, jobs
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal


def argument_spec():
    """The module's arguments, as Ansible checks them."""
    return {
        "name": {"type": "str", "aliases": ["job"]},
        "state_dir": {"type": "path", "default": "/var/lib/muster"},
        "offsets": {"type": "dict", "default": {}},
        "wait": {"type": "float", "default": 0},
    }


def run(params):
    """What exit_json shows."""
    if not params["name"]:
        return jobs.info(params["state_dir"])
    name = checked.job_name(params["name"])
    offsets = {str(key): checked.integer("offsets", value, 0, 2**62) for key, value in params["offsets"].items()}
    wait = checked.seconds("wait", params["wait"], 0, 3600)
    told = jobs.tail(params["state_dir"], name, offsets, wait)
    chunks = [
        {
            "attempt": chunk["attempt"],
            "rank": chunk["rank"],
            "skipped": chunk["skipped"],
            "text": base64.b64decode(chunk["data"]).decode("utf-8", "replace"),
        }
        for chunk in told["chunks"]
    ]
    return dict(jobs.info(params["state_dir"], name), chunks=chunks, offsets=told["offsets"], done=told["done"])


def main():
    """Entry point."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        module.exit_json(changed=False, **run(module.params))
    except Refusal as refusal:
        module.fail_json(msg=str(refusal))
    except OSError as error:
        module.fail_json(msg=cli.explain_os_error("torchrun_info", error))


if __name__ == "__main__":
    main()
