"""The tools reach a host by one raw command, and no command where they are."""

import pytest

PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: Give the host its tools
      muster.cluster.python_tools:
        folder: "{{ folder }}"
        there: "{{ there | default([]) }}"
        arch: "{{ arch | default('x86_64') }}"
        python: "{{ python | default(ansible_playbook_python) }}"
        cache: "{{ cache }}"
      register: result
"""


@pytest.fixture
def play(run_playbook, tmp_path, repo, python_tools):
    """``play(name=value, ...)``: what the task returned; the tools are in the cache of the tests."""
    (tmp_path / "play.yml").write_text(PLAY)

    def run(check=False, **variables):
        known = {"folder": str(tmp_path / "a state" / "tools"), "cache": str(python_tools.parents[1])}
        done = run_playbook(str(tmp_path / "play.yml"), dict(known, **variables), "--check" if check else None)
        results = [event["event_data"]["res"] for event in done.events if event["event"].startswith("runner_on_")
                   and "res" in event["event_data"]]  # fmt: skip
        return results[0], done

    return run


def test_they_are_sent_once(play, python_tools, tmp_path):
    name = python_tools.name
    path = tmp_path / "a state" / "tools" / name
    foretold, _ = play(check=True)
    assert foretold["changed"] and not path.exists()
    first, done = play()
    assert first["changed"] and first["path"] == str(path) and first["uv"] == str(path / "uv") and (path / "done").exists()
    assert "localhost: gets rattler and uv, " in done.stdout
    again, _ = play()
    assert not again["changed"]
    known, done = play(there=[name], python="/no/python")
    assert not known["changed"] and "gets rattler" not in done.stdout


def test_a_host_without_a_python_is_told(play):
    result, done = play(python="/no/python")
    assert done.rc == 2 and result["msg"].startswith("localhost ") and "found no Python 3.8 or later" in result["msg"]
