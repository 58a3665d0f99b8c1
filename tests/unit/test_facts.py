"""What a node tells of itself without importing torch."""

import os
import subprocess
import sys

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import facts


@pytest.mark.parametrize(
    ("wanted", "gpus", "cores", "expected"),
    [
        ("auto", 0, 16, 1), ("auto", 4, 16, 4), ("gpu", 4, 16, 4), ("gpu", 0, 16, 0), ("cpu", 4, 16, 16),
        ("cpu", 0, 2, 2), (3, 0, 16, 3), (3, 8, 16, 3),
    ],
)  # fmt: skip
def test_processes_per_node(wanted, gpus, cores, expected):
    assert facts.resolve_nproc(wanted, gpus, cores) == expected


@pytest.mark.parametrize(
    ("visible", "expected"),
    [("", 0), ("-1", 0), ("NoDevFiles", 0), ("0", 1), ("0,1, 2", 3), ("GPU-ab,GPU-cd", 2), ("0,", 1), (" ", 0)],
)
def test_gpus_that_a_job_may_see(visible, expected):
    assert facts.count_gpus(visible) == expected


def test_gpus_are_counted_by_nvidia_smi_where_proc_does_not_tell(tmp_path, monkeypatch):
    def no_proc(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(facts.os, "listdir", no_proc)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert facts.count_gpus(None) == 0
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU 0: H200 (UUID: GPU-1)'\necho '  MIG 1g'\necho 'GPU 1: H200'\n")
    smi.chmod(0o755)
    assert facts.count_gpus(None) == 2
    smi.write_text("#!/bin/sh\necho 'GPU 0: H200'\nexit 9\n")
    assert facts.count_gpus(None) == 0


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("typing_extensions-4.16.0.dist-info", ("typing-extensions", "4.16.0")),
        ("torch-2.13.0+cpu.dist-info", ("torch", "2.13.0+cpu")),
        ("Zope.Interface-1.0_local.dist-info", ("zope-interface", "1.0-local")),
        ("numpy.libs", None),
        ("broken.dist-info", None),
        ("-1.dist-info", None),
    ],
)
def test_what_a_folder_of_site_packages_stands_for(entry, expected):
    assert facts.distribution(entry) == expected


def test_distributions(tmp_path):
    for name in ("torch-2.13.0+cpu.dist-info", "typing_extensions-4.16.0.dist-info", "Zope.Interface-1.0.dist-info",
                 "broken.dist-info", "numpy", "numpy.libs", "a-b-c-1.dist-info", "old-1.egg-info"):  # fmt: skip
        (tmp_path / name).mkdir()
    assert facts.distributions([str(tmp_path), str(tmp_path / "none")]) == {
        "torch": "2.13.0+cpu",
        "typing-extensions": "4.16.0",
        "zope-interface": "1.0",
        "a-b-c": "1",
    }


def test_this_interpreter_has_its_distributions():
    assert "pytest" in facts.distributions(facts.site_folders())


def test_a_fingerprint_depends_on_names_and_versions_alone():
    one = facts.fingerprint({"b": "2", "a": "1"})
    assert one == facts.fingerprint({"a": "1", "b": "2"}) and len(one) == 64
    assert one == "913f6e401ad06e0320887eef9ef4dfecb5098d4a55775ff40a415044cdbc22c0"
    assert (
        len({one, facts.fingerprint({"a": "1"}), facts.fingerprint({"a": "1", "b": "3"}), facts.fingerprint({})}) == 4
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from typing import Optional\n\n__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n", "2.13.0+cpu"),
        ('__version__ = "2.5.1"\n', "2.5.1"),
        ("__all__ = ['__version__']\n", None),
        ("", None),
    ],
)
def test_the_version_of_torch(tmp_path, monkeypatch, text, expected):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text(text)
    monkeypatch.setattr(facts.sys, "path", ["", str(tmp_path / "none"), str(tmp_path)])
    monkeypatch.setattr(facts, "site_folders", lambda: [])
    assert facts.torch_version() == expected


def test_this_interpreter_is_described_without_running_it(monkeypatch):
    monkeypatch.setattr(facts, "torch_version", lambda: "2.13.0")
    found = facts.interpreter(sys.executable)
    assert found == {"version": list(sys.version_info[:2]), "torch": "2.13.0"}


def test_another_interpreter_is_asked(tmp_path):
    # It has another name, so it is run as any other interpreter would be.
    other = tmp_path / "python"
    other.write_text('#!/bin/sh\nexec "{}" "$@"\n'.format(sys.executable))
    other.chmod(0o755)
    found = facts.interpreter(str(other))
    assert found["version"] == list(sys.version_info[:2]) and "torch" in found


@pytest.mark.parametrize("text", [None, "#!/bin/sh\nexit 1\n", "#!/bin/sh\necho no json\n", "not a program"])
def test_what_cannot_be_run_is_no_interpreter(tmp_path, text):
    path = tmp_path / "python"
    if text is not None:
        path.write_text(text)
        path.chmod(0o755)
    assert facts.interpreter(str(path)) is None


def test_free_bytes_of_a_folder_that_is_not_there_yet(tmp_path):
    found = facts.free_bytes(str(tmp_path / "a" / "b"))
    there = os.statvfs(str(tmp_path))
    assert abs(found - there.f_bavail * there.f_frsize) < 1 << 30


def test_the_nearest_folder_that_exists(tmp_path):
    assert facts.existing(str(tmp_path / "a" / "b")) == facts.existing(str(tmp_path)) == str(tmp_path)


def test_the_facts_of_this_machine():
    found = facts.gather()
    assert set(found) == {
        "hostname", "python", "torch", "fingerprint", "packages", "boot_id", "cores", "nofile", "shm_bytes", "clock",
    }  # fmt: skip
    assert found["python"] == "{}.{}".format(*sys.version_info[:2])
    assert found["cores"] == len(os.sched_getaffinity(0)) and found["boot_id"]
    assert found["fingerprint"] == facts.fingerprint(found["packages"])


def test_gpus_after_an_invalid_one_do_not_count():
    assert facts.count_gpus("0,-1,1") == 1


def test_free_bytes_of_a_relative_folder(repo):
    code = "import sys; sys.path.insert(0, sys.argv[1]); from muster_agent import facts; facts.free_bytes('no/such')"
    folder = str(repo / "plugins" / "module_utils")
    subprocess.run([sys.executable, "-I", "-S", "-c", code, folder], stdout=subprocess.PIPE, timeout=1, check=True)
