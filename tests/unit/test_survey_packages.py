"""Which packages are installed, and who holds the package manager: of real files, locks and databases."""

import os
import sqlite3
import subprocess
import sys

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_survey import packages

STATUS = """Package: acl
Status: install ok installed
Priority: optional

Package: cmake
Status: deinstall ok config-files
Version: 3

Package: libc6
Status: hold ok installed
Architecture: amd64

Package: libc6
Status: install ok installed
Architecture: i386

Package: half
Status: install reinstreq half-installed
"""
# Holds a lock by fcntl until its stdin is closed.
HOLDER = """
import fcntl, sys
stream = open(sys.argv[1], "a")
fcntl.lockf(stream, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_installed_by_dpkg():
    assert packages.from_dpkg(STATUS) == ["acl", "libc6"]
    assert packages.from_dpkg("") == []


def test_installed_by_the_database_of_rpm(monkeypatch, tmp_path):
    path = str(tmp_path / "rpmdb.sqlite")
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE Name (key TEXT NOT NULL, hnum INTEGER NOT NULL, idx INTEGER NOT NULL)")
    database.executemany("INSERT INTO Name VALUES (?, ?, 0)", [("gcc", 2), ("acl", 1), ("kernel", 3), ("kernel", 4)])
    database.commit()
    database.close()
    monkeypatch.setattr(packages, "RPM_DATABASES", ("/does/not/exist", path))
    assert packages.from_rpm() == ["acl", "gcc", "kernel"]


def test_a_database_that_cannot_be_read_leaves_rpm_to_be_asked(monkeypatch, tmp_path):
    path = tmp_path / "rpmdb.sqlite"
    path.write_text("no database")
    monkeypatch.setattr(packages, "RPM_DATABASES", (str(path),))
    monkeypatch.setattr(packages.reading, "output", lambda argv, timeout: "gcc\nacl\n" if argv[0] == "rpm" else None)
    assert packages.from_rpm() == ["acl", "gcc"]


def test_no_package_manager():
    assert packages.installed(None) == [] and packages.lock(None) is None


@pytest.fixture
def held(tmp_path):
    """A lock's file and the process that holds it."""
    path = tmp_path / "lock-frontend"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield path, process
    process.communicate(timeout=10)


def test_who_holds_a_lock(monkeypatch, held, tmp_path):
    path, process = held
    monkeypatch.setattr(packages, "LOCKED", {"apt": (str(tmp_path / "not-there"), str(path))})
    assert packages.lock("apt") == {
        "path": str(path), "pid": process.pid, "process": os.path.basename(sys.executable),
    }  # fmt: skip
    assert not (tmp_path / "not-there").exists()
    process.stdin.close()
    process.wait(10)
    assert packages.lock("apt") is None and path.exists()
    process.stdin = None


def test_a_lock_by_process_id(monkeypatch, tmp_path):
    path = tmp_path / "rpmdb_lock.pid"
    monkeypatch.setattr(packages, "LOCKED", {})
    monkeypatch.setattr(packages, "NUMBERED", {"dnf": (str(path),)})
    assert packages.lock("dnf") is None
    path.write_text("{}\n".format(os.getppid()))
    assert packages.lock("dnf")["pid"] == os.getppid()
    path.write_text("99999999\n")  # its process is gone
    assert packages.lock("dnf") is None
    path.write_text("")
    assert packages.lock("dnf") is None


def test_a_list_of_packages_has_an_age(monkeypatch, tmp_path):
    monkeypatch.setattr(packages, "APT_LISTS", str(tmp_path))
    (tmp_path / "lock").touch()
    assert packages.list_age() is None
    (tmp_path / "deb.example_dists_stable_InRelease").touch()
    os.utime(str(tmp_path), (1000, 1000))
    assert packages.list_age() > 10**8
    (tmp_path / "partial").mkdir()
    os.utime(str(tmp_path), (1000, 1000))
    assert packages.list_age() < 60
    monkeypatch.setattr(packages, "APT_LISTS", "/does/not/exist")
    assert packages.list_age() is None
