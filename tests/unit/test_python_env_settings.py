"""Settings of pip and of uv, as tables."""

from __future__ import annotations

import configparser
import os
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import settings

NOTHING = {"index_url": None, "extra_index_urls": [], "find_links": [], "ca_bundle": None, "cache_dir": None}


def everything(_path: str) -> bool:
    """Every path exists."""
    return True


@pytest.mark.parametrize(
    ("texts", "environ", "expected"),
    [
        ([], {}, {}),
        (["[global]\nindex-url = a\n"], {}, {"index-url": "a"}),
        # The later file wins, and [install] of any file wins over [global] of every file.
        (["[global]\nindex_url = a\n", "[global]\nindex-url = b\n"], {}, {"index-url": "b"}),
        (["[install]\nindex-url = a\n", "[global]\nindex-url = b\n"], {}, {"index-url": "a"}),
        # A section of another command has no say.
        (["[download]\nindex-url = a\n"], {}, {}),
        # The environment wins; an empty value counts as none.
        (["[global]\nfind-links = a\n"], {"PIP_FIND_LINKS": "b c"}, {"find-links": "b c"}),
        (["[global]\nfind-links = a\n"], {"PIP_FIND_LINKS": ""}, {"find-links": "a"}),
        (["[global]\nfind-links =\n  a\n  b\n"], {}, {"find-links": "a\nb"}),
        (["[global]\ncert = 100%\n"], {}, {"cert": "100%"}),
    ],
)
def test_pip_options(texts: list[str], environ: dict[str, str], expected: dict[str, str]) -> None:
    assert settings.pip_options(texts, environ) == expected


def test_pip_options_refuses_what_is_no_configuration() -> None:
    with pytest.raises(configparser.Error):
        settings.pip_options(["index-url = a\n"], {})


def test_pip_config_files_in_order(tmp_path: Path) -> None:
    files = settings.pip_config_files({}, "/home/u", "/venv")
    assert files == [
        "/etc/xdg/pip/pip.conf",
        "/etc/pip.conf",
        "/home/u/.pip/pip.conf",
        "/home/u/.config/pip/pip.conf",
        "/venv/pip.conf",
    ]
    assert settings.pip_config_files({"PIP_CONFIG_FILE": os.devnull}, "/home/u", "/venv") == []
    own = tmp_path / "own.conf"
    own.write_text("")
    # A file that is named replaces the user's own, and is the strongest.
    environ = {"PIP_CONFIG_FILE": str(own), "XDG_CONFIG_DIRS": "/a:/b"}
    expected = ["/a/pip/pip.conf", "/b/pip/pip.conf", "/etc/pip.conf", "/venv/pip.conf", str(own)]
    assert settings.pip_config_files(environ, "/home/u", "/venv") == expected
    moved = settings.pip_config_files({"XDG_CONFIG_HOME": "/cfg"}, "/home/u", "/venv")
    assert "/cfg/pip/pip.conf" in moved


@pytest.mark.parametrize(
    ("options", "pip", "environ", "expected"),
    [
        ({}, {}, {}, {}),
        ({}, {"index-url": "https://i/simple"}, {}, {"UV_DEFAULT_INDEX": "https://i/simple"}),
        # uv's own variables win over pip's settings ...
        ({}, {"index-url": "https://i"}, {"UV_DEFAULT_INDEX": "https://u"}, {}),
        ({}, {"index-url": "https://i"}, {"UV_INDEX_URL": "https://u"}, {}),
        # ... and options over both.
        (
            {"index_url": "https://o"},
            {"index-url": "https://i"},
            {"UV_DEFAULT_INDEX": "https://u"},
            {"UV_DEFAULT_INDEX": "https://o"},
        ),
        # Several indexes are equals for pip.
        (
            {},
            {"extra-index-url": "https://a\nhttps://b"},
            {},
            {"UV_INDEX": "https://a https://b", "UV_INDEX_STRATEGY": "unsafe-best-match"},
        ),
        ({}, {"extra-index-url": "https://a"}, {"UV_INDEX_STRATEGY": "first-index"}, {"UV_INDEX": "https://a"}),
        ({}, {"extra-index-url": "https://a"}, {"UV_INDEX": "https://u"}, {"UV_INDEX_STRATEGY": "unsafe-best-match"}),
        (
            {"extra_index_urls": ["https://a", "https://b"]},
            {},
            {},
            {"UV_INDEX": "https://a https://b", "UV_INDEX_STRATEGY": "unsafe-best-match"},
        ),
        # uv wants commas where pip has blanks.
        ({}, {"find-links": "/w https://h/x,y"}, {}, {"UV_FIND_LINKS": "/w,https://h/x%2Cy"}),
        ({"find_links": ["/a b", "/c,d"]}, {"find-links": "/w"}, {}, {"UV_FIND_LINKS": "/a b,file:///c%2Cd"}),
        ({}, {"find-links": "/w"}, {"UV_FIND_LINKS": "/u"}, {}),
        ({}, {"cert": "/c.pem"}, {}, {"SSL_CERT_FILE": "/c.pem"}),
        ({}, {"cert": "/c.pem"}, {"SSL_CERT_FILE": "/s.pem"}, {}),
        ({"ca_bundle": "/o.pem"}, {"cert": "/c.pem"}, {"SSL_CERT_FILE": "/s.pem"}, {"SSL_CERT_FILE": "/o.pem"}),
        ({}, {"trusted-host": "h1\nh2"}, {}, {"UV_INSECURE_HOST": "h1 h2"}),
        ({}, {"default-timeout": "180"}, {}, {"UV_HTTP_TIMEOUT": "180"}),
        ({}, {"proxy": "http://p:1"}, {}, {"ALL_PROXY": "http://p:1"}),
        ({}, {"proxy": "http://p:1"}, {"https_proxy": "http://q:1"}, {}),
        ({"cache_dir": "/big"}, {}, {}, {"UV_CACHE_DIR": "/big"}),
    ],
)
def test_uv_settings(options: dict, pip: dict, environ: dict, expected: dict) -> None:
    merged = settings.uv_settings({**NOTHING, **options}, pip, environ, everything)
    assert merged.environment == expected


def test_uv_settings_pass_over_local_places_that_do_not_exist() -> None:
    pip = {
        "find-links": "/there /gone",
        "extra-index-url": "file:///gone/simple https://a file:///there/simple",
        "constraint": "/there/c.txt /gone/c.txt",
    }
    merged = settings.uv_settings(NOTHING, pip, {}, lambda path: path.startswith("/there"))
    assert merged.environment["UV_FIND_LINKS"] == "/there"
    assert merged.environment["UV_INDEX"] == "https://a file:///there/simple"
    assert merged.constraints == ["/there/c.txt"]
    assert merged.ignored == ["file:///gone/simple", "/gone", "/gone/c.txt"]
    gone = settings.uv_settings(NOTHING, {"extra-index-url": "file:///gone"}, {}, lambda path: False)
    assert gone.environment == {} and not gone.own_index


@pytest.mark.parametrize(
    ("options", "pip", "expected"),
    [
        ({}, {"no-index": "true"}, True),
        ({}, {"no-index": "0"}, False),
        ({"index_url": "https://o"}, {"no-index": "true"}, False),
    ],
)
def test_uv_settings_without_index(options: dict, pip: dict, expected: bool) -> None:
    assert settings.uv_settings({**NOTHING, **options}, pip, {}, everything).no_index is expected


def test_uv_environ_is_clean_and_never_downloads_a_python() -> None:
    merged = settings.uv_settings(
        {**NOTHING, "index_url": "https://o"}, {}, {"UV_INDEX_URL": "https://u"}, everything
    )
    environ = {
        "PATH": "/bin",
        "VIRTUAL_ENV": "/v",
        "PYTHONPATH": "/p",
        "UV_INDEX_URL": "https://u",
        "UV_OFFLINE": "1",
        "UV_TORCH_BACKEND": "cu126",
        "UV_SYSTEM_PYTHON": "1",
    }
    result = settings.uv_environ(environ, merged, "/work/tmp")
    assert result["UV_PYTHON_DOWNLOADS"] == "never"
    assert result["TMPDIR"] == "/work/tmp"
    assert result["UV_DEFAULT_INDEX"] == "https://o"
    assert result["UV_OFFLINE"] == "1" and result["PATH"] == "/bin"
    assert not {"VIRTUAL_ENV", "PYTHONPATH", "UV_INDEX_URL", "UV_TORCH_BACKEND", "UV_SYSTEM_PYTHON"} & set(result)
