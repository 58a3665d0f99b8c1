#!/usr/bin/python
"""The documentation of muster.cluster.survey. The action plugin of the same name does it all, on the controller."""

DOCUMENTATION = r"""
module: survey
short_description: Look at a host once, for all of Muster's roles
version_added: 0.1.0
description:
  - Reads in one call what the role P(muster.cluster.preflight#role) and those after it need to decide what there is to do, so
    that a run that has nothing to change costs one call per host. It changes nothing.
author:
  - The Muster founders
options:
  user:
    description: Name of the cluster's user; its account and its keys are looked at.
    type: str
    default: muster
  state_dir:
    description: Folder of jobs and environments, absolute.
    type: path
    default: /var/lib/muster
  fault_as_data:
    description:
      - Whether a host that cannot be looked at is told as data rather than lost to the play, so that
        M(muster.cluster.preflight) can name the faults of all hosts at once.
    type: bool
    default: false
attributes:
  action:
    description: The action plugin of the same name does it, by one raw command that carries its code with it.
    support: full
  check_mode:
    support: full
    description: It only reads.
  diff_mode:
    support: none
    description: It changes nothing.
"""

EXAMPLES = r"""
- name: Look at the host
  muster.cluster.survey:
"""

RETURN = r"""
ansible_facts:
  description: What was found, under the name C(muster), one dictionary per section.
  returned: success, unless there is a fault
  type: dict
fault:
  description: What Ansible said where the host could not be looked at.
  returned: O(fault_as_data=true), where there is a fault
  type: str
fault_unreachable:
  description: Whether the host could not be reached at all.
  returned: O(fault_as_data=true), where there is a fault
  type: bool
"""
