"""What a node tells of itself without importing torch."""

import json
import os
import shutil
import subprocess
import sys
import time

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


RECORD = """numpy/__init__.py,sha256=aaa,10
numpy/core.so,sha256=bbb,20
numpy-2.4.0.dist-info/METADATA,sha256=ccc,30
"""
# What differs between two installations of one wheel.
BY_THE_WAY = """../../../bin/f2py,sha256=zzz,40
/opt/env/bin/f2py,sha256=zzz,40
numpy/__pycache__/__init__.cpython-311.pyc,,
numpy-2.4.0.dist-info/INSTALLER,sha256=ddd,2
numpy-2.4.0.dist-info/REQUESTED,sha256=eee,0
numpy-2.4.0.dist-info/direct_url.json,sha256=fff,99
numpy-2.4.0.dist-info/uv_cache.json,sha256=fff,99
numpy-2.4.0.dist-info/RECORD,,
"""


def wheel(site, name, version, record=RECORD):
    """A distribution in a site-packages folder."""
    folder = site / "{}-{}.dist-info".format(name, version)
    folder.mkdir(parents=True)
    if record is not None:
        (folder / "RECORD").write_text(record)
    return folder


def conda(prefix, name, version, build, sha256, text=None):
    """A record of conda's."""
    folder = prefix / "conda-meta"
    folder.mkdir(parents=True, exist_ok=True)
    paths = {"paths": [{"_path": "lib/x", "sha256": "ff" * 32}]}
    record = {"build": build, "paths_data": paths, "name": name, "sha256": sha256, "version": version}
    path = folder / "{}-{}-{}.json".format(name, version, build)
    path.write_text(json.dumps(record, indent=2) if text is None else text)


def site_of(prefix):
    return prefix / "lib" / "python3.11" / "site-packages"


@pytest.mark.parametrize(
    "record",
    [
        RECORD + BY_THE_WAY,
        BY_THE_WAY + RECORD,
        "".join(sorted(RECORD.splitlines(True), reverse=True)),
        RECORD.replace("\n", "\r\n"),
        RECORD.rstrip("\n"),
    ],
)
def test_two_installations_of_one_wheel_are_equal(tmp_path, record):
    wheel(site_of(tmp_path / "a"), "numpy", "2.4.0")
    wheel(site_of(tmp_path / "b"), "numpy", "2.4.0", record)
    one, two = (facts.prefix_contents(str(tmp_path / name)) for name in "ab")
    assert one == two and one["numpy"][:2] == ["2.4.0", ""] and len(one["numpy"][2]) == 64
    assert facts.fingerprint(one) == facts.fingerprint(two)


@pytest.mark.parametrize(
    "record",
    [
        RECORD.replace("bbb", "bbc"),
        RECORD + "numpy/more.py,sha256=ggg,1\n",
        RECORD.replace("numpy/core.so,sha256=bbb,20\n", ""),
        # The metadata of another package within this one is a file like others.
        RECORD + "numpy/_vendor/six-1.dist-info/INSTALLER,sha256=ddd,2\n",
        None,
    ],
)
def test_a_wheel_with_other_files_is_another(tmp_path, record):
    wheel(site_of(tmp_path / "a"), "numpy", "2.4.0")
    wheel(site_of(tmp_path / "b"), "numpy", "2.4.0", record)
    one, two = (facts.prefix_contents(str(tmp_path / name)) for name in "ab")
    assert one["numpy"][:2] == two["numpy"][:2] and facts.fingerprint(one) != facts.fingerprint(two)


SHA = "ab" * 32


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, SHA),
        (json.dumps({"paths": [{"sha256": "ff" * 32}], "sha256": SHA}), SHA),
        (json.dumps({"paths": [{"sha256": "ff" * 32}]}, indent=2), ""),
        ("[]", ""),
        ("no json", ""),
        ("", ""),
    ],
)
def test_the_archive_of_a_conda_package(tmp_path, text, expected):
    conda(tmp_path, "my-pkg", "1.2", "py311_0", SHA, text)
    (tmp_path / "conda-meta" / "history").write_text("==> <==\n")
    (tmp_path / "conda-meta" / "odd.json").write_text("{}")
    assert facts.prefix_contents(str(tmp_path)) == {"my-pkg": ["1.2", "py311_0", expected]}


def test_a_wheel_over_a_conda_package_changes_it(tmp_path):
    conda(tmp_path, "numpy", "2.4.0", "py311_0", SHA)
    wheel(site_of(tmp_path), "numpy", "2.4.0")
    first = facts.prefix_contents(str(tmp_path))
    shutil.rmtree(str(site_of(tmp_path)))
    wheel(site_of(tmp_path), "numpy", "2.4.1")
    second = facts.prefix_contents(str(tmp_path))
    assert first["numpy"][:2] == ["2.4.0", "py311_0"] and second["numpy"][:2] == ["2.4.1", "py311_0"]
    assert facts.fingerprint(first) != facts.fingerprint(second) and facts.versions(second) == {"numpy": "2.4.1"}


def test_a_folder_that_is_a_link_counts_once(tmp_path):
    wheel(site_of(tmp_path), "numpy", "2.4.0")
    once = facts.prefix_contents(str(tmp_path))
    (tmp_path / "lib64").symlink_to("lib")
    (tmp_path / "lib" / "python3.1").symlink_to("python3.11")
    assert facts.prefix_contents(str(tmp_path)) == once


def test_a_fingerprint_depends_on_name_version_build_and_hash_alone():
    base = {"b": ["2", "0", "x"], "a": ["1", "", "y"]}
    one = facts.fingerprint(base)
    assert one == facts.fingerprint(dict(reversed(list(base.items())))) and len(one) == 64
    others = [dict(base, a=["2", "", "y"]), dict(base, a=["1", "0", "y"]), dict(base, a=["1", "", "z"]), {"a": base["a"]}, {}]
    assert len({one, *map(facts.fingerprint, others)}) == 6


def test_a_large_prefix_is_read_in_a_tenth_of_a_second(tmp_path):
    paths = [{"_path": "lib/file{}".format(number), "sha256": "ff" * 32} for number in range(100)]
    for number in range(200):
        conda(tmp_path, "c{}".format(number), "1.0", "h_0", SHA, json.dumps({"paths": paths, "sha256": SHA}, indent=2))
    lines = "".join("pkg/file{}.py,sha256={},10\n".format(number, "a" * 43) for number in range(150))
    for number in range(100):
        wheel(site_of(tmp_path), "w{}".format(number), "1.0", lines)
    seconds = []
    for _ in range(3):
        began = time.process_time()
        found = facts.prefix_contents(str(tmp_path))
        facts.fingerprint(found)
        seconds.append(time.process_time() - began)
    assert len(found) == 300 and min(seconds) < 0.1, seconds


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
        "hostname", "python", "torch", "fingerprint", "packages", "contents", "boot_id", "cores", "nofile", "shm_bytes",
        "clock",
    }  # fmt: skip
    assert found["python"] == "{}.{}".format(*sys.version_info[:2])
    assert found["cores"] == len(os.sched_getaffinity(0)) and found["boot_id"]
    whole = facts.contents(facts.site_folders())
    assert found["fingerprint"] == facts.fingerprint(whole) and found["contents"] == facts.brief(whole)
    assert found["packages"] == facts.versions(whole) and "pytest" in whole


def test_gpus_after_an_invalid_one_do_not_count():
    assert facts.count_gpus("0,-1,1") == 1


def test_free_bytes_of_a_relative_folder(repo):
    code = "import sys; sys.path.insert(0, sys.argv[1]); from muster_agent import facts; facts.free_bytes('no/such')"
    folder = str(repo / "plugins" / "module_utils")
    subprocess.run([sys.executable, "-I", "-S", "-c", code, folder], stdout=subprocess.PIPE, timeout=1, check=True)


@pytest.mark.parametrize("indent", [1, 2])
def test_of_a_record_one_line_is_read(tmp_path, monkeypatch, indent):
    monkeypatch.setattr(facts, "parsed_sha256", lambda text: "all of it was read")
    record = {"paths_data": {"paths": [{"sha256": "ff" * 32}]}, "sha256": "ab" * 32, "version": "1"}
    conda(tmp_path, "zlib", "1", "0", "", json.dumps(record, indent=indent))
    assert facts.conda_records(str(tmp_path / "conda-meta")) == {"zlib": ["1", "0", "ab" * 32]}
