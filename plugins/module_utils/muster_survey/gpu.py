"""NVIDIA GPUs and switches, the driver, persistence mode, the fabric manager. It only reads, MIG and ECC too."""

import glob
import os
import re
import shutil
import subprocess

from . import reading, units

NVIDIA = "0x10de"
UNITS = ("nvidia-persistenced", "nvidia-fabricmanager")
PLACES = "/usr/bin:/usr/local/bin:/bin:/usr/sbin:/usr/local/nvidia/bin:/opt/bin"

# What nvidia-smi is asked for. Old drivers do not know the last two and then answer nothing at all.
FIELDS = ("pci.bus_id", "name", "driver_version", "persistence_mode", "memory.total", "ecc.mode.current", "mig.mode.current")
OLD_FIELDS = FIELDS[:-2]
# Without persistence mode the driver is loaded anew for each question, which takes seconds per GPU.
TIMEOUT = 30


def look(options):
    """The section.

    Args:
        options: those of the module ``survey``; none is used.

    Returns:
        ``{"pci": [{"address", "driver": name of the kernel's driver or None}], "switches": number, "control": whether the
        driver's device node is there, "smi": {"path", "problem": None, or what nvidia-smi said in place of an answer,
        "timed_out": bool} or None without it, "devices": [{"address", "name", "driver", "persistence", "memory", "ecc",
        "mig"}] as nvidia-smi prints them, "kernel_driver": version of the loaded driver or None, "units": see units.states,
        "fabric_manager": its version or None}``.
    """
    pci, switches = hardware()
    smi, devices = None, []
    path = shutil.which("nvidia-smi", path=os.environ.get("PATH", "") + ":" + PLACES)
    if path:
        problem, devices, timed_out = ask(path)
        smi = {"path": path, "problem": problem, "timed_out": timed_out}
    there = bool(pci or devices)
    return {
        "pci": pci,
        "switches": switches,
        "control": os.path.exists("/dev/nvidiactl"),
        "smi": smi,
        "devices": devices,
        "kernel_driver": kernel_driver(reading.text("/proc/driver/nvidia/version")) if there else None,
        "units": units.states(UNITS) if there else {},
        "fabric_manager": fabric_manager(run(["nv-fabricmanager", "--version"], 10)[1]) if there and switches else None,
    }


def hardware(folder="/sys/bus/pci/devices"):
    """NVIDIA's GPUs (display controllers) and how many of its switches (other bridges) are on the PCI bus."""
    pci, switches = [], 0
    for path in sorted(glob.glob(os.path.join(folder, "*"))):
        if (reading.text(os.path.join(path, "vendor")) or "").strip() != NVIDIA:
            continue
        kind = (reading.text(os.path.join(path, "class")) or "").strip()
        if kind.startswith("0x03"):
            driver = os.path.join(path, "driver")
            name = os.path.basename(os.readlink(driver)) if os.path.islink(driver) else None
            pci.append({"address": os.path.basename(path), "driver": name})
        elif kind.startswith("0x0680"):
            switches += 1
    return pci, switches


def ask(path, timeout=TIMEOUT):
    """Ask nvidia-smi for the GPUs; ``(problem or None, devices, timed out)``."""
    for fields in (FIELDS, OLD_FIELDS):
        code, out = run([path, "--query-gpu=" + ",".join(fields), "--format=csv,noheader"], timeout)
        if code == 0:
            return None, parse(out, fields), False
        if code is None:
            return "it did not answer within {} s".format(timeout), [], True
        if "is not a valid field to query" not in out:
            break
    return " ".join(out.split()) or "it ended with {}".format(code), [], False


def parse(text, fields=FIELDS):
    """The lines of ``nvidia-smi --query-gpu=... --format=csv,noheader`` as dictionaries."""
    found = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(fields):
            row = dict(zip(fields, values))
            found.append({
                "address": row["pci.bus_id"],
                "name": row["name"],
                "driver": row["driver_version"],
                "persistence": row["persistence_mode"],
                "memory": row["memory.total"],
                "ecc": row.get("ecc.mode.current"),
                "mig": row.get("mig.mode.current"),
            })  # fmt: skip
    return found


def kernel_driver(text):
    """The version in ``/proc/driver/nvidia/version``; its line begins with ``NVRM version:``."""
    found = re.search(r"^NVRM version:.*?\s(\d+\.\d[\d.]*)\s", text or "", re.MULTILINE)
    return found.group(1) if found else None


def fabric_manager(text):
    """The version that ``nv-fabricmanager --version`` prints."""
    found = re.search(r"Fabric Manager version is\s*:\s*(\d[\d.]*)", text or "")
    return found.group(1) if found else None


def run(argv, timeout):
    """Exit code (None if it did not end in time) and output of a command.

    A process that hangs in the driver cannot be killed, so nobody waits for it.
    """
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=dict(os.environ, LC_ALL="C", PATH=os.environ.get("PATH", "") + ":" + PLACES),
        )  # fmt: skip
    except OSError as error:
        return 127, str(error)
    try:
        out = process.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return None, ""
    return process.returncode, out.decode("utf-8", "replace")
