"""What a snapshot writes and where a rollback goes, from what every host has told of an environment; pure.

A *report* is what the module ``python_env_info`` returns.
"""

import difflib
import os
import re

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import checked, sameness
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent.errors import Refusal
from ansible_collections.muster.cluster.plugins.module_utils.python_env import locks, versions
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault

from . import concluding, options

SHOWN = 8
VERSION = re.compile(r"[0-9a-f]{4,12}(-[0-9]+)?")


def read(extra, roles, purpose):
    """What the command line asks of a snapshot or a rollback: ``{"name", "version"}``, each empty where it is not given.

    Args:
        extra: all extra variables, raw.
        roles: names of the collection's roles, whose own variables are theirs.
        purpose: ``snapshot`` or ``rollback``.

    Raises:
        Refusal: for a variable that nothing reads, and for a value that cannot be.
    """
    known = ("python_env", "version") if purpose == "rollback" else ("python_env",)
    found = {"name": "", "version": ""}
    for name, value in extra.items():
        if name == "python_env":
            found["name"] = checked.environment_name(value)
        elif name == "version" and "version" in known:
            found["version"] = version_id(value)
        elif not name.startswith(options.FOREIGN_PREFIXES) and not any(name.startswith(role + "_") for role in roles):
            near = difflib.get_close_matches(name, known, 1, 0.5)
            hint = "did you mean {}?".format(near[0]) if near else "{} reads {}".format(purpose, " and ".join(known))
            raise Refusal("found the extra variable {}, which nothing reads; {}".format(checked.shown(name), hint))
    return found


def folder_name(extra, prefix):
    """The name of the environment that was asked for; what hosts tell is never a path on the controller.

    Args:
        extra: all extra variables, raw.
        prefix: the path of the environment that is meant without any.

    Raises:
        Refusal: where it is none.
    """
    if extra.get("python_env"):
        return checked.environment_name(extra["python_env"])
    return checked.environment_name(os.path.basename(str(prefix).rstrip("/")), "the last part of python_env_prefix")


def version_id(value):
    """A version's id or the beginning of one."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not VERSION.fullmatch(value):
        raise Refusal(
            "version is {}, expected the id of a kept version: 4 to 12 of 0-9 and a-f; correct it".format(checked.shown(value))
        )
    return value


def answered(reports):
    """Every host has told, and has the environment.

    Args:
        reports: ``{host: report}`` in node-rank order.
    """
    silent = [text for text in (concluding.unasked(host, report) for host, report in reports.items()) if text]
    if silent:
        raise Refusal("; ".join(silent))
    for host, report in reports.items():
        if report["state"] != "there":
            raise Refusal(
                "{} has {} at {}, expected an environment that site.yml has made; name one by python_env, or run "
                "ansible-playbook site.yml".format(
                    host, "nothing" if report["state"] == "none" else "something else", report["prefix"]
                )
            )
        if report["lock"] is None:
            raise Refusal(
                "{} has no readable lock in {}, expected the one that the environment was made from; run "
                "ansible-playbook site.yml".format(host, report["real"])
            )


def snapshot(reports):
    """What is installed, the same on every host.

    Args:
        reports: ``{host: report}`` in node-rank order.

    Returns:
        ``({file name: text}, [warning])``. A lock that does not hold what somebody has changed by hand is not among the files.

    Raises:
        Refusal: where hosts have not answered, or differ.
    """
    answered(reports)
    different = sameness.drift([dict(report, name=host) for host, report in reports.items()], "run ansible-playbook site.yml")
    if different:
        raise Refusal("; ".join(different))
    head = next(iter(reports.values()))
    files = {"environment.yml": head["environment_yml"], "lock.json": locks.text(head["lock"])}
    if not head["drift"]:
        return files, []
    del files["lock.json"]
    return files, [
        "the environment has been changed by hand ({}), which no lock holds: environment.yml names what is there now, lock.json "
        "is left as it was; give environment.yml to site.yml as python_env_spec for a lock of it".format(few(head["drift"]))
    ]


def choose(reports, wanted):
    """Where a rollback goes.

    Args:
        reports: ``{host: report}`` in node-rank order.
        wanted: a version's id or the beginning of one; empty for the one that the head used before.

    Returns:
        ``{"to", "hosts", "changes", "left", "users"}``: the lock's id; the hosts that have to be switched; what changes on the
        head, ``[[name, version now, version then]]``; ``{lock id: [hosts]}`` that are left; who still runs on those,
        ``{user: [hosts]}``.

    Raises:
        Refusal: where hosts have not answered, or one does not have the version.
    """
    answered(reports)
    head = next(iter(reports))
    kept = {host: [as_version(entry) for entry in report["versions"]] for host, report in reports.items()}
    try:
        target = versions.way_back(kept[head], reports[head]["real"], wanted).lock_id
    except Fault as fault:
        raise Refusal("{}: {}".format(head, fault.sentence)) from None
    lacking = [host for host in reports if target not in {version.lock_id for version in kept[host]}]
    if lacking:
        common = set.intersection(*({version.lock_id for version in kept[host]} for host in reports))
        others = [version.lock_id for version in kept[head] if version.lock_id in common]
        raise Refusal(
            "{} {} no version {}, expected it on every host before any is switched; all have {}: name one of those by -e "
            "version=, or give the older lock to site.yml as python_env_spec".format(
                ", ".join(lacking), "has" if len(lacking) == 1 else "have", target, ", ".join(others) or "none in common"
            )
        )
    hosts = [host for host in reports if reports[host]["lock_id"] != target]
    left, users = {}, {}
    for host in hosts:
        left.setdefault(reports[host]["lock_id"], []).append(host)
        for entry in reports[host]["versions"]:
            for user in entry["users"] if entry["current"] else ():
                users.setdefault(user, []).append(host)
    first = reports[hosts[0]] if hosts else reports[head]
    changes = next(entry["changes"] for entry in first["versions"] if entry["lock_id"] == target)
    return {"to": target, "hosts": hosts, "changes": changes, "left": left, "users": users}


def as_version(entry):
    """A version out of a report, for the functions of the node."""
    return versions.Version(entry["id"], entry["path"], {"lock_id": entry["lock_id"]}, entry["used"])


def outcome(name, chosen, reports, check=False):
    """Lines that tell how a rollback went.

    Args:
        name: the environment.
        chosen: from :func:`choose`.
        reports: ``{host: result of its switch}`` for the hosts of ``chosen``.
        check: whether nothing was done.

    Raises:
        Refusal: where a host could not be switched.
    """
    if not chosen["hosts"]:
        return ["environment {} is at {} on every host already; nothing was changed".format(name, chosen["to"])]
    failed = [text for text in (concluding.unasked(host, reports.get(host) or {}) for host in chosen["hosts"]) if text]
    if failed:
        done = [host for host in chosen["hosts"] if not concluding.unasked(host, reports.get(host) or {})]
        raise Refusal(
            "{}; {} at {} now; run the same command again".format(
                "; ".join(failed), "{} {}".format(", ".join(done), "is" if len(done) == 1 else "are") if done else "no host is",
                chosen["to"],
            )
        )  # fmt: skip
    lines = ["environment {} {} {} on {}; {}".format(
        name, "would go back to" if check else "is back at", chosen["to"], ", ".join(chosen["hosts"]),
        "; ".join("it was at {} on {}".format(old, ", ".join(hosts)) for old, hosts in chosen["left"].items()),
    )]  # fmt: skip
    if chosen["changes"]:
        lines.append("  " + few(change(*entry) for entry in chosen["changes"]))
    for user, hosts in sorted(chosen["users"].items()):
        lines.append("  {} still runs on the version before, on {}; it keeps its files".format(user, ", ".join(hosts)))
    lines.append(
        "  site.yml goes forward again, since python_env_spec asks for it: to stay here, give it the lock of this version "
        "(playbooks/snapshot.yml writes it) or correct the file"
    )
    return lines


def change(name, now, then):
    """One package in words."""
    if now is None:
        return "{} {} comes back".format(name, then)
    return "{} {} is gone".format(name, now) if then is None else "{} is {} instead of {}".format(name, then, now)


def few(texts, shown=SHOWN):
    """The first texts and a count of the others."""
    told = list(texts)
    more = " and {} more".format(len(told) - shown) if len(told) > shown else ""
    return ", ".join(told[:shown]) + more
