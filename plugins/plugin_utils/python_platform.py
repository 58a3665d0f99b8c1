"""What hosts have in common, and what keeps one environment from fitting all of them; pure."""

import re

from .role_variables import listed

# Conda's words for what uname says.
SUBDIRS = {"x86_64": "linux-64", "aarch64": "linux-aarch64", "ppc64le": "linux-ppc64le", "s390x": "linux-s390x"}
# A build of torch that runs on every driver of a major version of CUDA (its minor versions are compatible).
BUILDS = {11: "cu118", 12: "cu126", 13: "cu130"}


class Hosts:
    """Facts of hosts.

    Args:
        facts: ``{name: facts}`` in node-rank order: ``arch``, ``glibc``, ``gpu``, ``cuda``, ``python``, ``tool_python``.
        head: the host that the others are compared with, if it is among them.
    """

    def __init__(self, facts, head):
        self.facts = facts
        self.reference = head if head in facts else next(iter(facts), head)

    def values(self, key):
        """``{value: [hosts]}`` of a fact, the reference's first."""
        order = [self.reference] + [name for name in self.facts if name != self.reference]
        found = {}
        for name in order:
            if name in self.facts:
                found.setdefault(self.facts[name].get(key) or "", []).append(name)
        return found

    def lowest(self, key):
        """The lowest version of a fact and the first host that has it; empty texts where nobody has any."""
        known = [(numbers(value), value, names[0]) for value, names in self.values(key).items() if value]
        return min(known)[1:] if known else ("", "")


def numbers(version):
    """A version's numbers, to be compared."""
    return [int(part) for part in re.findall(r"\d+", version)]


def build_cuda(backend):
    """``[12, 8]`` of ``cu128``; None for what names no CUDA."""
    match = re.fullmatch(r"cu(\d+)(\d)", backend or "")
    return [int(match.group(1)), int(match.group(2))] if match else None


def common(hosts, head, backend="auto"):
    """The platform to solve for: ``{"subdir", "glibc", "own_glibc", "gpu", "cuda"}``; texts are empty where nothing is known.

    Args:
        hosts: the hosts; head: who solves; backend: the setting ``torch_backend``. With a host without GPU, or with ``cpu``,
            nothing that needs CUDA may be chosen.
    """
    arch = next(iter(hosts.values("arch")), "")
    gpu = bool(hosts.facts) and all(facts["gpu"] for facts in hosts.facts.values())
    return {
        "subdir": SUBDIRS.get(arch, "linux-" + arch),
        "glibc": hosts.lowest("glibc")[0],
        "own_glibc": hosts.facts.get(head, {}).get("glibc") or "",
        "gpu": gpu,
        "cuda": hosts.lowest("cuda")[0] if gpu and backend != "cpu" else "",
    }


def too_new(look, platform):
    """Whether the lock that a host has was made for later hosts than those there are now.

    Args:
        look: with ``lock_glibc`` and ``lock_cuda``, of the lock that is installed, where it tells them.
        platform: from :func:`common`. A host whose GPU does not show tells no driver, and is no reason.
    """
    return any(
        look.get("lock_" + key) and platform[key] and numbers(look["lock_" + key]) > numbers(platform[key])
        for key in ("glibc", "cuda")
    )


def arch_faults(hosts):
    """Hosts of several architectures, which no lock can serve."""
    (arch, same), *others = hosts.values("arch").items()
    return ["{}: found {}, expected {} as on {}; give hosts of another architecture a cluster of their own".format(
        listed(names), value or "no architecture", arch, listed(same)) for value, names in others]  # fmt: skip


def glibc_faults(hosts):
    """Hosts with another C library, for which there are neither conda packages nor the usual wheels."""
    names = hosts.values("glibc").get("")
    if not names:
        return []
    return ["{}: found no glibc, expected it, since packages are built for it; install a Debian or Red Hat there, or take {} out "
            "of the group".format(listed(names), "it" if len(names) == 1 else "them")]  # fmt: skip


def tool_faults(facts):
    """Hosts that act and have no Python for the tools that install conda packages."""
    names = [name for name in facts if not facts[name].get("tool_python")]
    if not names:
        return []
    return ["{}: found no Python 3.10 or later, expected one for the tools that install conda packages; install one there, such "
            "as python3.11, and name it in python_env_tool_python".format(listed(names))]  # fmt: skip


def python_faults(hosts, wanted, lock=None):
    """Different Pythons beneath an environment that consists of wheels alone.

    Args:
        hosts: the hosts; wanted: the setting ``python``; lock: the lock that is given, if any.
    """
    found = hosts.values("python")
    told = []
    if "" in found:
        told.append("{}: found no Python{}, expected one to make the environment of; install it there, or set "
                    "python_env_python to one that all hosts have".format(
                        listed(found.pop("")), " " + wanted if wanted else ""))  # fmt: skip
    if lock:
        return told + ["{}: found Python {}, expected {} as in the lock; name that one by python_env_python, or solve anew from "
                       "the lock's specification".format(listed(names), version, lock["python"])
                       for version, names in found.items() if version != lock["python"]]  # fmt: skip
    (version, same), *others = found.items() or [("", [])]
    return told + [
        "{}: found Python {}, expected {} as on {}; name one that all have by python_env_python, or use an environment.yml with "
        "a python line".format(listed(names), other, version, listed(same)) for other, names in others
    ]  # fmt: skip


def backend_faults(hosts, backend):
    """Drivers that are too old for the build of torch that the user names."""
    wanted = build_cuda(backend)
    told = []
    for value, names in hosts.values("cuda").items():
        if wanted and value and numbers(value)[0] < wanted[0]:
            fit = BUILDS.get(numbers(value)[0])
            told.append("{}: found a driver for CUDA {} at most, expected {}.{} for {}; update it there, or set "
                        "python_env_torch_backend to {}".format(listed(names), value, wanted[0], wanted[1], backend,
                                                                fit or "cpu"))  # fmt: skip
    return told


def narrowed(hosts, backend, head):
    """The build of torch to solve for: what is left open is decided by the head's driver, unless another host's is older.

    Args:
        hosts: the hosts; backend: the setting; head: where uv asks for the driver.
    """
    lowest, own = hosts.lowest("cuda")[0], hosts.facts.get(head, {}).get("cuda")
    if backend != "auto" or not lowest or own and numbers(own)[0] <= numbers(lowest)[0]:
        return backend
    return BUILDS.get(numbers(lowest)[0], backend)


def lock_faults(hosts, lock, backend):
    """What keeps a lock that the user gives from fitting the hosts."""
    told = []
    subdir = common(hosts, None)["subdir"]
    anew = "solve anew from its specification"
    if lock["platform"] != subdir:
        told.append("the lock is for {}, expected {}, which {}; {}".format(
            lock["platform"], subdir, "the hosts are" if len(hosts.facts) > 1 else hosts.reference + " is", anew))  # fmt: skip
    for value, names in hosts.values("glibc").items():
        if lock["glibc"] and value and numbers(value) < numbers(lock["glibc"]):
            told.append("{}: found glibc {}, expected {} or later, for which the lock was made; {}".format(
                listed(names), value, lock["glibc"], anew))  # fmt: skip
    lack = [name for name in hosts.facts if not hosts.facts[name]["gpu"]]
    have = [name for name in hosts.facts if hosts.facts[name]["gpu"]]
    if lock["cuda"] and lack:
        told.append("{}: found no NVIDIA GPU, expected one for CUDA {}, for which the lock was made; {}".format(
            listed(lack), lock["cuda"], anew))  # fmt: skip
    for value, names in hosts.values("cuda").items():
        if lock["cuda"] and value and numbers(value) < numbers(lock["cuda"]):
            told.append("{}: found a driver for CUDA {} at most, expected {}, for which the lock was made; update it there, or "
                        "{}".format(listed(names), value, lock["cuda"], anew))  # fmt: skip
    if lock["torch_backend"] == "cpu" and have and backend == "auto":
        told.append("{}: found an NVIDIA GPU, expected none, since torch in the lock is a build without CUDA; {}, or set "
                    "python_env_torch_backend to cpu".format(listed(have), anew))  # fmt: skip
    return told
