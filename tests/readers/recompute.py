"""Recomputes the numbers of ibnet-view from the raw records, and compares them with its JSON output.

    recompute.py VIEW HOSTLIST FROM TO FILES...

FROM and TO are nanoseconds since 1970, or `-`. DuckDB reads the records and sums; this script shares
no code with ibnet-view. The rules are those of docs/viewing.md. It prints the number of compared
values of each view, and exits with 1 if a value differs.
"""

import collections
import json
import math
import subprocess
import sys

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
THRESHOLD = {"port_rcv_switch_relay_errors": 100}
DATA = ["port_xmit_data_bytes", "port_rcv_data_bytes"]

FIELDS = {
    "type": "VARCHAR", "ts": "UBIGINT", "slot": "UBIGINT", "sampler": "VARCHAR", "role": "VARCHAR", "guid": "VARCHAR",
    "port": "UTINYINT", "node": "VARCHAR", "kind": "VARCHAR", "peer_guid": "VARCHAR", "peer_port": "UTINYINT", "peer": "VARCHAR",
    "link": "VARCHAR", "status": "VARCHAR", "rtt_ns": "UBIGINT", "saturated": "VARCHAR[]", "dt_ns": "UBIGINT", "xmit_gbps": "DOUBLE",
    "rcv_gbps": "DOUBLE", "xmit_utilization": "DOUBLE", "rcv_utilization": "DOUBLE", "xmit_blocked": "DOUBLE",
    "xmit_blocked_dt_ns": "UBIGINT", "ca": "VARCHAR", "ca_port": "UTINYINT", "duration_ns": "UBIGINT", "decode_ns": "UBIGINT",
    "ports": "UINTEGER", "ok": "UINTEGER", "late": "UINTEGER", "slots_missed": "UBIGINT", "lines_lost": "UBIGINT", "event": "VARCHAR",
    "device_kind": "VARCHAR", "count": "UBIGINT", "interval_ns": "UBIGINT",
} | {name: "UBIGINT" for name in ERRORS + DATA}

RATES = ["xmit_gbps", "rcv_gbps", "xmit_utilization", "rcv_utilization"]


class Differences:
    """Compares values and counts them."""

    def __init__(self):
        self.compared = collections.Counter()
        self.found = []

    def check(self, view, what, shown, computed, tolerance=1e-9):
        self.compared[view] += 1
        if isinstance(shown, float) and isinstance(computed, (int, float)) or isinstance(computed, float) and isinstance(shown, int):
            # A value of 0 can be a difference of large values.
            equal = math.isclose(shown, computed, rel_tol=tolerance, abs_tol=1e-9 * max(1.0, abs(computed)))
        else:
            equal = shown == computed
        if not equal:
            self.found.append(f"{view}: {what}: shown {shown!r}, computed {computed!r}")


class Port:
    """The merged records of a port in the time range."""

    def __init__(self, key, records, events, window, step):
        self.key, self.window = key, window
        self.pieces = {"data": [], "blocked": []}  # (from, to, record)
        self.used = []
        self.merge(records, step)
        self.measure(events)

    def merge(self, records, step):
        """Gives each moment to one record: to the primary, or to the secondary where the primary has a gap."""
        primary = [r for r in records if r["role"] != "secondary"]
        times = [r["ts"] for r in primary]
        spans = {kind: [s for s in (span(r, kind) for r in primary) if s] for kind in self.pieces}
        last, covered = None, {"data": 0, "blocked": 0}
        for r in records:
            mine = {kind: span(r, kind) for kind in self.pieces}
            had = any(mine.values())
            if r["role"] == "secondary":
                if not had and any(r["ts"] - 2 * step <= t <= r["ts"] for t in times):
                    continue
                for kind, s in mine.items():
                    for taken in spans[kind]:
                        if s and taken[0] < s[1] and s[0] < taken[1]:
                            # The part before the interval of the primary, and the part after it.
                            s = (s[0], taken[0]) if s[0] < taken[0] else (taken[1], s[1])
                            s = s if s[0] < s[1] else None
                    mine[kind] = s
            other = last is not None and last["sampler"] != r["sampler"]
            if other:
                mine = {kind: (max(s[0], covered[kind]), s[1]) if s and s[1] > covered[kind] else None for kind, s in mine.items()}
            elif last is not None and last["slot"] == r["slot"]:
                continue
            if had and not any(mine.values()):
                continue
            r = dict(r, counts=not (other and r["ts"] - r["rtt_ns"] < last["ts"]))
            for kind, s in mine.items():
                if s:
                    self.pieces[kind].append((*s, r))
                    covered[kind] = max(covered[kind], s[1])
            self.used.append(r)
            last = r

    def measure(self, events):
        low, high = self.window
        cut = lambda pieces: [(max(a, low), min(b, high), r) for a, b, r in pieces if max(a, low) < min(b, high)]
        self.pieces = {kind: cut(pieces) for kind, pieces in self.pieces.items()}
        within = lambda ts: low <= ts < high or high == TOP
        described = {id(r) for pieces in self.pieces.values() for _, _, r in pieces}
        self.records = [r for r in self.used if within(r["ts"]) or id(r) in described]
        stamps = [min(r["ts"], high) for r in self.records] + [e["ts"] for e in events if within(e["ts"])]
        self.change = {}
        for name in ERRORS:
            readings = [(r["ts"], r[name], name in (r["saturated"] or [])) for r in self.used if r[name] is not None and r["counts"]]
            change = increase(readings, low, high)
            if change:
                self.change[name] = change
                stamps += change.edges
        for name in DATA:
            readings = [(r["ts"], r[name], False) for r in self.used if r[name] is not None and r["counts"]]
            change = increase(readings, low, high)
            stamps += change.edges if change else []
        self.first, self.last = (min(stamps), max(stamps)) if stamps else (0, 0)
        newest = self.records[-1] if self.records else self.used[-1]
        self.node, self.kind, self.link = newest["node"], newest["kind"], newest["link"]
        self.peer = next(((r["peer_guid"], r["peer_port"]) for r in reversed(self.records) if r["peer_guid"]), None)

    def errors(self):
        return sum(change.increase for name, change in self.change.items() if name not in PARTS)


class Change:
    def __init__(self, increase, is_lower_bound, value, edges):
        self.increase, self.is_lower_bound, self.value, self.edges = increase, is_lower_bound, value, edges


def span(r, kind):
    """The time that a record describes: it ends at `ts`."""
    length = r["dt_ns"] if kind == "data" else r["xmit_blocked"] is not None and (r["xmit_blocked_dt_ns"] or r["dt_ns"])
    return (r["ts"] - length, r["ts"]) if length else None


def increase(readings, low, high):
    """The increase of a counter in a time range: it grows evenly between two readings, in whole numbers."""

    def at(a, b, edge):
        (ta, va, _), (tb, vb, _) = a, b
        return va + max(vb - va, 0) * (min(max(edge, ta), tb) - ta) // (tb - ta)

    values, edges = [], []  # (value, saturated)
    for before, now in zip([None] + readings, readings):
        ts = now[0]
        if before and before[0] < low <= ts:
            values.append((at(before, now, low), before[2]))
            edges.append(low)
        if low <= ts < high or high == TOP and ts >= low:
            values.append(now[1:])
        elif before and before[0] < high <= ts:
            values.append((at(before, now, high), before[2]))
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
        rows = self.db.execute(
            "SELECT * FROM lines WHERE type = 'port' QUALIFY row_number() OVER (PARTITION BY guid, port, sampler, ts) = 1 "
            "ORDER BY guid, port, ts, sampler"
        )
        names = [column[0] for column in rows.description]
        self.by_port = collections.defaultdict(list)
        for row in rows.fetchall():
            r = dict(zip(names, row))
            self.by_port[r["guid"], r["port"]].append(r)
        step = self.db.execute("SELECT max(interval_ns) FROM lines WHERE type = 'start'").fetchone()[0]
        events = collections.defaultdict(list)
        for ts, guid, port in self.db.execute("SELECT ts, guid, port FROM lines WHERE type = 'event' AND port IS NOT NULL").fetchall():
            events[guid, port].append({"ts": ts})
        all_ports = {key: Port(key, records, events[key], (low, high), step) for key, records in self.by_port.items()}
        self.ports = {key: port for key, port in all_ports.items() if port.records}
        self.tables()

    def tables(self):
        """Makes `described`: one row for each part of a second that a record describes."""
        rows = [
            (kind, *key, second, max(a, second * SECOND), min(b, (second + 1) * SECOND), *(r[name] for name in RATES), r["xmit_blocked"])
            for key, port in self.ports.items()
            for kind, pieces in port.pieces.items()
            for a, b, r in pieces
            for second in range(a // SECOND, (b - 1) // SECOND + 1)
        ]
        self.db.execute(
            "CREATE TABLE described (kind VARCHAR, guid VARCHAR, port UTINYINT, second UBIGINT, a UBIGINT, b UBIGINT, xmit_gbps DOUBLE, "
            "rcv_gbps DOUBLE, xmit_utilization DOUBLE, rcv_utilization DOUBLE, xmit_blocked DOUBLE)"
        )
        for start in range(0, len(rows), 1000):
            batch = rows[start : start + 1000]
            marks = ", ".join(["(" + ", ".join("?" * 11) + ")"] * len(batch))
            self.db.execute(f"INSERT INTO described VALUES {marks}", [value for row in batch for value in row])
        mean = lambda name: f"sum({name} * (b - a)) / sum(b - a) FILTER ({name} IS NOT NULL)"
        columns = ", ".join(f"{mean(name)} AS {name}, max({name}) AS {name}_peak, sum({name} * (b - a)) AS {name}_sum" for name in [*RATES, "xmit_blocked"])
        self.means = self.grouped(f"SELECT guid, port, kind, {columns} FROM described GROUP BY ALL", 3)
        self.seconds = self.grouped(f"SELECT guid, port, kind, second, {columns} FROM described GROUP BY ALL", 4)

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

    def span(self):
        low, high = self.window
        times = [t for port in self.ports.values() for pieces in port.pieces.values() for a, b, _ in pieces for t in (a, b)]
        stamps = self.db.execute(
            "SELECT min(ts), max(ts) FROM lines WHERE type <> 'start' AND ts >= ? AND (ts < ? OR ?)", [low, min(high, 2**63), high == TOP]
        ).fetchone()
        times += [t for t in stamps if t is not None]
        return min(times), max(times)


def first(*values):
    return next((value for value in values if value is not None), None)


def links(recording, shown, view, differences):
    """Compares the rows of `links` and `map`."""
    ports = recording.ports
    expected = {frozenset([key, port.peer]) for key, port in ports.items() if port.peer}
    differences.check(view, "links", {frozenset([end(row["from"]), end(row["to"])]) for row in shown}, expected)
    for row in shown:
        one, other = end(row["from"]), end(row["to"])
        what = f"{one} to {other}"
        sent = lambda a, b, name: first(recording.value(a, "xmit" + name), recording.value(b, "rcv" + name))
        for name, value in {
            "xmit_gbps": sent(one, other, "_gbps"),
            "xmit_utilization": sent(one, other, "_utilization"),
            "xmit_utilization_peak": sent(one, other, "_utilization_peak"),
            "blocked": recording.value(one, "xmit_blocked"),
            "back_utilization": sent(other, one, "_utilization"),
            "back_blocked": recording.value(other, "xmit_blocked"),
            "errors": sum(ports[key].errors() for key in (one, other) if key in ports),
            "ends_disagree": disagrees(ports.get(one), ports.get(other)),
        }.items():
            differences.check(view, f"{what}: {name}", row[name], value)
        nodes = [first(ports[key].node if key in ports else None, ports[far].records[-1]["peer"] if far in ports else None) for key, far in [(one, other), (other, one)]]
        differences.check(view, f"{what}: nodes", [row["from"]["node"], row["to"]["node"]], nodes)


def end(port):
    return port["guid"], port["port"]


def disagrees(one, other):
    """Whether the two ends counted different numbers of octets, beyond the tolerance."""
    if not one or not other:
        return False
    low, high = one.window

    def readings(port):
        kept = {}
        for r in port.records:
            counted = r["counts"] and all(r[name] is not None for name in DATA) and not set(DATA) & set(r["saturated"] or [])
            if counted and (low <= r["ts"] < high or high == TOP):
                if kept and any(r[name] < max(k[name] for k in kept.values()) for name in DATA):
                    kept = {}
                kept[r["slot"]] = r
        return kept

    mine, others = readings(one), readings(other)
    common = sorted(set(mine) & set(others))
    if len(common) < 2:
        return False
    if max(len(mine), len(others)) > 32:
        raise SystemExit("recompute.py: give a recording of at most 32 slots: ibnet-view thins out the readings of longer ones")
    a, b = common[0], common[-1]
    apart = sum(abs(mine[s]["ts"] - others[s]["ts"]) + mine[s]["rtt_ns"] + others[s]["rtt_ns"] for s in (a, b))
    gbps = max(rate(r["link"]) for port in (one, other) for r in port.records)
    tolerance = 2 * apart * gbps / 8 + 65536
    for xmit, rcv in [(mine, others), (others, mine)]:
        sent, received = xmit[b][DATA[0]] - xmit[a][DATA[0]], rcv[b][DATA[1]] - rcv[a][DATA[1]]
        if abs(sent - received) > max(tolerance, 0.005 * max(sent, received)):
            return True
    return False


def rate(link):
    """Gb/s of a link (IBA vol. 1; the records' documentation has the table)."""
    lanes = {"SDR": 2, "DDR": 4, "QDR": 8, "FDR10": 10, "FDR": 14.0625 * 64 / 66, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
    width, _, speed = link.partition("x")
    return int(width) * lanes[speed] if width.isdigit() and speed in lanes else 0


def errors(recording, shown, differences):
    expected = {}
    for key, port in recording.ports.items():
        for name, change in port.change.items():
            if change.increase > THRESHOLD.get(name, 0):
                expected[*key, name] = (port, change)
    counters = {(*end(row), row["what"]): row for row in shown if row["what"] in ERRORS}
    differences.check("errors", "counters", set(counters), set(expected))
    for key in set(counters) & set(expected):
        (port, change), row = expected[key], counters[key]
        seconds = (port.last - port.first) / SECOND
        for name, value in {
            "node": port.node, "increase": change.increase, "is_lower_bound": change.is_lower_bound, "value": change.value,
            "rate": change.increase / seconds if seconds else None, "since_ns": port.first, "link": port.link,
        }.items():
            differences.check("errors", f"{key}: {name}", row[name], value)
    # Devices that never answered. Those behind an unreachable switch stand in its row.
    answered = {key[0] for key, port in recording.ports.items() if any(r["status"] in ("ok", "late") for r in port.records)}
    silent = {key[0] for key in recording.ports} - answered
    dead = {row["guid"] for row in shown if row["what"] == "unreachable"}
    behind = {port["guid"] for row in shown for port in row["behind"]}
    differences.check("errors", "devices that do not answer", dead | behind, silent)


def host(node):
    return node.split()[0].lower() if node.split() else ""


def job(recording, shown, hosts, differences):
    check = lambda what, a, b, **more: differences.check("job", what, a, b, **more)
    ports = recording.ports

    class HostPort:
        """An HCA port; the switch port at the other end stands in for it."""

        def __init__(self, hca, switch, node):
            self.hca, self.switch, self.host = hca, switch, host(node)

        def moved(self, own, far):
            return first(recording.value(self.hca, own), recording.value(self.switch, far), 0.0) / 8

        def at(self, second):
            pick = lambda own, far: first(recording.at(self.hca, second, own), recording.at(self.switch, second, far))
            return pick("xmit_gbps", "rcv_gbps"), pick("rcv_gbps", "xmit_gbps"), recording.at(self.hca, second, "xmit_blocked")

    all_ports = []
    for key, port in ports.items():
        peer = ports.get(port.peer)
        if port.kind == "hca":
            all_ports.append(HostPort(key, port.peer if peer and peer.peer == key else None, port.node))
            all_ports[-1].leaf = port.peer[0] if port.peer else None
        elif not peer and port.peer and port.peer[1] <= 2 and not any(guid == port.peer[0] for guid, _ in ports):
            if sum(1 for other in ports.values() if other.peer and other.peer[0] == port.peer[0]) == 1:
                all_ports.append(HostPort(None, key, port.records[-1]["peer"]))
                all_ports[-1].leaf = key[0]
    wanted = {name.lower() for name in hosts}
    own = [port for port in all_ports if port.host in wanted]
    row = shown[0]
    sums = collections.Counter()
    check("nodes", {node["host"].lower() for node in row["nodes"]}, {port.host for port in own})
    for node in row["nodes"]:
        of = [port for port in own if port.host == node["host"].lower()]
        blocked = [(recording.value(p.hca, "xmit_blocked"), recording.value(p.hca, "xmit_blocked_peak"), recording.value(p.hca, "xmit_blocked_sum")) for p in of]
        blocked = [b for b in blocked if b[0] is not None]
        expected = {
            "ports": len(of),
            "injected_bytes": sum(p.moved("xmit_gbps_sum", "rcv_gbps_sum") for p in of),
            "ejected_bytes": sum(p.moved("rcv_gbps_sum", "xmit_gbps_sum") for p in of),
            "blocked": sum(b[0] for b in blocked) / len(blocked) if blocked else None,
            "blocked_peak": max((b[1] for b in blocked), default=None),
            "blocked_seconds": sum(b[2] for b in blocked) / SECOND,
        }
        for name, value in expected.items():
            check(f"{node['host']}: {name}", node[name], value)
        sums.update({name: expected[name] for name in ("injected_bytes", "ejected_bytes", "blocked_seconds")})
    for name, value in sums.items():
        check(name, row[name], value)
    check("blocked_ns_per_byte", row["blocked_ns_per_byte"], sums["blocked_seconds"] * 1e9 / sums["injected_bytes"])
    sent = [node["injected_bytes"] for node in row["nodes"]]
    mean = sum(sent) / len(sent)
    check("max_to_mean", row["imbalance"]["max_to_mean"], max(sent) / mean)
    check("variation", row["imbalance"]["variation"], math.sqrt(sum((s - mean) ** 2 for s in sent) / len(sent)) / mean)
    check("gini", row["imbalance"]["gini"], sum(abs(a - b) for a in sent for b in sent) / (2 * len(sent) ** 2 * mean))
    steps(recording, row, own, check)
    leaves(recording, row, own, all_ports, check)


def steps(recording, row, own, check):
    seconds = sorted({key[3] for key in recording.seconds})
    shown = {step["ts"] // SECOND: step for step in row["steps"]}
    expected = {second: [port.at(second) for port in own] for second in seconds}
    expected = {second: values for second, values in expected.items() if any(v != (None, None, None) for v in values)}
    check("step_ns", row["step_ns"], SECOND)
    check("steps", list(shown), list(expected))
    for second in set(shown) & set(expected):
        injected, ejected, blocked = ([v for v in column if v is not None] for column in zip(*expected[second]))
        step = shown[second]
        check(f"{second}: injected", step["injected_gbps"], sum(injected))
        check(f"{second}: ejected", step["ejected_gbps"], sum(ejected))
        check(f"{second}: blocked", step["blocked"], sum(blocked) / len(blocked) if blocked else None)
        check(f"{second}: blocked most", step["blocked_most"], max(blocked, default=None))
    check("into", sum(v or 0 for rates in row["into"] for v in rates["gbps"]), sum(s["ejected_gbps"] for s in row["steps"]))


def leaves(recording, row, own, all_ports, check):
    ports = recording.ports
    hosts = {port.hca for port in all_ports} | {ports[port.switch].peer for port in all_ports if port.switch}
    injected = lambda some: sum(p.moved("xmit_gbps_sum", "rcv_gbps_sum") for p in some)
    ejected = lambda some: sum(p.moved("rcv_gbps_sum", "xmit_gbps_sum") for p in some)
    stays = collections.Counter()
    check("leaves", {leaf["guid"] for leaf in row["leaves"]}, {port.leaf for port in own if port.leaf})
    uplinks = {}
    for leaf in row["leaves"]:
        mine, everyone = ([p for p in some if p.leaf == leaf["guid"]] for some in (own, all_ports))
        up = [key for key, port in ports.items() if key[0] == leaf["guid"] and port.peer and port.peer not in hosts]
        expected = {
            "job_ports": len(mine), "host_ports": len(everyone), "injected_bytes": injected(mine), "ejected_bytes": ejected(mine),
            "all_injected_bytes": injected(everyone), "all_ejected_bytes": ejected(everyone),
            "up_bytes": sum((recording.value(key, "xmit_gbps_sum") or 0) / 8 for key in up),
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


WITHIN = "ts >= ? AND (ts < ? OR ?)"


def bounds(recording):
    low, high = recording.window
    return [low, min(high, 2**63), high == TOP]


def sweeps(recording, shown, differences):
    spread = lambda name: f"min({name}), avg({name}), max({name}), stddev_pop({name})"
    rows = recording.db.execute(
        f"SELECT sampler, ca, ca_port, count(*), sum(slots_missed), sum(ok + late) / sum(ports), sum(lines_lost), {spread('duration_ns')}, "
        f"{spread('decode_ns')}, {spread('duration_ns + decode_ns')} FROM lines WHERE type = 'sweep' AND {WITHIN} GROUP BY ALL ORDER BY 1, 2, 3",
        bounds(recording),
    ).fetchall()
    differences.check("sweeps", "rows", [(row["sampler"], row["ca"], row["ca_port"]) for row in shown], [row[:3] for row in rows])
    for row, computed in zip(shown, rows):
        values = [row[name] for name in ("slots", "missed", "complete", "lost")]
        values += [row[name][part] for name in ("duration_ns", "decode_ns", "total_ns") for part in ("min", "mean", "max", "sd")]
        for index, (value, expected) in enumerate(zip(values, computed[3:])):
            differences.check("sweeps", f"{row['sampler']}: column {index}", float(value), float(expected), tolerance=1e-6)


def latency(recording, shown, differences):
    """The distributions are histograms with two digits: their numbers of values are exact."""
    rows = recording.db.execute(
        f"SELECT device_kind, sum(count) FROM lines WHERE type = 'histogram' AND device_kind IS NOT NULL AND guid IS NULL AND {WITHIN} GROUP BY 1",
        bounds(recording),
    ).fetchall()
    if not rows:
        return
    by_kind = {row["name"]: row["count"] for row in shown if row["by"] == "kind"}
    differences.check("latency", "kinds", by_kind, {kind: int(count) for kind, count in rows})
    differences.check("latency", "all", next(row["count"] for row in shown if row["name"] == "all"), int(sum(count for _, count in rows)))


def main():
    view, hosts, low, high, *files = sys.argv[1:]
    window = (0 if low == "-" else int(low), TOP if high == "-" else int(high))
    recording, differences = Recording(files, *window), Differences()

    def shown(*command):
        times = [flag for name, value in (("--from", low), ("--to", high)) if value != "-" for flag in (name, value)]
        command = [view, command[0], *files, *times, *command[1:], "--format", "json"]
        document = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        differences.check(command[1], "times", (document["from_ns"], document["to_ns"]), recording.span())
        return document["rows"]

    links(recording, shown("links", "--top", "100000"), "links", differences)
    links(recording, shown("map"), "map", differences)
    errors(recording, shown("errors"), differences)
    job(recording, shown("job", "--nodes", hosts), hosts.split(","), differences)
    sweeps(recording, shown("sweeps"), differences)
    latency(recording, shown("latency"), differences)
    for line in differences.found[:40]:
        print(line)
    print(f"differences: {len(differences.found)}; compared: {dict(differences.compared)}")
    sys.exit(1 if differences.found else 0)


main()
