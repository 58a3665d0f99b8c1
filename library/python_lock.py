#!/usr/bin/python
# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The module muster.cluster.python_lock: options in, a lock out. What it does stands in module_utils/python_env."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: python_lock
short_description: Solve what a Python environment is to hold, once for a cluster
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - Turns a specification into a lock, the exact list of packages with the sha256 of each, which M(muster.cluster.python_env)
    installs on every host. Conda packages are solved by rattler, wheels by uv, for the platform that is given.
  - Where a version on this host was made for the same, its lock is handed out, and nothing is solved.
  - Where packages come from is read on the host, from uv's own variables and from pip's variables and configuration
    files (C(index-url), C(extra-index-url), C(find-links), C(constraint), C(cert), C(client-cert), C(trusted-host),
    C(proxy), C(timeout), C(no-index)). Options of this module win over uv's variables, and these over pip's settings.
  - Wheels alone are taken, since nothing is compiled on the hosts. Without an NVIDIA GPU in the O(platform) torch is a CPU build.
requirements:
  - Linux, and Python 3.8 or later on the host
  - uv 0.7 or later on the host for wheels, and the tools of the role python_env for conda packages
options:
  prefix:
    description:
      - Path of the environment, whose versions on this host are looked at.
    type: path
    required: true
  specification:
    description:
      - What is wanted, as a filter of this collection makes it of the user's file; O(specification.conda) holds conda's
        requirements and O(specification.pip) those of wheels.
    type: dict
    required: true
    suboptions:
      kind:
        description: Of which kind the user's file is.
        type: str
        choices: [environment, requirements, lock]
        default: requirements
      name:
        description: The name that the file gives the environment.
        type: str
      channels:
        description: Channels, the strongest first.
        type: list
        elements: str
        default: []
      conda:
        description: Requirements of conda packages.
        type: list
        elements: str
        default: []
      pip:
        description: Requirements of wheels, one line each.
        type: list
        elements: str
        default: []
      pip_options:
        description: Lines with options of a requirements file.
        type: list
        elements: str
        default: []
      constraints:
        description: Requirements that hold for packages which something else asks for.
        type: list
        elements: str
        default: []
      lock:
        description: The lock, where the file is one.
        type: dict
      variables:
        description: Environment variables that the file asks for.
        type: dict
        default: {}
      notes:
        description: What the user should be told.
        type: list
        elements: str
        default: []
  asked:
    description:
      - Hash of the specification and of the settings that choose packages. Equal means that an installed lock is good.
    type: str
    required: true
  platform:
    description:
      - What the hosts of the cluster have in common.
    type: dict
    default: {}
    suboptions:
      subdir:
        description: In conda's words.
        type: str
        default: linux-64
      glibc:
        description: The oldest C library. Empty means this host's.
        type: str
        default: ""
      own_glibc:
        description: The C library of this host. Empty means that it is asked.
        type: str
        default: ""
      gpu:
        description: Whether the hosts have NVIDIA GPUs.
        type: bool
        default: false
      cuda:
        description: The lowest CUDA that their drivers know.
        type: str
        default: ""
      archspec:
        description: The least of their processors, in archspec's words.
        type: str
        default: ""
  update:
    description:
      - Whether to solve anew, and to newer versions, although a lock is there.
    type: bool
    default: false
  torch_backend:
    description:
      - Which build of torch to take, in the words of uv's C(--torch-backend), such as V(cpu), V(cu126) or V(rocm6.4).
      - V(auto) takes a suitable wheel from a folder of O(find_links) or from a configured index first. Otherwise it
        takes the CPU build from PyTorch's index for hosts without an NVIDIA GPU, and lets uv choose by the driver for
        those with it.
      - C(UV_TORCH_BACKEND) on the host changes what V(auto) means.
      - V(none) takes what the configured indexes give, whatever it is.
    type: str
    default: auto
  python:
    description:
      - The interpreter of an environment without conda packages, as for M(muster.cluster.python_env).
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
    type: str
    default: ""
  tool_python:
    description:
      - The Python 3.10 or later that the tools run on. Empty means one that is on the PATH.
    type: str
    default: ""
  cache_dir:
    description:
      - Folder of the package store and of the caches. Empty means uv's own.
    type: str
    default: ""
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
    default: ""
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
  proxy:
    description:
      - Proxy for what is fetched. Empty means as the host is set up.
    type: str
    default: ""
  mirrors:
    description:
      - Addresses that hold the same as a channel, by the channel's name or address.
    type: dict
    default: {}
  channel_alias:
    description:
      - Address in front of a channel's name.
    type: str
    default: ""
  channel_priority:
    description:
      - V(strict) takes a package from the first channel that has it, V(disabled) the best version of all channels.
    type: str
    choices: [strict, disabled]
    default: strict
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
    details:
      - It changes nothing but caches. In check mode, where there are no tools yet or an index cannot be reached, there is
        no lock.
  diff_mode:
    description: Returns details on what has changed or would change, when in diff mode.
    support: none
  platform:
    description: Target systems.
    support: full
    platforms: posix
"""

EXAMPLES = r"""
- name: Solve once, on the head
  muster.cluster.python_lock:
    prefix: /var/lib/muster/envs/default
    specification:
      kind: requirements
      pip: ["torch==2.13.0", "numpy"]
    asked: "{{ 'torch==2.13.0 numpy' | hash('sha256') }}"
    uv: /var/lib/muster/tools/uv
  register: solved
  run_once: true
"""

RETURN = r"""
lock:
  description: The lock; null where check mode cannot know it.
  type: dict
  returned: success
lock_id:
  description: 12 hex digits that name it; empty without one.
  type: str
  returned: success
  sample: 3f9a6c0d1e2b
source:
  description: Whence it comes - V(solved) now, V(installed) on this host, V(given) by the specification; empty without one.
  type: str
  returned: success
packages:
  description: Its packages, name to version.
  type: dict
  returned: success
bytes:
  description: Bytes of all its packages, as far as their sizes are known.
  type: int
  returned: success
differences:
  description: What differs from the lock of the present version of this host, as name, version before and version after.
  type: list
  elements: list
  returned: success
unknown:
  description: Why there is no lock, in check mode; else empty.
  type: str
  returned: success
seconds:
  description: How long it took.
  type: float
  returned: success
details:
  description: What uv or rattler printed.
  type: str
  returned: failure, when there is any
"""

import contextlib
import os
import tempfile
import time
from typing import Any, Callable

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.muster.cluster.plugins.module_utils.python_env import locks, pythons
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault, redact
from ansible_collections.muster.cluster.plugins.module_utils.python_env.environment import current_lock, installed_lock
from ansible_collections.muster.cluster.plugins.module_utils.python_env.progress import Progress
from ansible_collections.muster.cluster.plugins.module_utils.python_env.progress import path as progress_path
from ansible_collections.muster.cluster.plugins.module_utils.python_env.solving import Solver, suits

SPECIFICATION: dict[str, dict[str, Any]] = {
    "kind": {"type": "str", "choices": ["environment", "requirements", "lock"], "default": "requirements"},
    "name": {"type": "str"},
    "channels": {"type": "list", "elements": "str", "default": []},
    "conda": {"type": "list", "elements": "str", "default": []},
    "pip": {"type": "list", "elements": "str", "default": []},
    "pip_options": {"type": "list", "elements": "str", "default": []},
    "constraints": {"type": "list", "elements": "str", "default": []},
    "lock": {"type": "dict"},
    "variables": {"type": "dict", "default": {}},
    "notes": {"type": "list", "elements": "str", "default": []},
}
PLATFORM: dict[str, dict[str, Any]] = {
    "subdir": {"type": "str", "default": "linux-64"},
    "glibc": {"type": "str", "default": ""},
    "own_glibc": {"type": "str", "default": ""},
    "gpu": {"type": "bool", "default": False},
    "cuda": {"type": "str", "default": ""},
    "archspec": {"type": "str", "default": ""},
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "prefix": {"type": "path", "required": True},
    "specification": {"type": "dict", "required": True, "options": SPECIFICATION},
    "asked": {"type": "str", "required": True},
    "platform": {"type": "dict", "default": {}, "options": PLATFORM},
    "update": {"type": "bool", "default": False},
    "torch_backend": {"type": "str", "default": "auto"},
    "python": {"type": "str", "default": ""},
    "uv": {"type": "str", "default": "uv"},
    "tools": {"type": "str", "default": ""},
    "tool_python": {"type": "str", "default": ""},
    "cache_dir": {"type": "str", "default": ""},
    "find_links": {"type": "list", "elements": "str", "default": []},
    "index_url": {"type": "str", "default": ""},
    "extra_index_urls": {"type": "list", "elements": "str", "default": []},
    "ca_bundle": {"type": "path"},
    "proxy": {"type": "str", "default": ""},
    "mirrors": {"type": "dict", "default": {}},
    "channel_alias": {"type": "str", "default": ""},
    "channel_priority": {"type": "str", "choices": ["strict", "disabled"], "default": "strict"},
}


def find_lock(
    params: dict[str, Any], check: bool, space: str, say: Callable[[str], None]
) -> tuple[dict[str, Any] | None, str, str, list[str]]:
    """The lock, whence it comes, why there is none, and notes; raises Fault.

    Args:
        params: the options.
        check: whether a lock may be missing for want of tools or network.
        space: a folder to work in.
        say: takes a line about what is being done.
    """
    specification, platform = params["specification"], dict(params["platform"] or {})
    platform["own_glibc"] = platform.get("own_glibc") or pythons.glibc()
    platform["glibc"] = platform.get("glibc") or platform["own_glibc"]
    python = "" if specification["conda"] else _python(params)
    if specification["kind"] == "lock":
        given = specification["lock"]
        locks.check(given)
        suits(given, platform, _python(params) if not given["conda"] else "")
        return given, "given", "", specification["notes"]
    before = installed_lock(params["prefix"], params["asked"])
    if before and not params["update"]:
        try:
            suits(before, platform, python)
            return dict(before), "installed", "", specification["notes"]
        except Fault:
            pass  # hosts have changed: it is solved anew, near to what it was
    solver = Solver(dict(params, platform=platform), os.environ, space, say)
    try:
        return solver.solve(before or current_lock(params["prefix"])), "solved", "", solver.notes
    except Fault as fault:
        if not check or fault.kind not in ("no uv", "no tools", "network"):
            raise
        return None, "", fault.sentence, solver.notes


def _python(params: dict[str, Any]) -> str:
    """Version of the host's Python that the option names, "" where uv has to find it."""
    try:
        return pythons.find(params["python"], os.environ.get("PATH")).version
    except Fault:
        return ""


def main() -> None:
    """Run the module."""
    began = time.monotonic()
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        with contextlib.ExitStack() as stack:
            space = stack.enter_context(tempfile.TemporaryDirectory(prefix="python-lock-", dir=module.tmpdir))
            cache = module.params["cache_dir"] = os.path.expanduser(module.params["cache_dir"])
            say = Progress(progress_path(cache, module.params["prefix"]))
            if cache:
                stack.enter_context(say.telling())
            lock, source, unknown, notes = find_lock(module.params, module.check_mode, space, say if cache else str)
    except Fault as fault:
        details = {"details": fault.details} if fault.details else {}
        module.fail_json(msg=redact(fault.sentence), **details)
    for note in notes:
        module.warn(redact(note))
    before = current_lock(module.params["prefix"])
    module.exit_json(
        changed=False,
        lock=lock,
        lock_id=locks.lock_id(lock) if lock else "",
        source=source,
        packages=locks.packages(lock) if lock else {},
        bytes=sum(entry.get("size") or 0 for entry in lock["conda"] + lock["wheels"]) if lock else 0,
        differences=locks.differences(before, lock) if lock else [],
        unknown=redact(unknown),
        seconds=round(time.monotonic() - began, 2),
    )


if __name__ == "__main__":
    main()
