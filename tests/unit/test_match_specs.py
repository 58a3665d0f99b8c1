"""Conda's way to write a package, as the solver takes it."""

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils import match_specs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("numpy", "numpy"),
        ("PyYAML", "pyyaml"),
        ("python=3.11", "python 3.11.*"),
        ("python =3.11", "python 3.11.*"),
        ("numpy = 1.26", "numpy 1.26.*"),
        ("numpy=1.26.*", "numpy 1.26.*"),
        ("numpy=1.26*", "numpy 1.26.*"),
        ("tzdata=2024a", "tzdata 2024a.*"),
        ("numpy==1.26.4", "numpy ==1.26.4"),
        ("numpy==1.26.*", "numpy 1.26.*"),
        ("numpy 1.26", "numpy ==1.26"),
        ("numpy 1.26 py311_0", "numpy ==1.26 py311_0"),
        ("numpy>=1.26,<2", "numpy >=1.26,<2"),
        ("numpy >= 1.26, < 2", "numpy >=1.26,<2"),
        ("numpy>=1.26,<2=py311_0", "numpy >=1.26,<2 py311_0"),
        ("pkg=1.2=build*", "pkg ==1.2 build*"),
        ("pkg=1.2.*=build*", "pkg 1.2.* build*"),
        ("pkg=*=cuda*", "pkg * cuda*"),
        ("pkg * cuda*", "pkg * cuda*"),
        ("pkg!=1.2.*", "pkg !=1.2.*"),
        ("pkg!=1.2", "pkg !=1.2"),
        ("pkg>=1.*", "pkg >=1"),
        ("pkg~=1.2", "pkg ~=1.2"),
        ("pkg=1.2|3.*", "pkg 1.2.*|3.*"),
        ("pkg=1.2,<2", "pkg 1.2.*,<2"),
        ("pkg(>=1,<2)|>3", "pkg (>=1,<2)|>3"),
        ("conda-forge::pkg", "conda-forge::pkg"),
        ("conda-forge::pkg=1.2", "conda-forge::pkg 1.2.*"),
        ("conda-forge/linux-64::pkg=1", "conda-forge::pkg 1.*"),
        ("conda-forge/label/rc::pkg", "conda-forge/label/rc::pkg"),
        ("https://mirror/ch::pkg=1", "https://mirror/ch::pkg 1.*"),
        ("file:///srv/ch::pkg", "file:///srv/ch::pkg"),
        ("pkg[version='>=1']", "pkg[version='>=1']"),
        ("pkg>=1[build_number='>2']", "pkg >=1[build_number='>2']"),
        ("_libgcc_mutex=0.1=conda_forge", "_libgcc_mutex ==0.1 conda_forge"),
        ("x264=1!161.3030=h166bdaf_1", "x264 ==1!161.3030 h166bdaf_1"),
        ("python=3.11.7=hab00c5b_0_cpython", "python ==3.11.7 hab00c5b_0_cpython"),
        ("__glibc>=2.17", "__glibc >=2.17"),
        ("python>=3.8  # as we have it", "python >=3.8"),
    ],
)
def test_what_conda_means(text, expected):
    assert match_specs.convert(text) == expected


@pytest.mark.parametrize(
    ("text", "found", "fix"),
    [
        ("numpy=>1.2", "'numpy=>1.2'", "write >= for =>"),
        ("numpy==", "'numpy=='", "correct the version"),
        ("nu mpy", "'nu mpy'", "correct the version"),
        ("a,b", "'a,b'", "correct the version"),
        ("a=1.2-3", "'a=1.2-3'", "correct the version"),
        ("a=1==2", "'a=1==2'", "correct the version"),
        ("a 1 2 3", "'a 1 2 3'", "correct the version"),
        ("", "''", "correct it"),
        ("*", "'*'", "correct it"),
        ("::a", "'::a'", "correct it"),
        ("a[b", "'a[b'", "correct it"),
        ("git+https://h/x", "a repository (git+https://h/x)",
         "build a wheel of it, and name its folder in python_env_find_links"),
        ("ray[tune]", "an extra of pip's (ray[tune])", "move it into the list below - pip:"),
        ("-r more.txt", "an option of pip's (-r more.txt)", "move it into the list below - pip:"),
        ("-e .", "an option of pip's (-e .)", "move it into the list below - pip:"),
        ("./x", "a path (./x)", "move it into the list below - pip: if it is a wheel"),
        ("torch @ https://h/t.whl", "an address in pip's words (torch @ https://h/t.whl)", "move it into the list below - pip:"),
        ("a; python_version<'3'", "an environment marker of pip's (a; python_version<'3')",
         "move it into the list below - pip:, or leave the marker out"),
        ("https://h/x-1-0.conda", "the address of a file (https://h/x-1-0.conda)", "name its channel and version instead"),
    ],
)  # fmt: skip
def test_what_is_no_package(text, found, fix):
    with pytest.raises(match_specs.Unfit) as caught:
        match_specs.convert(text)
    assert (caught.value.found, caught.value.fix) == (found, fix)


@pytest.mark.parametrize(
    ("spec", "name", "channel"),
    [
        ("numpy", "numpy", None),
        ("numpy >=1", "numpy", None),
        ("conda-forge::numpy 1.*", "numpy", "conda-forge"),
        ("https://h/ch::numpy", "numpy", "https://h/ch"),
        ("numpy[version='1']", "numpy", None),
    ],
)
def test_the_parts_of_a_match_spec(spec, name, channel):
    assert (match_specs.name_of(spec), match_specs.channel_of(spec)) == (name, channel)
