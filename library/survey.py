#!/usr/bin/python
"""Look at a host once, for all roles."""

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
    description: Has an action plugin of the same name, which adds the controller's time before and after the look.
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.muster_survey import (
    firewall,
    gpu,
    hosts,
    limits,
    packages,
    ssh,
    system,
    time,
    users,
)

SECTIONS = (time, system, packages, ssh, users, hosts, firewall, limits, gpu)


def argument_spec():
    """The module's arguments."""
    return {
        "user": {"type": "str", "default": "muster"},
        "state_dir": {"type": "path", "default": "/var/lib/muster"},
        "fault_as_data": {"type": "bool", "default": False},  # read by the action
    }


def main():
    """Run as a module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    found = {section.__name__.rsplit(".", 1)[1]: section.look(module.params) for section in SECTIONS}
    module.exit_json(changed=False, ansible_facts={"muster": found})


if __name__ == "__main__":
    main()
