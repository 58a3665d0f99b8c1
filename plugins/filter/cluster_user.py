"""Filter that decides what a host needs for the cluster's user."""

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import cluster_user as deciding

DOCUMENTATION = r"""
name: cluster_user
short_description: What a host needs for the cluster's user
version_added: 0.1.0
description:
  - Compares what the survey has read with the account, the group and the folders that are wanted.
positional: _hostvars, _host, _hosts
options:
  _input:
    description: "The wish: C(name), C(uid), C(gid), C(shell), C(create) and C(state_dir)."
    type: dict
    required: true
  _hostvars:
    description: The variable C(hostvars).
    type: dict
    required: true
  _host:
    description: Inventory name of the host.
    type: str
    required: true
  _hosts:
    description: Inventory names of all hosts of the run, whose accounts must agree.
    type: list
    elements: str
    required: true
author:
  - The Muster founders
"""

EXAMPLES = r"""
plan: "{{ wish | muster.cluster.cluster_user(hostvars, inventory_hostname, ansible_play_hosts) }}"
"""

RETURN = r"""
_value:
  description: "C(todo), whether there is something to do; C(group), C(account) and C(folders), what; C(uid) and C(gid);
    C(refusal), a sentence about what is not ours to change, or an empty text."
  type: dict
"""


def cluster_user(wish, hostvars, host, hosts):
    """See :func:`deciding.decide`; a refusal comes back as data, for the role to fail by."""
    accounts = {}
    # Where Muster makes the account its ids are given, and the others need not be asked.
    for name in [host] if wish["create"] else hosts:
        facts = hostvars[name].get("ansible_facts", {}).get("muster")
        if facts:
            accounts[name] = facts["users"]["account"]
    survey = hostvars[host]["ansible_facts"]["muster"]["users"]
    try:
        return dict(deciding.decide(host, wish, survey, accounts), refusal="")
    except Refusal as refusal:
        return {"todo": True, "refusal": str(refusal), "group": False, "account": False, "folders": [], "uid": None, "gid": None}


class FilterModule:
    """The filter."""

    def filters(self):
        """Filters of this file by name."""
        return {"cluster_user": cluster_user}
