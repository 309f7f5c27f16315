"""`job`: traffic of the nodes of a job, and `job --all`: traffic of all jobs of a file of Slurm."""

import collections
import datetime
import math

from records import SECOND, TOP, first, host, without


def job(recording, shown, hosts, differences):
    check = lambda what, a, b, **more: differences.check("job", what, a, b, **more)
    ports = recording.ports

    class HostPort:
        """An HCA port; the switch port at the other end stands in for it."""

        def __init__(self, hca, switch, node):
            self.hca, self.switch, self.host = hca, switch, host(node).lower()
            self.carried = list(carried(recording, hca, switch))

        def amount(self, kind):
            """Octets sent (0) or received (1) by the host, or the time in which its port was blocked (2)."""
            return sum(amount for one, _, _, amount in self.carried if one == kind)

        def covered(self, kind):
            """The time in which the amount is known."""
            return sum(b - a for one, a, b, _ in self.carried if one == kind)

        def at(self, second):
            pick = lambda own, far: first(recording.at(self.hca, second, own), recording.at(self.switch, second, far))
            return pick("xmit_gbps", "rcv_gbps"), pick("rcv_gbps", "xmit_gbps"), recording.at(self.hca, second, "xmit_blocked")

        def known_at(self, second):
            """A link that is down carries nothing."""
            ends = [ports[key] for key in (self.hca, self.switch) if key in ports]
            low, high = second * SECOND, (second + 1) * SECOND
            is_down = any(a < high and low < b for port in ends for a, b in port.down(recording.interval))
            return tuple(first(value, 0.0 if is_down else None) for value in self.at(second))

    all_ports = []
    for key, port in ports.items():
        peer = ports.get(port.peer)
        if port.kind == "hca":
            all_ports.append(HostPort(key, port.peer if peer and peer.peer == key else None, port.node))
            all_ports[-1].leaf = port.peer[0] if port.peer else None
        elif not peer and port.peer and port.peer[1] <= 2 and not any(guid == port.peer[0] for guid, _ in ports):
            if sum(1 for other in ports.values() if other.peer and other.peer[0] == port.peer[0]) == 1:
                all_ports.append(HostPort(None, key, port.peer_name))
                all_ports[-1].leaf = key[0]
    wanted = {name.lower() for name in hosts}
    own = [port for port in all_ports if port.host in wanted]
    row = shown[0]
    sums, covered, sent_seconds = collections.Counter(), collections.Counter(), 0
    check("nodes", {node["host"].lower() for node in row["nodes"]}, {port.host for port in own})
    for node in row["nodes"]:
        of = [port for port in own if port.host == node["host"].lower()]
        blocked = [(recording.value(p.hca, "xmit_blocked"), recording.value(p.hca, "xmit_blocked_peak")) for p in of]
        blocked = [b for b in blocked if b[0] is not None]
        expected = {
            "ports": len(of),
            "injected_bytes": sum(p.amount(0) for p in of),
            "ejected_bytes": sum(p.amount(1) for p in of),
            "covered_seconds": min(sum(p.covered(way) for p in of) for way in (0, 1)) / len(of) / SECOND,
            "blocked": sum(b[0] for b in blocked) / len(blocked) if blocked else None,
            "blocked_peak": max((b[1] for b in blocked), default=None),
            "blocked_seconds": sum(p.amount(2) for p in of),
            "blocked_covered_seconds": sum(p.covered(2) for p in of) / len(of) / SECOND,
        }
        for name, value in expected.items():
            check(f"{node['host']}: {name}", node[name], value)
        sums.update({name: expected[name] for name in ("injected_bytes", "ejected_bytes", "blocked_seconds")})
        covered.update({name: expected[name] for name in ("covered_seconds", "blocked_covered_seconds")})
        sent_seconds += sum(p.covered(0) for p in of) / len(of) / SECOND
    for name, value in sums.items():
        check(name, row[name], value)
    for name, value in covered.items():
        check(name, row[name], value / len(row["nodes"]))
    per_second = sums["blocked_seconds"] / covered["blocked_covered_seconds"], sums["injected_bytes"] / sent_seconds
    check("blocked_ns_per_byte", row["blocked_ns_per_byte"], per_second[0] * 1e9 / per_second[1])
    sent = [node["injected_bytes"] for node in row["nodes"]]
    mean = sum(sent) / len(sent)
    check("max_to_mean", row["imbalance"]["max_to_mean"], max(sent) / mean)
    check("variation", row["imbalance"]["variation"], math.sqrt(sum((s - mean) ** 2 for s in sent) / len(sent)) / mean)
    check("gini", row["imbalance"]["gini"], sum(abs(a - b) for a in sent for b in sent) / (2 * len(sent) ** 2 * mean))
    steps(recording, row, own, check)
    leaves(recording, row, own, all_ports, check)


def recorded(recording):
    """The first start and the last end of the times in which something is known of a port."""
    times = [t for port in recording.ports.values() for t in port.times()]
    return min(times), max(times)


def carried(recording, hca, switch):
    """What a host port carried: (kind, from, to, amount). Kind 0 is octets sent, 1 octets received, and 2 seconds
    blocked. Each direction is known by the counters of the HCA port. Where it is not, the counters of the switch port
    at the other end of the link fill in. Where neither is known and the link was down, it carried nothing."""
    own, far = recording.ports.get(hca), recording.ports.get(switch)
    low, high = recorded(recording)
    down = [time for port in (own, far) if port for a, b in port.down(recording.interval) for time in without([(a, b)], [(0, low), (high, TOP)])]
    known = [[], []]
    for way in (0, 1):
        for one, a, b, octets, _ in own.moved if own else []:
            if one == way:
                known[way].append((a, b))
                yield way, a, b, octets
    # Blocked time is known by the HCA port alone. The times in which the counters of the port are known are not down.
    busy = [*known[0], *known[1]] if own else [*far.known(0), *far.known(1)]
    for a, b, r in own.pieces["blocked"] if own else []:
        if r["xmit_blocked"] is not None:
            yield 2, a, b, r["xmit_blocked"] * (b - a) / SECOND
    for way in (0, 1):
        for one, a, b, octets, _ in far.moved if far else []:
            if one != way:
                for start, stop in without([(a, b)], known[way]):
                    yield way, start, stop, octets * (stop - start) / (b - a)
                    known[way].append((start, stop))
    for kind, done in ((0, known[0]), (1, known[1]), (2, busy)):
        for time in down:
            for start, stop in without([time], done):
                yield kind, start, stop, 0.0
                done.append((start, stop))


def steps(recording, row, own, check):
    seconds = sorted({key[3] for key in recording.seconds})
    shown = {step["ts"] // SECOND: step for step in row["steps"]}
    has_values = lambda second: any(port.at(second) != (None, None, None) for port in own)
    expected = {second: [port.known_at(second) for port in own] for second in seconds if has_values(second)}
    check("step_ns", row["step_ns"], SECOND)
    check("steps", list(shown), list(expected))
    for second in set(shown) & set(expected):
        injected, ejected, blocked = ([v for v in column if v is not None] for column in zip(*expected[second]))
        step = shown[second]
        for name, values in (("injected", injected), ("ejected", ejected)):
            # At least 0 says nothing.
            check(f"{second}: {name}", step[f"{name}_gbps"], sum(values) if len(values) == len(own) or sum(values) > 0 else None)
            check(f"{second}: {name} covered", step[f"{name}_covered"], len(values) / len(own))
        check(f"{second}: blocked covered", step["blocked_covered"], len(blocked) / len(own))
        check(f"{second}: blocked", step["blocked"], sum(blocked) / len(blocked) if blocked else None)
        check(f"{second}: blocked most", step["blocked_most"], max(blocked, default=None))
    check("into", sum(v or 0 for rates in row["into"] for v in rates["gbps"]), sum(s["ejected_gbps"] or 0 for s in row["steps"]))


def leaves(recording, row, own, all_ports, check):
    ports = recording.ports
    hosts = {port.hca for port in all_ports} | {ports[port.switch].peer for port in all_ports if port.switch}
    injected = lambda some: sum(p.amount(0) for p in some)
    ejected = lambda some: sum(p.amount(1) for p in some)
    stays = collections.Counter()
    check("leaves", {leaf["guid"] for leaf in row["leaves"]}, {port.leaf for port in own if port.leaf})
    uplinks = {}
    for leaf in row["leaves"]:
        mine, everyone = ([p for p in some if p.leaf == leaf["guid"]] for some in (own, all_ports))
        up = [key for key, port in ports.items() if key[0] == leaf["guid"] and port.peer and port.peer not in hosts]
        expected = {
            "job_ports": len(mine), "host_ports": len(everyone), "injected_bytes": injected(mine), "ejected_bytes": ejected(mine),
            "all_injected_bytes": injected(everyone), "all_ejected_bytes": ejected(everyone),
            "up_bytes": sum(octets for key in up for way, _, _, octets, _ in ports[key].moved if way == 0),
        }
        for name, value in expected.items():
            check(f"{leaf['name']}: {name}", leaf[name], value)
        sent, everything, left = expected["injected_bytes"], expected["all_injected_bytes"], expected["up_bytes"]
        local = max(everything - left, 0)
        stays.update({
            "injected_bytes": sent, "least_bytes": max(sent - left, 0), "most_bytes": min(sent, local),
            "estimate_bytes": sent * local / everything if everything else 0,
        })
        parts = [a / b if b else 0 for a, b in [(sent, everything), (expected["ejected_bytes"], expected["all_ejected_bytes"])]]
        for key in up:
            uplinks[f"{ports[key].node} port {key[1]}"] = (key, parts)
    for name, value in stays.items():
        check(f"stays: {name}", row["stays"][name], value, tolerance=1e-6)
    check("uplinks", {uplink["port"] for uplink in row["uplinks"]}, set(uplinks))
    for uplink in row["uplinks"]:
        key, (out, back) = uplinks[uplink["port"]]
        up, down = (recording.value(key, name) or 0.0 for name in ("xmit_gbps", "rcv_gbps"))
        used = [v for v in (recording.value(key, "xmit_utilization"), recording.value(key, "rcv_utilization")) if v is not None]
        for name, value in {
            "up_gbps": up, "down_gbps": down, "used": max(used, default=None), "blocked": recording.value(key, "xmit_blocked"),
            "job_up_gbps": up * out, "job_down_gbps": down * back,
        }.items():
            check(f"{uplink['port']}: {name}", uplink[name], value)


class Jobs:
    """The jobs of a file of Slurm: `JobID|State|Start|End|NodeList`, with times in UTC, and names of hosts."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            header, *lines = [line.rstrip("\n").split("|") for line in file]
        rows = [dict(zip(header, line)) for line in lines]
        self.ids = [row["JobID"] for row in rows]
        self.times = [tuple(map(nanoseconds, (row["Start"], row["End"]))) for row in rows]
        self.hosts = [row["NodeList"].split(",") for row in rows]

    def split(self, name, a, b):
        """Splits a time of a host at the starts and ends of its jobs. Jobs at the same time get equal parts."""
        mine = [job for job, hosts in enumerate(self.hosts) if name.lower() in (one.lower() for one in hosts)]
        edges = sorted({a, b} | {t for job in mine for t in self.times[job] if a < t < b})
        for start, stop in zip(edges, edges[1:]):
            owners = [job for job in mine if self.times[job][0] <= start and stop <= self.times[job][1]]
            for owner in owners or [None]:
                yield owner, start, stop, 1 / max(len(owners), 1)


def nanoseconds(text):
    """A time such as 2026-11-21T12:00:00.123456789Z."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    seconds = datetime.datetime.fromisoformat(whole + "+00:00").timestamp()
    return int(seconds) * SECOND + int(fraction.ljust(9, "0"))


def host_flows(recording, jobs):
    """The name of the host of each HCA port, and its flows by second and job: octets sent, octets received and seconds
    blocked, and the nanoseconds in which each of them is known."""
    ports = recording.ports
    switches = {key[0] for key, port in ports.items() if port.kind == "switch"}

    def flows(name, hca, switch):
        found = collections.defaultdict(lambda: [0.0, 0.0, 0.0, 0, 0, 0])
        for kind, a, b, amount in carried(recording, hca, switch):
            for owner, start, stop, share in jobs.split(name, a, b):
                for second in range(start // SECOND, (stop - 1) // SECOND + 1):
                    length = min(stop, (second + 1) * SECOND) - max(start, second * SECOND)
                    found[second, owner][kind] += share * amount * length / (b - a)
                    found[second, owner][3 + kind] += length
        return name, found

    for key, port in ports.items():
        peer = ports.get(port.peer)
        if port.kind == "hca":
            yield flows(host(port.node), key, port.peer if peer and peer.peer == key else None)
        elif port.peer and not peer and port.peer[0] not in switches and port.peer[1] <= 2:
            yield flows(host(port.peer_name), None, key)


def known_shares(of, name, jobs, low, high, way):
    """The share of each second of each job of a host in which the octets of a direction are known: 1 if at most an eighth of it is not. The seconds
    in which the job did not run have no share. The third owner, "all", has those of all jobs."""
    whole, known = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    for owner, start, stop, _ in jobs.split(name, low, high):
        for second in range(start // SECOND, (stop - 1) // SECOND + 1):
            for one in (owner, "all"):
                whole[one][second] += min(stop, (second + 1) * SECOND) - max(start, second * SECOND)
    for (second, owner), flow in of.items():
        for one in (owner, "all"):
            known[one][second] += flow[3 + way]
    return {
        one: {s: 1 if 8 * known[one][s] >= 7 * ns else known[one][s] / ns for s, ns in seconds.items()} for one, seconds in whole.items()
    }


def all_jobs(recording, shown, path, differences):
    check = lambda what, a, b: differences.check("job --all", what, a, b)
    jobs, ports = Jobs(path), recording.ports
    totals = collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0.0, 0.0, 0.0, 0, 0, 0]))  # job, host
    injected = collections.defaultdict(dict)  # job, second
    shares = collections.defaultdict(list)  # job: the share of each second that is known, for each port
    low, high = recorded(recording)
    for name, of in host_flows(recording, jobs):
        for owner in {owner for _, owner in of}:
            totals[owner][name][0] += 1
        for owner, known in known_shares(of, name, jobs, low, high, 0).items():
            shares[owner].append(known)
        for (second, owner), flow in of.items():
            for index, value in enumerate(flow):
                totals[owner][name][index + 1] += value
            if flow[3]:
                injected[owner][second] = injected[owner].get(second, 0.0) + flow[0]
    seconds = range(low // SECOND, (high - 1) // SECOND + 1)
    length = lambda second: (min(high, (second + 1) * SECOND) - max(low, second * SECOND)) / SECOND
    expected = {None if owner is None else jobs.ids[owner]: owner for owner in totals}
    check("jobs", {row["job"] for row in shown}, set(expected) | {None})
    for row in (row for row in shown if row["job"] in expected):
        owner, name = expected[row["job"]], row["job"]
        hosts = totals[owner]
        sent = [values[1] for values in hosts.values()]
        whole, blocked = sum(sent), sum(values[3] for values in hosts.values())
        mean = whole / len(sent)
        sent_ns, waited_ns = (sum(values[index] / values[0] for values in hosts.values()) for index in (4, 6))
        covered_ns = sum(min(values[4:6]) / values[0] for values in hosts.values())
        start, stop = (None, None) if owner is None else jobs.times[owner]
        known = {one.lower() for one in hosts}
        for field, value in {
            "start_ns": start, "end_ns": stop, "injected_bytes": whole, "ejected_bytes": sum(values[2] for values in hosts.values()),
            "blocked_seconds": blocked, "covered_seconds": covered_ns / len(sent) / SECOND, "blocked_covered_seconds": waited_ns / len(sent) / SECOND,
            "blocked_ns_per_byte": blocked / waited_ns * sent_ns * SECOND / whole if whole and waited_ns else None,
            "missing": [] if owner is None else sorted(one for one in jobs.hosts[owner] if one.lower() not in known),
        }.items():
            check(f"{name}: {field}", row[field], value)
        for field, value in {
            "max_to_mean": max(sent) / mean, "variation": math.sqrt(sum((s - mean) ** 2 for s in sent) / len(sent)) / mean,
            "gini": sum(abs(a - b) for a in sent for b in sent) / (2 * len(sent) ** 2 * mean),
        }.items():
            check(f"{name}: {field}", row["imbalance"][field], value)
        check(f"{name}: nodes", [node["host"] for node in row["nodes"]], sorted(hosts))
        for node in row["nodes"]:
            values = [node[field] for field in ("ports", "injected_bytes", "ejected_bytes", "blocked_seconds")]
            for shown_one, value in zip(values, hosts[node["host"]]):
                check(f"{name}: {node['host']}", shown_one, value)
        means = {s: sum(known.get(s, 1) for known in shares[owner]) / len(shares[owner]) for s in seconds}
        is_known = lambda s: s in injected[owner] and (injected[owner][s] > 0 or means[s] == 1)
        rates = [injected[owner][second] * 8 / SECOND / length(second) if is_known(second) else None for second in seconds]
        check(f"{name}: seconds", len(row["injected_gbps"]), len(rates))
        for second, shown_one, value in zip(seconds, row["injected_gbps"], rates):
            check(f"{name}: at {second}", shown_one, value)
        for second, shown_one in zip(seconds, row["injected_covered"]):
            ran = any(second in known for known in shares[owner])
            check(f"{name}: covered at {second}", shown_one, means[second] if ran else None)
