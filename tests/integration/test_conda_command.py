"""python_env_conda_cli: the command conda as an environment of its own, from the channels of the main one."""

import os
import subprocess
import sys

import made_environment


def test_the_command_conda_comes_from_the_same_channels(cluster, conda_channel, monkeypatch):
    """Two environments side by side by one run; a second run changes nothing; the prefix is on conda's list."""
    spec = cluster.folder / "environment.yml"
    spec.write_text(
        "channels: [file://{}]\ndependencies:\n  - python={}.{}\n  - greet\n".format(conda_channel, *sys.version_info[:2])
    )
    home = cluster.folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    cluster.variables.update(
        python_env_prefix=str(cluster.state) + "/{{ inventory_hostname }}/envs/{{ python_env_name }}",
        python_env_name="exp",
        python_env_spec=str(spec),
        python_env_conda_cli=True,
        muster_python="",
    )
    first = cluster.play("site.yml", "--tags python_env")
    assert first.rc == 0, first.stdout
    for host in cluster.hosts:
        envs = cluster.state / host / "envs"
        command = cluster.state / host / "bin" / "conda"
        done = subprocess.run([str(command)], stdout=subprocess.PIPE, check=True)
        version = envs / ".versions" / "conda" / made_environment.used(envs, "conda")
        assert done.stdout.decode() == "conda 24.9.2 in {}\n".format(version)
        assert os.readlink(str(command)) == str(envs / "conda" / "bin" / "conda")
        assert not (envs / "exp" / "bin" / "conda").exists() and (envs / "exp" / "conda-meta" / "history").exists()
        assert str(envs / "exp") in (home / ".conda" / "environments.txt").read_text().splitlines()
    again = cluster.play("site.yml", "--tags python_env")
    assert again.rc == 0 and again.changed() == [], again.changed()
    one = cluster.play("site.yml", "--tags python_env", python_env_name="conda")
    assert one.rc != 0 and "expected another name" in one.stdout
