"""Three good hosts, as verify.yml finds them."""

NODES = [{"name": "n{}".format(number), "address": "10.0.0.{}".format(number)} for number in (1, 2, 3)]
NAMES = [node["name"] for node in NODES]
FACTS = {
    name: {
        "account": {"uid": 8600, "gid": 8600}, "machine": "id-" + name, "system": "Debian 12, Linux 6.1",
        "ephemeral": [32768, 60999],
        "time": {"container": "", "settable": True, "daemons": ["chrony"], "chrony": {
            "source": "10.0.0.1", "local": False, "stratum": 4, "synchronised": True, "offset": 0.0}},
    }
    for name in NAMES
}  # fmt: skip
FACTS["n1"]["time"] = dict(FACTS["n1"]["time"], chrony=dict(FACTS["n2"]["time"]["chrony"], source="192.0.2.123"))
GOOD = {name: {"ok": True, "machine": "id-" + name} for name in NAMES}
CONTENTS = {"torch": ["2.13.0", "", "aa"], "numpy": ["2.4.0", "", "bb"]}
PYTHON = {"version": "3.11.2", "torch": "2.13.0", "contents": CONTENTS, "fingerprint": "ab"}
PYTHONS = {name: PYTHON for name in NAMES}
