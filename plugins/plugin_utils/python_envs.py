"""Who solves, who installs and for which platform, from what every host tells of its environment; pure."""

import re

from ansible_collections.muster.cluster.plugins.module_utils.python_env import locks
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault

from . import environments, match_specs, python_platform
from .python_platform import Hosts
from .role_variables import listed

DRIFT_SHOWN = 5


def decide(looks, wish, head):
    """What a run has to do.

    Args:
        looks: ``{host: answer of muster.cluster.python_env with state look}`` in node-rank order. The head may be missing, and it
            may be there without being one of those that act.
        wish: ``{"spec": from environments.read, "settings": {...}, "prefix", "update", "hosts"}``. The settings are those that
            choose packages, as :func:`environments.asked` takes them, with ``torch_backend`` and ``python`` among them. The
            last three may be left out: the prefix (for sentences), whether to solve anew although nothing was asked anew,
            and who may act (everybody who looked).
        head: inventory name of the first host.

    Returns:
        ``faults``: sentences that end the run; when there are any, nothing else counts.
        ``notes``: what the user should know, one line each.
        ``asked``: the hash of what is asked for, for the modules; ``spec``: the specification.
        ``platform``: what the hosts have in common, as muster.cluster.python_lock takes it.
        ``torch_backend``: as the modules take it.
        ``current``, ``install``: hosts that need nothing, and that do.
        ``same``: ``{host: another host}`` that shares its prefix with one that acts, and needs nothing of its own.
        ``head``: who gives the lock; ``solve``: whether it has to be made there, or lies there already; ``head_seen``: whether
            the head has looked. Where it has not, a lock that it has to make would fit the others alone.
        ``conda``: whether conda packages are wanted, so that those who act need a Python for the tools.
        ``reasons``: ``{host: [why it acts, in words]}``.
    """
    hosts = Hosts({name: look["facts"] for name, look in looks.items()}, head)
    spec, settings = wish["spec"], dict(wish.get("settings") or {})
    acting = [name for name in wish.get("hosts") or looks if name in looks]
    lock = spec["lock"]
    kind, faults, notes = gpu_kind(hosts, looks, spec, settings)
    asked = environments.asked(spec, dict(settings, gpu=kind if settings.get("torch_backend", "auto") == "auto" else ""))
    platform = python_platform.common(hosts, head, settings.get("torch_backend") or "auto")
    target = locks.lock_id(lock) if lock else target_id(looks, asked, head, platform)
    solve = not lock and (bool(wish.get("update")) or target is None)
    reasons = {name: why_act(looks[name], asked, None if solve else target) for name in acting}
    reasons = {name: why for name, why in reasons.items() if why}
    acts = {name: looks[name]["facts"] for name in reasons}
    conda = bool(spec["conda"] or lock and lock["conda"])
    plan = {
        "faults": [],
        "notes": list(spec["notes"]) + notes,
        "asked": asked,
        "spec": spec,
        "platform": platform,
        "torch_backend": settings.get("torch_backend") or "auto",
        "current": [name for name in acting if name not in reasons],
        "install": [],
        "same": {},
        "head": head,
        "head_seen": head in looks,
        "solve": bool(acts) and solve,
        "conda": conda,
        "reasons": reasons,
    }
    if not acts:
        return plan  # a GPU that does not show today is no reason to touch what works
    faults = faults + foreign(looks, reasons, wish.get("prefix")) + python_platform.arch_faults(hosts)
    faults += python_platform.glibc_faults(hosts)
    faults += python_platform.tool_faults(acts) if conda else python_platform.python_faults(hosts, settings.get("python"), lock)
    faults += python_platform.backend_faults(hosts, plan["torch_backend"])
    faults += python_platform.lock_faults(hosts, lock, plan["torch_backend"]) if lock else []
    if solve and head not in acting:
        faults.append(
            "found {} left out of this run, expected it, since it solves what {} asks for; run again without --limit, or with "
            "{} in it".format(head, wish.get("file") or "the specification", head)
        )
    plan["notes"] += drifted(looks, reasons)
    plan["torch_backend"] = python_platform.narrowed(hosts, plan["torch_backend"], head)
    plan["faults"] = list(dict.fromkeys(faults))
    plan["same"] = twins(looks, list(reasons))
    plan["install"] = [name for name in reasons if name not in plan["same"]]
    return plan


def decide_for_file(looks, wish, head):
    """:func:`decide` for a file that has not been read yet; what is wrong with it is one of the ``faults``.

    Args:
        looks, head: as for :func:`decide`.
        wish: with ``file``, a path on the controller, in place of ``spec``.

    Returns:
        The plan; with ``faults`` alone where the file cannot be read.
    """
    try:
        spec = environments.read(wish["file"], (wish.get("settings") or {}).get("python") or "")
    except Fault as fault:
        return {"faults": [fault.sentence]}
    return decide(looks, dict(wish, spec=spec), head)


def target_id(looks, asked, head, platform):
    """The id of the lock that is wanted: the head's, if it was made for the same; None where it has to be made.

    Without a look at the head, those whose own was made for the same are taken to have the head's. A lock for a later C library
    or driver than all hosts have, since an older host has joined, has to be made anew.
    """
    if head in looks:
        own = looks[head]
        lost = own["state"] != "whole" and "its lock is lost" in (own.get("reasons") or [])
        if lost or own["asked"] != asked or python_platform.too_new(own, platform):
            return None
        return own["lock_id"] or None
    found = [look["lock_id"] for look in looks.values() if look["asked"] == asked and look["lock_id"]]
    target = max(found, key=found.count) if found else None
    if any(look["lock_id"] == target and python_platform.too_new(look, platform) for look in looks.values()):
        return None
    return target


def why_act(look, asked, target):
    """Why a host is not as wanted, in words; empty where it is.

    Args:
        look: of the host; asked: what is asked for; target: the lock that is wanted, None where it is not known yet.
    """
    if look["state"] == "none":
        return ["it is not there yet"]
    if look["state"] != "whole":
        return list(look.get("reasons") or []) or ["it is not one that Muster has made"]
    if look["asked"] != asked:
        return ["something else is asked for"]
    if target is None or look["lock_id"] != target:
        return ["another lock is wanted"]
    return list(look.get("left") or [])  # what a run that was killed has not done


def foreign(looks, reasons, prefix):
    """Hosts on which the prefix is somebody else's."""
    names = [name for name in reasons if looks[name]["state"] == "foreign"]
    if not names:
        return []
    return ["{}: found something at {} that Muster has not made, expected nothing there; move it away, or set "
            "python_env_prefix".format(listed(names), prefix or looks[names[0]].get("prefix") or "the prefix")]  # fmt: skip


def drifted(looks, reasons, shown=DRIFT_SHOWN):
    """What somebody has changed on single hosts, package by package, one line each."""
    told = []
    for name, why in reasons.items():
        if looks[name]["state"] == "drifted":
            more = " and {} more".format(len(why) - shown) if len(why) > shown else ""
            told.append("{} is not as it was installed, and is repaired: {}{}".format(name, ", ".join(why[:shown]), more))
    return told


def twins(looks, names):
    """``{host: the first that has the very same prefix on the very same machine}``, as far as the looks tell."""
    first, found = {}, {}
    for name in names:
        place = looks[name]["facts"].get("place")
        other = first.setdefault(place, name) if place else name
        if other != name:
            found[name] = other
    return found


def gpu_kind(hosts, looks, spec, settings):
    """``(kind, faults, notes)``: whether torch is to be a build for ``gpu`` or ``cpu``, where the user leaves it open.

    A GPU that does not show any more, where the environment was made for one, counts as there: drivers fail and come back.
    """
    backend = settings.get("torch_backend") or "auto"
    have = [name for name in hosts.facts if hosts.facts[name]["gpu"]]
    lack = [name for name in hosts.facts if not hosts.facts[name]["gpu"]]
    if backend != "auto":
        unused = backend == "cpu" and have
        return "", [], ["{} an NVIDIA GPU that torch will not use, since python_env_torch_backend is cpu".format(
            listed(have) + (" has" if len(have) == 1 else " have each"))] if unused else []  # fmt: skip
    lost = [name for name in lack if str(looks[name].get("torch_backend") or "").startswith("cu")]
    if lost:
        return "gpu", [
            "{}: found no NVIDIA GPU, expected one as when the environment was made; repair the driver there, or set "
            "python_env_torch_backend to cpu".format(listed(lost))
        ], ["{} no NVIDIA GPU now, though the environment was made for one".format(
            listed(lost) + (" shows" if len(lost) == 1 else " show"))]  # fmt: skip
    if have and lack:
        return "gpu", [
            "{}: found no NVIDIA GPU, expected one as on {}; set python_env_torch_backend to cpu for all, or take {} out of the "
            "group".format(listed(lack), listed(have), "it" if len(lack) == 1 else "them")
        ], []  # fmt: skip
    kind = "gpu" if have else "cpu"
    return kind, pinned_faults(spec, kind, have), []


def pinned_faults(spec, kind, have):
    """A build of torch that the specification fixes and that does not suit the hosts."""
    own = "set python_env_torch_backend to {}".format
    for line in spec["pip"]:
        match = re.match(r"torch *={2,3} *([\w.]+)\+(\w+)", line)
        if not match:
            continue
        version, build = match.groups()
        if kind == "gpu" and build == "cpu":
            return ["the specification asks for torch {0}+cpu, a build without CUDA, but {1} an NVIDIA GPU; write torch=={0}, or "
                    "{2}".format(version, have_one(have), own("cpu"))]  # fmt: skip
        if kind == "cpu" and build.startswith("cu"):
            return ["the specification asks for torch {0}+{1}, but no host has an NVIDIA GPU; write torch=={0}, or {2}".format(
                version, build, own(build))]  # fmt: skip
    for line in spec["conda"]:
        if kind == "gpu" and match_specs.name_of(line) in ("cpuonly", "pytorch-cpu"):
            return ["the specification asks for {}, torch without CUDA, but {} an NVIDIA GPU; remove it, or {}".format(
                match_specs.name_of(line), have_one(have), own("cpu"))]  # fmt: skip
    return []


def have_one(names):
    """``n1 has``, or ``n1 and n2 have each``."""
    return listed(names) + (" has" if len(names) == 1 else " have each")
