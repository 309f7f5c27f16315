"""Host metrics of `heatmap --host-metrics`, recomputed from the JSON lines by the rules in docs/hosts.md."""

import collections
import json

# For each preset: its metrics, and the start of the names of its devices.
PRESETS = {
    "ipoib": (("node_network_receive_bytes_total", "node_network_transmit_bytes_total"), "ib"),
    "nfs": (("node_nfs_requests_total",), ""),
}
UNITS = {"ipoib": "octets/s", "nfs": "1/s"}


def readings(path, preset):
    """The readings (ns, value) of each series: its host, its metric and its labels."""
    metrics, devices = PRESETS[preset]
    series = collections.defaultdict(dict)
    with open(path, encoding="utf-8") as file:
        for r in map(json.loads, file):
            device, method = r.get("device") or "", r.get("method") or ""
            if r["metric"] in metrics and device.startswith(devices):
                series[r["host"].split(".")[0], r["metric"], f"{device}/{method}"][round(r["time"] * 1000) * 10**6] = r["value"]
    return {key: sorted(values.items()) for key, values in series.items()}


def cells(path, preset, low, high, width):
    """The states of each host in each bin, one for each series; and the number of series of each host.

    The value between two readings is not known after a reset and over a gap. A bin has a state only if it has an
    eighth of the time between two readings, or of the bin."""
    series = readings(path, preset)
    lengths = collections.defaultdict(list)
    for (_, metric, _), values in series.items():
        lengths[metric] += [now[0] - before[0] for before, now in zip(values, values[1:])]
    usual = {metric: sorted(found)[len(found) // 2] for metric, found in lengths.items() if found}
    found, members = collections.defaultdict(list), collections.Counter()
    for (host, metric, _), values in series.items():
        members[host] += any(before < high and ts > low for (before, _), (ts, _) in zip(values, values[1:]))
        bins = collections.defaultdict(lambda: [0.0, 0, False, False])  # sum, length, has a value, has an unknown part
        for (before, old), (ts, value) in zip(values, values[1:]):
            is_known = ts - before <= 2.5 * usual[metric] and value >= old
            start, end = max(before, low), min(ts, high)
            for number in range(start // width, (end - 1) // width + 1) if start < end else ():
                part = min(end, (number + 1) * width) - max(start, number * width)
                is_large = 8 * part >= min(end - start, width)
                if is_known:
                    bins[number][0] += (value - old) * 1e9 / (ts - before) * part
                    bins[number][1] += part
                bins[number][2] |= is_large and is_known
                bins[number][3] |= is_large and not is_known
        for number, (total, length, has_value, is_unknown) in bins.items():
            if has_value or is_unknown:
                found[host, number * width].append(("value", total / length) if has_value else ("unknown", None))
    return found, members


def hosts(shown, path, differences):
    check = lambda what, a, b: differences.check("heatmap --host-metrics", what, a, b)
    rows = {(row["metric"], row["node"]): row for row in shown if row["metric"] in PRESETS}
    names = {row["node"] for row in shown}
    check("rows", set(rows), {(metric, name) for metric in PRESETS for name in names})
    for metric in PRESETS:
        some = next(row for (name, _), row in rows.items() if name == metric)
        width, starts = some["bin_ns"], [cell["start_ns"] for cell in some["cells"]]
        found, members = cells(path, metric, starts[0], starts[-1] + width, width)
        for name in names:
            row = rows.get((metric, name))
            if row is None:
                continue
            check(f"{metric}/{name}: unit", (row["unit"], row["by"]), (UNITS[metric], "host"))
            for cell in row["cells"]:
                states = found[name, cell["start_ns"]]
                values = [value for state, value in states if state == "value"]
                is_whole = len(values) == members[name]
                if values and (is_whole or sum(values) > 0):
                    expected = "value" if is_whole else "at_least", sum(values), None if is_whole else len(values) / members[name]
                else:
                    # At least 0 says nothing.
                    expected = "unknown" if states else "no_record", None, None
                for what, value in zip(("state", "value", "covered"), expected):
                    check(f"{metric}/{name}: {what} at {cell['start_ns']}", cell.get(what), value)
