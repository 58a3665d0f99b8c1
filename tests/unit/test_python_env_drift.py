"""What differs between an environment as it was made and as it is."""

from __future__ import annotations

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import drift

STAMP = {
    "python_version": "3.11.7",
    "contents": {"numpy": ["2.4.3", "", "ab"], "openssl": ["3.5.0", "h1", "cd"], "torch": ["2.13.0+cpu", "", "ef"]},
    "entries": ["numpy", "numpy-2.4.3.dist-info", "torch", "torch-2.13.0+cpu.dist-info"],
}
CONTENTS = STAMP["contents"]


def found(**other: object) -> drift.Found:
    """What a whole version holds, with differences."""
    whole = drift.NOTHING._replace(python_version="3.11.7", entries=[*STAMP["entries"], "extra.pth"], contents=CONTENTS)
    return whole._replace(**other)


def without(name: str) -> dict:
    """The contents less one package."""
    return {other: entry for other, entry in CONTENTS.items() if other != name}


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (found(), []),
        (found(python_version="3.11.9"), ["its Python is 3.11.9 instead of 3.11.7"]),
        (found(python_version=""), ["its Python does not start"]),
        (found(contents=without("numpy")), ["numpy 2.4.3 is gone"]),
        (found(contents={**CONTENTS, "numpy": ["2.3.0", "", "ab"]}), ["numpy is 2.3.0 instead of 2.4.3"]),
        (
            found(contents={**CONTENTS, "openssl": ["3.5.0", "h2", "cd"]}),
            ["openssl 3.5.0 is another build or has other files than were installed"],
        ),
        (found(contents={**CONTENTS, "six": ["1", "", "ab"]}), ["six 1 was added"]),
        (found(twice=["numpy"]), ["numpy is there twice"]),
        (found(broken=["numpy"]), ["numpy has lost its metadata"]),
        (found(entries=STAMP["entries"][1:]), ["numpy is gone from site-packages"]),
    ],
)
def test_drift(there: drift.Found, expected: list[str]) -> None:
    assert drift.drift(STAMP, there) == expected


def test_an_environment_without_a_python_is_whole_without_one() -> None:
    assert drift.drift({**STAMP, "python_version": ""}, found(python_version="")) == []
