"""What conda's solver, its channels and the system say, as one sentence."""

from __future__ import annotations

import errno

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env import advice, clashes
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault

URL = "http://channel.test/c"
NODES = {"subdir": "linux-64", "glibc": "2.36", "cuda": None}

# Reports of rattler 0.28's solver: what was asked for, the report, what of it is told.
REPORTS = {
    "a dependency that another wish excludes": (
        ["python 3.11.*", "greet >=2"],
        """Cannot solve the request because of: greet >=2 cannot be installed because there are no viable options:
└─ greet 2.0 would require
   └─ python >=3.12, for which no candidates were found.
""",
        ["greet 2.0 needs python >=3.12", "you ask for python 3.11.*"],
    ),
    "two wishes that want different versions of a third": (
        ["python 3.11.*", "greet >=1.2", "oldspeak"],
        """Cannot solve the request because of: greet >=1.2 cannot be installed because there are no viable options:
└─ greet 2.0 would require
   └─ python >=3.12, for which no candidates were found.
The following packages are incompatible
├─ oldspeak * can be installed with any of the following options:
│  └─ oldspeak 0.9 would require
│     └─ words <2, which can be installed with any of the following options:
│        └─ words 1.5
└─ greet >=1.2 cannot be installed because there are no viable options:
   └─ greet 1.2 would require
      └─ words >=2, which cannot be installed because there are no viable options:
         └─ words 2.1, which conflicts with the versions reported above.
""",
        [
            "greet 2.0 needs python >=3.12",
            "oldspeak 0.9 needs words <2",
            "greet 1.2 needs words >=2",
            "you ask for python 3.11.*",
        ],
    ),
    "a dependency that no channel has, two steps away": (
        ["torchvision"],
        """Cannot solve the request because of: torchvision * cannot be installed because there are no viable options:
├─ torchvision 0.18.0 | 0.19.0 | 0.19.1 would require
│  └─ pytorch-cuda 12.1.*, which cannot be installed because there are no viable options:
│     └─ pytorch-cuda 12.1 would require
│        └─ libcublas >=12.1.0.26,<12.1.3.1, for which no candidates were found.
└─ torchvision 0.17.0 | 0.19.1 would require
   └─ pytorch-cuda 11.8.*, which cannot be installed because there are no viable options:
      └─ pytorch-cuda 11.8 would require
         └─ libcublas >=11.11,<12, for which no candidates were found.
""",
        [
            "pytorch-cuda 12.1 (for torchvision) needs libcublas >=12.1.0.26,<12.1.3.1, which no channel has",
            "pytorch-cuda 11.8 (for torchvision) needs libcublas >=11.11,<12, which no channel has",
        ],
    ),
    "a newer glibc": (
        ["needsnewlibc"],
        """Cannot solve the request because of: needsnewlibc * cannot be installed because there are no viable options:
└─ needsnewlibc 1.0 would require
   └─ __glibc >=2.99,<3.0a0, for which no candidates were found.
""",
        ["needsnewlibc 1.0 needs glibc >=2.99, but the oldest of the nodes has 2.36"],
    ),
    "a GPU": (
        ["needsgpu"],
        """Cannot solve the request because of: needsgpu * cannot be installed because there are no viable options:
└─ needsgpu 1.0 would require
   └─ __cuda >=12, for which no candidates were found.
""",
        ["needsgpu 1.0 needs CUDA >=12, but the nodes have no NVIDIA GPU"],
    ),
    "another system": (
        ["needswindows"],
        """Cannot solve the request because of: needswindows * cannot be installed because there are no viable options:
└─ needswindows 1.0 would require
   └─ __win *, for which no candidates were found.
""",
        ["needswindows 1.0 needs win, but the nodes have none"],
    ),
    "a package that fits old versions of another, and one that its channel's rank hides": (
        ["numpy >=2", "blas", "torchvision"],
        """Cannot solve the request because of: The following packages are incompatible
├─ numpy >=2 can be installed with any of the following options:
│  └─ numpy 2.0
└─ blas * cannot be installed because there are no viable options:
   ├─ blas 1.0 would constrain
   │  └─ numpy <1, which conflicts with any installable versions previously reported
   └─ blas 1.0 is excluded because due to strict channel priority not using this option from: 'file:///srv/a/'
""",
        [
            "blas 1.0 fits numpy <1 alone",
            "blas 1.0 of file:///srv/a is hidden by a channel named before it",
            "you ask for numpy >=2",
        ],
    ),
    "a channel that was named for a package and has it not": (
        ["conda-forge::words"],
        """Cannot solve the request because of: The following packages are incompatible
└─ words [channel="conda-forge"] cannot be installed because there are no viable options:
   └─ words 1.5 | 2.1 is excluded because candidate not in requested channel: 'conda-forge'
""",
        ["words 1.5 | 2.1 is left out, since candidate not in requested channel: 'conda-forge'"],
    ),
}


@pytest.mark.parametrize("title", REPORTS)
def test_a_solvers_report_becomes_what_clashes(title):
    conda, report, told = REPORTS[title]
    assert clashes.clash(report, conda, NODES) == told


def test_a_gpu_that_is_too_old_is_told_with_what_it_can_do():
    conda, report, _ = REPORTS["a GPU"]
    assert clashes.clash(report, conda, dict(NODES, cuda="11.8")) == [
        "needsgpu 1.0 needs CUDA >=12, but the nodes have CUDA 11.8 at most"
    ]


@pytest.mark.parametrize("title", REPORTS)
def test_it_is_one_sentence_and_keeps_the_report_aside(title):
    conda, report, told = REPORTS[title]
    request = {"channels": [URL], "conda": conda, "platform": NODES}
    fault = advice.fault("solve", {"kind": "unsatisfiable", "text": report, "unfound": []}, request, {}, "python3")
    assert fault.kind == "unsatisfiable" and fault.details == report
    assert fault.sentence.startswith("found no versions that fit together ({}".format(told[0]))
    assert fault.sentence.endswith(", expected some that do; change one of these in the environment file")
    assert "\n" not in fault.sentence and "─" not in fault.sentence


def test_of_many_reasons_a_few_are_told_and_what_was_asked_for():
    needs = "".join(
        "├─ big {0}.0 would require\n│  └─ python >={0}.5,<{0}.6, for which no candidates were found.\n".format(n)
        for n in range(9)
    )
    report = "Cannot solve the request because of: big * cannot be installed because there are no viable options:\n" + needs
    request = {"channels": [URL], "conda": ["big", "python 3.11.*"], "platform": NODES}
    fault = advice.unsatisfiable({"text": report}, request)
    assert "big 3.0 needs python >=3.5,<3.6; 5 more of the kind; you ask for python 3.11.*)" in fault.sentence


def unfound(name, known=False, spec=None, versions=(), near=()):
    """What the worker tells of a name without candidates."""
    return {"name": name, "spec": spec or name, "known": known, "versions": list(versions), "near": list(near)}


@pytest.mark.parametrize(
    ("conda", "channels", "entries", "sentence"),
    [
        (
            ["gret"], [URL], [unfound("gret", near=["greet"])],
            "found no package gret in http://channel.test/c (names near it: greet), expected one that is there; "
            "correct the name in the environment file, or name a channel that has it",
        ),
        (
            ["foo", "bar"], ["conda-forge", URL], [unfound("foo"), unfound("bar")],
            "found no package foo in conda-forge, http://channel.test/c; found no package bar in conda-forge, "
            "http://channel.test/c, expected one that is there; correct the name in the environment file, or name a "
            "channel that has it",
        ),
        (
            ["torch"], ["conda-forge"], [unfound("torch", near=["pytorch"])],
            "found no package torch in conda-forge (names near it: pytorch), expected one that is there; write torch "
            "into the `pip:` section of the environment file, where names are PyPI's",
        ),
        (
            ["python 9.*"], ["conda-forge"], [unfound("python", True, "python 9.*", ["3.11.7", "3.12.1"])],
            "found no python 9.* in conda-forge, only 3.11.7, 3.12.1, expected one that is there; change one of these "
            "in the environment file",
        ),
        (
            ["pytorch", "pytorch-cuda 11.8.*"], ["pytorch", "nvidia"], [unfound("pytorch-cuda")],
            "found no package pytorch-cuda in pytorch, nvidia; found lines of an old guide (channel pytorch, channel "
            "nvidia, pytorch-cuda 11.8.*), expected today's; write torch into its `pip:` section and choose the build "
            "by python_env_torch_backend (auto, cpu, cu128, ...), or ask conda-forge alone for pytorch",
        ),
        (
            ["x"], ["https://u:secret@h/c"], [unfound("x")],
            "found no package x in https://***@h/c, expected one that is there; correct the name in the environment "
            "file, or name a channel that has it",
        ),
    ],
)  # fmt: skip
def test_names_without_candidates(conda, channels, entries, sentence):
    request = {"channels": channels, "conda": conda, "platform": NODES}
    report = "Cannot solve the request because of: No candidates were found for {} *.\n".format(entries[0]["name"])
    fault = advice.fault("solve", {"kind": "unsatisfiable", "text": report, "unfound": entries}, request, {}, "python3")
    assert fault.sentence == sentence


@pytest.mark.parametrize(
    ("channels", "conda", "found"),
    [
        (["conda-forge"], ["python 3.11.*", "pytorch"], []),
        (["pytorch", "nvidia", "conda-forge"], ["pytorch"], ["channel pytorch", "channel nvidia"]),
        (["https://mirror/conda/pytorch/"], ["x"], ["channel https://mirror/conda/pytorch/"]),
        (["conda-forge"], ["cudatoolkit 11.3.*", "nvidia::cuda-toolkit", "pytorch::pytorch"],
         ["cudatoolkit 11.3.*", "nvidia::cuda-toolkit", "pytorch::pytorch"]),
    ],
)  # fmt: skip
def test_lines_of_old_guides(channels, conda, found):
    assert advice.old_lines(channels, conda) == found
    assert bool(advice.old_guide(channels, conda)) == bool(found)


SENDING = "error sending request for url ({}/noarch/repodata_shards.msgpack.zst)\nCaused by: client error (Connect)\n".format(URL)


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        (
            "could not find subdir 'noarch' in channel '{0}/'\nCaused by: HTTP status client error (404 Not Found) for "
            "url ({0}/noarch/repodata.json)".format(URL),
            "fault",
            "found nothing at the channel {} (404), expected noarch/repodata.json there; correct its name in "
            "`channels:`, or set python_env_channel_alias to the mirror that has it".format(URL),
        ),
        (
            "could not find subdir 'noarch' in channel 'file:///srv/no/'\nCaused by: failed to open file "
            "`/srv/no/noarch/repodata.json`: No such file or directory (os error 2)",
            "fault",
            "found nothing at the channel file:///srv/no (No such file or directory), expected noarch/repodata.json "
            "there; correct its name in `channels:`, or set python_env_channel_alias to the mirror that has it",
        ),
        (
            "could not find subdir 'noarch' in channel 'http://m.test/nvidia/'\nCaused by: HTTP status client error "
            "(404 Not Found)",
            "fault",
            "found nothing at the channel http://m.test/nvidia (404), expected noarch/repodata.json there; found lines "
            "of an old guide (channel nvidia), expected today's; {}".format(advice.TODAY),
        ),
        (
            "Request failed after 1 retries\nCaused by: "
            + SENDING
            + "Caused by: tcp connect error\nCaused by: Connection refused "
            "(os error 111)",
            "network",
            "the channel {} cannot be reached (Connection refused), expected an answer; check this host's network, "
            "python_env_proxy and python_env_mirrors".format(URL),
        ),
        (
            SENDING
            + "Caused by: dns error\nCaused by: error resolving DNS\nCaused by: failed to lookup address information: Name or "
            "service not known",
            "network",
            "the channel {} cannot be reached (Name or service not known), expected an answer; check this host's "
            "network, python_env_proxy and python_env_mirrors".format(URL),
        ),
        (
            SENDING + "Caused by: invalid peer certificate: UnknownIssuer",
            "network",
            "found a certificate of {} that is not trusted (UnknownIssuer), expected one of a known authority; set "
            "python_env_ca_bundle to the file with yours".format(URL),
        ),
        (
            SENDING + "Caused by: received corrupt message of type InvalidContentType",
            "network",
            "the channel {} does not speak TLS, expected https; correct its address".format(URL),
        ),
        (
            "failed to download {}/linux-64/repodata.json\nCaused by: error decoding response body\nCaused by: "
            "operation timed out".format(URL),
            "network",
            "the channel {} is silent, expected a word within 7 s; see whether it works, or name another "
            "(python_env_mirrors)".format(URL),
        ),
        (
            "HTTP status client error (401 Unauthorized) for url ({}/noarch/repodata.json)".format(URL),
            "network",
            "the channel {} wants a login (401), expected one in ~/.netrc of the user that asks on this host; put it "
            "there".format(URL),
        ),
        (
            "failed to write\nCaused by: No space left on device (os error 28)",
            "fault",
            "the disk that holds the channels' indexes is full, expected room for the packages; free some space",
        ),
    ],
)
def test_a_channel_that_cannot_be_read(text, kind, sentence):
    request = {"channels": [URL, "nvidia"], "conda": ["python"], "platform": NODES}
    fault = advice.fault("solve", {"kind": "channel", "text": text, "channels": [URL]}, request, {"timeout": 7}, "python3")
    assert (fault.sentence, fault.kind) == (sentence, kind)


ITEM = {"url": URL + "/noarch/words-2.1-py_0.conda", "sha256": "ab" * 32, "size": 100, "file_name": "words-2.1-py_0.conda"}


@pytest.mark.parametrize(
    ("trouble", "kind", "sentence"),
    [
        (
            {"kind": "tampered", "found": "cd" * 32, "size": 100},
            "tampered",
            "found words-2.1-py_0.conda at {} with sha256 {}, expected {} as in the lock; "
            "take it from another mirror, or, if it was replaced on purpose, "
            "solve anew by python_env_update".format(ITEM["url"], "cd" * 32, "ab" * 32),
        ),
        (
            {"kind": "tampered", "found": "cd" * 32, "size": 60},
            "tampered",
            "found words-2.1-py_0.conda at {} with sha256 {} in 60 bytes instead of 100, expected {} as in the lock; "
            "take it from another mirror, or, if it was replaced on purpose, "
            "solve anew by python_env_update".format(ITEM["url"], "cd" * 32, "ab" * 32),
        ),
        (
            {"kind": "refused", "text": "HTTP status client error (404 Not Found) for url ({})".format(ITEM["url"])},
            "network",
            "found nothing at {} (404), expected it by the lock; solve anew by python_env_update, or take a mirror "
            "that keeps it".format(ITEM["url"]),
        ),
        (
            {"kind": "refused", "text": "error sending request\nCaused by: Connection refused"},
            "network",
            "{} cannot be reached (Connection refused), expected an answer; check this host's network, "
            "python_env_proxy and python_env_mirrors".format(ITEM["url"]),
        ),
        (
            {"kind": "silent", "text": "", "size": 3},
            "network",
            "the server of {} is silent, expected a word within 60 s; see whether it works, or name another "
            "(python_env_mirrors)".format(ITEM["url"]),
        ),
        (
            {"kind": "broken", "text": "error decoding response body", "size": 50},
            "network",
            "{} broke off after 50 bytes, again and again (error decoding response body), expected all of it; check "
            "this host's network, or take another mirror (python_env_mirrors)".format(ITEM["url"]),
        ),
        (
            {"kind": "local", "text": "No such file or directory", "path": "/w/a.whl"},
            "fault",
            "found no readable /w/a.whl (No such file or directory), expected it by the lock; put it there, or let "
            "python_env_cache_from bring it",
        ),
        (
            {"kind": "os", "errno": errno.ENOSPC, "path": None, "text": "No space left on device"},
            "fault",
            "the disk that holds /s is full, expected room for the packages; free some space",
        ),
        (
            {"kind": "os", "errno": errno.EACCES, "path": "/s/x", "text": "Permission denied"},
            "fault",
            "this user may not write in /s (Permission denied), expected its owner; use become: true, or choose another place",
        ),
        (
            {"kind": "os", "errno": errno.ENOTDIR, "path": "/s/x", "text": "Not a directory"},
            "fault",
            "/s/x cannot be written (Not a directory), expected a folder; choose another place",
        ),
        (
            {"kind": "crash", "text": "ImportError: rattler.abi3.so: undefined symbol: _Py_DecRef", "code": 1},
            "fault",
            "rattler does not start by /usr/bin/python3 (ImportError: rattler.abi3.so: undefined symbol: _Py_DecRef), "
            "expected Python 3.10 or later and glibc 2.17 or later; set python_env_tool_python",
        ),
        (
            {"kind": "crash", "text": "", "code": -9},
            "fault",
            "rattler ended with exit code -9 while it should fetch (no word), expected a result; run it again",
        ),
        (
            {"kind": "authorities", "text": "builder error"},
            "network",
            "found no certificate authorities in /etc/ssl/certs, expected them for https; install ca-certificates on "
            "this host, or set python_env_ca_bundle to a file with them",
        ),
    ],
)
def test_a_package_that_cannot_be_fetched(trouble, kind, sentence):
    fault = advice.fault("fetch", dict(trouble, item=ITEM), {"items": [ITEM], "store": "/s"}, {}, "/usr/bin/python3")
    assert (fault.sentence, fault.kind) == (sentence, kind)


def test_a_full_disk_during_the_installation():
    text = "failed to link words-2.1-py_0\nfailed to write\nNo space left on device (os error 28)"
    fault = advice.fault("install", {"kind": "install", "text": text, "prefix": "/e/a"}, {"prefix": "/e/a"}, {}, "p")
    assert fault.sentence == "the disk that holds /e/a is full, expected room for the packages; free some space"


@pytest.mark.parametrize("channel", ["https://u:secret@h/c", "https://h/t/secret/c"])
def test_passwords_do_not_enter_a_lock(channel):
    with pytest.raises(Fault) as caught:
        advice.refuse_credentials(["conda-forge", channel])
    assert "secret" not in caught.value.sentence and "~/.netrc" in caught.value.sentence
