"""Locks: read, named, compared and told, as tables."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.python_env import locks
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault


def wheel(name: str, version: str, digit: str = "a", **other: Any) -> dict[str, Any]:
    """A wheel of a lock."""
    file_name = "%s-%s-py3-none-any.whl" % (name, version)
    entry = {"name": name, "version": version, "url": "https://h/" + file_name, "file_name": file_name, "sha256": digit * 64}
    return {**entry, "size": 1, **other}


def conda(name: str, version: str, build: str = "0", digit: str = "c", **other: Any) -> dict[str, Any]:
    """A conda package of a lock."""
    file_name = "%s-%s-%s.conda" % (name, version, build)
    entry = {"name": name, "version": version, "build": build, "url": "https://c/" + file_name, "file_name": file_name}
    return {**entry, "sha256": digit * 64, **other}


def lock(conda: list = (), wheels: list = (), **other: Any) -> dict[str, Any]:
    """A lock."""
    made = {"format": 1, "platform": "linux-64", "python": "3.11.7", "glibc": "2.36", "cuda": None, "torch_backend": "cpu"}
    return {**made, "asked": "x", "channels": ["https://c"], "conda": list(conda), "wheels": list(wheels), **other}


WHOLE = lock([conda("python", "3.11.7"), conda("openssl", "3.5.0")], [wheel("six", "1.17.0"), wheel("numpy", "2.4.3")])


def test_a_lock_is_read_as_it_was_written() -> None:
    text = locks.text(WHOLE)
    assert locks.read(text) == locks.arranged(WHOLE)
    assert [entry["name"] for entry in json.loads(text)["wheels"]] == ["numpy", "six"]
    assert locks.text(locks.read(text)) == text and text.endswith("}\n")


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("{", "text that is no JSON"),
        ([], "holds list"),
        ({}, "the format None"),
        (lock(format=2), "the format 2"),
        (lock(python=None), "the key python with None"),
        (dict(lock(), conda="x"), "the key conda with 'x'"),
        (lock(wheels=["six"]), "an entry of wheels that is 'six'"),
        (lock(wheels=[wheel("six", "1", sha256="")]), "six of wheels without sha256"),
        (lock(wheels=[wheel("six", "1", sha256="A" * 64)]), "with the sha256 'AAA"),
        (lock(wheels=[wheel("six", "1", url="ftp://h/six.whl")]), "the address 'ftp://h/six.whl'"),
        (lock(wheels=[wheel("six", "1", url="https://u:p@h/six.whl")]), "six of wheels with a password"),
        (
            lock(wheels=[wheel("six", "1", url="https://h/six.whl?X-Amz-Signature=u:p")]),
            "six of wheels with a password or a token",
        ),
        (lock([conda("a", "1", url="https://h/t/u:p/c/a.conda")]), "a of conda with a password or a token"),
        (lock([conda("a", "1", channel="https://h/t/u:p/c")]), "a of conda with a password or a token"),
        (lock(channels=["https://u:p@h/c"]), "the channel https://***@h/c with a password or a token"),
        (lock(channels=["https://h/t/u:p/c"]), "the channel https://h/t/***/c with"),
        (lock(channels=[1]), "the channel 1"),
        (lock(wheels=[wheel("six", "1", file_name="../six.whl")]), "the file name '../six.whl'"),
        (lock(wheels=[wheel("Six", "1")]), "Six of wheels in another spelling"),
        (lock(wheels=[wheel("six", "1"), wheel("six", "2")]), "six of wheels twice"),
        (lock([conda("a", "1", build="")]), "a of conda without build"),
    ],
)
def test_what_is_no_lock_is_one_sentence(value: Any, part: str) -> None:
    with pytest.raises(Fault) as caught:
        locks.read(value if isinstance(value, str) else json.dumps(value))
    assert part in caught.value.sentence and caught.value.sentence.endswith("take it from git or make it anew")
    assert "u:p" not in caught.value.sentence


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (dict(WHOLE, asked="y", glibc="2.41", channels=[]), True),
        (dict(WHOLE, wheels=WHOLE["wheels"][::-1]), True),
        (dict(WHOLE, wheels=[dict(entry, url="file:///w/" + entry["file_name"]) for entry in WHOLE["wheels"]]), True),
        (dict(WHOLE, python="3.11.9"), False),
        (dict(WHOLE, wheels=WHOLE["wheels"][:1]), False),
        (dict(WHOLE, conda=[dict(entry, build="1") for entry in WHOLE["conda"]]), False),
        (dict(WHOLE, conda=[dict(entry, sha256="e" * 64) for entry in WHOLE["conda"]]), False),
    ],
)
def test_the_id_names_what_is_installed(other: dict, same: bool) -> None:
    assert (locks.lock_id(other) == locks.lock_id(WHOLE)) is same
    assert len(locks.lock_id(other)) == 12


def test_packages_and_lines() -> None:
    assert locks.packages(WHOLE) == {"numpy": "2.4.3", "openssl": "3.5.0", "python": "3.11.7", "six": "1.17.0"}
    assert locks.lines(WHOLE) == ["numpy==2.4.3", "openssl=3.5.0=0", "python=3.11.7=0", "six==1.17.0"]
    assert locks.lines(None) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, lock(wheels=[wheel("six", "1")]), [("six", None, "1")]),
        (lock(wheels=[wheel("six", "1")]), None, [("six", "1", None)]),
        (lock(wheels=[wheel("six", "1")]), lock(wheels=[wheel("six", "2")]), [("six", "1", "2")]),
        (lock([conda("a", "1", "b0")]), lock([conda("a", "1", "b1")]), [("a", "1 b0", "1 b1")]),
        (lock([conda("a", "1")]), lock(wheels=[wheel("a", "1")]), [("a", "1 0", "1 (wheel)")]),
        (
            lock(wheels=[wheel("a", "1", "a")]),
            lock(wheels=[wheel("a", "1", "b")]),
            [("a", "1 (wheel) " + "a" * 12, "1 (wheel) " + "b" * 12)],
        ),
        (WHOLE, WHOLE, []),
    ],
)
def test_differences(before: dict | None, after: dict | None, expected: list) -> None:
    assert locks.differences(before, after) == expected


@pytest.mark.parametrize(
    ("made", "name", "expected"),
    [
        (
            WHOLE, "exp7",
            {"name": "exp7", "channels": ["https://c"],
             "dependencies": ["openssl=3.5.0=0", "python=3.11.7=0", {"pip": ["numpy==2.4.3", "six==1.17.0"]}]},
        ),
        (lock([conda("a", "1")]), "on", {"name": "on", "channels": ["https://c"], "dependencies": ["a=1=0"]}),
        (
            lock(wheels=[wheel("a", "1+cpu")], channels=[]), "1",
            {"name": "1", "channels": [], "dependencies": ["python=3.11.7", "pip", {"pip": ["a==1+cpu"]}]},
        ),
    ],
)  # fmt: skip
def test_environment_yml(made: dict, name: str, expected: dict) -> None:
    assert yaml.safe_load(locks.environment_yml(made, name)) == expected


def test_variables_are_part_of_what_a_lock_gives() -> None:
    told = dict(WHOLE, variables={"NCCL_DEBUG": "INFO"})
    assert locks.lock_id(told) != locks.lock_id(WHOLE) == locks.lock_id(dict(WHOLE, variables={}))
    assert locks.environment_yml(told, "x").endswith('variables:\n  NCCL_DEBUG: "INFO"\n')
    with pytest.raises(Fault, match="the key variables with"):
        locks.check(dict(WHOLE, variables={"A": 1}))


def test_an_index_by_first_letters_holds_no_token() -> None:
    locks.check(lock(wheels=[wheel("torch", "2", url="https://h/packages/source/t/torch/torch-2-py3-none-any.whl")]))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (None, {"lock_glibc": "", "lock_cuda": ""}),
        (lock(), {"lock_glibc": "2.36", "lock_cuda": ""}),
        (lock(glibc=None, cuda="12.8"), {"lock_glibc": "", "lock_cuda": "12.8"}),
    ],
)
def test_what_a_lock_asks_of_hosts(made: Any, expected: dict) -> None:
    assert locks.platform_of(made) == expected
