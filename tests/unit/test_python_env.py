"""What the module python_env decides, as tables: settings, command lines, plans, differences, sentences."""

from __future__ import annotations

import configparser
import errno
import fcntl
import json
import multiprocessing
import os
import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils import python_env

REPO = Path(__file__).resolve().parents[2]
NOTHING = {"index_url": None, "extra_index_urls": [], "find_links": [], "ca_bundle": None, "cache_dir": None}


def everything(_path: str) -> bool:
    """Every path exists."""
    return True


# ---------------------------------------------------------------------------------------------- names and requirements


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("typing_extensions-4.16.0.dist-info", ("typing-extensions", "4.16.0")),
        ("torch-2.13.0+cpu.dist-info", ("torch", "2.13.0+cpu")),
        ("Zope.Interface-1.0_local.dist-info", ("zope-interface", "1.0-local")),
        ("numpy.libs", None),
        ("broken.dist-info", None),
    ],
)
def test_dist_info(entry: str, expected: tuple[str, str] | None) -> None:
    assert python_env.dist_info(entry) == expected


def test_fingerprint_depends_on_names_and_versions_only() -> None:
    one = python_env.fingerprint({"b": "2", "a": "1"})
    assert one == python_env.fingerprint({"a": "1", "b": "2"})
    assert one != python_env.fingerprint({"a": "1", "b": "3"})
    assert re.fullmatch("[0-9a-f]{64}", one)


def test_requirement_lines_drop_comments_and_join_continuations() -> None:
    text = (
        "# top\n\ntorch==2.13.0  # build by hardware\nsix==1 \\\n  --hash=sha256:ab\na @ https://h/a.whl#sha256=cd\r\n"
    )
    assert python_env.requirement_lines(text) == [
        "torch==2.13.0",
        "six==1 --hash=sha256:ab",
        "a @ https://h/a.whl#sha256=cd",
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-r more.txt", ["more.txt"]),
        ("-rmore.txt", ["more.txt"]),
        ("--requirement=more.txt", ["more.txt"]),
        ("-c limits.txt", ["limits.txt"]),
        ("--constraint limits.txt", ["limits.txt"]),
        ("--require-hashes", []),
        ("requests==2", []),
    ],
)
def test_included_files(line: str, expected: list[str]) -> None:
    assert python_env.included_files([line]) == expected


def test_wanted_key_changes_with_each_of_its_parts() -> None:
    keys = {
        python_env.wanted_key(*parts)
        for parts in ([["a"], [], []], [["b"], [], []], [["a"], ["c"], []], [["a"], [], ["c"]])
    }
    assert len(keys) == 4


def test_shipped_requirements_are_pinned_exactly_and_once_per_python() -> None:
    lines = python_env.requirement_lines((REPO / "files/requirements.txt").read_text())
    assert all(re.match(r"[a-z]+==[0-9.]+(;|$)", line) for line in lines)
    assert "torch==2.13.0" in lines
    assert 'numpy==2.4.3; python_version >= "3.11"' in lines


# ---------------------------------------------------------------------------------------------- pip's settings


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
    assert python_env.pip_options(texts, environ) == expected


def test_pip_options_refuses_what_is_no_configuration() -> None:
    with pytest.raises(configparser.Error):
        python_env.pip_options(["index-url = a\n"], {})


def test_pip_config_files_in_order(tmp_path: Path) -> None:
    files = python_env.pip_config_files({}, "/home/u", "/venv")
    assert files == [
        "/etc/xdg/pip/pip.conf",
        "/etc/pip.conf",
        "/home/u/.pip/pip.conf",
        "/home/u/.config/pip/pip.conf",
        "/venv/pip.conf",
    ]
    assert python_env.pip_config_files({"PIP_CONFIG_FILE": os.devnull}, "/home/u", "/venv") == []
    own = tmp_path / "own.conf"
    own.write_text("")
    # A file that is named replaces the user's own, and is the strongest.
    environ = {"PIP_CONFIG_FILE": str(own), "XDG_CONFIG_DIRS": "/a:/b"}
    expected = ["/a/pip/pip.conf", "/b/pip/pip.conf", "/etc/pip.conf", "/venv/pip.conf", str(own)]
    assert python_env.pip_config_files(environ, "/home/u", "/venv") == expected
    moved = python_env.pip_config_files({"XDG_CONFIG_HOME": "/cfg"}, "/home/u", "/venv")
    assert "/cfg/pip/pip.conf" in moved


# ---------------------------------------------------------------------------------------------- uv's settings


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
    settings = python_env.uv_settings({**NOTHING, **options}, pip, environ, everything)
    assert settings.environment == expected


def test_uv_settings_pass_over_local_places_that_do_not_exist() -> None:
    pip = {
        "find-links": "/there /gone",
        "extra-index-url": "file:///gone/simple https://a file:///there/simple",
        "constraint": "/there/c.txt /gone/c.txt",
    }
    settings = python_env.uv_settings(NOTHING, pip, {}, lambda path: path.startswith("/there"))
    assert settings.environment["UV_FIND_LINKS"] == "/there"
    assert settings.environment["UV_INDEX"] == "https://a file:///there/simple"
    assert settings.constraints == ["/there/c.txt"]
    assert settings.ignored == ["file:///gone/simple", "/gone", "/gone/c.txt"]
    gone = python_env.uv_settings(NOTHING, {"extra-index-url": "file:///gone"}, {}, lambda path: False)
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
    assert python_env.uv_settings({**NOTHING, **options}, pip, {}, everything).no_index is expected


def test_uv_environ_is_clean_and_never_downloads_a_python() -> None:
    settings = python_env.uv_settings(
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
    result = python_env.uv_environ(environ, settings, "/work/tmp")
    assert result["UV_PYTHON_DOWNLOADS"] == "never"
    assert result["TMPDIR"] == "/work/tmp"
    assert result["UV_DEFAULT_INDEX"] == "https://o"
    assert result["UV_OFFLINE"] == "1" and result["PATH"] == "/bin"
    assert not {"VIRTUAL_ENV", "PYTHONPATH", "UV_INDEX_URL", "UV_TORCH_BACKEND", "UV_SYSTEM_PYTHON"} & set(result)


# ---------------------------------------------------------------------------------------------- command lines


def test_venv_argv() -> None:
    assert python_env.venv_argv("/t/uv", "/usr/bin/python3", "/p.new-1/env") == [
        "/t/uv",
        "venv",
        "--quiet",
        "--no-project",
        "--relocatable",
        "--python",
        "/usr/bin/python3",
        "/p.new-1/env",
    ]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, []),
        ({"backend": "cpu"}, ["--torch-backend", "cpu"]),
        ({"constraints": ["/c", "/p"]}, ["--constraints", "/c", "--constraints", "/p"]),
        (
            {"backend": "cpu", "dry_run": True, "target": "/t"},
            ["--target", "/t", "--torch-backend", "cpu", "--dry-run"],
        ),
        ({"exact": True, "dry_run": True}, ["--exact", "--dry-run"]),
        ({"no_index": True}, ["--no-index"]),
    ],
)
def test_pip_argv(how: dict, expected: list[str]) -> None:
    head = ["uv", "pip", "install", "--python", "/e/bin/python", "--requirements", "/r.txt"]
    assert python_env.pip_argv("uv", "/e/bin/python", "/r.txt", **how) == head + expected


@pytest.mark.parametrize(
    ("requested", "gpu", "local", "own_index", "expected"),
    [
        # No GPU: the CPU index, never PyPI's CUDA wheels; local wheels and an index of one's own come first.
        ("auto", False, [], False, ["cpu"]),
        ("auto", False, ["2.13.0+cpu"], False, [None, "cpu"]),
        ("auto", False, [], True, [None, "cpu"]),
        # A GPU: uv chooses by the driver.
        ("auto", True, [], False, ["auto"]),
        ("auto", True, ["2.13.0+cu126"], False, [None, "auto"]),
        # A backend by name needs its index only where no local wheel is of that kind.
        ("cpu", True, [], True, ["cpu"]),
        ("cpu", False, ["2.13.0+cpu"], False, [None, "cpu"]),
        ("cu126", True, ["2.13.0+cpu"], False, ["cu126"]),
        ("cu126", False, ["2.13.0+cu126"], False, [None, "cu126"]),
        ("none", False, [], False, [None]),
    ],
)
def test_backends(requested: str, gpu: bool, local: list[str], own_index: bool, expected: list[str | None]) -> None:
    assert python_env.backends(requested, gpu, local, own_index) == expected


def a_plan(**packages: str) -> python_env.Plan:
    """A plan that adds packages; underscores in the names become dashes."""
    return python_env.Plan({name.replace("_", "-"): version for name, version in packages.items()}, {}, {}, False)


CPU, CUDA = a_plan(torch="2.13.0+cpu"), a_plan(torch="2.13.0", nvidia_nccl_cu13="2.29.7")
CUDA126 = a_plan(torch="2.13.0+cu126", nvidia_nccl_cu12="2.29.7")
PLAIN = a_plan(numpy="2.4.3")


@pytest.mark.parametrize(
    ("requested", "gpu", "local", "backend", "plan", "expected"),
    [
        ("auto", False, [], "cpu", CPU, "ok"),
        ("auto", False, ["2.13.0+cpu"], None, CPU, "ok"),
        ("auto", False, ["2.9.0+cpu"], None, CUDA, "next"),
        ("auto", False, [], "cpu", CUDA, "cuda"),
        ("auto", False, [], "cpu", PLAIN, "ok"),
        ("auto", False, [], "cpu", a_plan(nvidia_ml_py="13.0"), "ok"),
        ("auto", True, ["2.13.0+cpu"], None, CPU, "next"),
        ("auto", True, [], "auto", CPU, "cpu"),
        ("auto", True, [], "auto", CUDA126, "ok"),
        ("auto", True, ["2.13.0+cu126"], None, CUDA126, "ok"),
        ("auto", True, [], None, CUDA, "next"),
        ("auto", True, [], None, PLAIN, "ok"),
        ("cpu", True, ["2.13.0+cpu"], None, CPU, "ok"),
        ("cpu", True, ["2.13.0+cpu"], None, CUDA126, "next"),
        ("cpu", False, [], "cpu", a_plan(torch="2.13.0+cpu", nvidia_nccl_cu12="2.29.7"), "cuda"),
        ("cu126", False, [], "cu126", CUDA126, "ok"),
        ("cu126", False, ["2.13.0+cu126"], None, CUDA, "next"),
        ("none", False, [], None, CUDA, "ok"),
    ],
)
def test_verdict(
    requested: str, gpu: bool, local: list[str], backend: str | None, plan: python_env.Plan, expected: str
) -> None:
    assert python_env.verdict(requested, gpu, local, backend, plan) == expected


@pytest.mark.parametrize(("plan", "expected"), [(CPU, 2500), (CUDA, 10000), (PLAIN, 200)])
def test_needed_mb(plan: python_env.Plan, expected: int) -> None:
    assert python_env.needed_mb(plan, 2500) == expected
    assert python_env.needed_mb(plan, 0) == 0


def test_local_torch() -> None:
    names = [
        "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
        "torch-2.13.0%2Bcu126-cp312-cp312-linux_x86_64.whl",
        "torchvision-0.29.0-cp311-cp311-linux_x86_64.whl",
        "torch-2.12.0.tar.gz",
    ]
    assert python_env.local_torch(names) == ["2.13.0+cpu", "2.13.0+cu126"]


@pytest.mark.parametrize("where", ["proc/driver/nvidia/gpus/0000:01:00.0", "dev/nvidia0"])
def test_has_nvidia_gpu(tmp_path: Path, where: str) -> None:
    assert not python_env.has_nvidia_gpu(ask=False, root=str(tmp_path))
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").write_text("")
    assert not python_env.has_nvidia_gpu(ask=False, root=str(tmp_path))
    (tmp_path / where).mkdir(parents=True)
    assert python_env.has_nvidia_gpu(ask=False, root=str(tmp_path))


# ---------------------------------------------------------------------------------------------- which torch


class Scripted(python_env.Environment):
    """An environment whose uv is a table: it answers each dry run by its --torch-backend.

    Args:
        answers: --torch-backend (None: without) to uv's output; one that begins with "error" fails.
        backend: the option torch_backend.
        index: pip's index-url, if any.
        links: a folder of wheels, if any.
    """

    def __init__(self, answers: dict, backend: str, index: str = "", links: str = "") -> None:
        params = {**NOTHING, "prefix": "/p/e", "torch_backend": backend, "requirements_content": "torch", "python": ""}
        super().__init__(params, {})
        pip = {"index-url": index, "find-links": links}
        self.settings = python_env.uv_settings(params, pip, {}, everything)
        self.answers, self.asked = answers, []
        self.uv, self.base, self.requirements, self.stamp = "uv", "/usr/bin/python3", "/r.txt", None
        self.found = python_env.Found("", "", {}, [], [], [])

    def _run(self, argv: list[str]) -> tuple[int, str]:
        backend = argv[argv.index("--torch-backend") + 1] if "--torch-backend" in argv else None
        assert argv[:3] == ["uv", "pip", "install"] and "--dry-run" in argv
        self.asked.append(backend)
        output = self.answers[backend]
        return (2 if output.startswith("error") else 0), output


CPU_OUT = " + torch==2.13.0+cpu\n"
CUDA_OUT = " + nvidia-nccl-cu13==2.29.7\n + torch==2.13.0\n"
CUDA126_OUT = " + nvidia-nccl-cu12==2.29.7\n + torch==2.13.0+cu126\n"
NO_ROUTE = "error: Failed to fetch: https://h/whl/torch/\n  cause: dns error\n"
NO_TORCH = "error: No solution found\n  cause: Because there is no version of torch==2.13.0 and you require torch.\n"
WHEEL = "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl"


@pytest.mark.parametrize(
    ("gpu", "backend", "index", "wheel", "answers", "asked", "expected"),
    [
        # Nothing local: the CPU index at once.
        (False, "auto", "", "", {"cpu": CPU_OUT}, ["cpu"], "cpu"),
        # A local wheel: PyTorch's index is not asked.
        (False, "auto", "", WHEEL, {None: CPU_OUT}, [None], None),
        # A local wheel that does not do, so that PyPI's CUDA build would come: the CPU index.
        (False, "auto", "", WHEEL, {None: CUDA_OUT, "cpu": CPU_OUT}, [None, "cpu"], "cpu"),
        (False, "auto", "", WHEEL, {None: NO_TORCH, "cpu": CPU_OUT}, [None, "cpu"], "cpu"),
        (False, "auto", "", WHEEL, {None: NO_TORCH, "cpu": NO_ROUTE}, [None, "cpu"], "own index cannot be reached"),
        (False, "auto", "", "", {"cpu": NO_ROUTE}, ["cpu"], "find-links does without PyTorch's index"),
        (False, "auto", "https://i", "", {None: NO_ROUTE}, [None], "cannot be reached"),
        (False, "auto", "", "", {"cpu": CUDA_OUT}, ["cpu"], "this host has no NVIDIA GPU, but"),
        (False, "none", "", "", {None: CUDA_OUT}, [None], None),
        # A GPU: by its driver; a CPU wheel that lies about is not taken silently.
        (True, "auto", "", "", {"auto": CUDA126_OUT}, ["auto"], "auto"),
        (True, "auto", "", WHEEL, {None: CPU_OUT, "auto": CUDA126_OUT}, [None, "auto"], "auto"),
        (True, "auto", "", WHEEL, {None: CPU_OUT, "auto": NO_ROUTE}, [None, "auto"], "torch 2.13.0+cpu is a CPU build"),
        (True, "auto", "https://i", "", {None: CUDA_OUT, "auto": NO_ROUTE}, [None, "auto"], None),
        (True, "cpu", "", WHEEL, {None: CPU_OUT}, [None], None),
        (True, "cu126", "", WHEEL, {"cu126": CUDA126_OUT}, ["cu126"], "cu126"),
    ],
)
def test_torch_is_chosen_step_by_step(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gpu: bool,
    backend: str,
    index: str,
    wheel: str,
    answers: dict,
    asked: list,
    expected: str | None,
) -> None:
    monkeypatch.setattr(python_env, "has_nvidia_gpu", lambda ask=True: gpu)
    if wheel:
        (tmp_path / wheel).write_text("")
    environment = Scripted(answers, backend, index, str(tmp_path) if wheel else "")
    if expected in answers:
        plan, chosen = environment._resolve("/p/e.new-1", [], False)
        assert chosen == expected and "torch" in plan.added
    else:
        with pytest.raises(python_env.Fault) as caught:
            environment._resolve("/p/e.new-1", [], False)
        assert str(expected) in caught.value.sentence
    assert environment.asked == asked


def test_a_gpu_that_has_gone_stops_a_rebuild(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_env, "has_nvidia_gpu", lambda ask=True: False)
    environment = Scripted({}, "auto")
    environment.stamp = {"gpu": True, "packages": {"torch": "2.13.0+cu126"}}
    with pytest.raises(python_env.Fault, match="shows none now: repair its driver"):
        environment._resolve("/p/e.new-1", [], False)


# ---------------------------------------------------------------------------------------------- what uv prints

DRY_RUN = """Using Python 3.11.7 environment at: /e
Resolved 3 packages in 139ms
Would download 2 packages
Would uninstall 2 packages
Would install 3 packages
 - numpy==2.4.3
 + numpy==2.2.6
 - torch==2.13.0+cpu
 ~ six==1.17.0
 + Typing_Extensions==4.16.0 (from https://h/t.whl)
"""


def test_parse_plan() -> None:
    plan = python_env.parse_plan(DRY_RUN)
    assert plan.added == {"numpy": "2.2.6", "six": "1.17.0", "typing-extensions": "4.16.0"}
    assert plan.removed == {"numpy": "2.4.3", "torch": "2.13.0+cpu"}
    assert plan.urls == {"typing-extensions": "https://h/t.whl"}
    assert plan.downloads
    after = plan.result({"numpy": "2.4.3", "torch": "2.13.0+cpu", "sympy": "1.14"})
    assert after == {"numpy": "2.2.6", "six": "1.17.0", "typing-extensions": "4.16.0", "sympy": "1.14"}
    assert python_env.parse_plan("Resolved 3 packages\nWould make no changes\n") == python_env.Plan({}, {}, {}, False)


def test_changes() -> None:
    assert python_env.changes({"a": "1", "b": "1"}, {"b": "2", "c": "1"}) == (["b==2", "c==1"], ["a==1", "b==1"])


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
    fault = python_env.explain(output, "/t/uv")
    assert fault.kind == kind
    assert "\n" not in fault.sentence and "secret" not in fault.sentence + fault.details
    for part in parts:
        assert part in fault.sentence


# ---------------------------------------------------------------------------------------------- drift

STAMP = {
    "wanted": "key",
    "python": "",
    "requested_backend": "auto",
    "gpu": False,
    "python_version": "3.11.7",
    "packages": {"numpy": "2.4.3", "torch": "2.13.0+cpu"},
    "entries": ["numpy", "numpy-2.4.3.dist-info", "torch", "torch-2.13.0+cpu.dist-info"],
}


def found(**other: object) -> python_env.Found:
    """What a whole prefix holds, with differences."""
    whole = python_env.Found("3.11.7", "/s", dict(STAMP["packages"]), [], [], [*STAMP["entries"], "extra.pth"])
    return whole._replace(**other)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (found(), []),
        (found(python_version="3.11.9"), []),
        (found(python_version=""), ["its Python does not start"]),
        (found(python_version="3.12.1"), ["its Python is 3.12.1 instead of 3.11.7"]),
        (found(packages={"torch": "2.13.0+cpu"}), ["numpy 2.4.3 is gone"]),
        (found(packages={"torch": "2.13.0+cpu", "numpy": "2.3.0"}), ["numpy is 2.3.0 instead of 2.4.3"]),
        (found(packages={**STAMP["packages"], "six": "1"}), ["six 1 was added"]),
        (found(twice=["numpy"]), ["numpy is there twice"]),
        (found(broken=["numpy"]), ["numpy has lost its metadata"]),
        (found(entries=STAMP["entries"][1:]), ["numpy is gone from site-packages"]),
    ],
)
def test_drift(there: python_env.Found, expected: list[str]) -> None:
    assert python_env.drift(STAMP, there) == expected


@pytest.mark.parametrize(
    ("stamp", "key", "python", "backend", "gpu", "expected"),
    [
        (STAMP, "key", "", "auto", False, ([], [], [])),
        (STAMP, "new", "", "auto", False, (["the requirements have changed"], [], [])),
        (STAMP, "key", "3.12", "auto", False, ([], ["the choice of Python has changed"], [])),
        (STAMP, "key", "", "cpu", False, ([], ["torch_backend is cpu instead of auto"], [])),
        (STAMP, "key", "", "auto", True, ([], ["an NVIDIA GPU has appeared"], [])),
        # A GPU that has gone is no reason.
        ({**STAMP, "gpu": True}, "key", "", "auto", False, ([], [], [])),
        ({**STAMP, "requested_backend": "cpu"}, "key", "", "cpu", True, ([], [], [])),
        (None, "key", "", "auto", False, ([], ["its stamp is lost"], [])),
    ],
)
def test_reasons_to_act(stamp: dict | None, key: str, python: str, backend: str, gpu: bool, expected: tuple) -> None:
    assert python_env.reasons_to_act(stamp, found(), key, python, backend, gpu) == expected


# ---------------------------------------------------------------------------------------------- files and locks


def test_is_ours(tmp_path: Path) -> None:
    assert not python_env.is_ours(str(tmp_path))
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert not python_env.is_ours(str(tmp_path))
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n%s\n" % python_env.MARK)
    assert python_env.is_ours(str(tmp_path))


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"format": 99})])
def test_read_stamp_takes_only_its_own(tmp_path: Path, text: str) -> None:
    (tmp_path / python_env.STAMP).write_text(text)
    assert python_env.read_stamp(str(tmp_path)) is None


@pytest.mark.parametrize("swaps", [True, False])
def test_put_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swaps: bool) -> None:
    if not swaps:
        monkeypatch.setattr(python_env, "exchange", lambda new, old: False)
    new, prefix, aside = (tmp_path / name for name in ("new", "prefix", "aside"))
    for folder, text in ((new, "new"), (prefix, "old")):
        folder.mkdir()
        (folder / "text").write_text(text)
    python_env.put_in_place(str(new), str(prefix), str(aside))
    assert (prefix / "text").read_text() == "new"
    assert ((new if swaps else aside) / "text").read_text() == "old"


def test_recover_puts_back_what_a_killed_run_had_moved_aside(tmp_path: Path) -> None:
    prefix, space = tmp_path / "env", tmp_path / "env.new-77"
    (space / "old").mkdir(parents=True)
    (space / "old/pyvenv.cfg").write_text(python_env.MARK + "\n")
    other = tmp_path / "env.new-notes"
    other.mkdir()
    python_env.recover(str(prefix))
    assert (prefix / "pyvenv.cfg").exists()
    assert not space.exists() and other.exists()


def hold(path: str, ready: multiprocessing.synchronize.Event, done: multiprocessing.synchronize.Event) -> None:
    """In another process: hold the lock until told otherwise."""
    with python_env.lock(path, 5):
        ready.set()
        done.wait(20)


def test_lock_names_its_holder_and_leaves_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "env.lock")
    context = multiprocessing.get_context("fork")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=hold, args=(path, ready, done))
    other.start()
    try:
        assert ready.wait(10)
        with pytest.raises(python_env.Locked, match=r"^process %d on " % other.pid), python_env.lock(path, 0.2):
            pass
    finally:
        done.set()
        other.join(10)
    with python_env.lock(path, 5):
        handle = os.open(path, os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(handle)
    assert os.listdir(tmp_path) == []


def test_existing_and_free_mb(tmp_path: Path) -> None:
    assert python_env.existing(str(tmp_path / "a/b")) == str(tmp_path)
    assert python_env.free_mb(str(tmp_path / "a")) >= 0


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
    environment = Scripted({}, "auto")
    environment.prefix = "/proc/x/e"
    assert part in environment._no_write(OSError(number, os.strerror(number), "/f")).sentence


# ---------------------------------------------------------------------------------------------- contracts


def test_module_documents_exactly_the_options_it_takes() -> None:
    from ansible_collections.muster.cluster.plugins.modules import python_env as module

    documented = yaml.safe_load(module.DOCUMENTATION)["options"]
    assert set(documented) == set(module.ARGUMENTS)
    for name, spec in module.ARGUMENTS.items():
        for key in ("type", "default", "choices", "elements", "required"):
            assert documented[name].get(key) == spec.get(key), (name, key)
    assert isinstance(yaml.safe_load(module.EXAMPLES), list)
    assert isinstance(yaml.safe_load(module.RETURN), dict)


def test_role_and_module_agree_on_defaults() -> None:
    from ansible_collections.muster.cluster.plugins.modules import python_env as module

    defaults = yaml.safe_load((REPO / "roles/python_env/defaults/main.yml").read_text())
    for name, value in defaults.items():
        spec = module.ARGUMENTS.get(name[len("python_env_") :])
        if spec and "default" in spec and value != "":
            assert value == spec["default"], name
