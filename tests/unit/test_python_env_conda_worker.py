"""The parts of conda's worker that need no rattler, and how it is started."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import (
    conda,
    conda_worker,
    conda_worker_base,
    conda_worker_fetching,
)
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault


@pytest.mark.parametrize(
    ("name", "alias", "urls"),
    [
        ("conda-forge", None, ["https://conda.anaconda.org/conda-forge"]),
        ("conda-forge/label/rc", "", ["https://conda.anaconda.org/conda-forge/label/rc"]),
        ("conda-forge", "https://mirror.test/conda/", ["https://mirror.test/conda/conda-forge"]),
        ("https://h.test/c/", "https://mirror.test", ["https://h.test/c"]),
        ("/srv/my channel", None, ["file:///srv/my%20channel"]),
        ("defaults", "https://mirror.test", ["https://repo.anaconda.com/pkgs/main", "https://repo.anaconda.com/pkgs/r"]),
    ],
)
def test_addresses_of_channels(name, alias, urls):
    assert conda_worker_base.channel_urls(name, alias) == urls


def test_mirrors_are_told_by_the_addresses_of_channels():
    mirrors = {"conda-forge": ["https://a.test/cf", "/srv/cf"], "https://h.test/c": "https://b.test/c"}
    assert conda_worker_base.config_text(mirrors, None).splitlines() == [
        "[mirrors]",
        '"https://conda.anaconda.org/conda-forge" = ["https://a.test/cf", "file:///srv/cf"]',
        '"https://h.test/c" = ["https://b.test/c"]',
    ]


@pytest.mark.parametrize(
    ("platform", "found"),
    [
        (
            {"subdir": "linux-64", "glibc": "2.36", "cuda": None},
            {"__unix": ("0", "0"), "__linux": ("4.18", "0"), "__archspec": ("1", "x86_64"), "__glibc": ("2.36", "0")},
        ),
        (
            {"subdir": "linux-64", "glibc": "2.28", "cuda": "12.8", "archspec": "x86_64_v3", "linux": "5.10"},
            {"__unix": ("0", "0"), "__linux": ("5.10", "0"), "__archspec": ("1", "x86_64_v3"), "__glibc": ("2.28", "0"),
             "__cuda": ("12.8", "0")},
        ),
        (
            {"subdir": "linux-aarch64", "glibc": "2.36"},
            {"__unix": ("0", "0"), "__linux": ("4.18", "0"), "__archspec": ("1", "aarch64"), "__glibc": ("2.36", "0")},
        ),
    ],
)  # fmt: skip
def test_what_the_nodes_bring_along_is_given_not_detected(platform, found):
    assert conda_worker.virtual_packages(platform) == found


def test_a_package_lies_in_the_store_or_where_its_address_says(tmp_path):
    item = {"sha256": "ab" * 32, "file_name": "a.conda", "url": (tmp_path / "my a.conda").as_uri()}
    assert conda_worker_base.lies(str(tmp_path), item) is None
    (tmp_path / "my a.conda").write_text("")
    assert conda_worker_base.lies(str(tmp_path), item) == str(tmp_path / "my a.conda")
    stored = tmp_path / item["sha256"] / "a.conda"
    stored.parent.mkdir()
    stored.write_text("")
    assert conda_worker_base.lies(str(tmp_path), item) == str(stored)


def test_megabytes_for_people():
    assert [conda_worker_fetching.mega(size) for size in (0, 1234567, 214000000)] == ["0.0", "1.2", "214"]


def test_the_environment_of_the_worker():
    environ = {
        "PATH": "/bin",
        "HOME": "/h",
        "PYTHONPATH": "/x",
        "CONDA_PREFIX": "/y",
        "HTTPS_PROXY": "http://old",
        "SSL_CERT_DIR": "/d",
    }
    assert conda.worker_environ(environ, {}) == {"PATH": "/bin", "HOME": "/h", "HTTPS_PROXY": "http://old", "SSL_CERT_DIR": "/d"}
    made = conda.worker_environ(environ, {"ca_bundle": "/ca.pem", "proxy": "http://p:3128"})
    assert made == {
        "PATH": "/bin", "HOME": "/h", "SSL_CERT_FILE": "/ca.pem", "http_proxy": "http://p:3128", "https_proxy": "http://p:3128",
        "all_proxy": "http://p:3128",
    }  # fmt: skip


def test_the_worker_is_sent_whole_and_in_order():
    names = [name for name, _ in conda.worker_sources()]
    assert names == [".conda_worker_base", ".conda_worker_fetching", ".conda_worker"]
    assert all("from __future__" in text for _, text in conda.worker_sources())


def test_tools_that_are_missing_are_told(tmp_path):
    with pytest.raises(Fault, match="found no rattler in .*/site, expected the tools of this release; run site.yml again"):
        conda.Conda(str(tmp_path), "/usr/bin/python3", {}, {}).fetch([], str(tmp_path / "store"))


def test_a_python_that_is_missing_is_told(tmp_path):
    (tmp_path / "site" / "rattler").mkdir(parents=True)
    with pytest.raises(
        Fault, match="the Python /no/python cannot be run .*expected one of 3.10 or later; set python_env_tool_python"
    ):
        conda.Conda(str(tmp_path), "/no/python", {}, {}).fetch([], str(tmp_path / "store"))


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"channel_alias": "https://h/t/secret"}, "python_env_channel_alias"),
        ({"channel_alias": "https://me:secret@h"}, "python_env_channel_alias"),
        ({"mirrors": {"https://me:secret@h/c": ["https://m/c"]}}, "a name in python_env_mirrors"),
    ],
)
def test_secrets_do_not_enter_a_lock_by_the_settings(tmp_path, settings, part):
    with pytest.raises(Fault) as caught:
        conda.Conda(str(tmp_path), "/usr/bin/python3", settings, {}).solve({"channels": ["c"], "conda": ["a"]}, {})
    assert part in caught.value.sentence and "secret" not in caught.value.sentence and "~/.netrc" in caught.value.sentence


def fetched(tmp_path, **item):
    """Let the worker fetch one item offline."""
    digest = hashlib.sha256(b"wheel").hexdigest()
    wanted = {"sha256": digest, "file_name": "b.whl", "size": 5, **item}
    request = {"settings": {}, "store": str(tmp_path / "store"), "items": [wanted], "offline": True}
    return asyncio.run(conda_worker_fetching.fetch(request)), tmp_path / "store" / digest / "b.whl"


def test_offline_nothing_comes_from_outside(tmp_path):
    with pytest.raises(conda_worker_base.Trouble) as caught:
        fetched(tmp_path, url="https://h/b.whl")
    assert caught.value.facts["kind"] == "offline" and caught.value.facts["items"][0]["file_name"] == "b.whl"


def test_a_local_file_is_fetched_offline_and_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(conda_worker_fetching, "sync", done.append)
    rename = os.rename
    monkeypatch.setattr(os, "rename", lambda old, new: done.append("rename") or rename(old, new))
    (tmp_path / "b.whl").write_bytes(b"wheel")
    told, stored = fetched(tmp_path, url=(tmp_path / "b.whl").as_uri())
    assert told["fetched"] == 1 and stored.read_bytes() == b"wheel"
    assert done[1:] == ["rename", str(stored.parent)] and "/.partial/" in done[0]


def test_what_is_missing_offline_is_told(tmp_path, monkeypatch):
    (tmp_path / "site" / "rattler").mkdir(parents=True)
    trouble = {"kind": "offline", "items": [{"file_name": "b.whl"}]}
    monkeypatch.setattr(conda.Conda, "_converse", staticmethod(lambda *_: {"trouble": trouble}))
    with pytest.raises(Fault, match="found no b.whl on this host"):
        conda.Conda(str(tmp_path), sys.executable, {}, {}).fetch([], str(tmp_path), offline=True)
