"""The change itself: read, plan, and under the guard do what is missing."""

import os

from ..muster_agent.errors import Refusal
from . import firewalld, guard, host, rollback, rules, ufw

# Seconds that one rule may take before the guard loses patience with the module.
PER_RULE = 1.0
NOT_THERE = (
    "found no {name}, expected it to be installed; run the role firewall, which installs it, or install it by the host's package "
    "manager"
)


class Host:
    """The firewall of this host as one run sees and changes it.

    Args:
        backend: ``ufw`` or ``firewalld``.
        options: see ``rules.check``.

    Raises:
        Refusal: of every method, one sentence without the host's name.
    """

    def __init__(self, backend, options):
        self.name = backend
        self.backend = {"ufw": ufw, "firewalld": firewalld}[backend]
        self.client = host.connection()
        ports = list(options["ssh_ports"])
        # sshd may listen on more than its configuration shows, behind socket activation or a redirection.
        if self.client and self.client[3] not in ports:
            ports.append(self.client[3])
        self.wish = rules.check(dict(options, ssh_ports=ports or [22]))
        # Others' rules that let the whole world in to the ports of jobs, as the last look found them.
        self.exposed = []

    def look(self):
        """``(state, plan)``: how it stands and what there is to do."""
        pairs = host.own_addresses()
        own = {address for _, address in pairs}
        ephemeral = host.ephemeral()
        wanted = rules.desired(self.wish, ephemeral, own, host.speaks_v6())
        if self.backend is firewalld:
            mine = [address for addresses in self.wish["members"].values() for address in addresses if address in own]
            state = firewalld.read(firewalld.interfaces_of(mine, self.client, pairs))
        else:
            state = ufw.read()
        self.exposed = self.backend.exposing(state, rules.job_ports(self.wish, ephemeral), self.wish)
        return state, self.backend.plan(state, wanted, self.wish)

    def warnings(self):
        """A sentence for each of others' rules that lets the whole world in; Ansible shows a warning without its host."""
        return [
            "{}: found {}'s {}, which opens ports of the jobs to the whole world, expected them open to members alone; it is not "
            "Muster's and stays, so remove it with {}".format(os.uname().nodename, self.name, what, remove)
            for what, remove in self.exposed
        ]

    def is_done(self):
        """Whether there is nothing to do: what another run has not confirmed yet is not to be relied upon."""
        return not self.look()[1].steps and rollback.load() is None

    def ensure(self, token, check):
        """Make the firewall as wanted; a change stays unconfirmed until ``guard.confirm``.

        Args:
            token: for the confirmation.
            check: predict only.

        Returns:
            ``(plan, guarded)``: of the state found, and whether a change awaits its confirmation.
        """
        if check:
            return self.look()[1], False
        seconds = self.wish["rollback_seconds"]
        state, plan = self.look()
        # What another run has not confirmed yet is not to be relied upon.
        if not plan.steps and rollback.load() is None:
            return plan, False
        if not state["installed"]:
            raise Refusal(NOT_THERE.format(name=self.name))
        if not host.has_systemd():
            raise Refusal(
                "found no systemd, expected it to start the firewall at boot and to guard its change; set firewall_enabled to "
                "false for this host"
            )
        with guard.alone(seconds):
            state, plan = self.look()
            if not plan.steps:
                return plan, False
            lists = self.backend.guard_lists(state, plan.steps)
            record = guard.arm(token, self.backend.guard_files(state), lists, seconds, self.client)
            try:
                self._apply(state, plan, record, seconds)
            except BaseException:
                guard.undo(record)
                raise
            guard.put_off(seconds)
        return plan, True

    def _apply(self, first, plan, record, seconds):
        steps, said = list(plan.steps), ""
        # What a firewall makes of its interfaces shows once it runs, so a second look may find more to do.
        for _ in range(2):
            record["lists"] = self.backend.guard_lists(first, steps)
            guard.save(record)
            for step in plan.steps:
                guard.put_off(seconds + step.size * PER_RULE)
                code, out, err = host.run(step.argv, 60 + step.size)
                said = host.last_line(err) if err.strip() else said
                if code:
                    raise Refusal(host.explain(step.argv, code, out + err))
            _, plan = self.look()
            if not plan.steps:
                return
            steps += plan.steps
        missing = [line for line in plan.after if line not in plan.before] or plan.after[:3]
        raise Refusal(
            "{} took every command and still lacks '{}' ({}), expected it to hold; run `{}` by hand on the host".format(
                self.name, missing[0], said or "it said nothing", " ".join(plan.steps[0].argv)[:160]
            )
        )
