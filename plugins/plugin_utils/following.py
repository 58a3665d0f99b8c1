"""Shows on the controller what a module tells in a file on its host, while the module runs there."""

import copy
import shlex
import threading

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

# A call that is over sooner says nothing; then the file is read this often.
PATIENCE_SECONDS = 3.0
PACE_SECONDS = 2.0
display = Display()


class Follower:
    """Reads the file beside a call that another thread makes, over a connection of its own.

    Args:
        action: the action plugin.
        path: the file on the host.
        host: how the host is named on the screen.
        show: takes a line.
    """

    def __init__(self, action, path, host, show=display.display):
        self.action, self.path, self.host, self.show = twin(action), path, host, show
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.over.set()
        self.thread.join(PACE_SECONDS)

    def _follow(self):
        seen, wait = 0, PATIENCE_SECONDS
        while not self.over.wait(wait):
            wait = PACE_SECONDS
            try:
                text = self._read(seen)
            except Exception as error:  # what is shown on the way must not spoil what is done
                display.vvv("{}: no progress to show: {}".format(self.host, error))
                return
            lines, rest = whole_lines(text)
            seen += len(text.encode()) - len(rest.encode())
            for line in lines if not self.over.is_set() else ():
                self.show("{}: {}".format(self.host, line))

    def _read(self, seen):
        command = "tail -c +{} {} 2>/dev/null || :".format(seen + 1, shlex.quote(self.path))
        # A terminal, which ssh makes where sudo may ask, ends lines in its own way.
        return (self.action._low_level_execute_command(command).get("stdout") or "").replace("\r\n", "\n")


def whole_lines(text):
    """The lines of a text that have ended, and the rest.

    >>> whole_lines("a\\nb\\nc")
    (['a', 'b'], 'c')
    """
    *lines, rest = text.split("\n")
    return [line for line in lines if line.strip()], rest


def twin(action):
    """A copy of an action whose connection keeps its state apart, so that two threads can use them."""
    other = copy.copy(action)
    other._connection = copy.copy(action._connection)
    if getattr(other._connection, "become", None):
        other._connection.set_become_plugin(copy.copy(other._connection.become))
    return other


def run(action, module, task_vars):
    """Run a module of the collection, and show what it tells while it runs.

    Args:
        action: the action plugin of the same name.
        module: its full name.
        task_vars: as Ansible gives them.
    """
    # Not imported above: the action of a host that is current needs nothing of it.
    from ansible_collections.muster.cluster.plugins.module_utils.python_env import progress

    arguments = action._task.args
    call = {"module_name": module, "task_vars": task_vars}
    host = (action._task.delegate_to or task_vars["inventory_hostname"]) if task_vars else ""
    if not arguments.get("cache_dir"):
        return action._execute_module(**call)
    with Follower(action, progress.path(str(arguments["cache_dir"]), str(arguments["prefix"])), host):
        return action._execute_module(**call)


class Shown(ActionBase):
    """An action in front of the module ``MODULE``, whose documentation is its own: it shows what the module does meanwhile."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_diff = True
    MODULE = ""

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        return dict(super().run(tmp, task_vars), **run(self, self.MODULE, task_vars))
