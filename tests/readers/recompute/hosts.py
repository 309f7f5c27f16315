"""Host metrics of `heatmap --host-metrics`, recomputed by DuckDB from the JSON lines by the rules in docs/hosts.md."""

import collections

import duckdb

# For each preset: its metrics, and the condition on its labels.
PRESETS = {
    "ipoib": "metric IN ('node_network_receive_bytes_total', 'node_network_transmit_bytes_total') AND device LIKE 'ib%'",
    "nfs": "metric = 'node_nfs_requests_total'",
}
UNITS = {"ipoib": "octets/s", "nfs": "1/s"}

# Pieces between two readings of a series; the value is not known after a reset and over a gap. Then each piece is
# divided at the bins. A bin has a state only if it has an eighth of the piece or of the bin.
CELLS = """
WITH lines AS (
    SELECT DISTINCT CAST(round(time * 1000) AS BIGINT) * 1000000 AS ts, split_part(host, '.', 1) AS host, metric,
        coalesce(device, '') || '/' || coalesce(method, '') AS labels, value, device
    FROM read_json($path, columns = {time: 'DOUBLE', host: 'VARCHAR', metric: 'VARCHAR', value: 'DOUBLE', device: 'VARCHAR', method: 'VARCHAR'},
        format = 'newline_delimited')
    WHERE PRESET
), pairs AS (
    SELECT *, lag(ts) OVER w AS before, lag(value) OVER w AS old FROM lines
    WINDOW w AS (PARTITION BY host, metric, labels ORDER BY ts)
), usual AS (
    SELECT metric, list_sort(list(ts - before))[count(*) // 2 + 1] AS usual FROM pairs WHERE before IS NOT NULL GROUP BY metric
), pieces AS (
    SELECT host, metric, labels, greatest(before, $low) AS low, least(ts, $high) AS high,
        CASE WHEN ts - before <= 2.5 * usual AND value >= old THEN (value - old) * 1e9 / (ts - before) END AS rate
    FROM pairs JOIN usual USING (metric) WHERE before IS NOT NULL AND least(ts, $high) > greatest(before, $low)
), parts AS (
    SELECT *, unnest(generate_series(low // $width, (high - 1) // $width)) AS bin FROM pieces
), lengths AS (
    SELECT *, least(high, (bin + 1) * $width) - greatest(low, bin * $width) AS part FROM parts
)
SELECT host, metric, labels, bin, sum(rate * part), sum(part) FILTER (rate IS NOT NULL),
    bool_or(rate IS NOT NULL AND 8 * part >= least(high - low, $width)), bool_or(rate IS NULL AND 8 * part >= least(high - low, $width))
FROM lengths GROUP BY ALL
"""


def hosts(shown, path, differences):
    check = lambda what, a, b: differences.check("heatmap --host-metrics", what, a, b)
    rows = {(row["metric"], row["node"]): row for row in shown if row["metric"] in PRESETS}
    names = {row["node"] for row in shown}
    check("rows", set(rows), {(metric, name) for metric in PRESETS for name in names})
    for metric, condition in PRESETS.items():
        some = next(row for (name, _), row in rows.items() if name == metric)
        width, starts = some["bin_ns"], [cell["start_ns"] for cell in some["cells"]]
        found = collections.defaultdict(list)
        span = {"low": starts[0], "high": starts[-1] + width, "width": width, "path": path}
        for host, _, _, number, total, ns, has_value, is_unknown in duckdb.sql(CELLS.replace("PRESET", condition), params=span).fetchall():
            state = ("value", total / ns) if has_value else ("unknown", None) if is_unknown else None
            found[host, number * width] += [state] if state else []
        for name in names:
            row = rows.get((metric, name))
            if row is None:
                continue
            check(f"{metric}/{name}: unit", (row["unit"], row["by"]), (UNITS[metric], "host"))
            for cell in row["cells"]:
                states = found[name, cell["start_ns"]]
                if not states:
                    expected = "no_record", None
                elif any(state == "unknown" for state, _ in states):
                    expected = "unknown", None
                else:
                    expected = "value", sum(value for _, value in states)
                for what, value in zip(("state", "value"), expected):
                    check(f"{metric}/{name}: {what} at {cell['start_ns']}", cell[what], value)
