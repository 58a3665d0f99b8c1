"""What goes wrong, as one sentence."""

from __future__ import annotations

import errno
import os

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import complaints


@pytest.mark.parametrize(
    ("output", "kind", "parts"),
    [
        (
            "error: No solution found when resolving dependencies\n  cause: Because nosuch was not found in the "
            "package registry and you require nosuch==1, we can conclude that your requirements are unsatisfiable.\n",
            "unsatisfiable",
            ["know no package nosuch", "correct its name"],
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because torch==2.13.0 depends on "
            "sympy>=1.13.3 and you require torch==2.13.0, we can conclude that you require sympy>=1.13.3.\n"
            "         And because you require sympy==1.10, we can conclude that your requirements are unsatisfiable.\n"
            "\nhint: more\n",
            "unsatisfiable",
            ["met: torch==2.13.0 depends on sympy>=1.13.3 and you require torch==2.13.0; you require sympy=="],
        ),
        (
            "  × No solution found when resolving dependencies:\n  ╰─▶ Because there is no version of numpy==99 and "
            "you require numpy==99, we can conclude that your requirements are\n      unsatisfiable.\n",
            "unsatisfiable",
            ["met: there is no version of numpy==99 and you require numpy==99 (change"],
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because docopt==0.6.2 has no usable wheels and you "
            "require docopt==0.6.2, we can conclude that your requirements are unsatisfiable.\n\nhint: Wheels are required\n",
            "unsatisfiable",
            ["found no wheel of docopt==0.6.2", "nothing is compiled", "python_env_find_links"],
        ),
        (
            "error: Failed to fetch: http://u:secret@h/simple/numpy/\n  cause: error sending request for url "
            "(http://h/simple/numpy/)\n  cause: tcp connect error\n  cause: Connection refused (os error 111)\n",
            "network",
            ["index http://***@h/simple/numpy/ cannot be reached (Connection refused", "check the network"],
        ),
        (
            "error: Failed to fetch: https://h/\n  cause: invalid peer certificate: UnknownIssuer\n",
            "network",
            ["not trusted", "python_env_ca_bundle"],
        ),
        (
            "error: Failed to install: a.whl\n  cause: No space left on device (os error 28)\n",
            "fault",
            ["disk is full"],
        ),
        ("error: unexpected argument '--torch-backend' found\n", "fault", ["/t/uv does not know", "uv 0.7"]),
        (
            'error: Couldn\'t parse requirement in `r.txt` at position 0\n  cause: no such comparison operator "="\n'
            "         numpy=2\n              ^^^\n",
            "fault",
            ["none (numpy=2): no such comparison", "name==version"],
        ),
        ("error: Failed to build `old==1.0`\n  cause: no compiler\n", "fault", ["old==1.0 has no wheel"]),
        (
            "error: Failed to initialize cache at `/x`\n  cause: Permission denied (os error 13)\n",
            "fault",
            ["python_env_cache_dir"],
        ),
        ("error: something new\n  cause: deeper\n", "fault", ["uv failed: something new: deeper"]),
        ("", "fault", ["uv said nothing"]),
    ],
)
def test_explain_gives_one_sentence(output: str, kind: str, parts: list[str]) -> None:
    fault = complaints.explain(output, "/t/uv")
    assert fault.kind == kind
    assert "\n" not in fault.sentence and "secret" not in fault.sentence + fault.details
    for part in parts:
        assert part in fault.sentence


@pytest.mark.parametrize(
    ("number", "part"),
    [
        (errno.EACCES, "this user may not write in /proc (Permission denied): become its owner"),
        (errno.EROFS, "may not write in /proc"),
        (errno.ENOSPC, "the disk that holds /proc/x/e is full"),
        (errno.EBUSY, "/proc/x/e is a mount point"),
        (errno.ENAMETOOLONG, "/f cannot be made or moved (File name too long)"),
    ],
)
def test_refusals_of_the_system(number: int, part: str) -> None:
    fault = complaints.explain_os_error(OSError(number, os.strerror(number), "/f"), "/proc/x/e")
    assert part in fault.sentence


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at https://u:p@h/x now", "at https://***@h/x now"),
        ("https://h/t/tk-1/c/x.conda", "https://h/t/***/c/x.conda"),
        ("'https://h/a/t/tk-1'", "'https://h/a/t/***'"),
        ("https://h/x?a=1&X-Amz-Signature=abc&b=2", "https://h/x?a=1&X-Amz-Signature=***&b=2"),
        ("https://h/x?sig=a%2Fb", "https://h/x?sig=***"),
        ("https://h/x?access_token=abc#sha256=1", "https://h/x?access_token=***#sha256=1"),
        ("https://h/x?Signature=abc", "https://h/x?Signature=***"),
        ("https://h/x?token=abc", "https://h/x?token=***"),
        ("/home/t/wheels/x.whl?design=1", "/home/t/wheels/x.whl?design=1"),
    ],
)
def test_no_secret_of_an_address_is_shown(text: str, shown: str) -> None:
    assert complaints.redact(text) == shown
