"""Reads the raw records with DuckDB, and merges the records of each port.

This module shares no code with ibnet-view. The rules are those of docs/viewing.md.
"""

import collections
import csv
import math
import tempfile

import duckdb

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

FIELDS = {
    "type": "VARCHAR", "ts": "UBIGINT", "slot": "UBIGINT", "sampler": "VARCHAR", "role": "VARCHAR", "guid": "VARCHAR",
    "port": "UTINYINT", "node": "VARCHAR", "kind": "VARCHAR", "hops": "USMALLINT", "peer_guid": "VARCHAR", "peer_port": "UTINYINT",
    "peer": "VARCHAR", "link": "VARCHAR", "mtu": "USMALLINT", "status": "VARCHAR", "rtt_ns": "UBIGINT", "rtt_min_ns": "UBIGINT", "mads": "UBIGINT",
    "saturated": "VARCHAR[]", "dt_ns": "UBIGINT", "xmit_gbps": "DOUBLE", "rcv_gbps": "DOUBLE", "xmit_utilization": "DOUBLE",
    "rcv_utilization": "DOUBLE", "xmit_blocked": "DOUBLE", "xmit_blocked_dt_ns": "UBIGINT", "ca": "VARCHAR", "ca_port": "UTINYINT",
    "duration_ns": "UBIGINT", "decode_ns": "UBIGINT", "ports": "UINTEGER", "ok": "UINTEGER", "late": "UINTEGER", "down": "UINTEGER",
    "slots_missed": "UBIGINT", "lines_lost": "UBIGINT", "event": "VARCHAR", "detail": "VARCHAR", "device_kind": "VARCHAR",
    "v2": "VARCHAR", "count": "UBIGINT", "interval_ns": "UBIGINT", "clock_ns": "UBIGINT",
} | {name: "UBIGINT[]" if name in ARRAYS else "UBIGINT" for name in COUNTERS}

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
        record of a primary, or all of it if there is none for two intervals. A record of a secondary without rates
        counts only if the primary has no record in the last two of its own intervals."""
        waiting, primary = [], None  # ts of the last record of a primary, and the time since the one before
        self.last, self.covered = None, {"data": 0, "blocked": 0}

        def release(r, ends):
            mine = {kind: span(r, kind) for kind in self.pieces}
            if any(mine.values()) or not primary or primary[0] + 2 * primary[1] < r["ts"]:
                self.use(r, mine, ends)

        for r in sorted(records, key=lambda r: (r["ts"], r["role"] == "secondary", r["sampler"])):
            if r["role"] == "secondary":
                waiting.append(r)
                while waiting[0]["ts"] + 2 * (waiting[0]["dt_ns"] or 0) < r["ts"]:
                    release(waiting.pop(0), {})
                continue
            mine = {kind: span(r, kind) for kind in self.pieces}
            ends = {kind: s[0] if s else r["ts"] for kind, s in mine.items()}
            while waiting:
                release(waiting.pop(0), ends)
            primary = r["ts"], r["ts"] - primary[0] if primary else SECOND
            self.use(r, mine, {})
        for r in waiting:
            release(r, {})

    def use(self, r, mine, ends):
        """Uses a record for the time that no earlier record of another sampler describes."""
        last, had = self.last, any(mine.values())
        other = last is not None and last["sampler"] != r["sampler"]
        if not other and last is not None and last["slot"] == r["slot"]:
            return
        for kind, s in mine.items():
            s = s and (max(s[0], self.covered[kind]) if other else s[0], min(s[1], ends.get(kind, TOP)))
            mine[kind] = s if s and s[0] < s[1] else None
        if had and not any(mine.values()):
            return
        r = dict(r, counts=not (other and r["ts"] - r["rtt_ns"] < last["ts"]), spans=mine)
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

    def within(self, ts):
        low, high = self.window
        return low <= ts and (ts < high or high == TOP)

    def stamp(self, r):
        """The time of a record; that of a record after the range is the end of the range."""
        return min(r["ts"], self.window[1])

    def errors(self):
        return sum(change.increase for name, change in self.change.items() if name not in PARTS)


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
    """The records of all files, merged, and tables of the time that they describe."""

    def __init__(self, files, low, high):
        self.db = duckdb.connect()
        self.window = (low, high)
        self.db.execute("SET threads = 1")
        self.db.execute(
            "CREATE TABLE lines AS SELECT DISTINCT * FROM read_json($files, format = 'newline_delimited', columns = $columns)",
            {"files": files, "columns": FIELDS},
        )
        self.by_port = collections.defaultdict(list)
        for r in self.rows(
            "SELECT * FROM lines WHERE type = 'port' QUALIFY row_number() OVER (PARTITION BY guid, port, sampler, ts) = 1 "
            "ORDER BY guid, port, ts, sampler"
        ):
            self.by_port[r["guid"], r["port"]].append(r)
        self.interval = self.db.execute("SELECT max(interval_ns) FROM lines WHERE type = 'start'").fetchone()[0]
        self.all_events = self.rows(f"SELECT * FROM lines WHERE type = 'event' AND guid IS NOT NULL AND {WITHIN} ORDER BY ts", bounds(self))
        events = collections.defaultdict(list)
        for event in self.all_events:
            events[event["guid"], event["port"]].append(event)
        all_ports = {key: Port(key, records, events[key], (low, high)) for key, records in self.by_port.items()}
        self.ports = {key: port for key, port in all_ports.items() if port.records}
        self.tables()

    def rows(self, sql, parameters=None):
        """Returns the rows of a query as dictionaries."""
        found = self.db.execute(sql, parameters)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row)) for row in found.fetchall()]

    def tables(self):
        """Makes `described`: one row for each part of a second that a record describes."""
        rows = [
            (kind, *key, second, max(a, second * SECOND), min(b, (second + 1) * SECOND), *(r[name] for name in RATES), r["xmit_blocked"])
            for key, port in self.ports.items()
            for kind, pieces in port.pieces.items()
            for a, b, r in pieces
            for second in range(a // SECOND, (b - 1) // SECOND + 1)
        ]
        columns = {"kind": "VARCHAR", "guid": "VARCHAR", "port": "UTINYINT", "second": "UBIGINT", "a": "UBIGINT", "b": "UBIGINT"}
        columns |= dict.fromkeys([*RATES, "xmit_blocked"], "DOUBLE")
        with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="") as file:
            # A file is read faster than rows are inserted. Python writes all digits of a number.
            csv.writer(file).writerows(rows)
            file.flush()
            self.db.execute(
                "CREATE TABLE described AS SELECT * FROM read_csv($file, auto_detect = false, delim = ',', columns = $columns)",
                {"file": file.name, "columns": columns},
            )
        self.means = self.grouped(f"SELECT guid, port, kind, {SUMS} FROM described GROUP BY ALL", 3)
        self.seconds = self.grouped(f"SELECT guid, port, kind, second, {SUMS} FROM described GROUP BY ALL", 4)

    def grouped(self, sql, keys):
        rows = self.db.execute(sql)
        names = [column[0] for column in rows.description][keys:]
        return {row[:keys]: dict(zip(names, row[keys:])) for row in rows.fetchall()}

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
        stamps = self.db.execute(f"SELECT min(ts), max(ts) FROM lines WHERE type <> 'start' AND {WITHIN}", bounds(self)).fetchone()
        times += [t for t in stamps if t is not None]
        return min(times), max(times)


WITHIN = "ts >= ? AND (ts < ? OR ?)"


def bounds(recording):
    """The parameters of WITHIN."""
    low, high = recording.window
    return [low, min(high, 2**63), high == TOP]


def mean(name):
    return f"sum({name} * (b - a)) / sum(b - a) FILTER ({name} IS NOT NULL)"


SUMS = ", ".join(
    f"{mean(name)} AS {name}, max({name}) AS {name}_peak, sum({name} * (b - a)) AS {name}_sum, "
    f"sum(b - a) FILTER ({name} IS NOT NULL) AS {name}_ns"
    for name in [*RATES, "xmit_blocked"]
)


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
