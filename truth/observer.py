#!/usr/bin/env python3
"""Prints how often an ideal observer of the counters finds the roots of congestion.

docs/congestion.md defines the observer: gradient-boosted decision trees that have learned from
labels. It is the limit for each search that sees the same readings. It makes its recordings with
ibnet-truth, and keeps the features of their ports in the folder --cache. It needs scikit-learn.
Each line of the output is a JSON object with the figures of a scenario.
"""

import argparse
import json
import multiprocessing
import pathlib
import subprocess
import tempfile
import warnings

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

SCENARIOS = ["quiet", "incast", "roots-2", "roots-4", "roots-16", "spine", "slow-host",
             "stuck-host", "moving", "noise", "bursts"]
SECONDS = 30
# A root sends packets or is blocked: other ports are not looked at.
LEAST = 0.1
# A port is a root if its probability is larger. With this threshold, F1 is largest if the
# probabilities are right and F1 is 0.9.
THRESHOLD = 0.45
# For learning, one of so many ports that are no roots is kept.
KEPT = 5
SUMMARIES = [f"{what} {how}" for what in ("used", "blocked") for how in ("max", "sum", "number")]
FEATURES = (["used", "blocked"] + [f"before: {name}" for name in SUMMARIES]
            + [f"after: {name}" for name in SUMMARIES])


def read(path, rate):
    """Returns the ports of a recording, their peers, and for each the shares of each slot."""
    ports, peers, readings = {}, [], []
    # The model writes these fields of each record at the same places; those at the end, too,
    # because a lost reading has no counters.
    places = {"slot": 2, "guid": 4, "port": 5, "peer_guid": 10, "peer_port": 11, "dt_ns": -6,
              "xmit_utilization": -3, "xmit_blocked": -1}
    with open(path, "rb") as lines:
        names = list(json.loads(next(lines)))
        assert all(names[place] == name for name, place in places.items()), names
        lines.seek(0)
        for line in lines:
            fields = line.split(b",")
            value = lambda name: fields[places[name]].partition(b":")[2].rstrip(b"}\n")
            key = value("guid"), value("port")
            port = ports.setdefault(key, len(ports))
            if port == len(peers):
                peers.append((value("peer_guid"), value("peer_port")))
            if value("dt_ns") != b"null":
                readings.append((port, int(value("slot")), int(value("dt_ns")),
                                 float(value("xmit_utilization")), float(value("xmit_blocked"))))
    # The first readings have no duration, so the first ones with a duration are of slot 1.
    start = min(slot for _, slot, *_ in readings) - 1
    shares = np.full((2, len(ports), SECONDS * rate), np.nan, np.float32)
    for port, slot, duration, used, blocked in readings:
        # A reading tells of the slots before; of more than one after a lost reading.
        end = slot - start
        shares[:, port, end - max(1, round(duration * rate / 1e9)):end] = [[used], [blocked]]
    number = lambda key: (int(key[0].strip(b'"'), 16), int(key[1]))
    return [number(key) for key in ports], [ports[peer] for peer in peers], shares


def summaries(values, index):
    """Returns the max, sum and number above 10 % of all values but that of the index."""
    others = np.delete(values, index, 0)
    if len(others) == 0:
        return [np.full(values.shape[1], np.nan, np.float32)] * 3
    others = np.nan_to_num(others)
    return [others.max(0), others.sum(0), (others > 0.1).sum(0)]


def features(ports, peers, shares):
    """Returns an array of features, ports and slots."""
    of_node = {}
    for port, (guid, _) in enumerate(ports):
        of_node.setdefault(guid, []).append(port)
    found = np.empty((len(FEATURES), len(ports), shares.shape[2]), np.float32)
    found[:2] = shares
    for port, (guid, _) in enumerate(ports):
        own, other = of_node[guid], of_node[ports[peers[port]][0]]
        leading = [peers[one] for one in own]
        # Nothing leaves a switch by the port at which it came.
        rows = [row for which, left_out in ((leading, peers[port]), (other, peers[port]))
                for values in shares for row in summaries(values[which], which.index(left_out))]
        found[2:, port] = rows
    return found


def record(task):
    """Makes a recording, and returns the features and labels of its ports."""
    program, cache, scenario, seed, how, rate = task
    kept = cache / f"{scenario}-{seed}-{'adaptive' if how else 'static'}-{rate}.npz"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            subprocess.run([program, scenario, "--seeds", str(seed), "--rate", str(rate), *how,
                            "-o", folder], check=True)
            name = f"{folder}/{scenario}-{seed}"
            ports, peers, shares = read(f"{name}.jsonl", rate)
            found = features(ports, peers, shares)
            roots = np.zeros((len(ports), SECONDS), bool)
            for second, line in enumerate(open(f"{name}.truth.jsonl")):
                for root in json.loads(line)["roots"]:
                    roots[ports.index((int(root["guid"], 16), root["port"])), second] = True
        by_second = found.reshape(len(FEATURES), len(ports), SECONDS, rate)
        busy = np.nan_to_num(by_second[:2]).sum(0).max(2)
        near = np.maximum.reduce([busy, np.roll(busy, 1, 1), np.roll(busy, -1, 1)])
        port, second = np.nonzero(near > LEAST)
        with warnings.catch_warnings(action="ignore"):
            means = np.nanmean(by_second, 3)
        rows = []
        for step in (-1, 0, 1):
            at = np.clip(second + step, 0, SECONDS - 1)
            row = means[:, port, at]
            row[:, at != second + step] = np.nan
            rows.extend(row)
        if rate > 1:
            rows.extend(within(by_second[:, port, second]))
        x = np.stack(rows, 1).astype(np.float32)
        y = roots[port, second]
        np.savez(kept, x=x, y=y, missed=roots.sum() - y.sum(), port=port, second=second)
    return kept


def within(slots):
    """Returns more features of a second with several slots: of rows and slots.

    A port is the root of others while it sends and they wait, and it does not wait itself.
    """
    used, blocked = slots[0], slots[1]
    most, all_blocked = (slots[FEATURES.index(f"before: blocked {how}")] for how in ("max", "sum"))
    is_free = blocked <= 0.1
    free = is_free.sum(1)
    return [free, (most * is_free).sum(1), (all_blocked * is_free).sum(1), (used * is_free).sum(1),
            (is_free & (most > 0.1)).sum(1), (most * is_free).max(1),
            *used.T, *blocked.T, *most.T, *all_blocked.T]


def table(kept):
    """Returns the rows of a recording for learning, their labels, and the missed roots."""
    file = np.load(kept)
    return file["x"], file["y"], int(file["missed"])


def span(text):
    """Returns the numbers of a span such as 201-230."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def train(tables):
    """Returns a model that has learned from these recordings."""
    random = np.random.default_rng(1)
    xs, ys = [], []
    for x, y, _ in tables:
        wanted = y | (random.random(len(y)) < 1 / KEPT)
        xs.append(x[wanted])
        ys.append(y[wanted])
    x, y = np.concatenate(xs), np.concatenate(ys)
    model = HistGradientBoostingClassifier(max_iter=120, min_samples_leaf=40, l2_regularization=1.0,
                                           early_stopping=False, random_state=1)
    return model.fit(x, y, np.where(y, 1, KEPT))


def score(model, tables):
    """Returns how often the model is right."""
    found = right = true = 0
    for x, y, missed in tables:
        says = model.predict_proba(x)[:, 1] > THRESHOLD
        found += int(says.sum())
        right += int((says & y).sum())
        true += int(y.sum()) + missed
    share = lambda part, whole: part / whole if whole else None
    return {"true_roots": true, "found": right, "false_roots": found - right,
            "precision": share(right, found), "recall": share(right, true),
            "f1": share(2 * right, found + true) if found and true else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="target/release/ibnet-truth")
    parser.add_argument("--cache", type=pathlib.Path, default="target/observer")
    parser.add_argument("--train", default="201-230", help="seeds for learning")
    parser.add_argument("--seeds", default="101-110", help="seeds for the figures")
    parser.add_argument("--rate", type=int, default=1, help="readings in a second")
    parser.add_argument("--adaptive", action="store_true",
                        help="adaptive routes, and 1 %% of the readings lost")
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    how = ("--adaptive", "--loss", "0.01") if args.adaptive else ()
    runs = [(scenario, seed) for seed in (*span(args.train), *span(args.seeds))
            for scenario in SCENARIOS]
    tasks = [(args.program, args.cache, *run, how, args.rate) for run in runs]
    with multiprocessing.Pool() as pool:
        kept = dict(zip(runs, pool.map(record, tasks, 1)))
    tables = lambda scenarios, seeds: (table(kept[scenario, seed])
                                       for seed in seeds for scenario in scenarios)
    model = train(tables(SCENARIOS, span(args.train)))
    for scenario in SCENARIOS:
        print(json.dumps({"scenario": scenario, **score(model, tables([scenario], span(args.seeds)))}),
              flush=True)


if __name__ == "__main__":
    main()
