"""Environments as the module python_env lays them out, without solving and fetching: made in a second."""

import subprocess
import sys
from pathlib import Path

from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import facts
from ansible_collections.muster.cluster.plugins.module_utils.python_env import locks, machine, versions

STUB = Path(__file__).parent / "stub_torch"
PYTHON = "%d.%d.%d" % sys.version_info[:3]


def lock_of(packages):
    """A lock of wheels; ``packages`` maps names to versions."""
    return {
        "format": 1, "platform": "linux-64", "python": PYTHON, "glibc": "2.36", "cuda": None, "torch_backend": "cpu",
        "asked": "".join(packages.values()), "channels": [], "conda": [],
        "wheels": [
            {"name": name, "version": version, "url": "file:///w/" + name, "file_name": name + ".whl", "sha256": "0" * 64}
            for name, version in sorted(packages.items())
        ],
    }  # fmt: skip


def install(prefix, name, version):
    """A package of one line, ``VERSION = ...``."""
    site = next(prefix.glob("lib/python3*/site-packages"))
    folder = site / "{}-{}.dist-info".format(name, version)
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: {}\nVersion: {}\n".format(name, version))
    (folder / "RECORD").write_text("{}.py,sha256=x,1\n".format(name))
    (site / (name + ".py")).write_text("VERSION = {!r}\n".format(version))


def make(envs, name, packages, switch=True):
    """A version of an environment, with torch's stub beside its packages; returns its lock's id.

    Args:
        envs: the folder of environments.
        name: of this one.
        packages: names to versions.
        switch: whether it becomes the one in use.
    """
    lock = lock_of(packages)
    lock_id = locks.lock_id(lock)
    prefix = envs / ".versions" / name / lock_id
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    (next(prefix.glob("lib/python3*/site-packages")) / "torch").symlink_to(STUB / "torch")
    for package, version in packages.items():
        install(prefix, package, version)
    (prefix / "conda-meta").mkdir()
    (prefix / ".muster").mkdir()
    (prefix / ".muster" / "lock.json").write_text(locks.text(lock))
    (prefix / ".muster" / "environment.yml").write_text(locks.environment_yml(lock, name))
    found = machine.look(str(prefix))
    stamp = {
        "lock_id": lock_id, "asked": lock["asked"], "torch_backend": "cpu", "python_version": found.python_version,
        "packages": found.packages, "conda": found.conda, "entries": found.entries, "contents": found.contents,
        "fingerprint": facts.fingerprint(found.contents),
    }  # fmt: skip
    versions.write_stamp(str(prefix), stamp)
    if switch:
        use(envs, name, lock_id)
    return lock_id


def use(envs, name, lock_id):
    """Switch to a version, as a run of site.yml does."""
    versions.switch(versions.place(str(envs / name)), str(envs / ".versions" / name / lock_id))


def used(envs, name):
    """Id of the version in use."""
    return Path(versions.pointed(versions.place(str(envs / name)))).name
