"""Which packages are installed, and who holds the package manager's lock."""

import fcntl
import os
import re
import struct
import time

from . import reading

DPKG_STATUS = "/var/lib/dpkg/status"
RPM_DATABASES = ("/usr/lib/sysimage/rpm/rpmdb.sqlite", "/var/lib/rpm/rpmdb.sqlite")
APT_LISTS = "/var/lib/apt/lists"

# Locks of apt and dpkg, and of rpm, that are held by fcntl.
LOCKED = {
    "apt": (
        "/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock",
    ),
    "dnf": ("/usr/lib/sysimage/rpm/.rpm.lock", "/var/lib/rpm/.rpm.lock"),
}  # fmt: skip
# Locks of dnf: files that hold the process's id.
NUMBERED = {"dnf": ("/var/lib/dnf/rpmdb_lock.pid", "/var/cache/dnf/metadata_lock.pid", "/var/cache/dnf/download_lock.pid")}

INSTALLED = re.compile(r"^Package: (\S+)\nStatus: \S+ ok installed$", re.MULTILINE)
FLOCK = "hhqqi4x"


def look(options):
    """The section.

    Args:
        options: not read.

    Returns:
        ``{"manager", "installed", "lock", "list_age"}``: apt, dnf or None; sorted names; who holds a lock of the manager,
        ``{"path", "pid", "process"}``, or None; seconds since apt's list of packages was fetched, None where there is no list
        or the manager keeps no such list.
    """
    found = manager()
    return {
        "manager": found,
        "installed": installed(found),
        "lock": lock(found),
        "list_age": list_age() if found == "apt" else None,
    }


def manager():
    """``apt``, ``dnf`` or None."""
    for path, name in (("apt-get", "apt"), ("dnf", "dnf"), ("dnf5", "dnf"), ("dnf-3", "dnf")):
        if os.path.exists("/usr/bin/" + path):
            return name
    return None


def installed(found):
    """Sorted names of the installed packages.

    Args:
        found: the package manager, from :func:`manager`.
    """
    if found == "apt":
        return from_dpkg(reading.text(DPKG_STATUS, 64 << 20) or "")
    if found == "dnf":
        return from_rpm()
    return []


def from_dpkg(content):
    """Sorted names of installed packages, from the text of dpkg's status file."""
    return sorted(set(INSTALLED.findall(content)))


def from_rpm():
    """The same from rpm's database, which holds the names in a table of their own; else from rpm."""
    for path in filter(os.path.exists, RPM_DATABASES):
        try:
            import sqlite3  # only where it is needed; some Pythons come without it
        except ImportError:
            break
        try:
            database = sqlite3.connect("file:{}?mode=ro".format(path), uri=True, timeout=1)
            try:
                return sorted({str(row[0]) for row in database.execute("SELECT DISTINCT key FROM Name")})
            finally:
                database.close()
        except sqlite3.Error:
            break
    names = reading.output(["rpm", "-qa", "--queryformat", "%{NAME}\\n"], 60) or ""
    return sorted(set(names.split()))


def lock(found):
    """Who holds a lock of the package manager: ``{"path", "pid", "process"}``, or None.

    Args:
        found: the package manager, from :func:`manager`.
    """
    for path in LOCKED.get(found, ()):
        pid = holder(path)
        if pid:
            return {"path": path, "pid": pid, "process": reading.process(pid)}
    for path in NUMBERED.get(found, ()):
        number = (reading.text(path) or "").strip()
        if number.isdigit() and int(number) != os.getpid() and os.path.exists("/proc/" + number):
            return {"path": path, "pid": int(number), "process": reading.process(number)}
    return None


def holder(path):
    """Id of the process that holds a lock by fcntl on a file, or None; the file is neither made nor locked here."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = struct.unpack(FLOCK, fcntl.fcntl(handle, fcntl.F_GETLK, asked))
    except (OSError, struct.error, ValueError):
        return None
    finally:
        os.close(handle)
    return answer[4] if answer[0] != fcntl.F_UNLCK and answer[4] > 0 else None


def list_age():
    """Seconds since apt's list of packages was fetched, or None where there is none."""
    try:
        if not any(name.endswith(("_InRelease", "_Release", "_Packages")) for name in os.listdir(APT_LISTS)):
            return None
        # Where nothing was new, only the folder of what is being fetched has been written to.
        times = [os.stat(path).st_mtime for path in (APT_LISTS, APT_LISTS + "/partial") if os.path.exists(path)]
        return max(0, int(time.time() - max(times)))
    except OSError:
        return None
