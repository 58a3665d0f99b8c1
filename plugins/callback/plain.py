"""Ansible's default screen, less what is said already."""

from ansible import constants
from ansible.plugins.callback.default import CallbackModule as Default

DOCUMENTATION = r"""
name: plain
type: stdout
short_description: Ansible's default screen, with Muster's one sentence on a line of its own
version_added: 0.1.0
description:
  - The same as P(ansible.builtin.default#callback), with four exceptions.
  - "Where a launch or a verification ends, its one sentence (C(job NAME failed) or C(launch refused), and why) is printed as it
    is instead of inside a C(fatal) line, so that it can be read and searched for."
  - So are the faults that the preflight names, and the sentence of packages that could not be installed; with C(-v) the package
    manager's own words follow.
  - Steps that only steer the play (C(meta)) have no lines.
  - The recap is left out where that was the only play, so that Muster's own words are the last thing on the screen.
author:
  - The Muster founders
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - set as stdout in configuration
"""


class CallbackModule(Default):
    """The default callback, asked not to repeat what Muster's actions have said."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "muster.cluster.plain"

    def __init__(self):
        super().__init__()
        self._said = False
        self._plays = 0

    def v2_playbook_on_play_start(self, play):
        """Count the plays."""
        self._plays += 1
        super().v2_playbook_on_play_start(play)

    def _task_start(self, task, prefix=None):
        """No line for what only steers the play."""
        if task.action not in constants._ACTION_META:
            super()._task_start(task, prefix)

    def v2_runner_on_skipped(self, result):
        """Nor for where it goes on."""
        if result.task.action not in constants._ACTION_META:
            super().v2_runner_on_skipped(result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        """Print Muster's sentence alone; everything else as usual."""
        found = result.result
        if found.get("muster_said") and not ignore_errors:
            self._said = True
            self._display.display(found["msg"], color=constants.COLOR_ERROR)
            if self._display.verbosity and found.get("details"):
                self._display.display(str(found["details"]))
            return
        super().v2_runner_on_failed(result, ignore_errors)

    def v2_runner_on_ok(self, result):
        """Muster's verdict has been printed by its action."""
        if result.result.get("muster_said"):
            self._said = True
            return
        super().v2_runner_on_ok(result)

    def v2_playbook_on_stats(self, stats):
        """The recap, unless Muster has said what there is to say of the only play."""
        if not self._said or self._plays > 1:
            super().v2_playbook_on_stats(stats)
