"""conda's part of an environment: the tools as a node gets them, real rattler, and a channel of the tests' own."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault
from ansible_collections.muster.cluster.plugins.module_utils.python_env.conda import Conda
from channel import Server, wheel
from channel.archives import write
from channel.contents import library

NODES = {"subdir": "linux-64", "glibc": os.confstr("CS_GNU_LIBC_VERSION").split()[1], "cuda": None, "archspec": None}
VERSION = "{}.{}.{}".format(*sys.version_info)
PYTHON = "python {}.{}.*".format(*sys.version_info)
WANTED = [PYTHON, "greet", "activated", "olden", "conda", "scripted"]


@pytest.fixture
def server(conda_channel):
    """The channel over HTTP."""
    with Server(conda_channel) as server:
        yield server


@pytest.fixture
def engine(python_tools, tmp_path):
    """``engine(name=value, ...)``: rattler with these settings; silence ends after 2 s."""

    def make(environ=None, **settings):
        settings = dict({"timeout": 2, "cache": str(tmp_path / "indexes")}, **settings)
        return Conda(str(python_tools), sys.executable, settings, os.environ if environ is None else environ)

    return make


def solve(engine, channels, *conda, wish=None, **nodes):
    """``{name: version}`` of a solution, and the answer."""
    answer = engine.solve({"channels": list(channels), "conda": list(conda)}, dict(NODES, **nodes), wish)
    return {record["name"]: record["version"] for record in answer["conda"]}, answer


def refusal(function, *arguments, **keywords):
    """The fault of a call, and the seconds that it took."""
    began = time.monotonic()
    with pytest.raises(Fault) as caught:
        function(*arguments, **keywords)
    assert "\n" not in caught.value.sentence and "Traceback" not in caught.value.details
    return caught.value, time.monotonic() - began


def files(folder):
    """All files below a folder, hidden ones too."""
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())


# ------------------------------------------------------------------------------------------------------------- solving


def test_the_solution_is_what_a_lock_needs(engine, server):
    said = []
    spec = {"channels": [server.url], "conda": [PYTHON, "greet"]}
    answer = engine().solve(spec, NODES, {}, said.append)
    records = {record["name"]: record for record in answer["conda"]}
    # greet 2.0 wants a newer Python, libletters 1.9 a newer libc.
    assert {name: record["version"] for name, record in records.items()} == {
        "python": VERSION, "greet": "1.2", "words": "2.1", "libletters": "1.4",
    }  # fmt: skip
    assert list(records) == sorted(records) and answer["channels"] == [server.url]
    words = records["words"]
    assert words["url"] == server.url + "/noarch/words-2.1-py_0.conda" and words["file_name"] == "words-2.1-py_0.conda"
    assert words["noarch"] == "python" and words["subdir"] == "noarch" and len(words["sha256"]) == 64 and words["size"] > 1000
    assert records["libletters"]["build_number"] == 1 and words["depends"] == ["python >=3.8", "libletters >=1,<2"]
    assert [line.split(" ")[0] for line in said] == ["reading", "solving"]
    assert not server.archives()


def test_a_folder_gives_the_same(engine, server, conda_channel):
    _, served = solve(engine(), [server.url], PYTHON, "greet")
    _, local = solve(engine(), [str(conda_channel)], PYTHON, "greet")
    assert [record["sha256"] for record in served["conda"]] == [record["sha256"] for record in local["conda"]]
    assert local["channels"] == [conda_channel.as_uri()] and local["conda"][0]["url"].startswith(conda_channel.as_uri())


def test_the_nodes_decide_about_cuda_not_this_host(engine, server):
    builds = {}
    for cuda in (None, "11.8", "12.8"):
        _, answer = solve(engine(), [server.url], "accelerate", cuda=cuda)
        builds[cuda] = answer["conda"][0]["build"]
    assert builds == {None: "cpu_0", "11.8": "cpu_0", "12.8": "cuda126_0"}


@pytest.mark.parametrize(
    ("conda", "nodes", "sentence"),
    [
        (
            [PYTHON, "greet >=1.2", "oldspeak"],
            {},
            "oldspeak 0.9 needs words <2; greet 1.2 needs words >=2; you ask for " + PYTHON,
        ),
        (["needsnewlibc"], {}, "needsnewlibc 1.0 needs glibc >=2.99, but the oldest of the nodes has " + NODES["glibc"]),
        ([PYTHON], {"glibc": "2.1"}, "but the oldest of the nodes has 2.1"),
        (["needsgpu"], {}, "needsgpu 1.0 needs CUDA >=12, but the nodes have no NVIDIA GPU"),
        (["needsgpu"], {"cuda": "11.8"}, "but the nodes have CUDA 11.8 at most"),
        (["gret", "wordz", "python"], {}, "(names near it: greet); found no package wordz in "),
        (["python 9.*"], {}, ", only {}, 3.12.1, expected one that is there; change".format(VERSION)),
        (["words >=2,,"], {}, "found the line 'words >=2,,' in the environment file, expected a conda package ("),
        (["torch"], {}, "write torch into the `pip:` section"),
        (
            ["pytorch-cuda 12.1.*", "greet"],
            {},
            "found lines of an old guide (pytorch-cuda 12.1.*), expected today's; write torch ",
        ),
    ],
)
def test_what_has_no_solution_is_told(engine, server, conda, nodes, sentence):
    fault, seconds = refusal(solve, engine(), [server.url], *conda, **nodes)
    assert sentence in fault.sentence and seconds < 10, fault.sentence


def test_a_channel_of_an_old_guide_that_a_mirror_has_not(engine, server):
    fault, _ = refusal(solve, engine(channel_alias=server.url), [server.url, "nvidia"], PYTHON)
    assert "found nothing at the channel {}/nvidia (404)".format(server.url) in fault.sentence
    assert "found lines of an old guide (channel nvidia), expected today's; write torch" in fault.sentence


def test_names_of_channels_stand_below_the_alias(engine, conda_channel):
    with Server(conda_channel.parent) as server:
        packages, answer = solve(engine(channel_alias=server.url), [conda_channel.name], "olden")
        assert packages == {"olden": "0.1"} and answer["channels"] == ["{}/{}".format(server.url, conda_channel.name)]
        _, answer = solve(engine(channel_alias=server.url), [conda_channel.name], "olden")
    assert answer["conda"][0]["url"].startswith(server.url)


def test_a_mirror_is_asked_and_the_channel_named(engine, server, tmp_path):
    """The lock is the same on whichever side of a mirror it is made."""
    conda = engine(mirrors={"conda-forge": [server.url]})
    _, answer = solve(conda, ["conda-forge"], "olden")
    assert answer["channels"] == ["https://conda.anaconda.org/conda-forge"]
    assert answer["conda"][0]["url"] == "https://conda.anaconda.org/conda-forge/linux-64/olden-0.1-0.tar.bz2"
    assert conda.fetch(answer["conda"], str(tmp_path / "store"))["fetched"] == 1
    assert server.archives() == {"olden-0.1-0.tar.bz2": 1}


def test_what_a_lock_had_is_kept(engine, server):
    before, answer = solve(engine(), [server.url], PYTHON, "words <2")
    assert before["words"] == "1.5"
    after, _ = solve(engine(), [server.url], PYTHON, "words", wish={"keep": answer["conda"]})
    assert after["words"] == "1.5"


@pytest.mark.parametrize(("priority", "version"), [("strict", "2.1"), ("disabled", "9.0")])
def test_the_first_channel_that_has_a_package_wins_unless_told_otherwise(engine, server, tmp_path, priority, version):
    write(tmp_path / "second", [library("words", "9.0", [])])
    packages, _ = solve(engine(), [server.url, str(tmp_path / "second")], PYTHON, "words", wish={"priority": priority})
    assert packages["words"] == version


def test_a_channel_may_be_named_for_one_package(engine, server, conda_channel):
    _, answer = solve(engine(), [server.url], "{}::olden".format(conda_channel), "activated")
    assert {record["name"]: record["channel"] for record in answer["conda"]} == {
        "olden": conda_channel.as_uri(), "activated": server.url,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("channel", "sentence"),
    [
        ("{}/missing", "/missing (404), expected noarch/repodata.json there; correct its name in `channels:`"),
        ("/no/such/folder", "found nothing at the channel file:///no/such/folder (No such file or directory)"),
        ("http://127.0.0.1:9/c", "the channel http://127.0.0.1:9/c cannot be reached (Connection refused)"),
        ("http://no-such-host.invalid/c", "the channel http://no-such-host.invalid/c cannot be reached ("),
        ("https://me:secret@127.0.0.1:9/c", "found a password or a token in the channel https://***@127.0.0.1:9/c"),
    ],
)
def test_a_wrong_channel_is_told(engine, server, channel, sentence):
    fault, seconds = refusal(solve, engine(), [channel.format(server.url)], PYTHON)
    assert sentence in fault.sentence and "secret" not in fault.sentence + fault.details and seconds < 10, fault.sentence


@pytest.mark.parametrize("how", ["hanging", "stalling"])
def test_a_silent_channel_is_given_up(engine, server, how):
    getattr(server, how).add("/linux-64/repodata.json")
    fault, seconds = refusal(solve, engine(), [server.url], PYTHON)
    assert fault.kind == "network" and "the channel {} is silent, expected a word within 2 s".format(server.url) in fault.sentence
    assert seconds < 10


def test_only_a_known_authority_is_trusted(engine, conda_channel, tmp_path):
    with Server(conda_channel, tls=tmp_path / "tls") as server, Server(conda_channel, tls=tmp_path / "other") as other:
        for conda in (engine(), engine(ca_bundle=str(other.ca))):
            fault, _ = refusal(solve, conda, [server.url], PYTHON)
            assert "found a certificate of {} that is not trusted (".format(server.url) in fault.sentence
            assert "set python_env_ca_bundle" in fault.sentence
        trusting = engine(ca_bundle=str(server.ca))
        packages, answer = solve(trusting, [server.url], "olden")
        assert packages == {"olden": "0.1"}
        # A host that installs a lock talks to the channel for the first time when it fetches.
        fault, _ = refusal(engine().fetch, answer["conda"], str(tmp_path / "store"))
        assert "that is not trusted (" in fault.sentence and not files(tmp_path / "store")
        assert trusting.fetch(answer["conda"], str(tmp_path / "store"))["fetched"] == 1


def test_a_host_without_authorities_still_has_folders_and_http(engine, server, tmp_path):
    nothing = dict(os.environ, SSL_CERT_FILE=str(tmp_path / "none.pem"), SSL_CERT_DIR=str(tmp_path / "none"))
    assert solve(engine(nothing), [server.url], "olden")[0] == {"olden": "0.1"}
    fault, _ = refusal(solve, engine(nothing), ["https://127.0.0.1:9/c"], "olden")
    assert "found no certificate authorities" in fault.sentence and "install ca-certificates" in fault.sentence


# ------------------------------------------------------------------------------------------------------------ fetching


@pytest.fixture
def solved(engine, server):
    """Records for fetching."""
    return solve(engine(), [server.url], *WANTED)[1]["conda"]


def test_every_package_is_fetched_once_and_checked(engine, server, solved, tmp_path):
    said, store = [], tmp_path / "store"
    done = engine().fetch(solved, str(store), said.append)
    assert done == {"fetched": len(solved), "bytes": sum(record["size"] for record in solved), "present": 0}
    assert server.archives() == {record["file_name"]: 1 for record in solved}
    assert files(store) == sorted("{}/{}".format(record["sha256"], record["file_name"]) for record in solved)
    assert said[0].startswith("fetching {} packages, ".format(len(solved)))
    assert engine().fetch(solved, str(store)) == {"fetched": 0, "bytes": 0, "present": len(solved)}
    assert set(server.archives().values()) == {1}
    # What was damaged in the store is noticed, and that alone is fetched anew.
    record = next(record for record in solved if record["name"] == "words")
    (store / record["sha256"] / record["file_name"]).write_bytes(b"damaged")
    assert engine().fetch(solved, str(store))["fetched"] == 1
    assert server.archives()[record["file_name"]] == 2


@pytest.mark.parametrize("served", [True, False], ids=["http", "file"])
def test_a_tampered_package_is_refused(engine, server, solved, conda_channel, tmp_path, served):
    record = next(record for record in solved if record["name"] == "words")
    if served:
        server.tampered.add("/noarch/" + record["file_name"])
    else:
        (tmp_path / record["file_name"]).write_bytes(b"x" + (conda_channel / "noarch" / record["file_name"]).read_bytes()[1:])
        record = dict(record, url=(tmp_path / record["file_name"]).as_uri())
    fault, _ = refusal(engine().fetch, [record], str(tmp_path / "store"))
    assert fault.kind == "tampered" and "found {} at {} with sha256 ".format(record["file_name"], record["url"]) in fault.sentence
    assert "expected {} as in the lock".format(record["sha256"]) in fault.sentence
    assert not files(tmp_path / "store")


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("hanging", "is silent, expected a word within 2 s"),
        ("stalling", "is silent, expected a word within 2 s"),
        ("missing", "(404), expected it by the lock; solve anew by python_env_update"),
    ],
)
def test_a_package_that_does_not_come(engine, server, solved, tmp_path, how, sentence):
    record = next(record for record in solved if record["name"] == "python")
    getattr(server, how).add("/linux-64/" + record["file_name"])
    fault, seconds = refusal(engine().fetch, solved, str(tmp_path / "store"))
    assert sentence in fault.sentence and record["file_name"] in fault.sentence and seconds < 8
    assert not [name for name in files(tmp_path / "store") if ".partial" in name or record["sha256"] in name]
    getattr(server, how).clear()
    assert engine().fetch(solved, str(tmp_path / "store"))["fetched"] >= 1


def test_a_connection_that_breaks_is_tried_again(engine, server, solved, tmp_path):
    record = next(record for record in solved if record["name"] == "python")
    server.cut["/linux-64/" + record["file_name"]] = 1
    engine().fetch(solved, str(tmp_path / "store"))
    assert server.archives()[record["file_name"]] == 2


def test_a_slow_server_is_waited_for_and_progress_told(engine, server, solved, tmp_path):
    """Longer than the time limit, which is for silence alone."""
    server.rate = 14_000_000
    said = []
    engine().fetch(solved, str(tmp_path / "store"), said.append)
    assert any(line.startswith("fetched ") and " MB" in line for line in said), said


FETCH = """
import os, sys
sys.path.insert(0, sys.argv[1])
import json
from ansible_collections.muster.cluster.plugins.module_utils.python_env.conda import Conda
conda = Conda(sys.argv[2], sys.executable, {}, os.environ)
conda.fetch(json.loads(sys.argv[4]), sys.argv[3], lambda line: print(line, flush=True))
"""


def test_a_killed_fetch_leaves_nothing_that_counts(engine, server, solved, repo, python_tools, tmp_path):
    store, records = tmp_path / "store", [record for record in solved if record["name"] == "python"]
    server.stalling.add("/linux-64/" + records[0]["file_name"])
    arguments = [str(repo / "collections"), str(python_tools), str(store), json.dumps(records)]
    process = subprocess.Popen([sys.executable, "-c", FETCH, *arguments], stdout=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 20
        while not any(path.stat().st_size > 1 << 20 for path in store.glob(".partial/*")):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)  # another process fetches
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert files(store) and all(name.startswith(".partial/") for name in files(store))
    server.stalling.clear()
    engine().fetch(records, str(store))
    assert files(store) == ["{}/{}".format(records[0]["sha256"], records[0]["file_name"])]


def test_wheels_are_fetched_as_well(engine, conda_channel, tmp_path):
    made = wheel(tmp_path / "wheels", "thing", "1.0")
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    with Server(conda_channel, wheels=(made.parent,)) as server:
        item = {"url": "{}/simple/thing/{}".format(server.url, made.name), "sha256": digest, "size": None, "file_name": made.name}
        engine().fetch([item], str(tmp_path / "store"))
        assert server.archives() == {made.name: 1}
    assert files(tmp_path / "store") == ["{}/{}".format(digest, made.name)]


def test_a_password_comes_from_netrc(engine, server, tmp_path):
    server.login = ("me", "secret")
    fault, _ = refusal(solve, engine(), [server.url], "olden")
    assert "wants a login (401), expected one in ~/.netrc" in fault.sentence
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    conda = engine(dict(os.environ, HOME=str(tmp_path)))
    _, answer = solve(conda, [server.url], "olden")
    assert "secret" not in json.dumps(answer)
    assert conda.fetch(answer["conda"], str(tmp_path / "store"))["fetched"] == 1


@pytest.mark.parametrize("place", ["--index-url={}/simple/", "--find-links={}/links/"])
def test_the_channels_server_has_wheels_for_uv(conda_channel, python_tools, tmp_path, place):
    """What the tests of whole environments count by."""
    wheel(tmp_path / "wheels", "outer", "1.0", ("inner>=2",))
    for version in ("1.0", "2.0"):
        wheel(tmp_path / "wheels", "inner", version)
    with Server(conda_channel, wheels=(tmp_path / "wheels",)) as server:
        argv = [
            str(python_tools / "uv"),
            "pip",
            "install",
            "--no-config",
            "--python",
            sys.executable,
            "--target",
            str(tmp_path / "t"),
        ]
        argv += [place.format(server.url), "--cache-dir", str(tmp_path / "cache"), "outer"]
        argv += ["--no-index"] if "links" in place else []
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
        subprocess.run(argv, check=True, timeout=60, env=environ)
        assert server.archives() == {"inner-2.0-py3-none-any.whl": 1, "outer-1.0-py3-none-any.whl": 1}
    assert (tmp_path / "t" / "inner.py").read_text() == "__version__ = '2.0'\n"


# ---------------------------------------------------------------------------------------------------------- installing

PROOF = """
import bz2, ctypes, hashlib, json, lzma, multiprocessing, sqlite3, ssl, sys, uuid, zlib
import greet, words
print(json.dumps([sys.prefix, sys.executable, greet.__version__, words.__version__]))
"""


@pytest.fixture
def prefix(engine, server, solved, tmp_path):
    """An installed prefix whose path has a space; the channel is gone."""
    store, prefix = tmp_path / "the store", tmp_path / "an environment" / "0a1b2c"
    engine().fetch(solved, str(store))
    server.missing.update("/{}/{}".format(record["subdir"], record["file_name"]) for record in solved)
    before = sum(server.counts.values())
    assert engine().install(solved, str(store), str(prefix)) == {"packages": len(solved)}
    assert sum(server.counts.values()) == before
    return prefix


def test_the_prefix_is_an_ordinary_one_and_its_python_starts(prefix, server, solved):
    done = subprocess.run(
        [str(prefix / "bin" / "python"), "-I", "-c", PROOF], stdout=subprocess.PIPE, env={}, check=True, timeout=30
    )
    assert json.loads(done.stdout) == [str(prefix), str(prefix / "bin" / "python"), "1.2", "2.1"]
    said = subprocess.check_output([str(prefix / "bin" / "libletters")], text=True)
    assert said == "libletters 1.4 {}\n".format(prefix)
    assert subprocess.check_output([str(prefix / "bin" / "conda")], text=True) == "conda 24.9.2 in {}\n".format(prefix)
    assert (prefix / "conda-meta" / "history").is_file()
    for record in solved:
        name = "{name}-{version}-{build}.json".format(**record)
        meta = json.loads((prefix / "conda-meta" / name).read_text())
        assert (meta["url"], meta["channel"], meta["sha256"]) == (record["url"], server.url, record["sha256"])
    assert not (prefix / "linked").exists(), "a package's script ran without being asked for"
    assert not (prefix / ".muster" / "unpacked").exists()


def test_a_second_prefix_at_the_same_path_is_the_same_and_shares_no_file(engine, prefix, solved, tmp_path):
    """As on another node; and a file that somebody changes in one version is not changed in the other."""
    first = tmp_path / "first"
    prefix.rename(first)
    engine().install(solved, str(tmp_path / "the store"), str(prefix), link_scripts=True)
    assert (prefix / "linked").exists()
    site = "lib/python{}.{}/site-packages/words.py".format(*sys.version_info)
    assert not os.path.samefile(prefix / site, first / site) and os.stat(prefix / site).st_nlink == 1
    metas = [{path.name: path.read_text() for path in (folder / "conda-meta").glob("*.json")} for folder in (first, prefix)]
    assert metas[0] == metas[1]


ACTIVATE = """
import sys
sys.path.insert(0, sys.argv[1])
from rattler.shell import ActivationVariables, Shell, activate
from rattler.platform import Platform
from pathlib import Path
print(activate(Path(sys.argv[2]), ActivationVariables(None, ["/usr/bin", "/bin"]), Shell.bash, Platform("linux-64")).script)
"""


def test_activation_finds_python_and_the_packages_variables(prefix, python_tools):
    script = subprocess.check_output(
        [sys.executable, "-c", ACTIVATE, str(python_tools / "site"), str(prefix)], text=True, timeout=30
    )
    shown = 'command -v python; echo "$CONDA_PREFIX $MUSTER_ACTIVATED $MUSTER_VARIABLE"'
    done = subprocess.run(["bash", "--norc", "-c", script + "\n" + shown], stdout=subprocess.PIPE, env={}, check=True, timeout=30)
    assert done.stdout.decode().splitlines() == [str(prefix / "bin" / "python"), "{} 1.0 set".format(prefix)]


def test_an_archive_that_is_missing_is_told(engine, solved, tmp_path):
    fault, _ = refusal(engine().install, solved, str(tmp_path / "store"), str(tmp_path / "p"))
    assert "expected what was fetched in the package store; run site.yml again" in fault.sentence


def test_a_folder_is_installed_from_where_it_lies(engine, conda_channel, tmp_path):
    _, answer = solve(engine(), [str(conda_channel)], "olden", "activated")
    engine().install(answer["conda"], str(tmp_path / "store"), str(tmp_path / "p"))
    assert subprocess.check_output([str(tmp_path / "p" / "bin" / "olden")], text=True) == "olden 0.1 {}\n".format(tmp_path / "p")


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 8 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if (
        os.geteuid()
        or not mount
        or subprocess.run([mount, "-t", "tmpfs", "-o", "size=8m", "none", str(disk)], check=False).returncode
    ):
        pytest.skip("no disk can be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_told(engine, solved, small_disk, tmp_path):
    fault, _ = refusal(engine().fetch, solved, str(small_disk / "store"))
    assert fault.sentence == "the disk that holds {}/store is full, expected room for the packages; free some space".format(
        small_disk
    )
    assert not [name for name in files(small_disk) if ".partial" in name]
    engine().fetch(solved, str(tmp_path / "store"))
    fault, _ = refusal(engine().install, solved, str(tmp_path / "store"), str(small_disk / "p"))
    assert fault.sentence == "the disk that holds {}/p is full, expected room for the packages; free some space".format(
        small_disk
    )


def test_no_permission_is_told(solved, repo, python_tools, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    arguments = [str(repo / "collections"), str(python_tools), str(closed / "store"), json.dumps(solved)]
    front = ["setpriv", "--bounding-set", "-dac_override"] if os.geteuid() == 0 else []  # root as any other user
    done = subprocess.run([*front, sys.executable, "-c", FETCH, *arguments], stderr=subprocess.PIPE, timeout=60, check=False)
    assert b"this user may not write in" in done.stderr, done.stderr
