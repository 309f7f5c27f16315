"""Copies of a fabric with other names and GUIDs, and their plans: a large fleet without a large fabric file.

Each copy is a fabric of its own, with its own samplers. A sampler simulates its copy only.
"""

import os
import re
import subprocess

#: Leaf switches of examples/stria.p have 24 hosts each; the first host of a leaf is a sampler.
HOSTS = [1 + 24 * leaf for leaf in range(12)]


def small(path):
    """Writes a fabric of one switch with the hosts of HOSTS: 24 ports."""
    lines = []
    for port, host in enumerate(HOSTS, 1):
        hca, switch = f"{port + 1:4} 1 0x{0x10000 + port:016x} 4x EDR", f"   1 {port:2} 0x0000000000020000 4x EDR"
        hca, switch, names = f"CA {hca}", f"SW {switch}", (f"'node{host:05} mlx5_0'", "'leaf'")
        lines.append(f"{hca} - {switch[:-7]} ( {names[0]} - {names[1]} )\n")
        lines.append(f"{switch} - {hca[:-7]} ( {names[1]} - {names[0]} )\n")
    with open(path, "w") as file:
        file.writelines(lines)


class Copy:
    """One copy: its net file, its plan, and the names and ports of its samplers."""

    def __init__(self, programs, folder, net, number, samplers):
        self.net = os.path.join(folder, f"net-{number}.p")
        self.plan = os.path.join(folder, f"plan-{number}.toml")
        with open(net) as original, open(self.net, "w") as copy:
            text = original.read()
            text = re.sub(r"0x[0-9a-f]{16}", lambda guid: f"0x{int(guid[0], 16) + ((number + 1) << 40):016x}", text)
            copy.write(re.sub(r"'(\w+)", rf"'f{number:02}\1", text))
        hosts = ",".join(f"f{number:02}node{host:05}" for host in HOSTS[:samplers])
        command = [os.path.join(programs, "ibnet-gen"), "--net", self.net, "--samplers", hosts, "--cap", "2000", "-o", self.plan]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        with open(self.plan) as plan:
            text = plan.read()
        names = re.findall(r'^host = "([^"]+)"', text, re.M)
        self.samplers = dict(zip(names, map(int, re.findall(r"^port_count = (\d+)", text, re.M))))


def copies(programs, folder, net, samplers, ports):
    """Returns copies with `samplers` samplers, and with at least `ports` ports if the samplers are enough."""
    of_one = sum(Copy(programs, folder, net, 99, 8).samplers.values())
    count = max(1, round(ports / of_one), -(-samplers // len(HOSTS)))
    each = [samplers // count + (number < samplers % count) for number in range(count)]
    return [Copy(programs, folder, net, number, samplers) for number, samplers in enumerate(each) if samplers]
