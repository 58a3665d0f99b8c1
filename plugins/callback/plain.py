"""Ansible's default screen, less what is said already."""

from ansible import constants
from ansible.plugins.callback.default import CallbackModule as Default

DOCUMENTATION = r"""
name: plain
type: stdout
short_description: Ansible's default screen, with a launch's one sentence on a line of its own
version_added: 0.1.0
description:
  - The same as P(ansible.builtin.default#callback), with two exceptions.
  - "Where a launch ends, its one sentence (C(job NAME failed) or C(launch refused), and why) is printed as it is instead of
    inside a C(fatal) line, so that it can be read and searched for."
  - The recap is left out after a launch, so that the launch's own table is the last thing on the screen.
author:
  - The Muster founders
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - set as stdout in configuration
"""


class CallbackModule(Default):
    """The default callback, asked not to repeat what a launch has said."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "muster.cluster.plain"

    def __init__(self):
        super().__init__()
        self._launch_has_ended = False

    def v2_runner_on_failed(self, result, ignore_errors=False):
        """Print a launch's sentence alone; everything else as usual."""
        found = result.result
        if found.get("muster_said") and not ignore_errors:
            self._launch_has_ended = True
            self._display.display(found["msg"], color=constants.COLOR_ERROR)
            return
        super().v2_runner_on_failed(result, ignore_errors)

    def v2_runner_on_ok(self, result):
        """The verdict of a launch has been printed by its action."""
        if result.result.get("muster_said"):
            self._launch_has_ended = True
            return
        super().v2_runner_on_ok(result)

    def v2_playbook_on_stats(self, stats):
        """The recap, unless a launch ended the run."""
        if not self._launch_has_ended:
            super().v2_playbook_on_stats(stats)
