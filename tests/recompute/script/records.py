"""Reads the raw records, and merges the records of each port.

This module shares no code with ibnet-view, and uses the standard library only. The rules are those of
docs/viewing.md.
"""

import collections
import json
import math

SECOND = 10**9
TOP = 2**64 - 1

# The error counters in the order of the tables, and those that are parts of another counter.
ERRORS = """link_downed_counter link_error_recovery_counter symbol_error_counter local_link_integrity_errors
    excessive_buffer_overrun_errors port_rcv_errors port_local_physical_errors port_malformed_packet_errors
    port_buffer_overrun_errors port_dlid_mapping_errors port_vl_mapping_errors port_looping_errors
    port_rcv_remote_physical_errors port_rcv_switch_relay_errors port_xmit_discards port_inactive_discards
    port_neighbor_mtu_discards port_sw_lifetime_limit_discards port_sw_hoq_lifetime_limit_discards
    port_xmit_constraint_errors port_rcv_constraint_errors vl15_dropped qp1_dropped""".split()
PARTS = set(ERRORS[6:12] + ERRORS[15:19])
DATA = ["port_xmit_data_bytes", "port_rcv_data_bytes"]
OTHERS = ["port_xmit_pkts", "port_rcv_pkts", "port_xmit_wait_ticks"]
ARRAYS = ["port_xmit_data_sl_bytes", "port_vl_xmit_wait_ticks"]
COUNTERS = [*ERRORS, *DATA, *OTHERS, *ARRAYS]

# The fields with the slots since the last reading of a counter: those of its group, or of the groups that can have it.
OF_BASE = ["base_dt_slots", "extended_dt_slots"]
STATED = {name: OF_BASE for name in ERRORS + OTHERS[2:] if name not in PARTS}
STATED |= {name: ["rcverr_dt_slots"] for name in ERRORS[6:12]} | {name: ["xmtdisc_dt_slots"] for name in ERRORS[15:19]}
STATED |= {name: ["extended_dt_slots"] for name in [*DATA, *OTHERS[:2]]}
STATED |= {ARRAYS[0]: ["xmtsl_dt_slots"], ARRAYS[1]: ["vlxmitcounters_dt_slots"]}

# The fields of all records that the views use. A field that a record does not have is None.
FIELDS = """type ts slot sampler role guid port node kind hops peer_guid peer_port peer link mtu status rtt_ns rtt_min_ns mads
    saturated dt_ns xmit_gbps rcv_gbps xmit_utilization rcv_utilization xmit_blocked xmit_blocked_dt_ns ca ca_port duration_ns
    decode_ns ports ok late down slots_missed lines_lost event detail device_kind v2 count interval_ns clock_ns
    min_ns system_guid vendor_id device_id""".split() + COUNTERS
FIELDS += sorted({field for fields in STATED.values() for field in fields})

RATES = ["xmit_gbps", "rcv_gbps", "xmit_utilization", "rcv_utilization"]


class Differences:
    """Compares values and counts them."""

    def __init__(self):
        self.compared = collections.Counter()
        self.found = []
        self.views = set()  # those with a difference

    def check(self, view, what, shown, computed, tolerance=1e-9):
        """Compares two values. Two sums of the same numbers can differ in their last digits, because
        their order differs: so numbers with a fraction have a tolerance."""
        self.compared[view] += 1
        if isinstance(shown, float) and isinstance(computed, (int, float)) or isinstance(computed, float) and isinstance(shown, int):
            # A value of 0 can be a difference of large values.
            equal = math.isclose(shown, computed, rel_tol=tolerance, abs_tol=1e-9 * max(1.0, abs(computed)))
        else:
            equal = shown == computed
        if not equal:
            self.views.add(view)
            self.found.append(f"{view}: {what}: shown {shown!r}, computed {computed!r}")


def answered(r):
    """Whether the device replied."""
    return r["status"] in ("ok", "late")


class Port:
    """The merged records of a port in the time range."""

    def __init__(self, key, records, events, window):
        self.key, self.window, self.events = key, window, events
        self.pieces = {"data": [], "blocked": []}  # (from, to, record)
        self.used = []
        self.merge(records)
        self.measure()

    def merge(self, records):
        """Gives each moment to one record. A record of a secondary gets the time before the interval of the next
        record of a primary, or all of it if there is none for two intervals, but not the short time between two
        intervals of the primary that follow each other. A record of a secondary without rates counts only if the
        primary has no answer in the last two of its own intervals; one without an answer, if it has no record."""
        waiting, primary = [], None  # ts of the last record of a primary, and the time since the one before
        answer, self.read = None, 0  # ts of the last answer of a primary, and of the last reading
        self.last, self.covered, self.others = None, {"data": 0, "blocked": 0}, {"data": 0, "blocked": 0}

        def release(r, ends):
            mine = {kind: span(r, kind) for kind in self.pieces}
            of = answer if answered(r) else primary and primary[0]
            if any(mine.values()) or of is None or of + 2 * primary[1] < r["ts"]:
                self.use(r, mine, ends)

        for r in sorted(records, key=lambda r: (r["ts"], r["role"] == "secondary", r["sampler"])):
            if r["role"] == "secondary":
                waiting.append(r)
                while waiting[0]["ts"] + 2 * (waiting[0]["dt_ns"] or 0) < r["ts"]:
                    release(waiting.pop(0), {})
                continue
            mine = {kind: span(r, kind) for kind in self.pieces}
            ends = {kind: s[0] if s else r["ts"] for kind, s in mine.items()}
            for kind, s in mine.items():
                if s and self.follows(r, kind, s):
                    ends[kind] = 0
            while waiting:
                release(waiting.pop(0), ends)
            primary = r["ts"], r["ts"] - primary[0] if primary else SECOND
            answer = r["ts"] if answered(r) else answer
            self.use(r, mine, {})
        for r in waiting:
            release(r, {})
        for pieces in self.pieces.values():
            ends = {}  # of each sampler
            for a, b, r in pieces:
                assert all(end <= a for sampler, end in ends.items() if sampler != r["sampler"]), "a moment counts twice"
                ends[r["sampler"]] = max(b, ends.get(r["sampler"], 0))

    def follows(self, r, kind, s):
        """Whether an interval of a sampler follows its last one, which no record of another sampler has ended."""
        is_next = self.last and self.last["sampler"] == r["sampler"] and self.covered[kind] > self.others[kind]
        return is_next and s[0] - self.covered[kind] < (s[1] - s[0]) // 2

    def use(self, r, mine, ends):
        """Uses a record for the time that no earlier record of another sampler describes."""
        last, had = self.last, any(mine.values())
        other = last is not None and last["sampler"] != r["sampler"]
        if not other and last is not None and last["slot"] == r["slot"]:
            return
        # The times described before the first of the records of this sampler that follow each other.
        others = dict(self.covered) if other else self.others
        for kind, s in mine.items():
            s = s and (max(s[0], others[kind]), min(s[1], ends.get(kind, TOP)))
            mine[kind] = s if s and s[0] < s[1] else None
        if had and not any(mine.values()):
            return
        r = dict(r, counts=not (other and r["ts"] - r["rtt_ns"] < self.read), spans=mine)
        if r["counts"] and any(r[name] is not None for name in COUNTERS):
            self.read = r["ts"]
        self.others = others
        for kind, s in mine.items():
            if s:
                self.pieces[kind].append((*s, r))
                self.covered[kind] = max(self.covered[kind], s[1])
        self.used.append(r)
        self.last = r

    def measure(self):
        low, high = self.window
        cut = lambda pieces: [(max(a, low), min(b, high), r) for a, b, r in pieces if max(a, low) < min(b, high)]
        self.pieces = {kind: cut(pieces) for kind, pieces in self.pieces.items()}
        described = {id(r) for pieces in self.pieces.values() for _, _, r in pieces}
        self.records = []
        for r in self.used:
            # A record whose whole interval is before the range does not belong to the range.
            is_before = any(r["spans"].values()) and id(r) not in described and r["ts"] > low
            if self.within(r["ts"]) and not is_before or id(r) in described:
                self.records.append(r)
        self.moved = list(self.octets())
        self.events = [e for e in self.events if self.within(e["ts"])]
        stamps = [min(r["ts"], high) for r in self.records] + [e["ts"] for e in self.events]
        self.change = {}
        for name in ERRORS:
            readings = [(r["ts"], r[name], name in (r["saturated"] or [])) for r in self.used if r[name] is not None and r["counts"]]
            change = increase(readings, low, high)
            if change:
                self.change[name] = change
                stamps += change.edges
        for name in [*DATA, *OTHERS, *ARRAYS]:
            readings = [(r["ts"], 0, False) for r in self.used if r[name] is not None and r["counts"]]
            change = increase(readings, low, high)
            stamps += change.edges if change else []
        self.first, self.last = (min(stamps), max(stamps)) if stamps else (0, 0)
        newest = self.records[-1] if self.records else self.used[-1]
        self.node, self.kind, self.link, self.mtu = (newest[name] for name in ("node", "kind", "link", "mtu"))
        self.peer = next(((r["peer_guid"], r["peer_port"]) for r in reversed(self.records) if r["peer_guid"]), None)
        self.peer_name = next((r["peer"] for r in reversed(self.records) if r["peer"] is not None), "")

    def octets(self):
        """The octets sent (0) and received (1) between two readings of a counter by any sampler: (direction, from, to,
        octets, record). Before the first reading in the range, the rates stand for them. They are not known next to a
        saturated value; a reset concerns both counters."""
        low, high = self.window
        last, full, newest, stood = [None, None], [None, None], 0, [(0, 0.0), (0, 0.0)]
        read = {}  # the last reading of each sampler
        for r in self.used:
            values = [r[name] if r["counts"] else None for name in DATA]
            for way, name in enumerate(DATA):
                if values[way] is not None and name in (r["saturated"] or []):
                    values[way], last[way], full[way] = None, None, r["ts"]
            before, newest = newest, newest if values == [None, None] else r["ts"]
            has_decreased = any(v is not None and one and v < one[name] for v, one, name in zip(values, last, DATA))
            own, is_continued = read.get(r["sampler"]), False
            if values != [None, None]:
                read[r["sampler"]] = r["ts"], values
                is_recent = own and all(ts + 60 * SECOND >= r["ts"] for ts in [own[0], *(one["ts"] for one in last if one)])
                is_continued = is_recent and not any(None not in pair and pair[0] > pair[1] for pair in zip(own[1], values))
            if has_decreased and (is_continued or self.is_older(r, before, values)):
                continue
            for way, name in enumerate(DATA):
                one, value, gbps = last[way], values[way], r["xmit_gbps" if way == 0 else "rcv_gbps"]
                since = one["ts"] if one else full[way]
                is_first = since is None or since < low and value is None
                if is_first and r["spans"]["data"] and gbps is not None:
                    a, b = max(r["spans"]["data"][0], low), min(r["spans"]["data"][1], high)
                    if a < b:
                        stood[way] = b, stood[way][1] + gbps * (b - a) / 8
                        yield way, a, b, gbps * (b - a) / 8, r
                if value is None:
                    continue
                last[way] = r
                # A reading is late by its round-trip time at most.
                most = (rate(r["link"]) or math.inf) / 8 * (r["ts"] - one["ts"] + one["rtt_ns"] + SECOND // 10) if one else 0
                if not one or has_decreased or value - one[name] > most:
                    continue
                times = [one["ts"], *(edge for edge in (low, high) if one["ts"] < edge < r["ts"]), r["ts"]]
                points = [(t, grown((one["ts"], one[name]), (r["ts"], value), t)) for t in times]
                for (a, x), (b, y) in zip(points, points[1:]):
                    if low <= a < b <= high:
                        until, given = stood[way] if a < stood[way][0] else (a, 0)
                        if until < b:
                            yield way, until, b, max(y - x - given, 0.0), r

    def is_older(self, r, newest, values):
        """Whether a smaller reading was made before the newest one: its counters were not reset between the two
        readings of its sampler, and the first of these is not later than the newest one. Then a clock was set back."""
        rates = [r[name] for name, value in zip(("xmit_gbps", "rcv_gbps"), values) if value is not None]
        has_rates = r["dt_ns"] is not None and None not in rates and r["spans"]["data"]
        return has_rates and r["spans"]["data"][0] <= newest + (r["spans"]["data"][1] - r["spans"]["data"][0]) // 2

    def known(self, way):
        """The times in which the octets of a direction are known by the records of this port."""
        return [(a, b) for one, a, b, *_ in self.moved if one == way]

    def down(self, interval):
        """The times in which the link was down: from a record to the next one that both say so, at most one slot."""
        last = None
        for r in self.records:
            ts = self.stamp(r)
            if r["status"] == "down" and last is not None:
                since = ts - interval if 2 * (ts - last) > 3 * interval else last
                yield (since, ts) if since < ts else (ts, ts + 1)
            last = ts if r["status"] == "down" else None

    def times(self):
        """The starts and ends of the times with known octets or blocked time."""
        blocked = [(a, b) for a, b, r in self.pieces["blocked"] if r["xmit_blocked"] is not None]
        return [t for a, b in (*self.known(0), *self.known(1), *blocked) for t in (a, b)]

    def within(self, ts):
        low, high = self.window
        return low <= ts and (ts < high or high == TOP)

    def stamp(self, r):
        """The time of a record; that of a record after the range is the end of the range."""
        return min(r["ts"], self.window[1])

    def errors(self):
        return sum(change.increase for name, change in self.change.items() if name not in PARTS)


def without(times, others):
    """The parts of some times outside of others."""
    for a, b in others:
        times = [(x, y) for c, d in times for x, y in ((c, min(d, a)), (max(c, b), d)) if x < y]
    return times


class Change:
    def __init__(self, increase, is_lower_bound, value, edges):
        self.increase, self.is_lower_bound, self.value, self.edges = increase, is_lower_bound, value, edges


def span(r, kind):
    """The time that a record describes: it ends at `ts`."""
    length = r["dt_ns"] if kind == "data" else r["xmit_blocked"] is not None and (r["xmit_blocked_dt_ns"] or r["dt_ns"])
    return (r["ts"] - length, r["ts"]) if length else None


def grown(before, after, edge):
    """The value of a counter at an edge between two readings (time, value): it grows evenly, in whole numbers."""
    (ta, va), (tb, vb) = before, after
    return va + max(vb - va, 0) * (min(max(edge, ta), tb) - ta) // (tb - ta)


def increase(readings, low, high):
    """The increase of a counter in a time range."""
    values, edges = [], []  # (value, saturated)
    for before, now in zip([None] + readings, readings):
        ts = now[0]
        if before and before[0] < low <= ts:
            values.append((grown(before[:2], now[:2], low), before[2]))
            edges.append(low)
        if low <= ts < high or high == TOP and ts >= low:
            values.append(now[1:])
        elif before and before[0] < high <= ts:
            values.append((grown(before[:2], now[:2], high), before[2]))
            edges.append(high)
    if not values:
        return None
    total, bound = 0, any(saturated for _, saturated in values)
    for (a, _), (b, _) in zip(values, values[1:]):
        total += b - a if b >= a else b
        bound |= b < a
    return Change(total, bound, values[-1][0], edges)


class Recording:
    """The records of all files, merged, and the sums of the time that they describe."""

    def __init__(self, files, low, high):
        self.window = (low, high)
        self.lines = read(files)
        self.by_port = collections.defaultdict(list)
        for r in self.port_records():
            self.by_port[r["guid"], r["port"]].append(r)
        self.interval = max(r["interval_ns"] for r in self.lines if r["type"] == "start")
        self.all_events = sorted(
            (r for r in self.lines if r["type"] == "event" and r["guid"] is not None and self.within(r)), key=lambda r: r["ts"]
        )
        events = collections.defaultdict(list)
        for event in self.all_events:
            events[event["guid"], event["port"]].append(event)
        all_ports = {key: Port(key, records, events[key], (low, high)) for key, records in self.by_port.items()}
        self.ports = {key: port for key, port in all_ports.items() if port.records}
        # One row for each part of a second that a record describes.
        self.described = [
            ((*key, kind), second, min(b, (second + 1) * SECOND) - max(a, second * SECOND), r)
            for key, port in self.ports.items()
            for kind, pieces in port.pieces.items()
            for a, b, r in pieces
            for second in range(a // SECOND, (b - 1) // SECOND + 1)
        ]
        self.means = self.grouped(lambda key, second: key)
        self.seconds = self.grouped(lambda key, second: (*key, second))

    def port_records(self):
        """The records of all queries in the order of time, without copies."""
        first_of = {}
        for r in self.lines:
            if r["type"] == "port":
                first_of.setdefault((r["guid"], r["port"], r["sampler"], r["ts"]), r)
        return sorted(first_of.values(), key=lambda r: (r["ts"], r["sampler"]))

    def within(self, r):
        """Whether a record is in the time range."""
        low, high = self.window
        return low <= r["ts"] and (r["ts"] < high or high == TOP)

    def grouped(self, name):
        """Sums of the described parts by a name that is made of (guid, port, kind) and the second."""
        groups = collections.defaultdict(list)
        for key, second, length, r in self.described:
            groups[name(key, second)].append((length, r))
        return {key: sums(parts) for key, parts in groups.items()}

    def value(self, key, name):
        """A mean, peak (NAME_peak) or sum (NAME_sum) of a port; None without values."""
        kind = "blocked" if name.startswith("xmit_blocked") else "data"
        return self.means.get((*key, kind), {}).get(name) if key else None

    def at(self, key, second, name):
        kind = "blocked" if name == "xmit_blocked" else "data"
        return self.seconds.get((*key, kind, second), {}).get(name) if key else None

    def span(self, view):
        """The time of the records that a view uses: those of the ports, or of the queries of each sampler."""
        low, high = self.window
        if view in ("sweeps", "latency"):
            within = (r for records in self.by_port.values() for r in records if low <= r["ts"] and (r["ts"] < high or high == TOP))
            times = [max(t, low) for r in within for t in span(r, "data") or ()]
        else:
            times = [t for port in self.ports.values() for pieces in port.pieces.values() for a, b, _ in pieces for t in (a, b)]
        times += [r["ts"] for r in self.lines if r["type"] != "start" and self.within(r)]
        return min(times), max(times)


def read(files):
    """Returns all records of some files. A line that stands twice is one record. A last line without its end was
    only partly written."""
    seen, records = set(), []
    for path in files:
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line not in seen and line.endswith("\n"):
                    seen.add(line)
                    of_line = json.loads(line)
                    records.append({name: of_line.get(name) for name in FIELDS})
    return records


def sums(parts):
    """The mean, the largest value, the sum and the length of each rate over parts (length, record)."""
    found = {}
    for name in [*RATES, "xmit_blocked"]:
        known = [(length, r[name]) for length, r in parts if r[name] is not None]
        length = sum(length for length, _ in known)
        total = math.fsum(length * value for length, value in known)
        found[name] = total / length if known else None
        found[name + "_peak"] = max((value for _, value in known), default=None)
        found[name + "_sum"], found[name + "_ns"] = (total, length) if known else (None, None)
    return found


def first(*values):
    return next((value for value in values if value is not None), None)


def end(port):
    return port["guid"], port["port"]


def host(node):
    """The host name in a node description: its first word."""
    return node.split()[0] if node.split() else ""


def rate(link):
    """Gb/s of a link (IBA vol. 1; the records' documentation has the table); None if it is not known."""
    lanes = {"SDR": 2, "DDR": 4, "QDR": 8, "FDR10": 10, "FDR": 14.0625 * 64 / 66, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
    width, _, speed = (link or "").partition("x")
    return int(width) * lanes[speed] if width.isdigit() and speed in lanes else None
