"""`job --group`: flow into and out of the hosts of a group, and its senders, by the rules in docs/hosts.md."""

import collections
import math

from job import Jobs, host_flows, known_shares, recorded
from records import SECOND


def groups(recording, shown, group, path, differences):
    check = lambda what, a, b, **more: differences.check("job --group", what, a, b, **more)
    name, _, hosts = group.partition("=")
    members = set(hosts.split(","))
    jobs = Jobs(path) if path else None
    row = shown[0]
    low, high = recorded(recording)
    flows = list(host_flows(recording, jobs or NoJobs()))
    # The group receives, and all others send.
    shares = [known_shares(of, one, jobs or NoJobs(), low, high, 1 if one in members else 0) for one, of in flows]
    seconds = range(low // SECOND, (high - 1) // SECOND + 1)
    length = [(min(high, (s + 1) * SECOND) - max(low, s * SECOND)) / SECOND for s in seconds]
    check("bins", (row["group"], row["start_ns"], row["bin_ns"], len(row["in_max_to_mean"])), (name, low // SECOND * SECOND, SECOND, len(seconds)))

    def course(of, index, owners):
        """Octets in each second of some owners; None without records."""
        found = dict.fromkeys(seconds)
        for (second, owner), flow in of.items():
            if flow[3 + index] and owners(owner):
                found[second] = (found[second] or 0.0) + flow[index]
        return list(found.values())

    everyone = lambda owner: True
    own, known, known_out = (collections.defaultdict(list) for _ in range(3))
    for (one, of), share in zip(flows, shares):
        if one in members:
            own[one].append((course(of, 1, everyone), course(of, 0, everyone)))
            known[one].append(share["all"])
            known_out[one].append(known_shares(of, one, jobs or NoJobs(), low, high, 0)["all"])
    all_known = lambda ports: [all(port.get(s, 1) == 1 for port in ports) for s in seconds]
    covered = lambda ports: sum(sum(port[s] for port in ports) / len(ports) * l for s, l in zip(seconds, length))
    every = [port for ports in known.values() for port in ports]
    check("covered_seconds", row["covered_seconds"], covered(every))
    check("recorded_seconds", row["recorded_seconds"], sum(length))
    check("hosts", {target["host"] for target in row["targets"]}, set(own))
    check("missing", row["missing"], sorted(members - set(own)))
    received = {}
    for target in row["targets"]:
        into, out = (added(values) for values in zip(*own[target["host"]]))
        into, out = (bounds(v, all_known(of[target["host"]])) for v, of in ((into, known), (out, known_out)))
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
    is_whole = all_known(every)
    others = [share["all"] for (one, _), share in zip(flows, shares) if one not in members]
    is_known = all_known(others)
    senders(row, zip(flows, shares), members, (bounds(added(list(received.values())), is_whole), is_whole, is_known), course, rate, jobs, seconds, length, check)


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
    known = {key: [all(of.get(s, 1) == 1 for of in shares[key]) for s in seconds] for key in sent}
    sent = {key: bounds(values, known[key]) for key, values in sent.items()}
    sent = {key: values for key, values in sent.items() if any(v is not None for v in values)}
    found = {(sender["job"], sender["host"]): sender for sender in row["senders"]}
    check("senders", set(found), set(sent))
    everything = added(list(sent.values()))
    ran = {key: [any(s in of for of in shares[key]) for s in seconds] for key in sent}
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


def bounds(values, is_known):
    """At least 0 says nothing."""
    return [v if v or t else None for v, t in zip(values, is_known)]


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
