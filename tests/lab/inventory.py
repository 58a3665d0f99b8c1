"""The inventory of a lab, as ``ansible-playbook -i`` takes it."""

import json
import sys
from pathlib import Path

from . import controller
from .common import write


def group_variables(lab):
    """Variables of the group torch_nodes: what a user would write into group_vars/torch_nodes.yml."""
    variables = {
        "ansible_become": True,
        "ansible_become_user": "muster",
        "python_env_spec": str(Path(__file__).with_name("requirements.txt")),
    }
    if controller.python_prefix():
        variables["python_env_python"] = controller.PYTHON + "/bin/python{}.{}".format(*sys.version_info)
    else:
        variables["verify_versions"] = False  # each host has its own system's Python
    return variables


def host_variables(lab, host):
    """Variables of one host: how Ansible reaches it."""
    return {
        "ansible_host": host.address,
        "ansible_port": host.port,
        "ansible_user": "ml",
        "ansible_ssh_private_key_file": str(lab.folder / "key"),
        "ansible_ssh_common_args": lab.ssh_options(),
        "ansible_python_interpreter": "/usr/bin/python3",
    }


def write_inventory(lab, hosts):
    """Write the inventory of these hosts; returns the path of its folder. JSON is YAML."""
    folder = lab.folder / "inventory"
    (folder / "group_vars").mkdir(parents=True, exist_ok=True)
    groups = {"torch_nodes": {}, "spare": {}, "outside": {}}
    for host in hosts:
        group = {"n4": "spare", "out": "outside"}.get(host.name, "torch_nodes")
        groups[group][host.name] = host_variables(lab, host)
    data = {name: {"hosts": members} for name, members in groups.items()}
    write(folder / "hosts.yml", "---\n" + json.dumps(data, indent=2) + "\n")
    write(folder / "group_vars" / "torch_nodes.yml", "---\n" + json.dumps(group_variables(lab), indent=2) + "\n")
    return folder
