"""Which node differs, and in which packages."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.muster_agent import sameness

BASE = {"numpy": ["2.4.1", "", "aa"], "python": ["3.11.7", "0_cpython", "bb"], "six": ["1.17", "", "cc"]}


def report(name, fingerprint, **changes):
    """A node's report; a change of None takes a package away."""
    found = {key: value for key, value in dict(BASE, **changes).items() if value is not None}
    return {"name": name, "fingerprint": fingerprint, "contents": found}


FIX = "; expected the same on every node; run site.yml"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"numpy": ["2.4.0", "", "dd"]}, "numpy is 2.4.0 instead of 2.4.1"),
        ({"numpy": None}, "numpy 2.4.1 is missing"),
        ({"extra": ["1", "", "dd"]}, "extra 1 should not be there"),
        ({"python": ["3.11.7", "1_cpython", "dd"]}, "python 3.11.7 is build 1_cpython instead of build 0_cpython"),
        ({"six": ["1.17", "py_0", "dd"]}, "six 1.17 is build py_0 instead of a wheel"),
        ({"six": ["1.17", "", "dd"]}, "six 1.17 has other files"),
        ({"six": ["1.17", "", ""]}, "six 1.17 has lost its list of files"),
        ({"numpy": None, "six": ["1.16", "", "dd"]}, "numpy 2.4.1 is missing, six is 1.16 instead of 1.17"),
    ],
)
def test_how_a_package_differs(changes, expected):
    reports = [report("n1", "a"), report("n2", "b", **changes), report("n3", "a")]
    assert sameness.drift(reports) == ["the environment of n2 differs from that of n1 and n3: " + expected + FIX]


def test_equal_nodes_need_no_words():
    assert sameness.drift([report("n1", "a"), report("n2", "a")]) == []
    assert sameness.drift([report("n1", "a")]) == sameness.drift([]) == []


def test_many_packages_are_counted():
    more = {"p{}".format(number): ["1", "", "dd"] for number in range(7)}
    told = sameness.drift([report("n1", "a"), report("n2", "b", **more)])[0]
    assert told.count("should not be there") == 5 and told.endswith("p4 1 should not be there and 2 more" + FIX)


@pytest.mark.parametrize(
    ("fingerprints", "expected"),
    [
        ("aab", ["the environment of n3 differs from that of n1 and n2"]),
        ("abb", ["the environment of n1 differs from that of n2 and n3"]),
        ("ab", ["the environment of n2 differs from that of n1"]),
        ("abc", ["the environment of n2 differs from that of n1", "the environment of n3 differs from that of n1"]),
        ("abab", ["the environment of n2 and n4 differs from that of n1 and n3"]),
        ("aaaaaaab", ["the environment of n8 differs from that of n1, n2, n3, n4 and 3 more"]),
        ([None, "a", "b"], ["the environment of n3 differs from that of n2"]),
    ],
)
def test_who_differs_from_whom(fingerprints, expected):
    reports = [{"name": "n{}".format(number), "fingerprint": value} for number, value in enumerate(fingerprints, 1)]
    assert [sentence.split(":")[0] for sentence in sameness.drift(reports)] == expected


def test_without_packages_the_fingerprints_are_told():
    told = sameness.drift([{"name": "n1", "fingerprint": "a" * 64}, report("n2", "b" * 64)], "mend it")
    assert told == [
        "the environment of n2 differs from that of n1: its fingerprint is bbbbbbbbbbbb instead of aaaaaaaaaaaa; expected the "
        "same on every node; mend it"
    ]


def test_one_of_each_environment_is_enough_to_name_packages():
    reports = [{"name": "n1", "fingerprint": "a"}, report("n2", "a"), report("n3", "b", six=None)]
    assert sameness.drift(reports) == ["the environment of n3 differs from that of n1 and n2: six 1.17 is missing" + FIX]
