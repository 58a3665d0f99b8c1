"""Files that name an environment: what they mean, and what is said of those that do not."""

import json

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.python_env.complaints import Fault
from ansible_collections.muster.cluster.plugins.plugin_utils import environments


@pytest.fixture
def read(tmp_path, monkeypatch):
    """``read(text, name="environment.yml", **others)``: the specification in a file, with other files beside it."""
    monkeypatch.chdir(tmp_path)

    def do(text, name="environment.yml", python="", **others):
        for other, content in others.items():
            path = tmp_path / other.replace("__", "/").replace("_txt", ".txt")
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return environments.read(name, python)

    return do


@pytest.fixture
def complaint(read):
    """The sentence that ends the reading of a file."""

    def do(*args, **others):
        with pytest.raises(Fault) as caught:
            read(*args, **others)
        assert "\n" not in caught.value.sentence
        return caught.value.sentence

    return do


WHOLE = """\
# What we train with.
name: exp7
channels:
  - conda-forge
  - https://mirror.example/team/
  - nodefaults
dependencies:
  - python=3.11  # not 3.12 yet
  - pip
  - numpy>=1.26,<2
  - conda-forge::scipy
  - other::thing=1.2
  - pywin32  # [win]
  - colorama  # [not linux and not osx]
  - uvloop  # [linux or osx]
  - nothing  # [1] is a footnote
  - pip:
      - torch==2.13.0
      - -r more.txt
      - --extra-index-url https://wheels.example/simple
      - --find-links ./wheels
variables:
  OMP_NUM_THREADS: 4
  FLAG: yes
prefix: /home/alice/envs/exp7
"""


def test_a_whole_environment(read, tmp_path):
    found = read(WHOLE, more_txt="-r deep/er.txt\n-c pins.txt\nTqdm\n", deep__er_txt="rich # nice\n-r last.txt\n",
                 deep__last_txt="attrs", pins_txt="idna<4\n")  # fmt: skip
    assert found == {
        "kind": "environment",
        "name": "exp7",
        "channels": ["conda-forge", "https://mirror.example/team", "other"],
        "conda": ["python 3.11.*", "pip", "numpy >=1.26,<2", "conda-forge::scipy", "other::thing 1.2.*", "uvloop", "nothing"],
        "pip": ["torch==2.13.0", "rich", "attrs", "tqdm"],
        "constraints": ["idna<4"],
        "pip_options": ["--extra-index-url https://wheels.example/simple", "--find-links " + str(tmp_path / "wheels")],
        "lock": None,
        "variables": {"OMP_NUM_THREADS": "4", "FLAG": "yes"},
        "notes": ["environment.yml names packages for other systems, which are left out: pywin32, colorama"],
    }
    json.dumps(found)


EXPORTED = """\
name: base
channels:
  - conda-forge
dependencies:
  - _libgcc_mutex=0.1=conda_forge
  - ca-certificates=2024.2.2=hbcca054_0
  - python=3.11.7=hab00c5b_0_cpython
  - pip:
    - torch==2.13.0+cpu
prefix: /opt/conda
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (EXPORTED, {"conda": ["_libgcc_mutex ==0.1 conda_forge", "ca-certificates ==2024.2.2 hbcca054_0",
                              "python ==3.11.7 hab00c5b_0_cpython"], "pip": ["torch==2.13.0+cpu"], "notes": []}),
        ("name: x\ndependencies:\n  - python=3.10\n  - numpy\n", {"conda": ["python 3.10.*", "numpy"]}),
        ("dependencies: [numpy]", {"name": None, "conda": ["numpy", "python"], "channels": ["conda-forge"], "notes": []}),
        ("channels:\ndependencies: [python]", {"channels": ["conda-forge"]}),
        ("channels: [nodefaults]\ndependencies: [python]", {"channels": ["conda-forge"]}),
        ("channels: [bioconda, conda-forge]\ndependencies: [python]", {"channels": ["bioconda", "conda-forge"]}),
        ("channels: [/srv/ch, file:///srv/b]\ndependencies: [python]", {"channels": ["/srv/ch", "file:///srv/b"]}),
        ("dependencies:\n  - pip:\n      - torch\n  - pip\n", {"conda": ["pip", "python"], "pip": ["torch"]}),
        ("dependencies:\n  - python\n  - pip:\n", {"conda": ["python"], "pip": []}),
        ("dependencies:\n- python\n- python\n- pip:\n  - a\n  - a\n- pip:\n  - b\n", {"conda": ["python"], "pip": ["a", "b"]}),
        ("dependencies:\n- python\n- pip:\n  - 'a # why'\n  - |\n    b\n    c>1\n", {"pip": ["a", "b", "c>1"]}),
        ("dependencies:\n- python>=3.9\n- python<3.13\n", {"conda": ["python >=3.9", "python <3.13"]}),
        ("dependencies:\n- python\n- sel(win): pywin32\n- sel(linux): uvloop\n", {"conda": ["python", "uvloop"]}),
        ("name: 2024\ndependencies: ['python=3.10']\nplatforms: [linux-64, osx-64]", {"name": "2024"}),
        (b"\xef\xbb\xbfdependencies:\r\n  - python\r\n", {"conda": ["python"]}),
        ("dependencies: [python]".encode("utf-16"), {"conda": ["python"]}),
        ("dependencies:\n- python\n- pip:\n  - ./w/x-1.0-py3-none-any.whl\n", {}),
    ],
)  # fmt: skip
def test_what_environments_mean(read, text, expected):
    found = read(text)
    assert {key: found[key] for key in expected} == expected and found["kind"] == "environment"


@pytest.mark.parametrize(
    ("python", "expected"),
    [("", "python"), ("3.12", "python 3.12.*"), ("3.12.1", "python 3.12.1.*"), ("/usr/bin/python3", "python")],
)
def test_the_python_of_a_file_that_names_none(read, python, expected):
    assert read("dependencies: [numpy]", python=python)["conda"] == ["numpy", expected]
    assert read("dependencies: [python=3.9]", python=python)["conda"] == ["python 3.9.*"]


@pytest.mark.parametrize("channel", ["defaults", "anaconda", "pkgs/main", "https://mirror.example/pkgs/main/"])
def test_anacondas_channel_is_taken_only_with_a_word_about_its_licence(read, channel):
    found = read("channels: [{}]\ndependencies: [python]".format(channel))
    assert found["channels"] == [channel.rstrip("/")]
    assert found["notes"] == [
        "environment.yml names Anaconda's channel {}, whose terms ask for a paid licence in organisations of more than 200 "
        "people; write conda-forge instead if that is yours".format(channel.rstrip("/"))
    ]


def test_an_old_guide_is_read_as_it_stands(read):
    found = read("channels: [pytorch, nvidia]\ndependencies: [python=3.10, pytorch, pytorch-cuda=11.8, 'pytorch::torchvision']")
    assert found["channels"] == ["pytorch", "nvidia"] and found["notes"] == []
    assert found["conda"] == ["python 3.10.*", "pytorch", "pytorch-cuda 11.8.*", "pytorch::torchvision"]


def test_torch_twice_is_told(read):
    found = read("dependencies:\n- python\n- pytorch\n- pip:\n  - torch==2.13.0\n")
    assert found["notes"] == [
        "environment.yml asks for pytorch from a channel and for torch as a wheel, which are the same; keep one of them"
    ]
    assert read("dependencies:\n- python\n- pytorch\n- pip:\n  - torch-geometric\n")["notes"] == []


ENV = "expected an environment with the keys channels and dependencies; "
NAME_ONE = ENV + "name an environment.yml in python_env_spec"
PACKAGE = "expected a package such as numpy>=1.26,<2; "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "environment.yml: found an empty file, expected an environment with a list of dependencies; write one"),
        ("# nothing\n", "environment.yml: found an empty file, expected an environment with a list of dependencies; write one"),
        ("hello", "environment.yml, line 1: found a text, " + NAME_ONE),
        ("- python\n- numpy\n", "environment.yml, line 1: found a list, " + ENV + "put it below the key dependencies:"),
        ("- a: 1\n", "environment.yml, line 1: found a list of mappings, " + NAME_ONE),
        ("- hosts: all\n  tasks: []\n", "environment.yml, line 1: found an Ansible playbook, " + NAME_ONE),
        ("all:\n  hosts: {}\n", "environment.yml, line 1: found an inventory of Ansible, " + ENV + "name an environment.yml"),
        ("services: {}\n", "environment.yml, line 1: found a file of Docker Compose, " + ENV + "name an environment.yml"),
        ("version: 1\nmetadata: {}\npackage: []\n", "environment.yml, line 1: found a lock of conda-lock, " + ENV
         + "name the environment.yml that it was made from"),
        ("name: x\ndependancies:\n  - a\n", "environment.yml, line 2: found the key dependancies, expected one of name, "
         "channels, dependencies, variables, prefix, platforms; did you mean dependencies?"),
        ("name: x\nfoo: 1\n", "environment.yml, line 2: found the key foo, expected one of name, channels, dependencies, "
         "variables, prefix, platforms; remove it"),
        ("dependencies: [a]\npip: [b]\n", "environment.yml, line 2: found the key pip, expected one of name, channels, "
         "dependencies, variables, prefix, platforms; move it into the list dependencies:, as an entry - pip:"),
        ("dependencies: [a]\ndependencies: [b]\n",
         "environment.yml, line 2: found the key dependencies again, expected it once; put both into one"),
        ("name: x\n", "environment.yml: found no key dependencies, expected a list of packages below it; write one"),
        ("dependencies:\n", "environment.yml, line 1: found nothing below dependencies, expected a list; write it as a list, "
         "one - entry a line"),
        ("dependencies: []\n", "environment.yml: found no package below dependencies, expected one at least, such as "
         "- python=3.11; write it there"),
        ("dependencies: python\n", "environment.yml, line 1: found dependencies that is no list, expected a list; write it as a "
         "list, one - entry a line"),
        ("dependencies:\n  python: 3.11\n", "environment.yml, line 2: found dependencies that is no list, expected a list; "
         "write it as a list, one - entry a line"),
        ("channels: conda-forge\ndependencies: [a]\n", "environment.yml, line 1: found channels that is no list, expected a "
         "list; write it as a list, one - entry a line"),
        ("dependencies:\n  - python: 3.11\n", "environment.yml, line 2: found python: 3.11, expected a package such as "
         "numpy>=1.26; write - python=3.11"),
        ("dependencies:\n  - a:\n", "environment.yml, line 2: found a: , expected a package such as numpy>=1.26; write - a "
         "alone"),
        ("dependencies:\n  - a:\n    - b\n", "environment.yml, line 2: found a list below a, expected at most a list below pip; "
         "correct the indentation"),
        ("dependencies:\n  - a\n  -\n", "environment.yml, line 3: found nothing, expected a package such as numpy>=1.26; write "
         "it as plain text"),
        ("dependencies:\n  - [a]\n", "environment.yml, line 2: found a list, expected a package such as numpy>=1.26; write it as "
         "plain text"),
        ("dependencies:\n  - pip: torch\n", "environment.yml, line 2: found pip that is no list, expected a list; write it as a "
         "list, one - entry a line"),
        ("dependencies:\n\t- a\n", "environment.yml, line 2: found a tab, expected spaces; indent by spaces"),
        ("dependencies:\n  - a\n   - b\n  - c: [\n", "environment.yml, line 5: found what is no YAML (while parsing a flow node "
         "expected the node content, but found '<stream end>'), expected an environment in YAML; correct it"),
        ("a: b: c\n", "environment.yml, line 1: found what is no YAML (mapping values are not allowed here), expected an "
         "environment in YAML; correct it"),
        ("dependencies: [a]\n---\nb: c\n", "environment.yml, line 2: found what is no YAML (expected a single document in the "
         "stream but found another document), expected an environment in YAML; correct it"),
        ("dependencies:\n  - python={{ version }}\n", "environment.yml, line 2: found a template ({{), expected plain YAML; "
         "write what it stands for"),
        ("dependencies:\n  - a\x07\n", "environment.yml, line 2: found the character '\\x07', expected text; remove it"),
        (b"dependencies:\n  - caf\xe9\n", "environment.yml, line 2: found bytes that are no UTF-8 text, expected text; save the "
         "file as UTF-8"),
        ("dependencies:\n  - a\0b\n", "environment.yml, line 2: found bytes that are no UTF-8 text, expected text; save the file "
         "as UTF-8"),
        ("dependencies:\n  - python=3.11\n  - python=3.12\n", "environment.yml, line 3: found python=3.12, after python 3.11.* "
         "in environment.yml, line 2, expected one version; remove one of them"),
        ("dependencies:\n  - numpy=>1\n", "environment.yml, line 2: found 'numpy=>1', " + PACKAGE + "write >= for =>"),
        ("dependencies:\n  - -r x.txt\n", "environment.yml, line 2: found an option of pip's (-r x.txt), " + PACKAGE
         + "move it into the list below - pip:"),
        ("channels: [./ch]\ndependencies: [a]\n", "environment.yml, line 1: found the channel ./ch, expected a name, an address "
         "or an absolute folder of the head; write file:// and the whole path"),
        ("channels:\n  - 'a b'\ndependencies: [a]\n", "environment.yml, line 2: found the channel 'a b', expected a name such as "
         "conda-forge, or an address; correct it"),
        ("variables: [A=1]\ndependencies: [a]\n", "environment.yml, line 1: found variables that are no mapping, expected "
         "NAME: value; write one a line, without a dash"),
        ("variables: {A-B: 1}\ndependencies: [a]\n", "environment.yml, line 1: found the variable 'A-B', expected a name of "
         "letters, digits and _; rename it"),
        ("platforms: [win-64]\ndependencies: [a]\n", "environment.yml, line 1: found the platforms win-64, expected linux-64 "
         "among them; make an environment.yml for Linux: conda env export --from-history"),
        ("dependencies:\n  - pip:\n    - numpy=1.26\n", "environment.yml, line 3: found 'numpy=1.26', expected a requirement "
         "such as numpy>=1.26; write numpy==1.26"),
        ("dependencies:\n  - pip:\n    - -r none.txt\n", "environment.yml, line 3: found none.txt, which is not there, expected "
         "a file; correct the path"),
    ],
)  # fmt: skip
def test_what_is_no_environment(complaint, text, expected):
    assert complaint(text) == expected


def test_a_password_in_a_channel_is_refused(complaint):
    told = complaint("channels: ['https://alice:secret@h/ch']\ndependencies: [a]\n")
    assert told.startswith("environment.yml, line 1: ") and "https://***@h/ch" in told and "secret" not in told
    assert "abc" not in complaint("channels: ['https://h/t/abc/ch']\ndependencies: [a]\n")


# -------------------------------------------------------------------------------------------------------- requirements files


def test_a_whole_requirements_file(read, tmp_path):
    found = read(
        "# ours\n--index-url https://h/simple\n-f 'my wheels'\n--only-binary :all:\n--prefer-binary\n--pre\n"
        "torch==2.13.0 \\\n    --hash=sha256:bb \\\n    --hash=sha256:aa  # two\nNumPy >= 1.26 , <2\n"
        "ray[tune]; python_version<'3.13'\n"
        "-rmore/b.txt\n--constraint=more/c.txt\n./w/own-1.0-py3-none-any.whl\n",
        "requirements.txt", more__b_txt="attrs\n-r c.txt\n", more__c_txt="idna==3.7\n",
    )  # fmt: skip
    assert found == {
        "kind": "requirements", "name": None, "channels": [], "conda": [], "lock": None, "variables": {}, "notes": [],
        "pip": ["torch==2.13.0 --hash=sha256:aa --hash=sha256:bb", "numpy<2,>=1.26", "ray[tune]; python_version < \"3.13\"",
                "attrs", "idna==3.7", "own @ file://" + str(tmp_path / "w" / "own-1.0-py3-none-any.whl")],
        "constraints": ["idna==3.7"],
        "pip_options": ["--index-url https://h/simple", "--find-links " + str(tmp_path / "my wheels"), "--pre"],
    }  # fmt: skip


WHEEL = "build a wheel of it by pip wheel --no-deps, and name its folder in python_env_find_links"
OWN_LINE = "give each option and requirement its own line"
OPTIONS = (
    "--requirement, --constraint, --index-url, --extra-index-url, --find-links, --no-index, --pre, --require-hashes"
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-e .", "-e ., expected a requirement such as numpy>=1.26; " + WHEEL),
        ("--editable=./x", "--editable=./x, expected a requirement such as numpy>=1.26; " + WHEEL),
        ("git+https://h/x@v1", "a repository (git+https://h/x@v1), expected a wheel; " + WHEEL),
        ("x @ git+ssh://h/x", "a repository (x @ git+ssh://h/x), expected a wheel; " + WHEEL),
        (".", "., expected a wheel; " + WHEEL),
        ("../x", "../x, expected a wheel; " + WHEEL),
        ("sub/x", "sub/x, expected a wheel; " + WHEEL),
        ("x-1.tar.gz", "x-1.tar.gz, expected a wheel; " + WHEEL),
        ("https://h/x-1.tar.gz", "https://h/x-1.tar.gz, expected a wheel; " + WHEEL),
        ("x @ https://[/x.zip", "an address of something else than a wheel (x @ https://[/x.zip), expected a wheel; " + WHEEL),
        ("x @ https://h/x.zip", "an address of something else than a wheel (x @ https://h/x.zip), expected a wheel; " + WHEEL),
        ("numpy 1.26", "'numpy 1.26', expected a requirement such as numpy>=1.26; write numpy==1.26"),
        ("numpy=1.2=py_0", "'numpy=1.2=py_0', expected a requirement such as numpy>=1.26; write numpy==1.2"),
        ("numpy=>1", "'numpy=>1', expected a requirement such as numpy>=1.26; write >= for =>"),
        ("numpy>=1.*", "'numpy>=1.*', expected a requirement such as numpy>=1.26; write >=1 for >=1.*"),
        ("pip install x", "'pip install x', expected a requirement such as numpy>=1.26; write the package alone, without pip "
         "install"),
        ("!!", "'!!', expected a requirement such as numpy>=1.26; write it as name==version"),
        ("python==3.11", "python==3.11, expected the name of a wheel; name it in python_env_python, or use an environment.yml "
         "with a line - python=3.11"),
        ("pytorch", "pytorch, expected the name of a wheel; write torch"),
        ("cudatoolkit", "cudatoolkit, expected the name of a wheel; remove it: torch brings CUDA's libraries; "
         "python_env_torch_backend chooses which"),
        ("torch --index-url https://h", "--index-url https://h behind a requirement, expected at most --hash=sha256:...; "
         + OWN_LINE),
        ("--index-url https://h torch", "--index-url https://h torch, expected one address; " + OWN_LINE),
        ("--no-index x", "--no-index x, expected --no-index alone; " + OWN_LINE),
        ("-r", "-r, expected --requirement with a value; " + OWN_LINE),
        ("--no-binary :all:", "--no-binary :all:, expected a requirement such as numpy>=1.26; remove it: only wheels are "
         "installed, so that no node needs a compiler"),
        ("--extra-index https://h", "the option --extra-index, expected one of " + OPTIONS + "; did you mean --extra-index-url?"),
        ("--foo", "the option --foo, expected one of " + OPTIONS + "; remove it"),
        ("-i simple", "--index-url simple, expected an address; begin it with https:// or file://"),
        ("-r https://h/r.txt", "https://h/r.txt, expected a file of this machine; fetch it first, and name the copy"),
        ("-r none.txt", "none.txt, which is not there, expected a file; correct the path"),
        ("-r r.txt", "r.txt, which takes in this file itself, expected another file; remove the line"),
        ("--extra-index-url https://u:p@h/s", "a name or password in the address https://***@h/s, expected none, since locks are "
         "shared; put it into ~/.netrc of the user who installs, on the host"),
        ("https://u:p@h/x-1-py3-none-any.whl", "a name or password in the address https://***@h/x-1-py3-none-any.whl, expected "
         "none, since locks are shared; put it into ~/.netrc of the user who installs, on the host"),
        ("a==2", "a==2, after a==1 in r.txt, line 1, expected one version; remove one of them"),
    ],
)  # fmt: skip
def test_lines_that_are_refused(complaint, line, expected):
    assert complaint("a==1\n\n" + line + "\n", "r.txt") == "r.txt, line 3: found " + expected


def test_a_line_of_a_file_in_a_file_is_named(complaint):
    told = complaint("-r more/b.txt\n", "r.txt", more__b_txt="ok\n-r c.txt\n", more__c_txt="\n\nbad bad\n")
    assert told.startswith("more/c.txt, line 3: found 'bad bad', expected")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a==1 ; python_version<'3'\na==2;python_version>='3'", ['a==1; python_version < "3"', 'a==2; python_version >= "3"']),
        ("A_b==1\na-b==1", ["a-b==1"]),
        ("x @ https://h/x-1-py3-none-any.whl#sha256=ab", ["x @ https://h/x-1-py3-none-any.whl#sha256=ab"]),
        ("https://h/x-1-py3-none-any.whl", ["x @ https://h/x-1-py3-none-any.whl"]),
        ("/srv/my wheels/x-1-py3-none-any.whl", ["x @ file:///srv/my%20wheels/x-1-py3-none-any.whl"]),
        ("torch>=2,\\\n<3", ["torch<3,>=2"]),
        ("a\n-r b.txt\n-r b.txt", ["a", "b"]),
    ],
)
def test_requirements_that_are_taken(read, line, expected):
    assert read(line, "r.txt", b_txt="b")["pip"] == expected


def test_a_variable_in_an_address_is_no_password(read):
    line = "--extra-index-url https://${NAME}:${TOKEN}@h/simple"
    assert read(line + "\na", "r.txt")["pip_options"] == [line]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("r.txt", "# none\n", "r.txt: found no package, expected one at least, such as torch; write it on a line of its own"),
        ("r.txt", "@EXPLICIT\nhttps://h/x.conda\n", "r.txt: found a list by conda list --explicit, expected an environment.yml, "
         "a requirements.txt or a lock that Muster wrote; write an environment.yml: conda env export"),
        ("r.txt", "# This file may be used to create an environment using:\n# $ conda create --name <env> --file <file>\na=1=0\n",
         "r.txt: found a list by conda list --export, expected an environment.yml, a requirements.txt or a lock that Muster "
         "wrote; write an environment.yml: conda env export"),
        ("pyproject.toml", "", "python_env_spec: found a project's file (pyproject.toml), expected an environment.yml, a "
         "requirements.txt or a lock that Muster wrote; export it first, as by uv export --format requirements.txt"),
        ("poetry.lock", "", "python_env_spec: found a project's file (poetry.lock), expected an environment.yml, a "
         "requirements.txt or a lock that Muster wrote; export it first, as by uv export --format requirements.txt"),
        ("torch.whl", "", "python_env_spec: found a package (torch.whl), expected an environment.yml, a requirements.txt or a "
         "lock that Muster wrote; name the file that lists the packages"),
    ],
)  # fmt: skip
def test_other_files(complaint, name, text, expected):
    assert complaint(text, name) == expected


def test_what_is_not_there(tmp_path):
    with pytest.raises(Fault) as caught:
        environments.read(str(tmp_path / "none.yml"))
    assert str(caught.value).endswith("none.yml, which is not there, expected a file; correct the path")
    with pytest.raises(Fault, match="found the folder .*, expected a file in it; name the file"):
        environments.read(str(tmp_path))


# ------------------------------------------------------------------------------------------------------- locks and what is asked


LOCK = {
    "format": 1, "platform": "linux-64", "python": "3.11.7", "glibc": "2.36", "cuda": None, "torch_backend": "cpu", "asked": "ab",
    "channels": ["https://h/conda-forge"], "conda": [],
    "wheels": [{"name": "torch", "version": "2.13.0", "url": "https://h/t.whl", "file_name": "t.whl", "sha256": "a" * 64,
                "size": 1}],
}  # fmt: skip


@pytest.mark.parametrize("name", ["lock.json", "env.lock", "exp7"])
def test_a_lock(read, name):
    found = read(json.dumps(LOCK), name)
    assert (found["kind"], found["lock"], found["channels"], found["pip"]) == ("lock", LOCK, ["https://h/conda-forge"], [])


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("lock.json", "{", "lock.json: the lock holds text that is no JSON"),
        ("lock.json", "{}", "lock.json: the lock holds the format None, expected one that Muster wrote"),
        ("x.lock", "hello", "x.lock: the lock holds text that is no JSON"),
        ("mine", json.dumps(dict(LOCK, format=9)), "mine: the lock holds the format 9"),
    ],
)
def test_what_is_no_lock(complaint, name, text, expected):
    assert complaint(text, name).startswith(expected)


def test_an_environment_in_json_is_yaml(read):
    assert read('{"dependencies": ["python=3.11"]}', "environment.yml")["conda"] == ["python 3.11.*"]


SETTINGS = {"torch_backend": "auto", "index_url": "", "extra_index_urls": []}
ONE = "name: a\nchannels: [x, y]\ndependencies:\n- python=3.11\n- numpy\n- pip:\n  - torch\n  - idna\n"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("# words\nname: b\nchannels:\n- x\n- y\ndependencies:\n- numpy\n- python = 3.11\n- pip:\n  - idna # :)\n"
         "  - Torch\n", True),
        (ONE.replace("[x, y]", "[y, x]"), False),
        (ONE.replace("3.11", "3.12"), False),
        (ONE.replace("idna", "idna>3"), False),
        (ONE + "variables: {A: 1}\n", False),
        (ONE + "prefix: /x\n", True),
        (ONE + "  - --index-url https://h\n", False),
    ],
)
def test_what_is_asked(read, text, same):
    one, two = read(ONE), read(text)
    assert (environments.asked(one, SETTINGS) == environments.asked(two, SETTINGS)) is same


def test_settings_that_choose_packages_are_asked_too(read):
    found = read(ONE)
    first = environments.asked(found, SETTINGS)
    assert len(first) == 64 and first == environments.asked(found, {"torch_backend": "auto"})
    assert first != environments.asked(found, dict(SETTINGS, torch_backend="cpu"))
    assert first != environments.asked(found, dict(SETTINGS, extra_index_urls=["https://h"]))


def test_a_lock_asks_for_what_it_holds(read):
    one, two = read(json.dumps(LOCK), "a.json"), read(json.dumps(dict(LOCK, asked="cd", channels=[])), "b.json")
    assert environments.asked(one, {}) == environments.asked(two, {})
    other = dict(LOCK, wheels=[dict(LOCK["wheels"][0], sha256="b" * 64)])
    assert environments.asked(one, {}) != environments.asked(read(json.dumps(other), "c.json"), {})
