"""The package store, and wheels that come into it from their addresses."""

from __future__ import annotations

import base64
import hashlib
import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import fetching, store
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault

BODY = b"a wheel" * 1000


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by path; what was asked and by whom is kept."""

    asked: list[tuple[str, str]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization", "")))
        if self.path.startswith("/gone"):
            return self.send_error(404)
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", "http://" + self.path[4:])
            self.end_headers()
            return None
        if self.path.startswith("/busy") and len(self.asked) < 2:
            return self.send_error(503)
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY[:100] if self.path.startswith("/short") else BODY)
        return None

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server on this machine."""
    monkeypatch.setattr(Handler, "asked", [])
    monkeypatch.setattr(fetching.time, "sleep", lambda seconds: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        thread = threading.Thread(target=served.serve_forever, daemon=True)
        thread.start()
        yield "127.0.0.1:%d" % served.server_port
        served.shutdown()


def item(url: str, body: bytes = BODY) -> dict[str, Any]:
    """A wheel of a lock."""
    return {"name": "six", "url": url, "file_name": "six-1-py3-none-any.whl", "sha256": hashlib.sha256(body).hexdigest()}


def left(cache: Path) -> list[str]:
    """All files in the store."""
    return sorted(path.name for path in cache.rglob("*") if path.is_file())


def test_what_is_fetched_is_checked_and_found(tmp_path: Path, server: str) -> None:
    wanted = item("http://%s/six" % server)
    assert store.locate(str(tmp_path), wanted) is None and store.missing(str(tmp_path), [wanted]) == [wanted]
    home = tmp_path / "packages" / wanted["sha256"]
    home.mkdir(parents=True)
    (home / "six-1-py3-none-any.whl.part-99999999").write_text("left by a killed run")
    assert fetching.Fetcher(str(tmp_path), {}).fetch([wanted]) == {"packages": 1, "bytes": len(BODY)}
    assert store.locate(str(tmp_path), wanted) == store.stored(str(tmp_path), wanted)
    assert left(tmp_path) == ["six-1-py3-none-any.whl"]


@pytest.mark.parametrize(
    ("path", "body", "parts"),
    [
        ("six", b"other", ["with sha256", "as in the lock"]),
        ("gone", BODY, ["HTTP status 404", "python_env_update"]),
        ("short", BODY, ["ended after 100 of 7000 bytes"]),
    ],
)
def test_a_fault_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, server: str, path: str, body: bytes, parts: list[str]
) -> None:
    with pytest.raises(Fault) as caught:
        fetching.Fetcher(str(tmp_path), {}).fetch([item("http://%s/%s" % (server, path), body)])
    for part in parts:
        assert part in caught.value.sentence
    assert left(tmp_path) == []


def test_a_server_that_is_busy_is_asked_again(tmp_path: Path, server: str) -> None:
    assert fetching.Fetcher(str(tmp_path), {}).fetch([item("http://%s/busy" % server)])["packages"] == 1


def test_nobody_there(tmp_path: Path, server: str) -> None:
    with pytest.raises(Fault, match="found no way to http://127.0.0.1:9/x") as caught:
        fetching.Fetcher(str(tmp_path), {}).fetch([item("http://127.0.0.1:9/x")])
    assert caught.value.kind == "network"


def test_passwords_go_to_the_index_they_are_for(tmp_path: Path, server: str) -> None:
    environ = {"UV_DEFAULT_INDEX": "http://me:w%%40rd@%s/simple" % server, "HOME": str(tmp_path)}
    fetching.Fetcher(str(tmp_path), environ).fetch([item("http://%s/six" % server)])
    assert Handler.asked == [("/six", "Basic " + base64.b64encode(b"me:w@rd").decode())]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {}),
        ({"UV_INDEX": "https://a/simple https://u:p@b:81/simple"}, {"b:81": "u:p"}),
        ({"UV_INDEX": "mine=https://u:p@b/simple"}, {"b": "u:p"}),
    ],
)
def test_passwords(environ: dict, expected: dict, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fetching.passwords(environ) == expected
    (tmp_path / ".netrc").write_text("machine h login u password p\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert fetching.passwords(environ) == {"h": "u:p", **expected}


def test_an_index_without_hashes(tmp_path: Path, server: str) -> None:
    found = fetching.Fetcher(str(tmp_path), {}).digest("http://%s/six-1-py3-none-any.whl" % server)
    assert found == (hashlib.sha256(BODY).hexdigest(), len(BODY))
    assert store.locate(str(tmp_path), item("http://h/six"))


def test_a_local_file_is_used_where_it_lies_and_checked(tmp_path: Path) -> None:
    wheel = tmp_path / "my wheels" / "six-1-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(BODY)
    wanted = item(wheel.as_uri())
    assert store.locate(str(tmp_path), wanted) == str(wheel)
    store.verify(str(tmp_path), [wanted])
    wheel.write_bytes(b"evil")
    with pytest.raises(Fault, match="it was changed or damaged"):
        store.verify(str(tmp_path), [wanted])
    assert wheel.exists()
    kept = Path(store.stored(str(tmp_path), wanted))
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"evil")
    with pytest.raises(Fault, match="expected %s as in the lock" % wanted["sha256"][:16]):
        store.verify(str(tmp_path), [wanted])
    assert not kept.exists()


def test_a_password_does_not_follow_to_another_host(tmp_path: Path, server: str) -> None:
    other = server.replace("127.0.0.1", "localhost")
    environ = {"UV_DEFAULT_INDEX": "http://me:word@%s/simple" % server, "HOME": str(tmp_path), "NO_PROXY": "*"}
    fetching.Fetcher(str(tmp_path), environ).fetch([item("http://%s/to/%s/six" % (server, other))])
    mine = "Basic " + base64.b64encode(b"me:word").decode()
    assert Handler.asked == [("/to/%s/six" % other, mine), ("/six", "")]
    del Handler.asked[:]
    fetching.Fetcher(str(tmp_path / "more"), environ).fetch([item("http://%s/to/%s/six" % (server, server))])
    assert Handler.asked == [("/to/%s/six" % server, mine), ("/six", mine)]


def test_a_package_is_on_the_disk_before_it_has_its_name(tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: done.append("sync") or fsync(number))
    monkeypatch.setattr(os, "replace", lambda old, new: done.append("rename") or replace(old, new))
    fetching.Fetcher(str(tmp_path), {}).fetch([item("http://%s/six" % server)])
    assert done == ["sync", "rename", "sync"]
