"""`latency`: distributions of round-trip times, from the histograms and from the port records.

A histogram has buckets, so the order of the values within a bucket is not known. ibnet-view also keeps
values in buckets, of 0.1 to 0.2 %, and shifts them by the timer cost. So a percentile, the smallest and the
largest value of a histogram, and the distance of two distributions have a tolerance: the bucket of the
histogram, and twice the bucket of ibnet-view. Counts, and moments with the values in the middle of their
buckets, have no tolerance but the last digits of a floating point number.
"""

import base64
import bisect
import collections
import itertools
import math
import struct
import zlib


PERCENTILES = {"p1_ns": 1, "p25_ns": 25, "p50_ns": 50, "p75_ns": 75, "p90_ns": 90, "p99_ns": 99, "p999_ns": 99.9}
ROUNDING = 0.004
LONGEST = 10**12
GROUPINGS = ("kind", "sampler", "hops", "device", "model", "switch", "chassis", "path")


class Values:
    """Numbers of values from `low` to `high`, in nanoseconds, less the timer cost."""

    def __init__(self):
        self.steps = collections.Counter()

    def add(self, low, high, clock, count=1):
        self.steps[low, high, clock] += count

    def update(self, other):
        self.steps.update(other.steps)

    def finish(self):
        self.count = sum(self.steps.values())
        middles = [((low + high) / 2 - clock, count) for (low, high, clock), count in self.steps.items()]
        self.mean = math.fsum(value * count for value, count in middles) / self.count
        self.about = lambda x, n: math.fsum((value - x) ** n * count for value, count in middles) / self.count
        power = lambda n: self.about(self.mean, n)
        self.sd = math.sqrt(power(2))
        self.skew, self.kurtosis = (power(3) / self.sd**3, power(4) / self.sd**4) if self.sd > 0 else (0.0, 0.0)
        ends = sorted((max(low - clock, 1), max(high - clock, 1), count) for (low, high, clock), count in self.steps.items())
        self.is_exact = all(low == high for low, high, _ in ends)
        self.least, self.greatest = (ends[0][0], min(high for _, high, _ in ends)), (max(low for low, _, _ in ends), max(high for _, high, _ in ends))
        self.lows, self.highs = cumulative((low, count) for low, _, count in ends), cumulative((high, count) for _, high, count in ends)
        return self

    def is_percentile(self, percent, shown):
        """Whether a value can have this rank: enough values can be at most as large, and not too many must be."""
        rank = max(math.ceil(percent / 100 * self.count * (1 - 1e-12)), 1)
        margin = ROUNDING * shown + 2
        return below(self.highs, shown - margin) < rank <= up_to(self.lows, shown + margin)

    def share(self, x):
        """The least and the largest share of values up to `x`."""
        return below(self.highs, x * (1 - ROUNDING) - 2) / self.count, up_to(self.lows, x * (1 + ROUNDING) + 2) / self.count


def cumulative(ends):
    points, counts, total = [], [], 0
    for x, count in sorted(ends):
        total += count
        points.append(x)
        counts.append(total)
    return points, counts


def below(ends, x):
    index = bisect.bisect_left(ends[0], x)
    return ends[1][index - 1] if index else 0


def up_to(ends, x):
    index = bisect.bisect_right(ends[0], x)
    return ends[1][index - 1] if index else 0


def decoded(text):
    """The buckets of an HdrHistogram (V2, deflate): lowest value, highest value, count."""
    cookie, length = struct.unpack_from(">ii", data := base64.b64decode(text))
    plain = zlib.decompress(data[8 : 8 + length])
    inner, length, offset, digits, lowest, _, ratio = struct.unpack_from(">iiiiqqd", plain)
    if (cookie & ~0xF0, inner & ~0xF0, offset, ratio) != (0x1C849304, 0x1C849303, 0, 1.0):
        raise ValueError("not a histogram V2 with deflate")
    unit = lowest.bit_length() - 1
    half = math.ceil(math.log2(2 * 10**digits)) - 1
    index, at = 0, 40
    while at < 40 + length:
        number = shift = 0
        while True:
            octet, at = plain[at], at + 1
            # The ninth octet has eight bits of the number.
            if shift == 56:
                number |= octet << shift
                break
            number |= (octet & 127) << shift
            shift += 7
            if octet < 128:
                break
        count = (number >> 1) ^ -(number & 1)
        if count < 0:
            index -= count
            continue
        if count:
            bucket = max((index >> half) - 1, 0)
            part = index - (bucket << half) if index >> half else index
            low = part << (bucket + unit)
            yield low, low + (1 << (bucket + unit)) - 1, count
        index += 1


def distributions(recording):
    """Returns the distributions by kind of the group, name and GUID of the device."""
    clocks = {}
    for r in recording.lines:
        if r["clock_ns"] is not None and (r["type"] == "start" or r["type"] == "histogram" and recording.within(r)):
            clocks[r["sampler"]] = min(clocks.get(r["sampler"], LONGEST), r["clock_ns"])
    clock = lambda sampler: clocks.get(sampler) or 0
    rtt, service, means = ({by: collections.defaultdict(Values) for by in GROUPINGS} for _ in range(3))
    compound, minima, timer, single = Values(), Values(), Values(), {}
    names, hops_of, facts = {}, {}, collections.defaultdict(dict)
    # A record of every query counts, except for copies.
    is_answer = lambda r: r["status"] in ("ok", "late") and r["mads"] > 0 and r["rtt_ns"] // r["mads"] > 0
    ports = [r for r in recording.port_records() if recording.within(r) and is_answer(r)]
    histograms = [r for r in recording.lines if r["type"] == "histogram" and r["v2"] is not None and recording.within(r)]
    for r in ports:
        names.setdefault(r["guid"], r["node"])
        if (switch := r["guid"] if r["kind"] == "switch" else r["peer_guid"]) is not None:
            facts[r["guid"]].setdefault("switch", switch)
    for r in ports:
        if r["kind"] != "switch" and r["peer_guid"] is not None and r["peer"] is not None:
            names.setdefault(r["peer_guid"], r["peer"])
    for h in histograms:
        if h["guid"] is not None and h["system_guid"] is not None:
            facts[h["guid"]].setdefault("chassis", h["system_guid"])
            facts[h["guid"]].setdefault("model", (h["vendor_id"], h["device_id"]))
    for r in ports:
        mean, cost = r["rtt_ns"] // r["mads"], clock(r["sampler"])
        hops_of[r["sampler"], r["guid"]] = r["hops"] if r["hops"] is not None else hops_of.get((r["sampler"], r["guid"]))
        for by, name in groups(r["kind"] or "other", r["sampler"], r["hops"], r["guid"], facts, names):
            means[by][name].add(mean, mean, cost)
        compound.add(r["rtt_ns"], r["rtt_ns"], cost * r["mads"])
        if r["rtt_min_ns"] is not None:
            key = r["sampler"], r["guid"]
            single[key] = min(single.get(key, LONGEST), r["rtt_min_ns"])
    for h in histograms:
        kind, cost = h["device_kind"] or "other", clock(h["sampler"])
        buckets = [(max(low, 1), min(high, LONGEST), count) for low, high, count in decoded(h["v2"])]
        if h["kind"] == "clock":
            for low, high, count in buckets:
                timer.add(low, high, 0, count)
        if h["kind"] not in ("rtt", "service"):
            continue
        into = groups(kind, h["sampler"], h["hops"], h["guid"], facts, names)
        if h["guid"] is None and h["kind"] == "rtt":
            target, into = rtt, into[:2]
        elif h["guid"] is not None and h["kind"] == "service":
            target = service
            minima.add(h["min_ns"], h["min_ns"], cost)
        else:
            continue
        for by, name in into:
            for low, high, count in buckets:
                target[by][name].add(low, high, cost, count)
    by_device = service if service["device"] else means
    by_kind = rtt if rtt["kind"] else by_device
    found = {(by, name): by_kind[by][name] for by in ("kind", "sampler") for name in by_kind[by]}
    for by in set(GROUPINGS) - {"kind", "sampler"}:
        # A grouping of which nothing is known is left out, except for the distances.
        if by == "hops" or set(by_device[by]) != {f"unknown {by}"}:
            found |= {(by, name): by_device[by][name] for name in by_device[by]}
    found[None, "all"] = Values()
    for values in by_kind["kind"].values():
        found[None, "all"].update(values)
    if compound.steps:
        found[None, "compound query of a port"] = compound
    for name, values in {"least of each device and minute": minima, "timer cost": timer}.items():
        if values.steps:
            found[None, name] = values
    least = collections.defaultdict(lambda: LONGEST)
    for (sampler, guid), ns in single.items():
        least[guid] = min(least[guid], max(ns - clock(sampler), 1))
    if least:
        found[None, "least of each device"] = Values()
        for ns in least.values():
            found[None, "least of each device"].add(ns, ns, 0)
    return {key: values.finish() for key, values in found.items()}, names


def groups(kind, sampler, hops, guid, facts, names):
    hops = "unknown distance" if hops is None else "1 hop" if hops == 1 else f"{hops} hops"
    of = facts.get(guid, {})
    switch = of.get("switch")
    chassis = facts.get(switch, {}).get("chassis", "unknown chassis")
    path = "unknown path" if switch is None else f"{sampler} -> {names.get(switch, switch)}"
    # All devices of the recordings are from NVIDIA.
    model = f"MT{of['model'][1]}" if "model" in of else "unknown model"
    some = [("kind", kind), ("sampler", sampler), ("hops", hops), ("device", guid), ("model", model)]
    return some + [("switch", switch or "unknown switch"), ("chassis", chassis), ("path", path)]


def identity(row):
    return row["by"], row["guid"] or row["name"]


def latency(recording, shown, differences):
    check = lambda what, a, b, **more: differences.check("latency", what, a, b, **more)
    expected, names = distributions(recording)
    found = {identity(row): row for row in shown}
    check("rows", set(found), set(expected))
    for key in set(found) & set(expected):
        row, values = found[key], expected[key]
        if row["by"] in ("device", "switch") and row["guid"]:
            check(f"{key}: name", row["name"], names.get(row["guid"], row["guid"]))
        compare(key, row, values, check)


def compare(key, row, values, check):
    check(f"{key}: count", row["count"], values.count)
    check(f"{key}: mean_ns", row["mean_ns"], values.mean)
    # A deviation is a difference of large numbers.
    for name, value in {"sd_ns": values.sd, "skew": values.skew, "kurtosis": values.kurtosis}.items():
        check(f"{key}: {name}", row[name], value, tolerance=1e-6)
    for name, percent in PERCENTILES.items():
        check(f"{key}: {name} {row[name]}", values.is_percentile(percent, row[name]), True)
    for name, (low, high) in {"min_ns": values.least, "max_ns": values.greatest}.items():
        margin = 0 if values.is_exact else ROUNDING * row[name] + 2
        check(f"{key}: {name} {row[name]} of {low} to {high}", low - margin <= row[name] <= high + margin, True)
    least = row["min_ns"]
    rms = math.sqrt(values.about(least, 2))
    excess = {"mean_ns": values.mean - least, "rms_ns": rms}
    excess |= {name: values.about(least, n) / rms**n if rms > 0 else 0.0 for name, n in {"third": 3, "fourth": 4}.items()}
    for name, value in excess.items():
        check(f"{key}: excess_{name}", row[f"excess_{name}"], value, tolerance=1e-6)
    quarter, half, three = (row[name] - least for name in ("p25_ns", "p50_ns", "p75_ns"))
    has_fit = quarter > 0 and three > quarter
    check(f"{key}: fit", row["fit_sigma"] is not None, has_fit)
    if has_fit:
        sigma = math.log(three / quarter) / 1.3489795003921634
        check(f"{key}: fit_sigma", row["fit_sigma"], sigma, tolerance=1e-6)
        check(f"{key}: fit_median_ns", row["fit_median_ns"], float(half))
        low, high = fit_distance(values, least, half, sigma)
        check(f"{key}: fit_distance {row['fit_distance']} of {low} to {high}", low - 1e-6 <= row["fit_distance"] <= high + 1e-6, True)
    modes = row["modes"]
    check(f"{key}: modes {modes}", modes == sorted(modes) and len(modes) > 0, True)
    check(f"{key}: highest density {modes}", has_highest(values, modes), True)


def fit_distance(values, least, median, sigma):
    """The least and the largest distance of a log-normal distribution that the buckets allow."""
    def share(x):
        return 0.5 + 0.5 * math.erf(math.log((x - least) / median) / sigma / math.sqrt(2)) if x > least else 0.0

    low = high = before = 0.0
    fit_before = 0.0
    for x in sorted({*values.lows[0], *values.highs[0], *(end + 1 for end in values.highs[0])}):
        fits = share(x * (1 - ROUNDING) - 2), share(x * (1 + ROUNDING) + 2)
        counted = values.share(x)
        low = max(low, fits[0] - counted[1], counted[0] - fits[1])
        # Between two of these places, both shares are between those at the places.
        high = max(high, fits[1] - before, counted[1] - fit_before)
        before, fit_before = counted[0], fits[0]
    return low, high


def has_highest(values, modes):
    """Whether a mode is at the highest density: a kernel estimate on a logarithmic axis, with the width by
    Silverman (1986) for at most 50,000 values. The search is repeated within each mode with a narrower kernel,
    because the width follows from all values, and a few late ones make it wider than the distance of two modes."""
    steps = sorted((math.log10(max(low - clock, 1)), math.log10(max(high + 1 - clock, 2)), count) for (low, high, clock), count in values.steps.items())
    middle = sorted(((a + b) / 2, count / values.count) for a, b, count in steps)
    mean = sum(x * share for x, share in middle)
    sd = math.sqrt(sum((x - mean) ** 2 * share for x, share in middle))
    shares = list(itertools.accumulate(share for _, share in middle))
    quartiles = [middle[min(bisect.bisect_left(shares, part), len(middle) - 1)][0] for part in (0.25, 0.75)]
    spread = min(value for value in (sd, (quartiles[1] - quartiles[0]) / 1.34, sd) if value > 0) if sd > 0 else 0
    width = max(0.9 * spread * min(values.count, 50_000) ** -0.2, 0.002)
    return any(is_highest(middle, [math.log10(mode) for mode in modes], width / part) for part in (1, 2, 4))


def is_highest(middle, modes, width):
    near = lambda at: middle[bisect.bisect_left(middle, (at - 4 * width,)) : bisect.bisect_right(middle, (at + 4 * width,))]
    density = lambda at: sum(share * math.exp(-0.5 * ((x - at) / width) ** 2) for x, share in near(at))
    places = [middle[0][0] + width / 4 * step for step in range(int((middle[-1][0] - middle[0][0]) / width * 4) + 2)]
    highest = max(map(density, places[:4000]))
    return any(density(mode + width / 2 * side) >= 0.9 * highest for mode in modes for side in (-1, 0, 1))


def comparison(one, other, shown, differences):
    """Compares the shifts and distances of `latency --compare`: `one` is the reference."""
    check = lambda what, a, b, **more: differences.check("latency --compare", what, a, b, **more)
    (first, _), (second, names) = distributions(one), distributions(other)
    reference, last = ({identity(row): row for row in shown if row["recording"] == name} for name in ("one", "FILES"))
    wanted = lambda found: {key for key in found if key[0] or key[1] == "all"}
    shared = {key for key in wanted(first) & wanted(second)}
    # Devices that are in both recordings are listed; other groups are always listed.
    for rows, found in ((reference, first), (last, second)):
        check("rows", set(rows), {key for key in wanted(found) if key[0] != "device" or key in shared})
        for key in set(rows) & set(found):
            compare(key, rows[key], found[key], check)
    check("shifts of the reference", {row["shift_ns"] for row in reference.values()}, {None})
    for key in set(last) & shared:
        check(f"{key}: shift_ns", last[key]["shift_ns"], float(last[key]["p50_ns"] - reference[key]["p50_ns"]))
        low, high = distance(first[key], second[key])
        check(f"{key}: distance {last[key]['distance']} of {low} to {high}", low - 1e-9 <= last[key]["distance"] <= high + 1e-9, True)


def distance(one, other):
    """The least and the largest Kolmogorov-Smirnov distance that the buckets allow."""
    low = high = 0.0
    for x in sorted({x for values in (one, other) for ends in (values.lows, values.highs) for x in ends[0]}):
        (a, b), (c, d) = one.share(x), other.share(x)
        low, high = max(low, a - d, c - b), max(high, b - c, d - a)
    return low, high
