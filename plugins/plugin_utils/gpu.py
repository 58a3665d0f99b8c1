"""Which GPUs work on a host, what is wrong with the others and what is to be done; pure."""

import re

from . import screen

INSTALL = (
    "install NVIDIA's driver and reboot (Ubuntu: ubuntu-drivers install --gpgpu; Debian: apt install nvidia-driver from "
    "non-free; Red Hat and the like: NVIDIA's repository)"
)
NO_PERSISTENCE = "--no-persistence-mode"


def present(found, container):
    """Whether a host has GPUs for its jobs.

    In a container the bus shows the machine's GPUs, whether they were handed in or not.

    Args:
        found: the section gpu of the survey.
        container: kind of container, empty on a machine.
    """
    held = [device for device in found["pci"] if device["driver"] != "vfio-pci"]  # those belong to a virtual machine
    return bool(found["devices"]) or bool(held) and (not container or found["control"])


def faults(host, found, container):
    """What keeps a host's GPUs from working, one sentence each, with the fix."""
    smi = found["smi"]
    if smi and smi["timed_out"]:
        return [
            "{}: found an nvidia-smi that hangs ({}), expected the GPUs; the driver or a GPU is stuck, see NVRM and Xid in dmesg "
            "there, then reboot the host".format(host, smi["problem"])
        ]
    if not present(found, container):
        return []
    if not found["devices"]:
        return [driver_fault(host, found, container)]
    driven = [device for device in found["pci"] if device["driver"] == "nvidia"]
    told = []
    if not container and len(found["devices"]) < len(driven):
        told.append(
            "{}: found {} of {} GPUs by nvidia-smi, expected all that the driver holds; one has fallen off the bus, see NVRM and "
            "Xid in dmesg there, then reboot the host".format(host, len(found["devices"]), len(driven))
        )
    if found["switches"] and not container:
        told += fabric_faults(host, found)
    return told


def driver_fault(host, found, container):
    """Why no GPU answers on a host that has some."""
    smi, loaded, drivers = found["smi"], found["kernel_driver"], {device["driver"] for device in found["pci"]}
    said = (smi or {}).get("problem") or "no GPU"
    if container:
        clause = (
            "NVIDIA GPUs handed to this container and {}, expected the driver with them; start the container with the machine's "
            "driver, as the NVIDIA container toolkit does".format("nvidia-smi says {!r}".format(said) if smi else "no nvidia-smi")
        )
    elif "version mismatch" in said:
        clause = (
            "the kernel's NVIDIA driver {} beside another version of its library, expected one; the driver has been upgraded "
            "since the last boot, reboot the host".format(loaded or "of an unknown version")
        )
    elif "nouveau" in drivers:
        clause = "{} in the hands of nouveau, expected NVIDIA's driver; {}".format(counted(found), INSTALL)
    elif not smi:
        clause = "{} and no nvidia-smi, expected NVIDIA's driver; {}".format(counted(found), INSTALL)
    else:
        clause = (
            "{} and an nvidia-smi that says {!r}, expected the GPUs; see dmesg for why the kernel's module is not loaded (built "
            "for another kernel, not signed for secure boot), or {}".format(counted(found), short(said), INSTALL)
        )
    return "{}: found {}".format(host, clause)


def fabric_faults(host, found):
    """What keeps the switches from connecting the GPUs."""
    driver, manager = found["devices"][0]["driver"], found["fabric_manager"]
    if "nvidia-fabricmanager" not in found["units"]:
        return [
            "{}: found NVSwitches and no fabric manager, expected nvidia-fabricmanager {}, without which CUDA does not start; "
            "install the package of exactly this version".format(host, driver)
        ]
    if manager and manager != driver:
        return [
            "{0}: found the fabric manager {1} beside the driver {2}, expected the same version, since it refuses to start "
            "otherwise; install nvidia-fabricmanager {2}".format(host, manager, driver)
        ]
    return []


def counted(found):
    """``1 NVIDIA GPU``, ``8 NVIDIA GPUs``."""
    number = len(found["pci"])
    return "{} NVIDIA GPU{}".format(number, "" if number == 1 else "s")


def short(text, most=200):
    """A message of limited length."""
    return text if len(text) <= most else text[: most - 3] + "..."


def plan(found, host, container):
    """What is to be done on a host.

    Args:
        found: the section gpu of the survey.
        host: inventory name.
        container: kind of container; in one nothing is done, the driver is the machine's.

    Returns:
        only what is to be done: ``faults`` (sentences), ``persistence_dropin`` (text), ``persistence_unit`` (True),
        ``persistence`` (True: by nvidia-smi), ``fabric_manager`` (True); empty where nothing is.
    """
    wrong = faults(host, found, container)
    if wrong:
        return {"faults": wrong}
    if container or not found["devices"]:
        return {}
    todo = {}
    daemon = found["units"].get("nvidia-persistenced")
    asleep = any(device["persistence"] == "Disabled" for device in found["devices"])
    if daemon:
        if NO_PERSISTENCE in daemon["command"].split():
            todo["persistence_dropin"] = dropin(daemon["command"])
        if not (daemon["active"] and standing(daemon)):
            todo["persistence_unit"] = True
    if asleep and not todo:
        todo["persistence"] = True
    manager = found["units"].get("nvidia-fabricmanager")
    if found["switches"] and manager and not (manager["active"] and standing(manager)):
        todo["fabric_manager"] = True
    return todo


def standing(unit):
    """Whether a unit comes up at boot: enabled, or without a say of its own (Ubuntu's persistenced is started by udev)."""
    return unit["enabled"] or unit["state"] in ("static", "indirect")


def dropin(command):
    """A drop-in for nvidia-persistenced that drops the option by which Ubuntu's unit leaves persistence mode off."""
    kept = " ".join(word for word in command.split() if word != NO_PERSISTENCE)
    return (
        "# Muster keeps this file (role gpu): the unit of the distribution leaves persistence mode off.\n"
        "[Service]\nExecStart=\nExecStart={}\n".format(kept)
    )


def mixed(drivers):
    """What is said of hosts with different drivers: a sentence and the rows of a table, nothing where all agree.

    Args:
        drivers: ``{host: version}`` of hosts with working GPUs.
    """
    hosts = {}
    for host, version in drivers.items():
        hosts.setdefault(version, []).append(host)
    if len(hosts) < 2:
        return []
    rows = [["driver", "hosts"]]
    rows += [[version, ", ".join(hosts[version])] for version in sorted(hosts, key=version_key, reverse=True)]
    sentence = (
        "found {} different NVIDIA drivers, expected one on all hosts, since NCCL and CUDA fail between some; install one "
        "version, or set gpu_allow_mixed_drivers to true".format(len(hosts))
    )
    return [sentence] + ["  " + line for line in screen.table(rows)]


def version_key(version):
    """A driver's version as numbers, to sort by."""
    return [int(part) for part in re.findall(r"\d+", version)]


def drivers_of(sections):
    """``{host: version}`` from ``{host: the section gpu}``, of hosts whose GPUs answer."""
    return {host: found["devices"][0]["driver"] for host, found in sections.items() if found["devices"]}


