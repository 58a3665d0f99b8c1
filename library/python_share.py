#!/usr/bin/python
# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The module muster.cluster.python_share: options in, result out. What it does stands in module_utils/python_env/sharing."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: python_share
short_description: Let the head hand the packages of a lock to other hosts over SSH
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - Runs on one host, the head. It fetches what its own package store lacks, and gives every other host what that one lacks, so
    that each package crosses the outer network once. M(muster.cluster.python_env) then installs there, offline.
  - It goes by SSH as the user of the environment, without a question and with a known host key, as the role
    P(muster.cluster.ssh_keys#role) sets it up. Four hosts are served at once.
  - The other host checks the sha256 of what comes; nothing else gets a package's name there.
requirements:
  - OpenSSH's client on this host, Python 3.8 or later on the others
options:
  lock:
    description: The lock whose packages are handed on.
    type: dict
    required: true
  members:
    description: Who gets them.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: The host as ssh on this one knows it.
        type: str
        required: true
      store:
        description: Its folder of caches, absolute.
        type: str
        required: true
      python:
        description: A Python 3.8 or later there.
        type: str
        default: python3
  prefix:
    description: The environment, on whose disk there is room for temporary files.
    type: path
    required: true
  cache_dir:
    description: This host's folder of caches.
    type: str
    required: true
  tools:
    description: This host's tools.
    type: str
    default: ""
  tool_python:
    description: The Python 3.10 or later that the tools run on. Empty means one that is on the PATH.
    type: str
    default: ""
  ca_bundle:
    description: File with the certificates of authorities to trust.
    type: path
  proxy:
    description: Proxy for what is fetched. Empty means as the host is set up.
    type: str
    default: ""
  mirrors:
    description: Addresses that hold the same as a channel, by the channel's name or address.
    type: dict
    default: {}
  channel_alias:
    description: Address in front of a channel's name.
    type: str
    default: ""
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
    details: It does nothing there.
  diff_mode:
    description: Returns details on what has changed or would change, when in diff mode.
    support: none
  platform:
    description: Target systems.
    support: full
    platforms: posix
"""

EXAMPLES = r"""
- name: Hand packages on
  muster.cluster.python_share:
    lock: "{{ solved.lock }}"
    prefix: /var/lib/muster/envs/default
    cache_dir: /var/lib/muster/cache
    members:
      - name: n2
        store: /var/lib/muster/cache
  run_once: true
"""

RETURN = r"""
fetched:
  description: What this host had to fetch from outside, C(packages) and C(bytes).
  type: dict
  returned: success
handed:
  description: What each host got, C(packages) and C(bytes).
  type: dict
  returned: success
"""

import os
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.python_env import locks, progress, sharing, store
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault, explain_os_error
from ansible_collections.muster.cluster.plugins.module_utils.python_env.installing import Installer

ARGUMENTS: dict[str, dict[str, Any]] = {
    "lock": {"type": "dict", "required": True},
    "members": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "store": {"type": "str", "required": True},
            "python": {"type": "str", "default": "python3"},
        },
    },
    "prefix": {"type": "path", "required": True},
    "cache_dir": {"type": "str", "required": True},
    "tools": {"type": "str", "default": ""},
    "tool_python": {"type": "str", "default": ""},
    "ca_bundle": {"type": "path"},
    "proxy": {"type": "str", "default": ""},
    "mirrors": {"type": "dict", "default": {}},
    "channel_alias": {"type": "str", "default": ""},
}


def work(params: dict[str, Any], say: Any) -> dict[str, Any]:
    """Fetch and hand on; raises Fault."""
    lock = params["lock"]
    locks.check(lock)
    items = [*lock["conda"], *lock["wheels"]]
    cache = os.path.expanduser(params["cache_dir"])
    os.umask(0o022)  # packages hold no secrets, and other users' runs read them
    os.makedirs(cache, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".share-", dir=cache) as space:
        installer = Installer(dict(params, offline=False, cache_dir=cache), dict(os.environ), cache, space, say)
        installer.fetch(lock)
    members = [dict(member, store=store.folder(member["store"])) for member in params["members"]]
    handed = sharing.Sharing(sharing.describe(cache, items), say).share(members)
    return {"fetched": installer.fetched, "handed": handed, "changed": any(got["packages"] for got in handed.values())}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    if module.check_mode:
        module.exit_json(changed=False, fetched={"packages": 0, "bytes": 0}, handed={})
    try:
        cache = os.path.expanduser(module.params["cache_dir"])
        with progress.Progress(progress.path(cache, module.params["prefix"])).telling() as say:
            result = work(module.params, say)
    except Fault as fault:
        module.fail_json(msg=fault.sentence, details=fault.details)
    except OSError as error:
        module.fail_json(msg=explain_os_error(error, module.params["cache_dir"]).sentence)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
