"""Action of ``muster.cluster.packages``; its documentation stands with the module of the same name."""

import time

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import packages

# Seconds that a lock may be held before a word is said about it, and that apt itself waits for one.
PATIENCE = 3
# Neither is news: it is installed on purpose, and its list has been fetched where it had to be.
NOISE = ("python3-apt",)
display = Display()


class ActionModule(ActionBase):
    """Installs a list in one transaction, by the modules that Ansible has for it."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = super().run(tmp, task_vars)
        arguments = self._task.args
        self._vars, self._host = task_vars, task_vars["inventory_hostname"]
        self._deadline = time.monotonic() + int(arguments["lock_timeout"])
        self._said = self._waited = False
        survey = task_vars["ansible_facts"]["muster"]
        found = survey["packages"]
        self._manager = found["manager"]
        names = [str(name) for name in arguments["names"]]
        names = packages.missing(names, found["installed"])
        result.update(changed=bool(names), installed=names)
        if self._task.diff and names:
            result["diff"] = {"before": "", "after": "".join(name + "\n" for name in names), "after_header": "packages"}
        if not names or self._task.check_mode:
            return result
        # dnf's module needs dnf's Python, which Ansible no longer runs on in Red Hat's 8.
        old = self._manager == "dnf" and survey["system"]["version"].split(".")[0] == "8"
        age = found["list_age"]
        stale = self._manager == "apt" and (age is None or age > int(arguments["list_max_age"]))
        try:
            if not self._manager:
                raise Refusal("{} has neither apt-get nor dnf, expected one of them; install it".format(self._host))
            if found["lock"]:
                self._wait()
            answer = self._install(names, stale, old)
        except Refusal as refusal:
            answer = {"failed": True, "changed": False, "msg": str(refusal)}
        if answer.get("failed"):
            result.update(muster_said=True, installed=[])
        return dict(result, **answer)

    def _install(self, names, stale, old):
        """Install ``names``; a lock is waited for, and a list that turns out to be stale is fetched anew, once."""
        refreshed = False
        while True:
            answer = {}
            if stale and not refreshed:
                answer = self._refresh(old)
                refreshed = not answer.get("failed")
            if not answer.get("failed"):
                answer = self._call(names, stale, old)
            if not answer.get("failed"):
                kept = [text for text in answer.get("warnings") or [] if not any(word in str(text) for word in NOISE)]
                return {"changed": answer.get("changed", True), "warnings": kept}
            text = packages.words(answer)
            kind = packages.kind(text)
            if kind == "locked":
                self._wait()
            elif kind in packages.OLD_LIST and not stale:
                stale = True
            else:
                told = packages.failure(self._host, self._manager, names, text)
                return {"failed": True, "changed": False, "msg": told, "details": text[-4000:]}

    def _refresh(self, old):
        """Fetch apt's list of packages. dnf fetches its own; only for Red Hat's 8 it has to be asked."""
        if self._manager == "apt":
            answer = self._module("ansible.builtin.command", argv=["apt-get", "-q", "update"])
        elif old:
            answer = self._module("ansible.builtin.command", argv=["dnf", "-q", "makecache"])
        else:
            return {}
        # apt-get ends with 0 where it could not fetch anything and goes on with what it had.
        if packages.kind(packages.words(answer)) in ("network", "clock", "locked"):
            answer["failed"] = True
        return answer

    def _call(self, names, stale, old):
        """One transaction. Recommended packages are left out: they bring mail servers and documentation to every node."""
        if self._manager == "apt":
            return self._module(
                "ansible.builtin.apt", name=names, state="present", install_recommends=False, update_cache=False,
                lock_timeout=PATIENCE,
            )  # fmt: skip
        if old:
            return self._module(
                "ansible.builtin.command", argv=["dnf", "-y", "-q", "--setopt=install_weak_deps=False", "install", *names]
            )
        return self._module(
            "ansible.builtin.dnf", name=names, state="present", install_weak_deps=False, update_cache=stale, lock_timeout=PATIENCE
        )

    def _module(self, module, **arguments):
        return self._execute_module(module_name=module, module_args=arguments, task_vars=self._vars)

    def _wait(self):
        """Wait until nobody holds the package manager; who does is said once. Raises Refusal."""
        lock = None
        for bound in (PATIENCE, None):
            left = self._deadline - time.monotonic()
            answer = self._module("muster.cluster.package_lock", timeout=max(0, left if bound is None else min(bound, left)))
            if answer.get("failed"):
                raise Refusal("{}: {}".format(self._host, answer.get("msg")))
            lock = answer["lock"]
            if not lock:
                break
            if not self._said and bound and left > bound:
                self._said = True
                display.display("{}: waits up to {} s for {} (pid {}), which holds {}".format(
                    self._host, self._task.args["lock_timeout"], lock["process"], lock["pid"], lock["path"]))  # fmt: skip
        if lock or time.monotonic() >= self._deadline:
            raise Refusal(packages.held(self._host, lock, self._task.args["lock_timeout"]))
        if self._waited:
            time.sleep(1)  # the holder does not show: do not ask in a circle without a pause
        self._waited = True
