"""`job --slurm`: bounds of the shares of jobs on the links of leaf switches, without routes."""

import collections

from job import Jobs
from records import SECOND, first, host

# Gb/s below which a host is idle, and the share of a link above which a job counts.
IDLE, COUNTS = 1e-3, 0.01

# Part of a link that the assumption of separate jobs may leave without an explanation.
CONTRADICTION = 0.05


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


def by_owner(hosts, rate, second):
    """The rates of hosts by job, without idle hosts."""
    sums = collections.Counter()
    for one, who in hosts:
        if rate(one, second) > IDLE:
            sums[who] += rate(one, second)
    return sums


def limits(most, load, floor):
    """Lower and upper bounds from the most that each job can have."""
    everything = sum(most.values())
    return {who: (min(max(load - (everything - value), floor(who), 0.0), value), value) for who, value in most.items()}


def bounds(fabric, link, second, owners):
    """The load of a link, and for each job the bounds without an assumption, and those for separate jobs."""
    load = fabric.load(link, second)
    if load is None or load <= IDLE:
        return None
    sides, ends = [], []
    for switch, rate in ((link[0][0], fabric.sent), (link[1][0], fabric.received)):
        leaf = [(one, who) for one, who in owners if one[1] == switch]
        own = by_owner(leaf or owners, rate, second)
        ends.append(own)
        if leaf:
            shared = own.get((), 0.0)
            possible = {who: own[who] + (shared if who else 0.0) for who in own}
            if shared > 0:
                possible |= {who: shared for _, who in owners if who not in possible}
            sides.append(possible)
    if not sides:
        return None
    sent, received = ends
    shared, arrived = sent.get((), 0.0), sum(received.values())
    always = {}
    for who in set(sent) | (set(received) if shared > 0 else set()):
        own = min(sent.get(who, 0.0), arrived) if who else 0.0
        always[who] = min(own + min(shared, received.get(who, 0.0)), load)
    apart = {who: min([always[who]] + [side.get(who, 0.0) for side in sides]) for who in always}
    certain = limits(always, load, lambda who: 0.0)
    if sum(apart.values()) < load * (1 - CONTRADICTION):
        return load, {who: certain[who] * 2 for who in certain}
    narrow = limits(apart, load, lambda who: certain[who][0])
    return load, {who: certain[who] + narrow[who] for who in certain}


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
        sums, total, seconds = collections.defaultdict(lambda: [0.0] * 5), 0.0, 0
        for second in owners:
            values = bounds(fabric, link, second, owners[second])
            if not values:
                continue
            load, possible = values
            if sum(values[3] for who, values in possible.items() if mine in who) <= COUNTS * load:
                continue
            total, seconds = total + load / 8 * SECOND, seconds + 1
            for who, values in possible.items():
                for place, value in enumerate(values):
                    sums[name(who)][place] += value / 8 * SECOND
                sums[name(who)][4] += values[3] > COUNTS * load
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
            *octets, count = sums[one["job"]]
            for place, field in enumerate(("least_bytes", "most_bytes", "least_if_apart_bytes", "most_if_apart_bytes")):
                # A bound is a difference of sums of octets: less than a thousandth of an octet is rounding.
                check(f"{key}: {one['job']}: {field}", *(value if value > 1e-3 else 0.0 for value in (one[field], octets[place])))
            check(f"{key}: {one['job']}: seconds", one["seconds"], float(count))
            check(f"{key}: {one['job']}: estimate", one["estimate_bytes"], None)
