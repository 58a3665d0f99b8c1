"""What ssh says, and what a user is told: unknown key, changed key and refused login are three things."""

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils import unreachable

PREFIX = "Data could not be sent to remote host \"n2\". Make sure this host can be reached over ssh: "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\n...\nHost key verification failed.", "ssh-keygen -R"),
        ("No ED25519 host key is known for n2 and you have requested strict checking.\nHost key verification failed.",
         "host key is unknown"),
        ("Host key verification failed.", "host key is unknown"),
        ("ml@n2: Permission denied (publickey,password).", "refuses the login"),
        ("ssh: Could not resolve hostname n2: Name or service not known", "does not resolve"),
        ("ssh: connect to host n2 port 22: Connection refused", "nothing listens on its SSH port"),
        ("ssh: connect to host n2 port 22: Connection timed out", "does not answer"),
        ("Timeout, server n2 not responding.\nsomething else", "Timeout, server n2 not responding. something else"),
    ],
)  # fmt: skip
def test_what_is_told(text, expected):
    assert expected in unreachable.explain(PREFIX + text)


def test_the_rest_is_one_bounded_line():
    assert unreachable.explain("a\n  b\tc") == "a b c" and len(unreachable.explain("x" * 5000)) == 300
