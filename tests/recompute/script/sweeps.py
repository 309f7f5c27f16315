"""`sweeps`: durations, completeness and losses of each HCA port of a sampler."""

import collections
import statistics


def spread(values):
    """Count, smallest value, mean, largest value and deviation. Durations are positive: 0 counts as 1 ns."""
    values = [max(value, 1) for value in values]
    return len(values), min(values), statistics.fmean(values), max(values), statistics.pstdev(values)


def computed_row(records):
    of = lambda name: [r[name] for r in records]
    total = lambda name: sum(value for value in of(name) if value is not None)
    complete = (total("ok") + total("late")) / (total("ports") - total("down"))
    both = [duration + decode for duration, decode in zip(of("duration_ns"), of("decode_ns"))]
    return len(records), total("slots_missed"), complete, total("lines_lost"), *spread(of("duration_ns")), *spread(of("decode_ns")), *spread(both)


def sweeps(recording, shown, differences):
    by_port = collections.defaultdict(list)
    for r in recording.lines:
        if r["type"] == "sweep" and recording.within(r):
            by_port[r["sampler"], r["ca"], r["ca_port"]].append(r)
    differences.check("sweeps", "rows", [(row["sampler"], row["ca"], row["ca_port"]) for row in shown], sorted(by_port))
    for row, key in zip(shown, sorted(by_port)):
        values = [row[name] for name in ("slots", "missed", "complete", "lost")]
        values += [row[name][part] for name in ("duration_ns", "decode_ns", "total_ns") for part in ("count", "min", "mean", "max", "sd")]
        for index, (value, expected) in enumerate(zip(values, computed_row(by_port[key]))):
            differences.check("sweeps", f"{row['sampler']}: column {index}", float(value), float(expected), tolerance=1e-6)
