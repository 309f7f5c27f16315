"""`links` and `map`: utilization, blocked time and errors of links."""

import math

from records import DATA, TOP, end, first, rate


def links(recording, shown, view, differences, stat="mean"):
    ports = recording.ports
    expected = {frozenset([key, port.peer]) for key, port in ports.items() if port.peer}
    differences.check(view, "links", {frozenset([end(row["from"]), end(row["to"])]) for row in shown}, expected)
    share = lambda key, name: statistic(recording, key, name, stat)
    for row in shown:
        one, other = end(row["from"]), end(row["to"])
        what = f"{one} to {other}"

        def sent(a, b, name, value):
            # The end whose data rate is known for more than an eighth longer; otherwise the one that sends.
            values = [value(a, "xmit" + name), value(b, "rcv" + name)]
            is_received = 8 * known(ports.get(b), "rcv_gbps") > 9 * known(ports.get(a), "xmit_gbps")
            return first(*(reversed(values) if is_received else values))

        for name, value in {
            "xmit_gbps": sent(one, other, "_gbps", recording.value),
            "xmit_utilization": sent(one, other, "_utilization", share),
            "xmit_utilization_peak": sent(one, other, "_utilization_peak", recording.value),
            "blocked": share(one, "xmit_blocked"),
            "back_utilization": sent(other, one, "_utilization", share),
            "back_blocked": share(other, "xmit_blocked"),
            "errors": sum(ports[key].errors() for key in (one, other) if key in ports),
            "ends_disagree": disagrees(ports.get(one), ports.get(other)),
            "stat": stat,
            "link": (ports.get(min(one, other)) or ports[max(one, other)]).link,
        }.items():
            differences.check(view, f"{what}: {name}", row[name], value)
        nodes = [first(ports[key].node if key in ports else None, ports[far].peer_name if far in ports else None) for key, far in [(one, other), (other, one)]]
        differences.check(view, f"{what}: nodes", [row["from"]["node"], row["to"]["node"]], nodes)


def known(port, name):
    """The time in which a port has a rate."""
    return sum(b - a for a, b, r in port.pieces["data"] if r[name] is not None) if port else 0


def statistic(recording, key, name, stat):
    """The mean, the peak, or a percentile of the slots: the smallest value, rounded to 0.1 %, that was
    not exceeded for this part of the time."""
    if stat == "mean":
        return recording.value(key, name)
    if stat == "peak":
        return recording.value(key, name + "_peak")
    pieces = recording.ports[key].pieces["blocked" if name == "xmit_blocked" else "data"] if key in recording.ports else []
    times = sorted((math.floor(r[name] * 1000 + 0.5), b - a) for a, b, r in pieces if r[name] is not None)
    whole, below = sum(time for _, time in times), 0
    for value, time in times:
        below += time
        if below * 100 >= whole * int(stat[1:]):
            return value / 1000
    return None


def disagrees(one, other):
    """Whether the two ends counted different numbers of octets, beyond the tolerance."""
    if not one or not other:
        return False
    low, high = one.window

    def readings(port):
        kept = {}
        for r in port.records:
            counted = r["counts"] and all(r[name] is not None for name in DATA) and not set(DATA) & set(r["saturated"] or [])
            if counted and low <= r["ts"] and (r["ts"] < high or high == TOP):
                if kept and any(r[name] < max(k[name] for k in kept.values()) for name in DATA):
                    kept = {}
                kept[r["slot"]] = r
        return kept

    mine, others = readings(one), readings(other)
    common = sorted(set(mine) & set(others))
    if len(common) < 2:
        return False
    if max(len(mine), len(others)) > 32:
        raise SystemExit("recompute: give a recording of at most 32 slots: ibnet-view thins out the readings of longer ones")
    a, b = common[0], common[-1]
    apart = sum(abs(mine[s]["ts"] - others[s]["ts"]) + mine[s]["rtt_ns"] + others[s]["rtt_ns"] for s in (a, b))
    gbps = max(rate(r["link"]) or 0 for port in (one, other) for r in port.records)
    tolerance = 2 * apart * gbps / 8 + 65536
    for xmit, rcv in [(mine, others), (others, mine)]:
        sent, received = xmit[b][DATA[0]] - xmit[a][DATA[0]], rcv[b][DATA[1]] - rcv[a][DATA[1]]
        if abs(sent - received) > max(tolerance, 0.005 * max(sent, received)):
            return True
    return False
