#!/usr/bin/python
# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The module muster.cluster.python_env: options in, result out. What it does stands in module_utils/python_env."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: python_env
short_description: Install a lock as the Python environment of a host, look at it, go back to an older one
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - Gives a host the environment that a lock of M(muster.cluster.python_lock) lists, package by package. The I(prefix) is a link
    to one of the versions in C(.versions) beside it; each is a conda prefix or a virtual environment, built in its final place.
  - A new version is built beside the old one, proved, and switched to by one rename. A job that runs keeps its files. A
    run that was killed is tidied up after by the next, and a run that finds another at work waits.
  - Every package is checked against the lock's sha256, those of C(file:) addresses too.
  - A run that changes nothing asks neither uv nor the network.
requirements:
  - Linux, and Python 3.8 or later on the host
  - uv 0.7 or later on the host for wheels, and the tools of the role python_env for conda packages, unless nothing has to change
options:
  prefix:
    description:
      - Path of the environment. A folder that is not empty and was not made by this module is left alone, and the task
        fails.
      - The folder above it must be writable, since new versions are built there.
    type: path
    required: true
  state:
    description:
      - V(look) reads and changes nothing. V(present) installs the O(lock) and switches to it.
      - V(rolled_back) switches to the version before the present one, or to O(to). V(absent) removes
        the prefix and all its versions, unless a process or a job that has not ended uses one.
    type: str
    choices: [look, present, rolled_back, absent]
    default: present
  lock:
    description:
      - What to install, a lock. O(state=present) needs it; in check mode it may be missing where it is not known yet.
    type: dict
  asked:
    description:
      - The hash of what the lock was made for, kept with the version. Empty means the lock's own.
    type: str
    default: ""
  lines:
    description:
      - What the user asked for. Shown in check mode in place of packages where there is no O(lock) yet.
    type: list
    elements: str
    default: []
  name:
    description:
      - Name of the environment in its C(environment.yml). Empty means the last part of the prefix.
    type: str
    default: ""
  to:
    description:
      - Which version to go back to, as its lock id or the beginning of one. Empty means the one before the present.
    type: str
    default: ""
  switch:
    description:
      - Whether V(present) switches to the new version. With V(false) it is built, proved and stamped, and the prefix stays
        as it is; a later run with V(true) then only switches. Old versions are removed when it is switched.
    type: bool
    default: true
  keep:
    description:
      - How many old versions remain for a way back. One that a process or a job that has not ended uses is never removed.
    type: int
    default: 2
  packages:
    description:
      - Whether V(look) tells the packages, and drift, one by one.
    type: bool
    default: true
  python:
    description:
      - The interpreter of an environment without conda packages, as a path, a command or a version such as V(3.12). It
        must be there already, since none is downloaded.
      - Empty means the one that runs this module, or the one beneath it if that is a virtual environment.
    type: str
    default: ""
  uv:
    description:
      - Path of the uv binary, or a command to look up on C(PATH).
    type: str
    default: uv
  tools:
    description:
      - Folder with the tools for conda packages. Empty means there are none.
      - For V(look) it is the folder above, that of all tools.
    type: str
    default: ""
  tool_python:
    description:
      - The Python 3.10 or later that the tools run on. Empty means one that is on the PATH.
    type: str
    default: ""
  cache_dir:
    description:
      - Folder of the package store and of the cache with which uv solves. Empty means C(.cache) beside the versions.
    type: str
    default: ""
  offline:
    description:
      - Whether to install from the store and from C(file:) addresses alone.
    type: bool
    default: false
  ca_bundle:
    description:
      - File with the certificates of authorities to trust.
    type: path
  proxy:
    description:
      - Proxy for what is fetched. Empty means as the host is set up.
    type: str
    default: ""
  mirrors:
    description:
      - From which address to fetch what an address in the lock begins with.
    type: dict
    default: {}
  channel_alias:
    description:
      - Address in front of a channel's name.
    type: str
    default: ""
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
      - How torch, if it is among the packages, is tried before a new version is switched to. V(import) imports it. V(load) only
        loads its libraries where that works, for hosts that get the very packages with which another has imported it.
    type: str
    choices: [import, load, none]
    default: import
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying the environment.
    support: full
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
- name: Look at an environment
  muster.cluster.python_env:
    prefix: /var/lib/muster/envs/default
    state: look
  register: found

- name: Give the host the environment that the head has solved
  muster.cluster.python_env:
    prefix: /var/lib/muster/envs/default
    lock: "{{ hostvars[groups['torch_nodes'][0]].solved.lock }}"
    uv: /var/lib/muster/tools/uv
    cache_dir: /var/lib/muster/cache

- name: Go back to the version before
  muster.cluster.python_env:
    prefix: /var/lib/muster/envs/default
    state: rolled_back

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
real:
  description: Path of the version that the prefix stands for; empty where there is none.
  type: str
  returned: success
  sample: /var/lib/muster/envs/.versions/default/3f9a6c0d1e2b
state:
  description:
    - How the prefix stands - V(none), nothing is there; V(whole), as it was installed; V(drifted), something differs from
      what was installed; V(old), a virtual environment of an earlier Muster, to be replaced; V(foreign), somebody else's.
  type: str
  returned: success
asked:
  description: The hash of what this version was made for; empty where there is none.
  type: str
  returned: success
lock_id:
  description: 12 hex digits that name the lock of this version; empty where there is none.
  type: str
  returned: success
  sample: 3f9a6c0d1e2b
fingerprint:
  description:
    - sha256 over name, version, build and hash of everything that is really installed, equal on hosts with equal environments;
      empty if there is none or if it is not known yet.
  type: str
  returned: success
reasons:
  description: What was not as wanted or not as installed, in words.
  type: list
  elements: str
  returned: success
  sample: ["numpy is 2.3.0 instead of 2.4.3"]
packages:
  description: The packages in the environment, or those that would be in it, name to version.
  type: dict
  returned: success
  sample: {"numpy": "2.4.3", "torch": "2.13.0+cpu"}
python_version:
  description: Version of the environment's Python; empty where it is not known.
  type: str
  returned: success
  sample: 3.12.1
torch_backend:
  description: Build of torch that the environment was made with, V(cpu) or V(cu128) and so on; empty without one.
  type: str
  returned: success
versions:
  description: The whole versions that are there, the one used last first.
  type: list
  elements: dict
  returned: success
  contains:
    id: {description: "Its folder's name, the lock id or that with a number behind it.", type: str}
    lock_id: {description: Its lock, type: str}
    asked: {description: What it was made for, type: str}
    made: {description: "When, in seconds since 1970.", type: float}
    used: {description: When it was last switched to, type: float}
    current: {description: Whether the prefix stands for it, type: bool}
cache_dir:
  description: The folder of caches on this host.
  type: str
  returned: for O(state=look)
lock_glibc:
  description: The glibc that the installed lock was solved for; empty without one.
  type: str
  returned: for O(state=look)
lock_cuda:
  description: The CUDA version that the installed lock was solved for; empty without one.
  type: str
  returned: for O(state=look)
left:
  description: What killed runs left undone, in words, such as an unfinished version; V(present) puts it right.
  type: list
  elements: str
  returned: for O(state=look)
facts:
  description: What the host is, for whoever decides what to solve for.
  type: dict
  returned: for O(state=look)
  contains:
    arch: {description: "As uname says, such as V(x86_64).", type: str}
    glibc: {description: "Version of the C library, V(2.36); empty for another library.", type: str}
    gpu: {description: Whether an NVIDIA GPU shows, type: bool}
    cuda: {description: "Highest CUDA that the driver knows, V(12.8); empty without one.", type: str}
    python: {description: "Version x.y.z of the Python that O(python) names; empty if it is not there.", type: str}
    python_path: {description: Its path, type: str}
    place: {description: "Equal for two hosts that are one machine and have one prefix.", type: str}
    tool_python: {description: "Path of a Python 3.10 or later for the tools; empty if there is none.", type: str}
tools:
  description: Names of the tools in the folder O(tools) that are there and whole.
  type: list
  elements: str
  returned: for O(state=look)
uv_found:
  description: Whether O(uv) is there.
  type: bool
  returned: for O(state=look)
current:
  description: Whether the prefix was as wanted before this task.
  type: bool
  returned: for O(state=present)
built:
  description: Whether the lock's version is there, whole, and was not switched to since O(switch) is V(false).
  type: bool
  returned: for O(state=present)
added:
  description:
    - What is new, as V(name==version) or V(name=version=build).
    - Where check mode cannot know the versions, what was asked for.
  type: list
  elements: str
  returned: success
removed:
  description: What is gone, in the same words.
  type: list
  elements: str
  returned: success
fetched:
  description: How many packages were fetched from outside, and their bytes.
  type: dict
  returned: for O(state=present)
  sample: {"packages": 11, "bytes": 44123456}
waited_for:
  description: Who had to be waited for; empty for nobody.
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
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault, redact
from ansible_collections.muster.cluster.plugins.module_utils.python_env.environment import Environment

ARGUMENTS: dict[str, dict[str, Any]] = {
    "prefix": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["look", "present", "rolled_back", "absent"], "default": "present"},
    "lock": {"type": "dict"},
    "asked": {"type": "str", "default": ""},
    "lines": {"type": "list", "elements": "str", "default": []},
    "name": {"type": "str", "default": ""},
    "to": {"type": "str", "default": ""},
    "switch": {"type": "bool", "default": True},
    "keep": {"type": "int", "default": 2},
    "packages": {"type": "bool", "default": True},
    "python": {"type": "str", "default": ""},
    "uv": {"type": "str", "default": "uv"},
    "tools": {"type": "str", "default": ""},
    "tool_python": {"type": "str", "default": ""},
    "cache_dir": {"type": "str", "default": ""},
    "offline": {"type": "bool", "default": False},
    "ca_bundle": {"type": "path"},
    "proxy": {"type": "str", "default": ""},
    "mirrors": {"type": "dict", "default": {}},
    "channel_alias": {"type": "str", "default": ""},
    "min_free_mb": {"type": "int", "default": 2500},
    "lock_timeout": {"type": "int", "default": 1800},
    "verify": {"type": "str", "choices": ["import", "load", "none"], "default": "import"},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    prefix = module.params["prefix"]
    place = {"prefix": prefix, "python": os.path.join(prefix, "bin", "python")}
    try:
        result = Environment(module.params, os.environ).act(module.params["state"], module.check_mode)
    except Fault as fault:
        details = {"details": fault.details} if fault.details else {}
        module.fail_json(msg=redact(fault.sentence), **place, **details)
    for note in result.pop("notes", []):
        module.warn(redact(note))
    before, after = result.pop("before", None), result.pop("after", None)
    if module._diff and before is not None:
        result["diff"] = {
            "before_header": prefix,
            "after_header": prefix,
            "before": "".join(line + "\n" for line in before),
            "after": "".join(line + "\n" for line in after),
        }
    module.exit_json(**place, **result)


if __name__ == "__main__":
    main()
