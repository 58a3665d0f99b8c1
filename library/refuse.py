#!/usr/bin/python
# Copyright (c) The Muster founders
# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The documentation of muster.cluster.refuse. The action plugin of the same name does it all, on the controller."""

DOCUMENTATION = r"""
module: refuse
short_description: Fail with sentences that can be read
version_added: 0.1.0
description:
  - Fails as M(ansible.builtin.fail) does.
  - Under the callback P(muster.cluster.plain#callback) each line stands on a line of its own.
author:
  - The Muster founders
options:
  told:
    description: Lines, each a sentence or a row of a table.
    type: list
    elements: str
    required: true
attributes:
  action:
    description: Has an action plugin of the same name, which does it all on the controller.
    support: full
  check_mode:
    description: It fails in check mode too.
    support: full
  diff_mode:
    description: It changes nothing.
    support: none
"""

EXAMPLES = r"""
- name: Refuse a host whose GPUs do not work
  muster.cluster.refuse:
    told:
      - "n1: found 2 NVIDIA GPUs and no nvidia-smi, expected NVIDIA's driver; install it and reboot"
"""

RETURN = r"""
msg:
  description: The lines.
  type: str
  returned: always
muster_said:
  description: Tells the callback P(muster.cluster.plain#callback) that C(msg) needs no frame.
  type: bool
  returned: always
"""
