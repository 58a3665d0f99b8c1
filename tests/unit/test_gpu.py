"""GPUs: what nvidia-smi and the bus tell, what is wrong with them, what is to be done, different drivers."""

import os
import time
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_survey import gpu as section
from ansible_collections.muster.cluster.plugins.plugin_utils import gpu

DATA = Path(__file__).resolve().parent / "data"


def recorded(name):
    """A tool's output from ``data/``, without the line that says where it comes from."""
    return (DATA / name).read_text(encoding="utf-8").split("\n", 1)[1]


def test_devices_that_nvidia_smi_prints():
    first, second = section.parse(recorded("nvidia-smi-h100.txt"))
    assert first == {
        "address": "00000000:18:00.0",
        "name": "NVIDIA H100 80GB HBM3",
        "driver": "535.161.08",
        "persistence": "Enabled",
        "memory": "81559 MiB",
        "ecc": "Enabled",
        "mig": "Disabled",
    }
    assert second["mig"] == "Enabled"
    assert section.parse(recorded("nvidia-smi-rtx.txt"))[0]["ecc"] == "[N/A]"
    assert section.parse(recorded("nvidia-smi-mismatch.txt")) == section.parse("") == []
    (old,) = section.parse(recorded("nvidia-smi-old-fields.txt"), section.OLD_FIELDS)
    assert old["name"] == "Tesla K80" and old["mig"] is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (recorded("nvidia-version.txt"), "535.161.08"),
        (recorded("nvidia-version-open.txt"), "580.95.05"),
        ("nothing", None),
        (None, None),
    ],
)
def test_version_of_the_loaded_driver(text, expected):
    assert section.kernel_driver(text) == expected


def test_version_of_the_fabric_manager():
    assert section.fabric_manager(recorded("nv-fabricmanager.txt")) == "535.161.08"
    assert section.fabric_manager("") is None


def fake(tmp_path, body):
    """An nvidia-smi of our own."""
    path = tmp_path / "nvidia-smi"
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(0o755)
    return str(path)


def says(name, code):
    """The lines of a script that prints a recorded output."""
    return "cat <<'EOF'\n{}EOF\nexit {}\n".format(recorded(name), code)


@pytest.mark.parametrize(
    ("body", "problem", "names"),
    [
        (says("nvidia-smi-h100.txt", 0), None, ["NVIDIA H100 80GB HBM3"] * 2),
        ('case "$1" in *mig*)\n' + says("nvidia-smi-old-driver.txt", 2) + ";; esac\n" + says("nvidia-smi-old-fields.txt", 0),
         None, ["Tesla K80"]),
        (says("nvidia-smi-mismatch.txt", 18),
         "Failed to initialize NVML: Driver/library version mismatch NVML library version: 550.90", []),
        (says("nvidia-smi-lost.txt", 15),
         "Unable to determine the device handle for GPU 0000:65:00.0: GPU is lost. Reboot the system to recover this GPU", []),
        ("exit 3\n", "it ended with 3", []),
    ],
)  # fmt: skip
def test_nvidia_smi_is_asked(tmp_path, body, problem, names):
    found, devices, timed_out = section.ask(fake(tmp_path, body))
    assert (found, [device["name"] for device in devices], timed_out) == (problem, names, False)


def test_nvidia_smi_that_hangs_is_not_waited_for(tmp_path):
    began = time.monotonic()
    assert section.ask(fake(tmp_path, "exec sleep 20\n"), timeout=0.3) == ("it did not answer within 0.3 s", [], True)
    assert time.monotonic() - began < 5


def device(folder, address, vendor, kind, driver=None):
    """A device on a PCI bus of our own."""
    path = folder / address
    path.mkdir(parents=True)
    (path / "vendor").write_text(vendor + "\n")
    (path / "class").write_text(kind + "\n")
    if driver:
        (folder / "drivers" / driver).mkdir(parents=True, exist_ok=True)
        os.symlink(str(folder / "drivers" / driver), str(path / "driver"))


def test_the_bus_is_read(tmp_path):
    device(tmp_path, "0000:00:02.0", "0x8086", "0x030000", "i915")
    device(tmp_path, "0000:18:00.0", "0x10de", "0x030200", "nvidia")
    device(tmp_path, "0000:65:00.0", "0x10de", "0x030000")
    device(tmp_path, "0000:65:00.1", "0x10de", "0x040300", "snd_hda_intel")
    device(tmp_path, "0000:a4:00.0", "0x10de", "0x068000", "nvidia-nvswitch")
    assert section.hardware(str(tmp_path)) == (
        [{"address": "0000:18:00.0", "driver": "nvidia"}, {"address": "0000:65:00.0", "driver": None}],
        1,
    )
    assert section.hardware(str(tmp_path / "none")) == ([], 0)


def test_a_host_without_gpus_costs_no_process(monkeypatch):
    monkeypatch.setattr(section, "hardware", lambda: ([], 0))
    monkeypatch.setattr(section.shutil, "which", lambda name, path: None)
    monkeypatch.setattr(section, "run", lambda argv, timeout: pytest.fail("started {}".format(argv)))
    found = section.look({})
    assert found["smi"] is None and found["units"] == {} and gpu.plan(found, "n1", "") == {}


H100 = section.parse(recorded("nvidia-smi-h100.txt"))
RTX = section.parse(recorded("nvidia-smi-rtx.txt"))
BUS = [{"address": "0000:18:00.0", "driver": "nvidia"}, {"address": "0000:2a:00.0", "driver": "nvidia"}]
SMI = {"path": "/usr/bin/nvidia-smi", "problem": None, "timed_out": False}


def unit(active=True, enabled=True, state="enabled", command="/usr/bin/nvidia-persistenced --user nvpd"):
    """A unit as the survey finds it."""
    return {"active": active, "enabled": enabled, "state": state, "command": command}


def found(**changes):
    """The section gpu of a host that is as wanted."""
    base = {
        "pci": BUS, "switches": 0, "control": True, "smi": SMI, "devices": H100, "kernel_driver": "535.161.08",
        "units": {"nvidia-persistenced": unit()}, "fabric_manager": None,
    }  # fmt: skip
    return dict(base, **changes)


def broken(problem, **changes):
    """The section gpu of a host whose nvidia-smi does not answer."""
    return found(**dict({"devices": [], "smi": dict(SMI, problem=problem)}, **changes))


BY_NOUVEAU = [{"address": "0000:65:00.0", "driver": "nouveau"}]
UNDRIVEN = [{"address": "0000:65:00.0", "driver": None}]


@pytest.mark.parametrize(
    ("section_gpu", "container", "told"),
    [
        (found(), "", []),
        (found(devices=[], pci=[], smi=None, units={}), "", []),
        (found(devices=[], pci=[], smi=dict(SMI, problem="No devices were found"), units={}), "", []),
        (found(devices=[], smi=None, pci=UNDRIVEN), "",
         ["n1: found 1 NVIDIA GPU and no nvidia-smi, expected NVIDIA's driver; install NVIDIA's driver and reboot ("]),
        (found(devices=[], smi=None, pci=BY_NOUVEAU), "",
         ["n1: found 1 NVIDIA GPU in the hands of nouveau, expected NVIDIA's driver; install NVIDIA's driver and reboot ("]),
        (broken("Failed to initialize NVML: Driver/library version mismatch NVML library version: 550.90"), "",
         ["n1: found the kernel's NVIDIA driver 535.161.08 beside another version of its library, expected one; the driver has "
          "been upgraded since the last boot, reboot the host"]),
        (broken(" ".join(recorded("nvidia-smi-no-driver.txt").split()), kernel_driver=None), "",
         ["n1: found 2 NVIDIA GPUs and an nvidia-smi that says \"NVIDIA-SMI has failed because it couldn't communicate"]),
        (broken("it did not answer within 30 s", smi=dict(SMI, problem="it did not answer within 30 s", timed_out=True)), "",
         ["n1: found an nvidia-smi that hangs (it did not answer within 30 s), expected the GPUs; the driver or a GPU is stuck"]),
        (found(devices=H100[:1]), "",
         ["n1: found 1 of 2 GPUs by nvidia-smi, expected all that the driver holds; one has fallen off the bus"]),
        (found(pci=[*BUS, {"address": "0000:99:00.0", "driver": "vfio-pci"}]), "", []),
        (found(devices=[], smi=None, pci=[{"address": "0000:99:00.0", "driver": "vfio-pci"}]), "", []),
        # The machine's GPUs stand on the bus of a container, whether they were handed in or not.
        (found(devices=[], smi=None, control=False), "systemd-nspawn", []),
        (found(devices=[], smi=None), "docker",
         ["n1: found NVIDIA GPUs handed to this container and no nvidia-smi, expected the driver with them"]),
        (found(devices=H100[:1]), "docker", []),
        (found(switches=4), "",
         ["n1: found NVSwitches and no fabric manager, expected nvidia-fabricmanager 535.161.08, without which"]),
        (found(switches=4, units={"nvidia-fabricmanager": unit()}, fabric_manager="535.129.03"), "",
         ["n1: found the fabric manager 535.129.03 beside the driver 535.161.08, expected the same version"]),
        (found(switches=4, units={"nvidia-fabricmanager": unit()}, fabric_manager="535.161.08"), "", []),
        (found(switches=4), "docker", []),
    ],
)  # fmt: skip
def test_what_is_wrong(section_gpu, container, told):
    said = gpu.faults("n1", section_gpu, container)
    assert len(said) == len(told)
    for sentence, beginning in zip(said, told, strict=True):
        assert sentence.startswith(beginning) and "; " in sentence
    assert gpu.plan(section_gpu, "n1", container).get("faults", []) == said


UBUNTU = "/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose"
OFF = unit(active=False, enabled=False, state="disabled")


@pytest.mark.parametrize(
    ("section_gpu", "container", "expected"),
    [
        (found(), "", {}),
        (found(units={}), "", {}),  # it is on, and there is nobody to keep it so
        (found(devices=RTX, pci=BUS[:1], units={}), "", {"persistence": True}),
        (found(devices=RTX, pci=BUS[:1]), "", {"persistence": True}),  # somebody has switched it off
        (found(devices=RTX, pci=BUS[:1], units={"nvidia-persistenced": OFF}), "", {"persistence_unit": True}),
        (found(units={"nvidia-persistenced": OFF}), "", {"persistence_unit": True}),
        (found(units={"nvidia-persistenced": unit(enabled=False, state="static")}), "", {}),
        (found(devices=RTX, pci=BUS[:1], units={"nvidia-persistenced": unit(enabled=False, state="static", command=UBUNTU)}), "",
         {"persistence_dropin": gpu.dropin(UBUNTU)}),
        (found(switches=4, fabric_manager="535.161.08", units={"nvidia-fabricmanager": OFF, "nvidia-persistenced": unit()}), "",
         {"fabric_manager": True}),
        (found(units={"nvidia-fabricmanager": OFF, "nvidia-persistenced": unit()}), "", {}),  # there is nothing to manage
        (found(devices=RTX, units={}), "docker", {}),
    ],
)  # fmt: skip
def test_what_is_to_be_done(section_gpu, container, expected):
    assert gpu.plan(section_gpu, "n1", container) == expected


def test_the_dropin_says_the_command_without_the_option():
    assert gpu.dropin(UBUNTU).endswith(
        "[Service]\nExecStart=\nExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --verbose\n"
    )


def test_different_drivers_are_a_table():
    sections = {"n1": found(), "n2": found(devices=RTX), "n3": found(), "n4": found(devices=[])}
    assert gpu.mixed(gpu.drivers_of(sections)) == [
        "found 2 different NVIDIA drivers, expected one on all hosts, since NCCL and CUDA fail between some; install one "
        "version, or set gpu_allow_mixed_drivers to true",
        "  driver      hosts",
        "  550.90.07   n2",
        "  535.161.08  n1, n3",
    ]
    assert gpu.mixed(gpu.drivers_of({"n1": found(), "n3": found(), "n4": found(devices=[])})) == []
    assert gpu.mixed({}) == []
