"""`sweeps`: durations, completeness and losses of each HCA port of a sampler."""

from records import WITHIN, bounds


def sweeps(recording, shown, differences):
    spread = lambda name: f"count({name}), min({name}), avg({name}), max({name}), stddev_pop({name})"
    rows = recording.db.execute(
        f"SELECT sampler, ca, ca_port, count(*), sum(slots_missed), sum(ok + late) / sum(ports - down), sum(lines_lost), "
        f"{spread('duration_ns')}, {spread('decode_ns')}, {spread('duration_ns + decode_ns')} FROM lines "
        f"WHERE type = 'sweep' AND {WITHIN} GROUP BY ALL ORDER BY 1, 2, 3",
        bounds(recording),
    ).fetchall()
    differences.check("sweeps", "rows", [(row["sampler"], row["ca"], row["ca_port"]) for row in shown], [row[:3] for row in rows])
    for row, computed in zip(shown, rows):
        values = [row[name] for name in ("slots", "missed", "complete", "lost")]
        values += [row[name][part] for name in ("duration_ns", "decode_ns", "total_ns") for part in ("count", "min", "mean", "max", "sd")]
        for index, (value, expected) in enumerate(zip(values, computed[3:])):
            differences.check("sweeps", f"{row['sampler']}: column {index}", float(value), float(expected), tolerance=1e-6)
