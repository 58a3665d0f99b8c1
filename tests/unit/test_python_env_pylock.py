"""uv's pylock.toml, read without a library."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import pylock
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault

TEXT = """\
# by uv
lock-version = "1.0"
created-by = "uv"
requires-python = ">=3.11"

[[packages]]
name = "numpy"
version = "2.4.3"
marker = "python_full_version >= '3.11'"
index = "https://h/simple"
sdist = { url = "https://h/numpy.tar.gz", size = 1, hashes = { sha256 = "00" } }
wheels = [{ url = "https://u:p@h/numpy-2.4.3-c.whl", upload-time = 2026-03-09T07:56:09Z, size = 7, hashes = { sha256 = "71" } }]

[[packages]]
name = "Torch"
version = "2.13.0+cpu"
wheels = [
    { url = "file:///w/torch-2.13.0%2Bcpu-cp311.whl", hashes = { sha256 = "67" } },
]

[[packages]]
name = "near"
version = "1"
wheels = [{ path = "../w/near-1-py3-none-any.whl", hashes = {} }]

[[packages]]
name = "direct"
archive = { url = "https://h/direct-1.5-py3-none-any.whl#sha256=ab", hashes = { sha256 = "ab" } }

[tool.uv]
x = 'a "b"'
"""


def test_parse() -> None:
    numpy, torch, near, direct = pylock.parse(TEXT, "/space")
    assert numpy == pylock.Resolved("numpy", "2.4.3", "https://h/numpy-2.4.3-c.whl", 7, "71")
    assert torch == pylock.Resolved("torch", "2.13.0+cpu", "file:///w/torch-2.13.0%2Bcpu-cp311.whl", 0, "67")
    assert near.url == "file:///w/near-1-py3-none-any.whl" and near.sha256 == ""
    assert direct.version == "1.5"
    assert pylock.wheel_entry(torch)["file_name"] == "torch-2.13.0+cpu-cp311.whl"
    assert pylock.wheel_entry(direct)["url"] == "https://h/direct-1.5-py3-none-any.whl"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('[[packages]]\nname = "old"\nversion = "1"\nsdist = { url = "https://h/old.tar.gz" }\n', "no wheel of old"),
        ('[[packages]]\nname = "git"\nversion = "1"\nvcs = { url = "https://h" }\n', "no wheel of git"),
        ('[[packages]]\nname = "a\n', "cannot be read"),
        ("[[packages]]\nname\n", "cannot be read"),
        ('[[packages]]\nversion = "1"\n', "cannot be read"),
    ],
)
def test_what_cannot_be_taken_is_one_sentence(text: str, part: str) -> None:
    with pytest.raises(Fault, match=part):
        pylock.parse(text, "/")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a = "x\\t\\u00e9\\\\"', {"a": "x\té\\"}),
        ("a = 'x\\n'", {"a": "x\\n"}),
        ("a = [1, [2, 3], []]", {"a": [1, [2, 3], []]}),
        ('a = { b = { "c d" = true } } # why', {"a": {"b": {"c d": "true"}}}),
        ("[a.b]\nc = 1\n[[a.d]]\ne = 2\n[a.d.f]\ng = 3", {"a": {"b": {"c": 1}, "d": [{"e": 2, "f": {"g": 3}}]}}),
    ],
)
def test_the_part_of_toml_that_uv_writes(text: str, expected: dict) -> None:
    assert pylock._Reader(text).document() == expected


def test_preferences_are_read_back() -> None:
    text = pylock.preferences({"six": "1.17.0", "numpy": "2.4.3"})
    packages = pylock._Reader(text).document()["packages"]
    assert packages == [{"name": "numpy", "version": "2.4.3"}, {"name": "six", "version": "1.17.0"}]
