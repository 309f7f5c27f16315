"""`job --slurm`: bounds of the shares of jobs on the links of leaf switches, without routes."""

import collections

from job import Jobs
from records import SECOND, first, host

# Gb/s below which a host is idle, and the share of a link above which a job counts.
IDLE, COUNTS = 1e-3, 0.01


class Fabric:
    """Hosts and links between switches."""

    def __init__(self, recording):
        self.recording, ports = recording, recording.ports
        self.hosts = []  # name, leaf switch, HCA port, switch port
        silent = set()
        for key, port in ports.items():
            peer = ports.get(port.peer)
            if port.kind == "hca":
                self.hosts.append((host(port.node), port.peer[0] if port.peer else None, key, port.peer if peer and peer.peer == key else None))
            elif not peer and port.peer and port.peer[1] <= 2 and not any(guid == port.peer[0] for guid, _ in ports):
                if sum(1 for other in ports.values() if other.peer and other.peer[0] == port.peer[0]) == 1:
                    self.hosts.append((host(port.peer_name), key[0], None, key))
                    silent.add(port.peer)
        is_host = lambda key: key in silent or key in ports and ports[key].kind == "hca"
        ends = [(key, port.peer) for key, port in ports.items() if port.peer]
        self.links = {(a, b) for a, b in ends + [(b, a) for a, b in ends] if not is_host(a) and not is_host(b)}

    def load(self, link, second):
        at = self.recording.at
        return first(at(link[0], second, "xmit_gbps"), at(link[1], second, "rcv_gbps"))

    def sent(self, one, second, own="xmit_gbps", far="rcv_gbps"):
        _, _, hca, switch = one
        return first(self.recording.at(hca, second, own), self.recording.at(switch, second, far), 0.0)

    def received(self, one, second):
        return self.sent(one, second, "rcv_gbps", "xmit_gbps")


def owner(jobs, name, second):
    """The jobs that ran on a host for at least half of a second; else the one that ran longest."""
    start, ran = second * SECOND, []
    for job, hosts in enumerate(jobs.hosts):
        a, b = jobs.times[job]
        length = min(b, start + SECOND) - max(a, start)
        if length > 0 and name.lower() in (one.lower() for one in hosts):
            ran.append((length, job))
    half = [job for length, job in ran if 2 * length >= SECOND]
    return tuple(sorted(half or [job for _, job in sorted(ran)[-1:]]))


def bounds(fabric, link, second, owners):
    load = fabric.load(link, second)
    if load is None or load <= IDLE:
        return None
    sides = []
    for switch, rate in ((link[0][0], fabric.sent), (link[1][0], fabric.received)):
        leaf = [(one, who) for one, who in owners if one[1] == switch]
        if leaf:
            own = collections.Counter()
            for one, who in leaf:
                if rate(one, second) > IDLE:
                    own[who] += rate(one, second)
            shared = own.get((), 0.0)
            possible = {who: own[who] + (shared if who else 0.0) for who in own}
            if shared > 0:
                possible |= {who: shared for _, who in owners if who not in possible}
            sides.append(possible)
    if not sides:
        return None
    possible = {who: min(side[who] for side in sides) for who in sides[0] if all(who in side for side in sides)}
    possible = {who: min(value, load) for who, value in possible.items()}
    everything = sum(possible.values())
    return load, {who: (max(load - (everything - value), 0.0), value) for who, value in possible.items()}


def sharing(recording, row, path, differences):
    check = lambda what, a, b: differences.check("job --slurm", what, a, b, tolerance=1e-6)
    jobs, fabric, shared = Jobs(path), Fabric(recording), row["sharing"]
    mine = jobs.ids.index(row["job"])
    name = lambda who: "+".join(sorted(jobs.ids[job] for job in who)) or None
    check("method", shared["method"], "leaf_links")
    check("interval_ns", shared["interval_ns"], SECOND)
    found = {}
    owners = {second: [(one, owner(jobs, one[0], second)) for one in fabric.hosts] for second in {key[3] for key in recording.seconds}}
    for link in fabric.links:
        sums, total, seconds = collections.defaultdict(lambda: [0.0, 0.0, 0]), 0.0, 0
        for second in owners:
            values = bounds(fabric, link, second, owners[second])
            if not values:
                continue
            load, possible = values
            if sum(value for who, (_, value) in possible.items() if mine in who) <= COUNTS * load:
                continue
            total, seconds = total + load / 8 * SECOND, seconds + 1
            for who, (least, value) in possible.items():
                sums[name(who)][0] += least / 8 * SECOND
                sums[name(who)][1] += value / 8 * SECOND
                sums[name(who)][2] += value > COUNTS * load
        found[link[0]] = (total, seconds, sums)
    listed = {(link["from"]["guid"], link["from"]["port"]): link for link in shared["links"]}
    check("links are found", set(listed) <= set(found), True)
    for key, link in listed.items():
        if key not in found:
            continue
        total, seconds, sums = found[key]
        check(f"{key}: bytes", link["bytes"], total)
        check(f"{key}: seconds", link["seconds"], float(seconds))
        for one in link["jobs"]:
            least, value, count = sums[one["job"]]
            check(f"{key}: {one['job']}: least", one["least_bytes"], least)
            check(f"{key}: {one['job']}: most", one["most_bytes"], value)
            check(f"{key}: {one['job']}: seconds", one["seconds"], float(count))
            check(f"{key}: {one['job']}: estimate", one["estimate_bytes"], None)
