"""What a module tells while it runs, read on the controller."""

import threading
import time

from ansible_collections.muster.cluster.plugins.module_utils.python_env import progress
from ansible_collections.muster.cluster.plugins.plugin_utils import following


class Action:
    """An action plugin whose host is a file's text."""

    class _connection:
        become = None

    def __init__(self, texts):
        self.texts, self.commands = texts, []

    def _low_level_execute_command(self, command):
        self.commands.append(command)
        text = self.texts.pop(0) if self.texts else ""
        if isinstance(text, Exception):
            raise text
        return {"stdout": text}


def follow(monkeypatch, texts, seconds=0.3):
    """Lines that are shown, and the commands that were run."""
    monkeypatch.setattr(following, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(following, "PACE_SECONDS", 0.02)
    shown, action = [], Action(texts)
    with following.Follower(action, "/c/.my env.progress", "n1", shown.append) as follower:
        time.sleep(seconds)  # how long the module takes
    follower.thread.join(1)
    assert not follower.thread.is_alive() and threading.active_count() >= 1
    return shown, follower.action.commands


def test_whole_lines_are_shown_once(monkeypatch):
    shown, commands = follow(monkeypatch, ["solving 3\nfetch", "fetching é\r\n", "", "importing torch\n"])
    assert shown == ["n1: solving 3", "n1: fetching é", "n1: importing torch"]
    assert commands[:3] == [
        "tail -c +1 '/c/.my env.progress' 2>/dev/null || :",
        "tail -c +11 '/c/.my env.progress' 2>/dev/null || :",
        "tail -c +23 '/c/.my env.progress' 2>/dev/null || :",
    ]


def test_a_call_that_is_over_soon_is_not_followed(monkeypatch):
    shown, commands = follow(monkeypatch, ["x\n"], 0)
    assert shown == [] and commands == []


def test_a_lost_connection_ends_it_quietly(monkeypatch):
    shown, commands = follow(monkeypatch, [OSError("gone"), "x\n"])
    assert shown == [] and len(commands) == 1


def test_the_file_is_there_as_long_as_the_work(tmp_path):
    path = progress.path(str(tmp_path / "cache"), "/envs/my env/")
    assert path == str(tmp_path / "cache/.my env.progress")
    with progress.Progress(path).telling() as say:
        say("one\ntwo")
        with open(path) as handle:
            assert handle.read() == "one two\n"
    assert not (tmp_path / "cache/.my env.progress").exists()
    progress.Progress("/proc/nowhere/x")("nobody hears this")
