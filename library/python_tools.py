#!/usr/bin/python
# Copyright (c) The Muster founders
# SPDX-License-Identifier: Apache-2.0
"""The documentation of muster.cluster.python_tools. The action plugin of the same name does it all, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: python_tools
short_description: Give a host the tools that make its Python environments
version_added: 0.1.0
author:
  - The Muster founders (@muster-cluster)
description:
  - The tools are rattler for conda packages and uv for wheels, in the exact versions and with the hashes of
    C(roles/python_env/files/tools.txt).
  - They are fetched once per platform, by the controller, from where its uv and pip take packages, and kept there. A host
    needs no package index for them.
  - A host that has them not gets them by one raw command, which carries them. They lie in a folder named by their pins, whole
    or not at all; those of other releases are removed.
options:
  folder:
    description:
      - Folder of all tools on the host.
    type: path
    required: true
  there:
    description:
      - Names of the tools that the host is known to have. A host that has the right ones is not asked.
    type: list
    elements: str
    default: []
  arch:
    description:
      - The host's processor, as C(uname -m) names it.
    type: str
    choices: [x86_64, aarch64]
    required: true
  python:
    description:
      - A Python on the host, 3.8 or later, to take them with.
    type: str
    required: true
  cache:
    description:
      - Folder on the controller that keeps the tools, about 45 MB for a platform.
    type: path
    required: true
  uv:
    description:
      - Path of uv on the controller. Left out, it is the one beside the Python that runs Ansible, or the first on C(PATH).
    type: str
attributes:
  action:
    description: Has an action plugin of the same name, which does it all on the controller.
    support: full
  check_mode:
    description: Tells whether the host would get them.
    support: full
  diff_mode:
    description: Returns where they would be.
    support: full
seealso:
  - module: muster.cluster.python_env
"""

EXAMPLES = r"""
- name: Give the host what makes environments
  muster.cluster.python_tools:
    folder: /var/lib/muster/tools
    arch: x86_64
    python: /usr/bin/python3
    cache: "{{ playbook_dir }}/.muster/tools"
"""

RETURN = r"""
path:
  description: Folder of the tools on the host; C(site) in it is for PYTHONPATH.
  returned: success
  type: str
  sample: /var/lib/muster/tools/012aadb58395
uv:
  description: Path of uv on the host.
  returned: success
  type: str
  sample: /var/lib/muster/tools/012aadb58395/uv
name:
  description: Name of the tools, which differs when a version, a hash or the platform does.
  returned: success
  type: str
  sample: 012aadb58395
"""
