"""The cluster as its inventory has it, and commands on its hosts under the identity that a test needs.

testinfra's ``ansible://`` backend turns a host with ``ansible_connection=ssh`` into its own ssh backend: quick, but it templates
nothing, knows no sudo password, and wraps each command in sudo to the inventory's ``ansible_become_user``, which may be a user
without rights. So the cluster's variables are asked of Ansible, once, and a command as another user takes the quick way only
where that works, and else Ansible's own.
"""

import base64
import collections
import functools
import json
import shlex

import testinfra
import yaml

Done = collections.namedtuple("Done", "rc stdout stderr")

# What Ansible is asked: everything of the members that may be a template in an inventory.
QUESTION = """{%- set found = [] -%}
{%- for name in groups['torch_nodes'] -%}
{%- set own = hostvars[name] -%}
{%- set _ = found.append({
  'name': name,
  'address': ([name] | muster.cluster.addresses(hostvars))[name],
  'managed': own.muster_manage_hosts | default(true) | bool,
  'user': own.muster_user | default('muster'),
  'state_dir': own.muster_state_dir | default('/var/lib/muster'),
  'python': own.muster_python
    | default((own.muster_state_dir | default('/var/lib/muster')) ~ '/envs/default/bin/python', true),
  'nofile': own.limits_nofile | default(0) | string,
  'firewall': own.firewall_enabled | default(true) | bool,
}) -%}
{%- endfor -%}
{{ found }}"""


class Cluster:
    """The group torch_nodes.

    Args:
        options: pytest's options of testinfra.
        repo: folder of the clone.
    """

    def __init__(self, options, repo):
        self._options = options
        spec = next(spec for spec in options.hosts.split(",") if spec.startswith("ansible://"))
        self._query = "?" + spec.partition("?")[2] if "?" in spec else ""
        asked = self.host("localhost").ansible("ansible.builtin.debug", "msg=" + quoted(QUESTION), check=False)
        self.members = asked["msg"]
        assert self.members, "found no hosts in the group torch_nodes, expected the cluster's; see --ansible-inventory"
        self.head = self.members[0]["name"]
        self.nofile = yaml.safe_load((repo / "roles" / "limits" / "defaults" / "main.yml").read_text())["limits_nofile"]

    def host(self, name):
        """testinfra's host of an inventory name, with the options of the command line."""
        return testinfra.get_host(
            "ansible://{}{}".format(name, self._query),
            ansible_inventory=self._options.ansible_inventory,
            ssh_config=self._options.ssh_config,
            ssh_identity_file=self._options.ssh_identity_file,
            force_ansible=self._options.force_ansible,
        )

    def member(self, name):
        """A member's variables; None for a host that is none."""
        return next((member for member in self.members if member["name"] == name), None)

    @functools.lru_cache(maxsize=None)  # noqa: B019 - one cluster lives as long as the session
    def node(self, name):
        """The :class:`Node` of an inventory name."""
        return Node(self.host(name), name, self.member(name))


class Node:
    """One host. ``name`` is that of the inventory; ``address``, ``user``, ``state_dir``, ``python`` are the member's."""

    def __init__(self, host, name, member):
        self.host, self.name = host, name
        for key, value in (member or {}).items():
            setattr(self, key, value)

    @functools.cached_property
    def _backend(self):
        """The backend that testinfra would use, for commands as the login user; None where only Ansible itself will do."""
        outer = self.host.backend
        if outer.force_ansible or any("{{" in str(value) for key, value in connection(outer.get_variables())):
            return None
        found = outer.ansible_runner.get_host(
            self.name, ssh_config=outer.ssh_config, ssh_identity_file=outer.ssh_identity_file
        )
        return found.backend if found and found.backend.NAME in ("ssh", "local") else None

    @functools.cached_property
    def _sudo(self):
        """Words before a command that make it root's on the quick way; None where there is no quick way."""
        if self._backend is None:
            return None
        asked = self._quick("id -u; sudo -n true")
        if asked.stdout.split()[:1] == ["0"]:
            return ""
        return "sudo -n -- " if asked.rc == 0 else None

    def _quick(self, command):
        """A command of the login user. The backend's own sudo is left out, since it is the one of the jobs' user."""
        run = self._backend.run_ssh if self._backend.NAME == "ssh" else self._backend.run_local
        done = run("/bin/sh -c " + shlex.quote(command))
        return Done(done.rc, done.stdout, done.stderr)

    def root(self, command, *args):
        """Run a command as root; ``%s`` in it stands for ``args``, quoted."""
        command = self.host.backend.quote(command, *args)
        if self._sudo is not None:
            return self._quick("{}/bin/sh -c {}".format(self._sudo, shlex.quote(command)))
        return self._by_ansible(command, {"ansible_become": True, "ansible_become_user": "root"})

    def _by_ansible(self, command, variables):
        """A command by way of Ansible itself, which knows every kind of connection and password."""
        # As text that neither Ansible's templates nor its splitting of arguments can take for something else.
        packed = base64.b64encode(command.encode()).decode()
        try:
            found = self.host.ansible(
                "ansible.builtin.shell", "echo {} | base64 -d | /bin/sh".format(packed), check=False, extra_vars=variables
            )
        except self.host.ansible.AnsibleException as error:
            found = error.result
        assert "rc" in found, "{}: {}".format(self.name, found.get("msg"))
        return Done(found["rc"], found["stdout"], found["stderr"])

    def as_user(self, command, *args):
        """Run a command as the cluster's user, in a session as ``su -`` makes it."""
        return self.root("su - %s -s /bin/sh -c %s", self.user, self.host.backend.quote(command, *args))

    def as_job(self, command, *args):
        """Run a command as the jobs' user where Muster sets the host up, else as the login user."""
        return self.as_user(command, *args) if self.managed else self.plain(command, *args)

    def plain(self, command, *args):
        """Run a command as root where Muster sets the host up, else as the login user."""
        command = self.host.backend.quote(command, *args)
        if self.managed:
            return self.root(command)
        return self._quick(command) if self._backend else self._by_ansible(command, {"ansible_become": False})


def connection(variables):
    """Those of a host's variables that decide how it is reached."""
    names = ("ansible_host", "ansible_port", "ansible_user", "ansible_connection", "ansible_password", "ansible_ssh_pass")
    return [(key, value) for key, value in variables.items() if key in names or key.startswith("ansible_ssh_")
            or key == "ansible_private_key_file"]  # fmt: skip


def quoted(text):
    """A value for Ansible's ``key=value`` form."""
    return json.dumps(text.replace("\n", " "))
