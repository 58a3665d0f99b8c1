"""Lines of requirements, as tables."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.muster.cluster.plugins.module_utils.python_env import requirements


def test_requirement_lines_drop_comments_and_join_continuations() -> None:
    text = "# top\n\ntorch==2.13.0  # build by hardware\nsix==1 \\\n  --hash=sha256:ab\na @ https://h/a.whl#sha256=cd\r\n"
    assert requirements.requirement_lines(text) == [
        "torch==2.13.0",
        "six==1 --hash=sha256:ab",
        "a @ https://h/a.whl#sha256=cd",
    ]


def test_shipped_requirements_are_pinned_exactly_and_once_per_python(repo: Path) -> None:
    lines = requirements.requirement_lines((repo / "files/requirements.txt").read_text())
    assert all(re.match(r"[a-z]+==[0-9.]+(;|$)", line) for line in lines)
    assert "torch==2.13.0" in lines
    assert 'numpy==2.4.3; python_version >= "3.11"' in lines
