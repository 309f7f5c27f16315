"""`job --group`: flow into and out of the hosts of a group, and its senders, by the rules in docs/hosts.md."""

import collections
import math

from job import Jobs, host_flows, known_shares
from records import SECOND


def groups(recording, shown, group, path, differences):
    check = lambda what, a, b, **more: differences.check("job --group", what, a, b, **more)
    name, _, hosts = group.partition("=")
    members = set(hosts.split(","))
    jobs = Jobs(path) if path else None
    row = shown[0]
    times = [t for port in recording.ports.values() for t in port.times()]
    low, high = min(times), max(times)
    flows = list(host_flows(recording, jobs or NoJobs()))
    shares = [known_shares(of, one, jobs or NoJobs(), low, high) for one, of in flows]
    seconds = range(low // SECOND, (high - 1) // SECOND + 1)
    length = [(min(high, (s + 1) * SECOND) - max(low, s * SECOND)) / SECOND for s in seconds]
    check("bins", (row["group"], row["start_ns"], row["bin_ns"], len(row["in_max_to_mean"])), (name, low // SECOND * SECOND, SECOND, len(seconds)))

    def course(of, index, owners):
        """Octets in each second of some owners; None without records."""
        found = dict.fromkeys(seconds)
        for (second, owner), flow in of.items():
            if (flow[index] is not None or flow[5]) and owners(owner):
                found[second] = (found[second] or 0.0) + (flow[index] or 0.0)
        return list(found.values())

    everyone = lambda owner: True
    own, known = collections.defaultdict(list), collections.defaultdict(list)
    for (one, of), share in zip(flows, shares):
        if one in members:
            own[one].append((course(of, 1, everyone), course(of, 0, everyone)))
            known[one].append(share["all"])
    covered = lambda ports: sum(sum(port[s] for port in ports) / len(ports) * l for s, l in zip(seconds, length))
    every = [port for ports in known.values() for port in ports]
    check("covered_seconds", row["covered_seconds"], covered(every))
    check("recorded_seconds", row["recorded_seconds"], sum(length))
    check("hosts", {target["host"] for target in row["targets"]}, set(own))
    check("missing", row["missing"], sorted(members - set(own)))
    received = {}
    for target in row["targets"]:
        into, out = (added(values) for values in zip(*own[target["host"]]))
        received[target["host"]] = into
        rates = lambda octets: [o * 8 / SECOND / s for o, s in zip(octets, length) if o is not None]
        for field, value in {
            "ports": len(own[target["host"]]), "in_bytes": total(into), "out_bytes": total(out),
            "covered_seconds": covered(known[target["host"]]), "in_peak_gbps": max(rates(into), default=None), "out_peak_gbps": max(rates(out), default=None),
        }.items():
            check(f"{target['host']}: {field}", target[field], value)
    for way, index in (("in", 0), ("out", 1)):
        octets = [total(added([ports[index] for ports in own[one]])) for one in own]
        check(f"{way}_bytes", row[f"{way}_bytes"], sum(octets))
        mean = sum(octets) / len(octets)
        for field, value in {
            "max_to_mean": max(octets) / mean, "variation": math.sqrt(sum((o - mean) ** 2 for o in octets) / len(octets)) / mean,
            "gini": sum(abs(a - b) for a in octets for b in octets) / (2 * len(octets) ** 2 * mean),
        }.items():
            check(f"{way}: {field}", row[f"{way}_imbalance"][field], value)
    for number, value in enumerate(row["in_max_to_mean"]):
        now = [course[number] for course in received.values()]
        is_known = all(port[seconds[number]] == 1 for port in every)
        check(f"max_to_mean at {number}", value, max(now) * len(now) / sum(now) if is_known and sum(now) else None)
    check("into", sum(v or 0 for rate in row["into"] for v in rate["gbps"]), sum(sum(filter(None, rates(c))) for c in received.values()))
    rate = lambda octets: [None if o is None else o / s for o, s in zip(octets, length)]
    # What is known of all ports of the group, and of all other ports.
    is_whole = [all(port[s] == 1 for port in every) for s in seconds]
    others = [share["all"] for (one, _), share in zip(flows, shares) if one not in members]
    is_known = [all(port[s] == 1 for port in others) for s in seconds]
    senders(row, zip(flows, shares), members, (added(list(received.values())), is_whole, is_known), course, rate, jobs, seconds, length, check)


def senders(row, flows, members, group, course, rate, jobs, seconds, length, check):
    """The bounds and the estimate of each job, and of each host for its time without a job."""
    inflow, is_whole, is_known = group
    sent, shares = {}, collections.defaultdict(list)
    for (one, of), share in flows:
        if one not in members:
            for owner in {owner for _, owner in of} | set(share) - {"all"}:
                key = (jobs.ids[owner], None) if owner is not None else (None, one)
                mine = course(of, 0, lambda other: other == owner)
                sent[key] = added([sent[key], mine]) if key in sent else mine
                shares[key].append(share.get(owner, {}))
    sent = {key: values for key, values in sent.items() if any(v is not None for v in values)}
    found = {(sender["job"], sender["host"]): sender for sender in row["senders"]}
    check("senders", set(found), set(sent))
    everything = added(list(sent.values()))
    ran = {key: [any(s in of for of in shares[key]) for s in seconds] for key in sent}
    known = {key: [all(of.get(s, 1) == 1 for of in shares[key]) for s in seconds] for key in sent}
    pairs = lambda values, is_true: [v if t else None for v, t in zip(values, is_true)]
    alike = {key: correlation(rate(pairs(values, known[key])), rate(pairs(inflow, is_whole))) for key, values in sent.items()}
    weight = {key: max(value or 0.0, 0.0) for key, value in alike.items()}
    for key, values in sent.items():
        least = estimate = most = covered = 0.0
        for number, (own, into) in enumerate(zip(values, inflow)):
            own = 0.0 if own is None and not ran[key][number] else own
            if own is None or into is None:
                continue
            low = min(max(into - (everything[number] - own), 0.0), own) if is_known[number] else 0.0
            uppers = [v for v, t in ((own, known[key][number]), (into, is_whole[number])) if t]
            if not uppers:
                continue
            high = max(min(uppers), low)
            weights = sum((other[number] or 0.0) * weight[name] for name, other in sent.items())
            least, most, covered = least + low, most + high, covered + length[number]
            estimate += min(max(into * own * weight[key] / weights if weights else 0.0, low), high)
        shown = found.get(key, collections.defaultdict(lambda: None))
        for field, value in {
            "sent_bytes": total(values), "least_bytes": least, "estimate_bytes": estimate, "most_bytes": most, "correlation": alike[key],
            "covered_seconds": covered,
        }.items():
            # Least is a difference of large numbers.
            check(f"{key}: {field}", shown[field], value, tolerance=1e-6)


class NoJobs:
    """All traffic is without a job."""

    def split(self, name, a, b):
        yield None, a, b, 1


def added(courses):
    return [sum(v for v in values if v is not None) if any(v is not None for v in values) else None for values in zip(*courses)]


def total(values):
    return sum(v for v in values if v is not None)


def correlation(a, b):
    pairs = [(x, y) for x, y in zip(a, b) if x is not None and y is not None]
    if len(pairs) < 3:
        return None
    x, y = (sum(values) / len(pairs) for values in zip(*pairs))
    both, xx, yy = (sum(f(a - x, b - y) for a, b in pairs) for f in (lambda a, b: a * b, lambda a, _: a * a, lambda _, b: b * b))
    # Rounding makes small differences between equal values.
    differs = lambda squares, mean: squares > len(pairs) * mean * mean * 1e-18
    return both / math.sqrt(xx * yy) if differs(xx, x) and differs(yy, y) else None
