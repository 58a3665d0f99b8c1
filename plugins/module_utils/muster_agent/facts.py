"""What one node tells at the roll call, read without importing torch (that takes seconds)."""

import glob
import hashlib
import json
import os
import platform
import re
import resource
import shutil
import socket
import subprocess
import sys
import sysconfig
import time


def cores():
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def count_gpus(visible):
    """NVIDIA GPUs that a job would see here, without CUDA.

    Args:
        visible: the job's CUDA_VISIBLE_DEVICES, or None where it is not set.
    """
    if visible is not None:
        devices = [item.strip() for item in visible.split(",")]
        invalid = [index for index, item in enumerate(devices) if item in ("", "-1", "NoDevFiles")]
        return invalid[0] if invalid else len(devices)  # CUDA sees nothing after an invalid one
    try:
        return len(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:
        pass
    if not shutil.which("nvidia-smi"):
        return 0
    try:
        text = subprocess.run(
            ["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20, check=True
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError):
        return 0
    return len([line for line in text.splitlines() if line.startswith("GPU ")])


def resolve_nproc(wanted, gpus, core_count):
    """Processes for this node from ``auto``, ``gpu``, ``cpu`` or a number; 0 where ``gpu`` finds none."""
    if wanted == "auto":
        return gpus or 1
    if wanted == "gpu":
        return gpus
    if wanted == "cpu":
        return core_count
    return wanted


def site_folders():
    """Folders of this interpreter that hold installed distributions."""
    paths = sysconfig.get_paths()
    return sorted({paths["purelib"], paths["platlib"]})


def canonical(name):
    """The normalised form of a package's name (PEP 503): ``typing_extensions`` gives ``typing-extensions``."""
    return re.sub(r"[-_.]+", "-", name).lower()


def distribution(entry):
    """Name and version that an entry of a site-packages folder stands for, or None.

    >>> distribution("typing_extensions-4.16.0.dist-info")
    ('typing-extensions', '4.16.0')
    """
    match = re.fullmatch(r"(.+)-([^-]+)\.dist-info", entry)
    return (canonical(match.group(1)), match.group(2).replace("_", "-")) if match else None


def distributions(folders):
    """``{name: version}`` of what is installed, from the names of the ``*.dist-info`` folders."""
    found = {}
    for folder in folders:
        found.update(pair for pair in map(distribution, entries(folder)) if pair)
    return found


# What an installer writes beside a package's own files: how and by whom it was put there, not what it is.
BY_THE_WAY = (b"direct_url.json,", b"INSTALLER,", b"REQUESTED,", b"RECORD,", b"uv_cache.json,")


def prefix_contents(prefix):
    """:func:`contents` of an environment by its path; it is read, never started."""
    pattern = os.path.join(glob.escape(prefix), "lib*", "python3*", "site-packages")
    return contents(sorted(glob.glob(pattern)), os.path.join(prefix, "conda-meta"))


def contents(folders, records=None):
    """Everything that is installed, each as exactly as it can be told apart.

    Args:
        folders: those that hold ``*.dist-info`` folders.
        records: the folder ``conda-meta`` of a conda prefix, if there is one.

    Returns:
        ``{name: [version, build, hash]}``. The build is conda's, empty for a wheel. The hash of a conda package is that of its
        archive, of a wheel that of its list of files; a name that stands in both has the hash of the two and the version that
        Python finds. An empty hash: the list of files is lost.
    """
    found = conda_records(records) if records else {}
    for folder in unlike(folders):
        for entry in entries(folder):
            pair = distribution(entry)
            if not pair:
                continue
            name, version = pair
            mark = record_hash(os.path.join(folder, entry))
            below = found.get(name)
            if below:
                mark = hashlib.sha256("{} {}".format(below[2], mark).encode()).hexdigest()
            found[name] = [version, below[1] if below else "", mark]
    return found


def entries(folder):
    """Sorted names in a folder; none where it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def unlike(folders):
    """Folders without those that are links to another of them, such as lib64 to lib."""
    return list({os.path.realpath(folder): folder for folder in reversed(list(folders))}.values())[::-1]


def conda_records(folder):
    """``{name: [version, build, sha256 of the archive]}`` from the records that conda keeps of what it has installed.

    A record lists every file of its package, megabytes of JSON in all, of which one line is wanted. So the line is searched for
    as conda and rattler write it, and the whole is read only where it is not found.
    """
    found = {}
    for entry in entries(folder):
        parts = entry[: -len(".json")].rsplit("-", 2)
        if not entry.endswith(".json") or len(parts) != 3:
            continue
        try:
            with open(os.path.join(folder, entry), "rb") as stream:
                text = stream.read()
        except OSError:
            continue
        match = re.search(rb'^ {1,2}"sha256": "([0-9a-f]{64})"', text, re.MULTILINE)
        found[parts[0]] = parts[1:] + [match.group(1).decode() if match else parsed_sha256(text)]
    return found


def parsed_sha256(text):
    """The archive's sha256 out of a whole record, empty where there is none."""
    try:
        return str(json.loads(text.decode()).get("sha256") or "")
    except (ValueError, AttributeError):
        return ""


def record_hash(folder):
    """sha256 over what a wheel's RECORD says of the package's own files; empty where there is no RECORD.

    Left out is what differs between two installations of one wheel: scripts (they name the prefix), compiled files, and how and
    by whom it was installed.

    Args:
        folder: a ``*.dist-info`` folder.
    """
    try:
        with open(os.path.join(folder, "RECORD"), "rb") as stream:
            text = stream.read()
    except OSError:
        return ""
    below = os.fsencode(os.path.basename(folder)) + b"/"
    foreign = (b"../", b"/") + tuple(below + name for name in BY_THE_WAY)
    lines = [line for line in text.splitlines() if line and not line.startswith(foreign)]
    if b"__pycache__/" in text:
        lines = [line for line in lines if b"__pycache__/" not in line]
    return hashlib.sha256(b"\n".join(sorted(lines))).hexdigest()


def versions(found):
    """``{name: version}`` of :func:`contents`."""
    return {name: entry[0] for name, entry in found.items()}


def brief(found, digits=12):
    """:func:`contents` with shorter hashes, to be sent or kept."""
    return {name: [version, build, mark[:digits]] for name, (version, build, mark) in found.items()}


def fingerprint(installed):
    """sha256 over everything installed: equal on two nodes when name, version, build and files of every package are.

    Args:
        installed: as :func:`contents` gives it.
    """
    lines = sorted("{} {}\n".format(name, " ".join(entry)) for name, entry in installed.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def torch_version():
    """Version of the torch that this interpreter would import, from its version.py; None where there is none."""
    for folder in [entry for entry in sys.path if entry] + site_folders():
        try:
            with open(os.path.join(folder, "torch", "version.py"), encoding="utf-8") as stream:
                found = parse_version(stream.read())
        except OSError:
            continue
        if found:
            return found
    return None


def parse_version(text):
    """``__version__`` out of the text of torch/version.py, or None."""
    match = re.search(r"^__version__ = ['\"]([^'\"]+)", text, re.MULTILINE)
    return match.group(1) if match else None


# The same two questions for an interpreter that is not this one.
ASK = """
import json, os, sys, sysconfig
paths = [p for p in sys.path if p] + [sysconfig.get_paths()[k] for k in ("purelib", "platlib")]
files = [os.path.join(p, "torch", "version.py") for p in paths]
text = next((open(f).read() for f in files if os.path.isfile(f)), "")
print(json.dumps({"version": list(sys.version_info[:2]), "text": text}))
"""


def interpreter(python):
    """``{"version": [3, 11], "torch": "2.13.0" or None}`` of a Python, or None where it cannot be run."""
    if python == sys.executable:
        return {"version": list(sys.version_info[:2]), "torch": torch_version()}
    try:
        done = subprocess.run(
            [python, "-I", "-c", ASK], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30, check=True
        )
        told = json.loads(done.stdout.decode("utf-8", "replace"))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return {"version": told["version"], "torch": parse_version(told["text"])}


def oom_kills(proc="/proc/self/cgroup", root="/sys/fs/cgroup"):
    """How many processes the kernel has killed for memory in this process's cgroup (version 2); 0 where it does not say."""
    try:
        with open(proc, encoding="ascii") as stream:
            path = next(line.strip().split("::", 1)[1] for line in stream if line.startswith("0::"))
        with open(root + path.rstrip("/") + "/memory.events", encoding="ascii") as stream:
            counts = dict(line.split() for line in stream)
        return int(counts.get("oom_kill", 0))
    except (OSError, ValueError, StopIteration):
        return 0


def boot_id():
    """What tells one running kernel from another: nodes with the same share their cores."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def existing(path):
    """The nearest folder above ``path``, or ``path`` itself, that exists."""
    path = os.path.abspath(path)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def free_bytes(path):
    """Free bytes for this user on the file system where ``path`` lies or will lie."""
    found = os.statvfs(existing(path))
    return found.f_bavail * found.f_frsize


def gather():
    """The facts of the roll call that do not depend on the job."""
    installed = contents(site_folders(), os.path.join(sys.prefix, "conda-meta"))
    return {
        "hostname": socket.gethostname(),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "torch": torch_version(),
        "fingerprint": fingerprint(installed),
        "packages": versions(installed),
        "contents": brief(installed),
        "boot_id": boot_id(),
        "cores": cores(),
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "shm_bytes": free_bytes("/dev/shm"),
        "clock": time.time(),
    }
