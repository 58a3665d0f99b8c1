"""What names lead to."""


def test_names_lead_to_cluster_addresses(managed, cluster):
    """On every member, the names of all; and its own, which stock hosts files send to 127.0.1.1."""
    names = [member["name"] for member in cluster.members]
    script = "; ".join("echo $(getent ahosts {} | head -n 1)".format(word) for word in [*names, '"$(uname -n)"'])
    lines = managed.root(script).stdout.splitlines()
    found = [(line.split() or ["nothing"])[0] for line in lines]
    expected = [member["address"] for member in cluster.members] + [managed.address]
    wrong = [
        "{} leads to {}, expected {}".format(name, there, address)
        for name, there, address in zip([*names, "its own name"], found, expected, strict=True)
        if there != address
    ]
    assert not wrong, "on {}: {}".format(managed.name, "; ".join(wrong))
