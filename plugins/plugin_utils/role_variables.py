"""The roles' public variables in an inventory: misspelt ones, and values of another type than they need; pure."""

import difflib
import re

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

# Variables of the whole cluster, for which no role stands: as a role's argument_specs.yml describes options.
CLUSTER = {
    "muster_address": {"type": "str"},
    "muster_data_network": {"type": "str"},
    "muster_manage_hosts": {"type": "bool"},
    "muster_python": {"type": "path"},
    "muster_state_dir": {"type": "path"},
    "muster_user": {"type": "str"},
    "muster_user_home": {"type": "path"},
}
# Prefixes that variables of others have as well; only what is all but ours counts as misspelt.
GENERIC = ("firewall_", "gpu_", "limits_", "packages_", "verify_")
TYPES_TOLD = {
    "str": "text",
    "path": "a path",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a dictionary",
}


def unknown(names, options, roles):
    """Variables that look like a role's and that no role reads.

    Args:
        names: a host's variables.
        options: ``{name: option}`` of all roles, without :data:`CLUSTER`.
        roles: names of the roles whose variables are judged.

    Returns:
        ``{name: the name that was likely meant, or None}``.
    """
    known = dict(options, **CLUSTER)
    found = {}
    for name in sorted(names):
        prefix = prefix_of(name, roles)
        if prefix and name not in known:
            found[name] = meant(name, prefix, known)
    return found


def prefix_of(name, roles):
    """The longest of the roles' names, or ``muster``, with which a variable begins; None without one."""
    fitting = [role + "_" for role in [*roles, "muster"] if name.startswith(role + "_")]
    return max(fitting, key=len) if fitting else None


def meant(name, prefix, known):
    """The known variable that is nearest to a misspelt one, or None. What all share, the prefix, does not count."""
    rests = {other[len(prefix) :]: other for other in known if other.startswith(prefix)}
    near = difflib.get_close_matches(name[len(prefix) :], rests, 1, 0.85 if prefix in GENERIC else 0.6)
    if near or prefix in GENERIC:
        return rests[near[0]] if near else None
    longer = sorted(rest for rest in rests if rest.startswith(name[len(prefix) :] + "_"))
    return rests[longer[0]] if longer else None


def unfit(name, value, option):
    """What a value should have been, in words; None where it will do.

    Args:
        name: of the variable.
        value: templated.
        option: as a role's argument_specs.yml describes it.
    """
    if value is None:
        return "a value, or nothing at all for the default"
    # A role would go through a text letter by letter, though Ansible's validator takes it for a list.
    letters = isinstance(value, str) and option.get("type") in ("list", "dict")
    if not letters and not validated(name, value, option).error_messages:
        return None
    if option.get("choices"):
        return "one of " + ", ".join(map(str, option["choices"]))
    told = TYPES_TOLD.get(option.get("type", "str"), option.get("type"))
    if option.get("type") == "list" and option.get("elements"):
        told += " of " + {"str": "texts", "int": "whole numbers", "dict": "dictionaries"}.get(option["elements"], "values")
    return told


def waits(complaint, known):
    """Whether a template fails only because it needs what there is within a role, such as another variable's default.

    Args:
        complaint: what Ansible says about the template.
        known: names of all variables of the roles.
    """
    missing = re.search(r"'(\w+)' is undefined", complaint)
    return missing is not None and (missing.group(1) in known or missing.group(1).startswith(("role_", "ansible_")))


def converted(name, value, option):
    """A value as the role needs it, such as the number that ``-e`` has given as text; the default where it will not do."""
    if unfit(name, value, option):
        return option.get("default")
    return validated(name, value, option).validated_parameters[name]


def validated(name, value, option):
    """What Ansible's own validator has to say to a value."""
    spec = {key: option[key] for key in ("type", "elements", "choices", "options") if key in option}
    return ArgumentSpecValidator({name: spec}).validate({name: value})


def sentences(unread, wrong):
    """One sentence per variable, with all the hosts that have it.

    Args:
        unread: ``{(name, likely name): [hosts]}`` from :func:`unknown`.
        wrong: ``{(name, value as text, expected): [hosts]}``.
    """
    return [
        "{} the variable {}, which no role reads; did you mean {}?".format(have(hosts), name, near)
        for (name, near), hosts in unread.items()
    ] + [
        "{} {} as {}, expected {}; correct it where it is set".format(have(hosts), value, name, expected)
        for (name, value, expected), hosts in wrong.items()
    ]


def have(hosts):
    """``n1 has``, or ``n1, n2 and n3 have``."""
    return "{} {}".format(listed(hosts), "has" if len(hosts) == 1 else "have")


def listed(hosts, most=4):
    """``n1``, ``n1, n2 and n3`` or ``n1, n2, n3, n4 and 8 more``."""
    if len(hosts) == 1:
        return hosts[0]
    if len(hosts) <= most:
        return "{} and {}".format(", ".join(hosts[:-1]), hosts[-1])
    return "{} and {} more".format(", ".join(hosts[:most]), len(hosts) - most)
