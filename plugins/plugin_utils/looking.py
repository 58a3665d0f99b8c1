"""One look at a host: a package of ``module_utils`` runs there from a raw command, which costs a tenth of what a module does."""

import os

from ansible import constants
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.muster.cluster.plugins.plugin_utils import remote, unreachable


class Fault(Exception):
    """A host could not be looked at; the text is all that Ansible and the host said."""


def interpreters(given):
    """The Pythons to try on a host: the one that the inventory names, else those that Ansible would look for, in its order."""
    if not given.startswith("auto"):
        return [given]
    return list(map(str, constants.config.get_config_value("INTERPRETER_PYTHON_FALLBACK")))


def sources(package, others=()):
    """The files that are sent: ``{name: text}`` as ``remote.BOOT`` imports them.

    Args:
        package: the one of ``module_utils`` that is asked; its ``cli.call`` answers.
        others: what it imports beside it: packages (``entries``), single modules of one (``muster_agent/errors``) and plain
            modules (``sysctls``).
    """
    found = remote.agent_sources(os.path.join(remote.MODULE_UTILS, package))
    for other in others:
        path = os.path.join(remote.MODULE_UTILS, other)
        if os.path.isdir(path):
            found.update({"{}/{}".format(other, name): text for name, text in remote.agent_sources(path).items()})
            continue
        with open(path + ".py", encoding="utf-8") as stream:
            found[other + ("" if "/" in other else "/__init__") + ".py"] = stream.read()
    return found


def look(action, task_vars, package, request, others=()):
    """Ask a host and return the answer of the package's ``cli.call``.

    Args:
        action: the running ActionBase.
        task_vars: of the task.
        package, others: see :func:`sources`.
        request: what ``call`` is given, beside ``do: look``.

    Raises:
        AnsibleConnectionFailure: the host is unreachable.
        Fault: it cannot be looked at.
    """
    given = action._templar.template(task_vars.get("ansible_python_interpreter")) or "auto"
    command = remote.first_boot_command(interpreters(str(given)))
    stdin = remote.boot_stdin(dict(request, do="look"), sources(package, others), package=package)
    try:
        done = action._low_level_execute_command(command, in_data=stdin)
    except AnsibleConnectionFailure:
        raise
    except AnsibleError as error:
        raise Fault(str(error)) from None
    answer = remote.parse_answer(done.get("stdout") or "")
    if answer is None:
        said = "\n".join(done.get(key) or "" for key in ("stderr", "stdout")).strip()
        if done.get("rc") == 255:
            raise AnsibleConnectionFailure(unreachable.explain(said or "the connection ended without a word"))
        raise Fault(said or "no answer (exit code {})".format(done.get("rc")))
    return answer
