"""The fabric of the pages as a net file for ibsim: the names of its hosts are those of the pages."""

LEAVES = 8
CORES = 2
SPINE_LINKS = 2


def hosts() -> list[str]:
    """Returns the hosts in an order that spreads each kind over the leaf switches."""
    names = [f"node{number:03}" for number in range(1, 33)]
    names += [f"admin{number}" for number in range(1, 5)] + [f"io{number:02}" for number in range(1, 17)]
    return names + [f"oss{number}" for number in range(1, 5)] + ["mds1", "gw1", "gw2"]


def net() -> str:
    leaves = [f"leaf{number:02}" for number in range(1, LEAVES + 1)]
    cores = [f"core{number:02}" for number in range(1, CORES + 1)]
    links: dict[tuple[str, int], tuple[str, int]] = {}

    def connect(one: tuple[str, int], other: tuple[str, int]) -> None:
        links[one], links[other] = other, one

    for index, host in enumerate(hosts()):
        connect((host, 1), (leaves[index % LEAVES], index // LEAVES + 1))
    for leaf_index, leaf in enumerate(leaves):
        for core_index, core in enumerate(cores):
            for link in range(SPINE_LINKS):
                connect((leaf, 24 + core_index * SPINE_LINKS + link), (core, 1 + leaf_index * SPINE_LINKS + link))

    switches = leaves + cores
    # A host of the pages has two HCAs.
    connect(("admin2-1", 1), ("leaf03", 20))
    letter = lambda name: ("S-" if name in switches else "H-") + name
    text = ""
    for name in [*switches, *hosts(), "admin2-1"]:
        kind, ports, shown = ("Switch", 36, name) if name in switches else ("Hca", 1, f"{name} mlx5_0")
        shown = "admin2 mlx5_1" if name == "admin2-1" else shown
        text += f'{kind}\t{ports} "{letter(name)}"\t\t# "{shown}"\n'
        for port in range(1, ports + 1):
            if peer := links.get((name, port)):
                text += f'[{port}]\t"{letter(peer[0])}"[{peer[1]}]\n'
        text += "\n"
    return text


if __name__ == "__main__":
    print(net(), end="")
