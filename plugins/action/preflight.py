"""Action of ``muster.cluster.preflight``; its documentation stands with the module of the same name."""

import os

import yaml
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.checked import shown
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.plugin_utils import addressing, preflight, role_variables
from ansible_collections.muster.cluster.plugins.plugin_utils.options import plain

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SECTIONS = ("time", "system", "packages", "firewall")
display = Display()


class ActionModule(ActionBase):
    """Reads what the survey found on all hosts and ends the run with everything that is wrong, or lets it go on."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """See the module's documentation."""
        result = super().run(tmp, task_vars)
        seen = task_vars["hostvars"]
        members = list(self._task.args["members"]) or list(task_vars["ansible_play_hosts_all"])
        play = in_order(task_vars["ansible_play_hosts_all"], members)
        left = set(task_vars["ansible_play_hosts"])
        options = role_options()
        raw = {name: seen.raw_get(name) for name in play}
        common = self._requirements(raw[task_vars["inventory_hostname"]], options)
        hosts = {name: host_of(seen[name], raw[name], name in left, own_requirements(seen[name], raw[name], common, options))
                 for name in play}  # fmt: skip
        addresses, nameless = addresses_of(members, seen)
        for name, host in hosts.items():
            host["address"] = addresses.get(name)
        told = preflight.findings(hosts, common)
        # Of one that is not reached either, the unknown name has been told.
        told += [sentence for name, sentence in nameless.items() if name not in hosts or hosts[name]["facts"]]
        systems = {name: host["facts"]["system"] for name, host in hosts.items() if host["facts"]}
        told += preflight.address_findings(addresses, systems)
        told += variables_told({name: (seen[name], raw[name]) for name in play}, options)
        result.update(changed=False, findings=told, hosts=play)
        if told:
            return dict(result, failed=True, muster_said=True, msg=preflight.message(told, len(play)))
        display.display("preflight: {} host{}, no fault".format(len(play), "" if len(play) == 1 else "s"))
        return result

    def _requirements(self, first, options):
        """What all hosts must have. The task's values are those of its one host, which may have an inventory's of its own."""
        arguments = self._task.args
        given = {
            "min_free_mb": arguments["min_free_mb"],
            "min_tmp_mb": arguments["min_tmp_mb"],
            "max_clock_skew": arguments["max_clock_skew"],
            "other_systems": arguments["other_systems"],
        }
        for key, value in given.items():
            option = options["preflight_" + key]
            own = "preflight_" + key in first
            given[key] = option["default"] if own else role_variables.converted(key, plain(value), option)
        return given


def in_order(hosts, members):
    """Hosts in the order of the members, since a play over a group made by group_by has them as they came; then the others."""
    return [name for name in members if name in hosts] + [name for name in hosts if name not in members]


def addresses_of(members, seen):
    """``({name: address}, {name: why there is none})`` of all members, in this play or not."""
    found, nameless = {}, {}
    for name in members:
        try:
            found[name] = addressing.address_of(name, seen[name])
        except Refusal as refusal:
            nameless[name] = str(refusal)
    return found, nameless


def role_options():
    """``{variable: option}`` of the collection's roles except launch, whose plan judges its own."""
    found = {}
    for role in role_names():
        path = os.path.join(PROJECT, "roles", role, "meta", "argument_specs.yml")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as stream:
                for entry in yaml.safe_load(stream)["argument_specs"].values():
                    found.update(entry.get("options") or {})
    return found


def role_names():
    """The collection's roles except launch."""
    return [role for role in sorted(os.listdir(os.path.join(PROJECT, "roles"))) if role != "launch"]


def host_of(variables, raw, left, requirements):
    """A host as :mod:`preflight` takes it.

    Args:
        variables, raw: its variables, templated on access and untemplated.
        left: whether it is still in the play.
        requirements: its own.
    """
    answer = raw.get("__preflight_survey") or {}
    facts = (raw.get("ansible_facts") or {}).get("muster")
    fault = answer.get("fault") or (answer.get("msg") if answer.get("failed") else None)
    looked = {section: plain(facts[section]) for section in SECTIONS} if left and facts and not fault else None
    return {
        "facts": looked,
        "fault": None if looked else str(fault or ""),
        "unreachable": bool(answer.get("fault_unreachable") or answer.get("unreachable")),
        "python": str(variables.get("ansible_python_interpreter") or "/usr/bin/python3"),
        "requirements": requirements,
    }


def own_requirements(variables, raw, common, options):
    """Those of the requirements that the inventory has for this host; one that will not do is told by variables_told."""
    found = {}
    for key in common:
        name = "preflight_" + key
        if name in raw:
            try:
                found[key] = role_variables.converted(name, plain(variables[name]), options[name])
            except AnsibleError:
                continue
    return found


def variables_told(hosts, options):
    """Sentences about the roles' variables in the inventory.

    Args:
        hosts: ``{name: (variables, raw variables)}``.
        options: from :func:`role_options`.
    """
    roles, known = role_names(), dict(options, **role_variables.CLUSTER)
    unread, wrong = {}, {}
    for host, (variables, raw) in hosts.items():
        for name, near in role_variables.unknown(raw, options, roles).items():
            unread.setdefault((name, near), []).append(host)
        for name in sorted(known.keys() & raw.keys()):
            try:
                value = plain(variables[name])
            except AnsibleError as error:
                if role_variables.waits(str(error), known):
                    continue
                key = (name, "a template that fails ({})".format(" ".join(str(error).split())), "one that can be read")
            else:
                key = (name, shown(value), role_variables.unfit(name, value, known[name]))
            if key[2]:
                wrong.setdefault(key, []).append(host)
    for (name, near), names in unread.items():
        if not near:
            # Perhaps of somebody else, whose variables begin with the same word.
            display.warning("{} the variable {}, which no role of Muster reads".format(role_variables.have(names), name))
    return role_variables.sentences({key: names for key, names in unread.items() if key[1]}, wrong)
