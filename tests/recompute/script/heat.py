"""`heatmap`: the cells of each row, by the rules under "heatmap" in docs/results.md."""

import bisect
import collections
import re

from records import ARRAYS, PARTS, SECOND, STATED, end, grown, host
from records import ERRORS as ALL_ERRORS

MS = 10**6
LENGTHS = [MS * n for n in (1, 2, 10, 20, 100, 200)] + [
    SECOND * n
    for n in (1, 2, 10, 20, 60, 120, 600, 1200, 3600, 7200, 21600, 43200, 86400, 604800, 6048000, 60480000)
]
MAX_BINS = 2000
UNITS = {"xmit_gbps": "Gb/s", "rcv_gbps": "Gb/s", "rtt_ns": "ns", "rtt_mean_ns": "ns"} | dict.fromkeys(
    ["xmit_utilization", "rcv_utilization", "xmit_blocked"], "share of 1"
)
# The counters of the metric `errors`.
ERRORS = [name for name in ALL_ERRORS if name not in PARTS]
# The largest values of counters that can be cleared.
FULL = dict.fromkeys(("port_xmit_data_sl_bytes", "port_rcv_data_sl_bytes"), 4 * (2**32 - 1))
# States without a value of a port in a bin, and of a row of several ports: the first one wins.
OF_PORT = ["no_answer", "down", "increase", "unknown"]
OF_ROW = ["increase", "unknown", "no_answer", "down"]


class Metric:
    """A derived value of the records, or the rate of one or more counters."""

    def __init__(self, name):
        self.name = name
        self.is_rate = name not in UNITS
        counter, _, index = name.partition("[")
        self.counters = ERRORS if name == "errors" else [counter]
        self.index = int(index[:-1]) if index else None
        self.is_additive = self.is_rate or name in ("xmit_gbps", "rcv_gbps")
        suffix = re.search("_(bytes|ticks)$", counter)
        self.unit = UNITS.get(name) or {"bytes": "octets/s", "ticks": "ticks/s"}.get(suffix and suffix[1], "1/s")

    def value(self, r):
        if not self.name.startswith("rtt"):
            return r[self.name]
        if r["status"] not in ("ok", "late") or not r["mads"]:
            return None
        return float(r["rtt_ns"]) if self.name == "rtt_ns" else r["rtt_ns"] / r["mads"]

    def readings(self, r):
        """The values of a record by counter and element, each with whether it is saturated."""
        values = {}
        for name in self.counters:
            found, is_saturated = r.get(name), name in (r["saturated"] or [])
            if found is None or name in ARRAYS and self.index is not None and self.index >= len(found):
                continue
            if name not in ARRAYS:
                if self.index is None:
                    values[name] = found, is_saturated
                continue
            # All bits of a saturated element are set: it is the largest one. Of totals of counters that
            # were cleared, each one above the max of the counter may be saturated.
            limit = min(max(found), FULL.get(name, max(found))) if is_saturated else float("inf")
            chosen = range(len(found)) if self.index is None else [self.index]
            values |= {f"{name}[{i}]": (found[i], found[i] >= limit) for i in chosen}
        return values


class Track:
    """The bins of one port and one metric."""

    def __init__(self):
        self.bins = collections.defaultdict(lambda: [0.0, 0, set()])  # sum, ns with a value, states

    def put(self, width, a, b, state, value=None):
        for number in range(a // width, (b - 1) // width + 1):
            part = min(b, (number + 1) * width) - max(a, number * width)
            cell = self.bins[number]
            if value is not None:
                cell[0] += value * part
                cell[1] += part if state == "value" else 0
            if 8 * part >= min(b - a, width) or state == "partial":
                cell[2].add(state)

    def cell(self, number):
        if number not in self.bins:
            return "no_record", None
        total, ns, states = self.bins[number]
        if "value" not in states:
            return next((state for state in OF_PORT if state in states), "no_record"), None
        value = total / ns
        if "increase" in states:
            return ("at_least", value) if value > 0 else ("increase", None)
        if "partial" in states:
            return ("at_least", value) if value > 0 else ("unknown", None)
        return "value", value


def state(r):
    """The state of a record without a value."""
    return {"timeout": "no_answer", "unreachable": "no_answer", "wrong_device": "no_answer", "down": "down"}.get(r["status"], "unknown")


def parts(recording, port, counted, metrics):
    """Yields the parts of the columns of a port: metric, from, to, state, value. A state of "more" adds to a value."""
    for metric, start, end, *rest in times(recording, port, counted, metrics):
        start, end = slots(recording, start, end)
        if start < end:
            yield metric, start, end, *rest


def times(recording, port, counted, metrics):
    """Yields the parts of the time of a port."""
    last = None
    records = {id(r) for r in port.records}
    for r in port.used:
        if id(r) not in records:
            for rates in counted:
                yield from rates.between(r)
            continue
        ts = port.stamp(r)
        since = None if last is None else ts - recording.interval if 2 * (ts - last) > 3 * recording.interval else last
        silent = (since, ts) if last is not None and since < ts else (ts, ts + 1)
        last = ts
        piece = {kind: next(((a, b) for a, b, other in port.pieces[kind] if other is r), None) for kind in port.pieces}
        for metric in metrics:
            if metric.is_rate:
                continue
            value = metric.value(r)
            time = (ts - recording.interval, ts) if metric.name.startswith("rtt") else piece["blocked" if metric.name == "xmit_blocked" else "data"]
            if value is None or time is None:
                yield metric, *(piece["data"] or silent), state(r), None
            else:
                yield metric, *time, "value", value
        for rates in counted:
            found = list(rates.between(r))
            yield from found
            if not any(part[3] in ("value", "more") for part in found) or not port.within(r["ts"]):
                yield rates.metric, *silent, state(r), None
    for rates in counted:
        yield from rates.partial()


def slots(recording, start, end):
    """The time in which a value is drawn. In columns of whole slots, a value has the slots whose ends it describes."""
    length = recording.interval
    fitting = next(width for width in LENGTHS if width >= length)
    if fitting % length or end - start <= 1:
        return start, end
    return start // length * length, end // length * length


class Rates:
    """The rates of the counters of a metric at a port: each describes the time between two readings."""

    def __init__(self, port, metric):
        self.port, self.metric = port, metric
        # The last reading of each counter: ts, latest slot so far, value, and whether it is saturated.
        self.last = {}
        # The slots of the records so far, and the time at which the device did not answer.
        self.slots, self.away = set(), 0
        self.covered = []
        # The times with and without a rate of a counter, and whether a record has a counter.
        self.rated, self.lacking, self.has_counter = [], [], False

    def add(self, r):
        """Adds a record, in the order of time."""
        self.slots.add(r["slot"])
        if r["status"] in ("unreachable", "wrong_device"):
            self.away = r["ts"]

    def has_gap(self, one, name, r):
        """Whether a reading was lost since an earlier one, or cannot be compared with it."""
        stated = next((r[field] for field in STATED[name] if r[field] is not None), None)
        is_lost = stated == 0 or one[1] < r["slot"] - (stated or 1)
        if stated is None and r["slot"] - 1 in self.slots:
            is_lost = False  # A version before the fields wrote the record.
        return is_lost or self.away > one[0]

    def between(self, r):
        """Yields the rates since the last readings, cut to the range."""
        self.add(r)
        if not r["counts"]:
            return
        low, high = self.port.window
        increases, unknown, has_decreased = collections.Counter(), collections.Counter(), False
        readings = self.metric.readings(r)
        smaller = {name.split("[")[0] for name, (value, _) in readings.items() if name in self.last and value < self.last[name][2]}
        cut_resets = smaller if r["ts"] > high else set()
        for name, (value, is_saturated) in readings.items():
            one = self.last.pop(name, None)
            self.has_counter |= self.port.within(r["ts"])
            if one:
                start, end = max(one[0], low), min(r["ts"], high)
                if start < end:
                    self.has_counter = True
                    # Only a counter that was cleared grows after it was saturated.
                    is_known = (not one[3] or value > one[2]) and not is_saturated
                    is_decrease = value < one[2] and end == r["ts"]
                    has_decreased |= is_decrease and is_known
                    pair = (one[0], one[2]), (r["ts"], value)
                    grown_by = value if is_decrease else max(grown(*pair, end) - grown(*pair, start), 0)
                    # A counter that the range cuts before a reset has no rate.
                    counter = name.split("[")[0]
                    has_gap = self.has_gap(one, counter, r) or counter in cut_resets
                    (increases if is_known and not has_gap else unknown)[start, end] += grown_by
            self.last[name] = (r["ts"], max(r["slot"], one[1] if one else 0), value, is_saturated)
        if has_decreased:
            unknown.update(increases)
            increases = {}
        self.rated += increases
        self.lacking += unknown
        if set(self.metric.counters) & {*ALL_ERRORS, "port_vl_xmit_wait_ticks"}:
            yield from ((self.metric, *time, "increase", None) for time, increase in unknown.items() if increase > 0)
        for (start, end), increase in increases.items():
            rate = increase * SECOND / (end - start)
            for a, b, is_new in self.divided(start, end):
                yield self.metric, a, b, "value" if is_new else "more", rate

    def partial(self):
        """Yields the times in which some counters have a rate and others lack it."""
        # Times of one counter follow each other, so few of them overlap.
        self.rated.sort()
        longest = max((b - a for a, b in self.rated), default=0)
        for c, d in self.lacking:
            for a, b in self.rated[bisect.bisect_left(self.rated, (c - longest, 0)) : bisect.bisect_left(self.rated, (d, 0))]:
                if max(a, c) < min(b, d):
                    yield self.metric, max(a, c), min(b, d), "partial", None

    def divided(self, start, end):
        """Divides a time into parts with a value of another counter of the metric, and parts without."""
        edges = sorted({start, end} | {t for pair in self.covered for t in pair if start < t < end})
        for a, b in zip(edges, edges[1:]):
            yield a, b, not any(c <= a and b <= d for c, d in self.covered)
        self.covered.append((start, end))


def rows_of(recording, by):
    """The ports of each row."""
    rows = collections.defaultdict(list)
    for key, port in recording.ports.items():
        name = {
            "port": key,
            "link": min(key, port.peer) if port.peer else key,
            "switch": key[0] if port.kind == "switch" else None,
            "host": host(port.node) if port.kind != "switch" else None,
        }[by]
        if name is not None:
            rows[name].append(key)
    return rows


def heat(recording, shown, metrics, by, differences):
    """Compares the rows of a heat map of these metrics."""
    view = f"heatmap --by {by}"
    check = lambda what, a, b: differences.check(view, what, a, b)
    given = [Metric(name) for name in metrics.split(",")]
    is_element = by in ("sl", "vl")
    drawn = [Metric(f"{metric.name}[{i}]") for metric in given for i in range(16)] if is_element else given
    counted = {key: [Rates(port, metric) for metric in drawn if metric.is_rate] for key, port in recording.ports.items()}
    all_parts = {key: list(parts(recording, port, counted[key], drawn)) for key, port in recording.ports.items()}
    # A port that answered and never has a counter does not belong to the sums of this counter.
    lacks = {
        (key, rates.metric.name)
        for key, of_port in counted.items()
        for rates in of_port
        if not rates.has_counter and any(r["status"] in ("ok", "late") for r in recording.ports[key].records)
    }
    times = [(a, b) for found in all_parts.values() for _, a, b, _, _ in found]
    low, high = min(a for a, _ in times), max(b for _, b in times)
    width = next(w for w in LENGTHS if w >= recording.interval and (high - 1) // w - low // w < MAX_BINS)
    low_bin, high_bin = low // width, (high - 1) // width
    if low_bin < high_bin and 8 * (high - high_bin * width) < width:
        high_bin -= 1
    if low_bin < high_bin and 8 * ((low_bin + 1) * width - low) < width:
        low_bin += 1
    tracks = collections.defaultdict(Track)
    for key, found in all_parts.items():
        for metric, *part in found:
            tracks[key, metric.name].put(width, *part)
    expected = {}
    if is_element:
        for metric in given:
            longest = max(len(r[metric.name]) for port in recording.ports.values() for r in port.records if r[metric.name])
            for i in range(longest):
                expected[metric.name, i] = [(key, f"{metric.name}[{i}]") for key in recording.ports]
    else:
        for metric in given:
            for name, keys in rows_of(recording, by).items():
                expected[metric.name, name] = [(key, metric.name) for key in keys]
    found = {(row["metric"], identity(row)): row for row in shown}
    check("rows", set(found), set(expected))
    check("number of rows", len(shown), len(expected))
    for key in set(found) & set(expected):
        row, metric = found[key], next(metric for metric in given if metric.name == key[0])
        check(f"{key}: unit", (row["unit"], row["by"], row["bin_ns"]), (metric.unit, by, width))
        check(f"{key}: bins", [cell["start_ns"] for cell in row["cells"]], [n * width for n in range(low_bin, high_bin + 1)])
        if by in ("port", "link"):
            port = recording.ports[end(row)]
            peer = row["peer"] and (row["peer"]["guid"], row["peer"]["port"])
            check(f"{key}: peer", (row["node"], peer), (port.node, port.peer))
        is_sum = metric.is_additive and by in ("switch", "host", "sl", "vl")
        members = [member for member in expected[key] if member not in lacks] or expected[key]
        check(f"{key}: ports", row["ports"], len(members))
        for number, cell in zip(range(low_bin, high_bin + 1), row["cells"]):
            state, value, covered = joined([tracks[member].cell(number) for member in members], sum if is_sum else max)
            check(f"{key}: state at {cell['start_ns']}", cell["state"], state)
            check(f"{key}: value at {cell['start_ns']}", cell["value"], value)
            differences.check(view, f"{key}: covered at {cell['start_ns']}", cell.get("covered"), covered, 1e-6)


def joined(cells, of):
    """The cell of a row of several ports: state, value, and the share of the ports whose value is known. A link that
    is down carries nothing."""
    values = [value for _, value in cells if value is not None]
    states = {state for state, _ in cells}
    covered = sum(state in ("value", "down") for state, _ in cells) / len(cells)
    if not values:
        return next((state for state in OF_ROW if state in states), "no_record"), None, None
    value = of(values)
    if covered == 1:
        return "value", value, None
    if "increase" in states and value == 0:
        return "increase", None, None
    # At least 0 says nothing.
    return ("at_least", value, covered) if value > 0 else ("unknown", None, None)


def identity(row):
    match row["by"]:
        case "port":
            return end(row)
        case "link":
            return min(end(row), end(row["peer"])) if row["peer"] else end(row)
        case "switch":
            return row["guid"]
        case "host":
            return row["node"]
    return row["index"]
