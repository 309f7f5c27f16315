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

        def moved(self, direction):
            """Octets sent (0) or received (1) by the host, or the time in which they are known (2)."""
            mine = total(ports.get(self.hca))
            far = total(ports.get(self.switch))
            return (mine if mine[2] else (far[1], far[0], far[2]))[direction]

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
    sums, covered = collections.Counter(), collections.Counter()
    check("nodes", {node["host"].lower() for node in row["nodes"]}, {port.host for port in own})
    for node in row["nodes"]:
        of = [port for port in own if port.host == node["host"].lower()]
        blocked = [(recording.value(p.hca, "xmit_blocked"), recording.value(p.hca, "xmit_blocked_peak"), recording.value(p.hca, "xmit_blocked_sum")) for p in of]
        blocked = [b for b in blocked if b[0] is not None]
        expected = {
            "ports": len(of),
            "injected_bytes": sum(p.moved(0) for p in of),
            "ejected_bytes": sum(p.moved(1) for p in of),
            "covered_seconds": sum(p.moved(2) for p in of) / len(of) / SECOND,
            "blocked": sum(b[0] for b in blocked) / len(blocked) if blocked else None,
            "blocked_peak": max((b[1] for b in blocked), default=None),
            "blocked_seconds": sum(b[2] for b in blocked) / SECOND,
            "blocked_covered_seconds": sum(waited(ports.get(p.hca)) for p in of) / len(of) / SECOND,
        }
        for name, value in expected.items():
            check(f"{node['host']}: {name}", node[name], value)
        sums.update({name: expected[name] for name in ("injected_bytes", "ejected_bytes", "blocked_seconds")})
        covered.update({name: expected[name] for name in ("covered_seconds", "blocked_covered_seconds")})
    for name, value in sums.items():
        check(name, row[name], value)
    for name, value in covered.items():
        check(name, row[name], value / len(row["nodes"]))
    per_second = sums["blocked_seconds"] / covered["blocked_covered_seconds"], sums["injected_bytes"] / covered["covered_seconds"]
    check("blocked_ns_per_byte", row["blocked_ns_per_byte"], per_second[0] * 1e9 / per_second[1])
    sent = [node["injected_bytes"] for node in row["nodes"]]
    mean = sum(sent) / len(sent)
    check("max_to_mean", row["imbalance"]["max_to_mean"], max(sent) / mean)
    check("variation", row["imbalance"]["variation"], math.sqrt(sum((s - mean) ** 2 for s in sent) / len(sent)) / mean)
    check("gini", row["imbalance"]["gini"], sum(abs(a - b) for a in sent for b in sent) / (2 * len(sent) ** 2 * mean))
    steps(recording, row, own, check)
    leaves(recording, row, own, all_ports, check)


def total(port):
    """Octets sent and received by a port, and the time in which they are known."""
    moved = port.moved if port else []
    return sum(m[2] for m in moved), sum(m[3] for m in moved), sum(b - a for a, b, *_ in moved)


def waited(port):
    """The time in which the blocked share of a port is known."""
    return sum(b - a for a, b, r in port.pieces["blocked"] if r["xmit_blocked"] is not None) if port else 0


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
            check(f"{second}: {name}", step[f"{name}_gbps"], sum(values) if values else None)
            check(f"{second}: {name} covered", step[f"{name}_covered"], len(values) / len(own))
        check(f"{second}: blocked covered", step["blocked_covered"], len(blocked) / len(own))
        check(f"{second}: blocked", step["blocked"], sum(blocked) / len(blocked) if blocked else None)
        check(f"{second}: blocked most", step["blocked_most"], max(blocked, default=None))
    check("into", sum(v or 0 for rates in row["into"] for v in rates["gbps"]), sum(s["ejected_gbps"] or 0 for s in row["steps"]))


def leaves(recording, row, own, all_ports, check):
    ports = recording.ports
    hosts = {port.hca for port in all_ports} | {ports[port.switch].peer for port in all_ports if port.switch}
    injected = lambda some: sum(p.moved(0) for p in some)
    ejected = lambda some: sum(p.moved(1) for p in some)
    stays = collections.Counter()
    check("leaves", {leaf["guid"] for leaf in row["leaves"]}, {port.leaf for port in own if port.leaf})
    uplinks = {}
    for leaf in row["leaves"]:
        mine, everyone = ([p for p in some if p.leaf == leaf["guid"]] for some in (own, all_ports))
        up = [key for key, port in ports.items() if key[0] == leaf["guid"] and port.peer and port.peer not in hosts]
        expected = {
            "job_ports": len(mine), "host_ports": len(everyone), "injected_bytes": injected(mine), "ejected_bytes": ejected(mine),
            "all_injected_bytes": injected(everyone), "all_ejected_bytes": ejected(everyone),
            "up_bytes": sum(total(ports[key])[0] for key in up),
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


def flows(recording, jobs):
    """Octets sent and received, and seconds blocked, of each port by second and job; None if not known."""
    found = collections.defaultdict(lambda: collections.defaultdict(lambda: [None, None, None, 0, 0, 0]))
    for key, port in recording.ports.items():
        parts = [(a, b, r, [(0, sent / (b - a)), (1, received / (b - a))]) for a, b, sent, received, r in port.moved]
        parts += [(a, b, r, [(2, r["xmit_blocked"] / SECOND)]) for a, b, r in port.pieces["blocked"] if r["xmit_blocked"] is not None]
        for a, b, r, values in parts:
            name = host(r["node"] if r["kind"] == "hca" else r["peer"] or "")
            for owner, start, stop, share in jobs.split(name, a, b):
                for second in range(start // SECOND, (stop - 1) // SECOND + 1):
                    length = min(stop, (second + 1) * SECOND) - max(start, second * SECOND)
                    flow = found[key][second, owner]
                    for index, per_ns in values:
                        flow[index] = (flow[index] or 0.0) + share * per_ns * length
                    flow[3 if values[0][0] == 0 else 4] += length
    return found


def host_flows(recording, jobs):
    """The flows of each HCA port with the name of its host. The switch port stands in for missing values."""
    ports, by_port = recording.ports, flows(recording, jobs)
    switches = {key[0] for key, port in ports.items() if port.kind == "switch"}
    times = [t for port in ports.values() for t in port.times()]
    low, high = min(times), max(times)

    def with_down(name, of, times):
        """Adds the time in which the link was down."""
        done = []
        for time in times:
            for a, b in without([time], [(0, low), (high, TOP), *done]):
                for owner, start, stop, _ in jobs.split(name, a, b):
                    for second in range(start // SECOND, (stop - 1) // SECOND + 1):
                        length = min(stop, (second + 1) * SECOND) - max(start, second * SECOND)
                        of.setdefault((second, owner), [None, None, None, 0, 0, 0])[5] += length
            done.append(time)
        return name, of

    for key, port in ports.items():
        own, far = by_port[key], by_port[port.peer] if port.peer in ports else {}
        if port.kind == "hca":
            of = {part: list(flow) for part, flow in own.items()}
            for part, (xmit, rcv, _, known, *_) in far.items():
                mine = of.setdefault(part, [None, None, None, 0, 0, 0])
                mine[3] = known if mine[0] is None else mine[3]
                mine[:2] = first(mine[0], rcv), first(mine[1], xmit)
            down = port.unmoved(recording.interval)
            if port.peer in ports:
                moved = [t for a, b, *_ in port.moved for t in (a, b)]
                span = [(min(moved), max(moved))] if moved else []
                down += without(ports[port.peer].unmoved(recording.interval), span)
            yield with_down(host(port.node), of, down)
        elif port.peer and port.peer not in ports and port.peer[0] not in switches and port.peer[1] <= 2:
            of = {part: [rcv, xmit, None, known, 0, 0] for part, (xmit, rcv, _, known, *_) in own.items()}
            yield with_down(host(port.peer_name), of, port.unmoved(recording.interval))


def known_shares(of, name, jobs, low, high):
    """The share of each second of each job of a host that is known: 1 if at most an eighth of it is not. The seconds
    in which the job did not run have no share. The third owner, "all", has those of all jobs."""
    whole, known = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    for owner, start, stop, _ in jobs.split(name, low, high):
        for second in range(start // SECOND, (stop - 1) // SECOND + 1):
            for one in (owner, "all"):
                whole[one][second] += min(stop, (second + 1) * SECOND) - max(start, second * SECOND)
    for (second, owner), flow in of.items():
        for one in (owner, "all"):
            known[one][second] += flow[3] + flow[5]
    return {
        one: {s: 1 if 8 * known[one][s] >= 7 * ns else known[one][s] / ns for s, ns in seconds.items()} for one, seconds in whole.items()
    }


def all_jobs(recording, shown, path, differences):
    check = lambda what, a, b: differences.check("job --all", what, a, b)
    jobs, ports = Jobs(path), recording.ports
    totals = collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0.0, 0.0, 0.0, 0, 0]))  # job, host
    injected = collections.defaultdict(dict)  # job, second
    shares = collections.defaultdict(list)  # job: the share of each second that is known, for each port
    times = [t for port in ports.values() for t in port.times()]
    low, high = min(times), max(times)
    for name, of in host_flows(recording, jobs):
        for owner in {owner for _, owner in of}:
            totals[owner][name][0] += 1
        for owner, known in known_shares(of, name, jobs, low, high).items():
            shares[owner].append(known)
        for (second, owner), flow in of.items():
            *values, known, waited, down = flow
            for index, value in enumerate([*values, known + down, waited + down]):
                totals[owner][name][index + 1] += value or 0.0
            if flow[0] is not None or down:
                injected[owner][second] = injected[owner].get(second, 0.0) + (flow[0] or 0.0)
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
        covered_ns, waited_ns = (sum(values[index] / values[0] for values in hosts.values()) for index in (4, 5))
        start, stop = (None, None) if owner is None else jobs.times[owner]
        known = {one.lower() for one in hosts}
        for field, value in {
            "start_ns": start, "end_ns": stop, "injected_bytes": whole, "ejected_bytes": sum(values[2] for values in hosts.values()),
            "blocked_seconds": blocked, "covered_seconds": covered_ns / len(sent) / SECOND, "blocked_covered_seconds": waited_ns / len(sent) / SECOND,
            "blocked_ns_per_byte": blocked / waited_ns * covered_ns * SECOND / whole if whole and waited_ns else None,
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
        rates = [injected[owner][second] * 8 / SECOND / length(second) if second in injected[owner] else None for second in seconds]
        check(f"{name}: seconds", len(row["injected_gbps"]), len(rates))
        for second, shown_one, value in zip(seconds, row["injected_gbps"], rates):
            check(f"{name}: at {second}", shown_one, value)
        for second, shown_one, value in zip(seconds, row["injected_covered"], rates):
            ran = any(second in known for known in shares[owner])
            mean = sum(known.get(second, 1) for known in shares[owner]) / len(shares[owner])
            check(f"{name}: covered at {second}", shown_one, (0 if value is None else mean) if ran else None)
