#!/usr/bin/python
# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The module muster.cluster.python_env: options in, result out. What it does stands in module_utils/python_env."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: python_env
short_description: Make a Python environment with torch from a requirements file, by uv
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - Gives a host a virtual environment (the I(prefix)) that holds exactly what a requirements file asks for. uv
    resolves and installs; the system's Python is never touched.
  - A new environment is built beside the prefix, looked over and put in its place by one exchange of names, so that the
    old one works until the new one does. A run that was killed is tidied up after by the next.
  - Where packages come from is read on the host, from uv's own variables and from pip's variables and configuration
    files (C(index-url), C(extra-index-url), C(find-links), C(constraint), C(cert), C(client-cert), C(trusted-host),
    C(proxy), C(timeout), C(no-index)). Options of this module win over uv's variables, and these over pip's settings.
  - On a host without an NVIDIA GPU torch is a CPU build; a plan that would bring NVIDIA's libraries there is refused
    before anything is fetched.
  - A run that changes nothing asks neither uv nor the network.
requirements:
  - Linux, and Python 3.8 or later on the host
  - uv 0.7 or later on the host, unless nothing has to change
options:
  prefix:
    description:
      - Path of the environment. A folder that is not empty and was not made by this module is left alone, and the task
        fails.
      - The folder above it must be writable, since new environments are built there.
    type: path
    required: true
  state:
    description:
      - V(present) makes the environment as wanted, V(absent) removes it.
    type: str
    choices: [present, absent]
    default: present
  requirements:
    description:
      - Path of a requirements file on the host.
      - Exactly one of O(requirements) and O(requirements_content) is needed for O(state=present).
    type: path
  requirements_content:
    description:
      - The text of a requirements file. It may not take in other files (C(-r), C(-c)).
    type: str
  python:
    description:
      - The interpreter to build the environment with, as a path, a command or a version such as V(3.12). It must be
        there already, since none is downloaded.
      - Left out, it is the one that runs this module, or the one beneath it if that is a virtual environment. An
        environment that exists then keeps the Python it has.
    type: str
  torch_backend:
    description:
      - Which build of torch to take, in the words of uv's C(--torch-backend), such as V(cpu), V(cu126) or V(rocm6.4).
      - V(auto) takes a suitable wheel from a folder of O(find_links) or from a configured index first. Otherwise it
        takes the CPU build from PyTorch's index on a host without an NVIDIA GPU, and lets uv choose by the driver on
        one with it.
      - C(UV_TORCH_BACKEND) on the host changes what V(auto) means.
      - V(none) takes what the configured indexes give, whatever it is.
    type: str
    default: auto
  uv:
    description:
      - Path of the uv binary, or a command to look up on C(PATH).
    type: str
    default: uv
  find_links:
    description:
      - Folders and pages with wheels. Folders that do not exist are passed over.
    type: list
    elements: str
    default: []
  index_url:
    description:
      - The package index. Credentials belong into C(~/.netrc) or C(pip.conf) on the host rather than here.
    type: str
  extra_index_urls:
    description:
      - More package indexes. The best version from any of them is taken, as pip does.
    type: list
    elements: str
    default: []
  ca_bundle:
    description:
      - File with the certificates of authorities to trust.
    type: path
  cache_dir:
    description:
      - Where uv keeps what it has fetched. On the same file system as the prefix, packages are linked and not copied.
    type: path
  min_free_mb:
    description:
      - Megabytes that must be free for an environment with torch. Four times as many are asked for when NVIDIA's
        libraries come with it, and no more than 200 without torch. V(0) switches the check off.
    type: int
    default: 2500
  lock_timeout:
    description:
      - Seconds to wait while another run works on the same prefix.
    type: int
    default: 1800
  verify:
    description:
      - Whether torch, if it is among the packages, must import before a new environment is put in place.
    type: bool
    default: true
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying the environment.
    support: full
    details:
      - The plan is made by uv in a temporary folder. For a first environment on a host that has no uv yet, or cannot
        reach its index, the packages are not known and the requirements stand in the diff.
  diff_mode:
    description: Returns details on what has changed or would change, when in diff mode.
    support: full
    details:
      - The diff is that of the sorted lists of packages.
  platform:
    description: Target systems.
    support: full
    platforms: posix
"""

EXAMPLES = r"""
- name: Give the host an environment from a file of the controller
  muster.cluster.python_env:
    prefix: /var/lib/muster/envs/default
    requirements_content: "{{ lookup('ansible.builtin.file', 'requirements.txt') }}"
    uv: /var/lib/muster/tools/uv

- name: Give it one with Python 3.12 and torch for CUDA 12.6
  muster.cluster.python_env:
    prefix: /opt/envs/exp7
    requirements: /opt/envs/exp7.txt
    python: "3.12"
    torch_backend: cu126

- name: Take everything from a folder of wheels
  muster.cluster.python_env:
    prefix: /opt/envs/offline
    requirements_content: torch==2.13.0
    find_links:
      - /srv/wheels

- name: Remove it
  muster.cluster.python_env:
    prefix: /opt/envs/exp7
    state: absent
"""

RETURN = r"""
prefix:
  description: Path of the environment.
  type: str
  returned: always
  sample: /var/lib/muster/envs/default
python:
  description: Path of its Python.
  type: str
  returned: always
  sample: /var/lib/muster/envs/default/bin/python
python_version:
  description: Version of its Python; empty where check mode cannot know it.
  type: str
  returned: success
  sample: 3.12.1
current:
  description: Whether the environment was as wanted before this task.
  type: bool
  returned: success
reasons:
  description: What was not as wanted, in words.
  type: list
  elements: str
  returned: success
  sample: ["numpy is 2.3.0 instead of 2.4.3"]
packages:
  description: The packages in the environment, or those that would be in it, name to version.
  type: dict
  returned: success
  sample: {"numpy": "2.4.3", "torch": "2.13.0+cpu"}
added:
  description:
    - What is new, as V(name==version).
    - Where check mode cannot know the versions, the lines of the requirements.
  type: list
  elements: str
  returned: success
removed:
  description: What is gone, as V(name==version).
  type: list
  elements: str
  returned: success
fingerprint:
  description: sha256 over the sorted C(name==version) lines, equal on hosts with equal packages; empty if not known.
  type: str
  returned: success
details:
  description: What uv or Python printed.
  type: str
  returned: failure, when there is any
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import facts
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault, redact
from ansible_collections.muster.cluster.plugins.module_utils.python_env.environment import Environment
from ansible_collections.muster.cluster.plugins.module_utils.python_env.requirements import changes, pinned

ARGUMENTS: dict[str, dict[str, Any]] = {
    "prefix": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "requirements": {"type": "path"},
    "requirements_content": {"type": "str"},
    "python": {"type": "str"},
    "torch_backend": {"type": "str", "default": "auto"},
    "uv": {"type": "str", "default": "uv"},
    "find_links": {"type": "list", "elements": "str", "default": []},
    "index_url": {"type": "str"},
    "extra_index_urls": {"type": "list", "elements": "str", "default": []},
    "ca_bundle": {"type": "path"},
    "cache_dir": {"type": "path"},
    "min_free_mb": {"type": "int", "default": 2500},
    "lock_timeout": {"type": "int", "default": 1800},
    "verify": {"type": "bool", "default": True},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        mutually_exclusive=[("requirements", "requirements_content")],
        required_if=[("state", "present", ("requirements", "requirements_content"), True)],
    )
    prefix = module.params["prefix"]
    place = {"prefix": prefix, "python": os.path.join(prefix, "bin", "python")}
    environment = Environment(module.params, os.environ, module.tmpdir if module.check_mode else None)
    try:
        work = environment.ensure if module.params["state"] == "present" else environment.remove
        outcome = work(module.check_mode)
    except Fault as fault:
        details = {"details": fault.details} if fault.details else {}
        module.fail_json(msg=redact(fault.sentence), **place, **details)
    for note in outcome.notes:
        module.warn(redact(note))

    before = pinned(outcome.before)
    if outcome.after is None:
        after = added = environment.wish.lines
        removed = before
    else:
        after = pinned(outcome.after)
        added, removed = changes(outcome.before, outcome.after)
    result = {
        "changed": outcome.changed,
        "current": outcome.current,
        "reasons": outcome.reasons,
        "packages": outcome.after or {},
        "fingerprint": facts.fingerprint(outcome.after) if outcome.after else "",
        "python_version": outcome.python_version,
        "added": [redact(line) for line in added],
        "removed": removed,
    }
    if module._diff:
        result["diff"] = {
            "before_header": prefix,
            "after_header": prefix,
            "before": "".join(line + "\n" for line in before),
            "after": "".join(redact(line) + "\n" for line in after),
        }
    module.exit_json(**place, **result)


if __name__ == "__main__":
    main()
