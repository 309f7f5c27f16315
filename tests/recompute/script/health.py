"""Recomputes the bit error ratios of `ibnet-view health`, their intervals, and the decisions of the PDR rule.

    health.py VIEW FILE

This script shares no code with ibnet-view, and uses the standard library only. The rule is that of the README
of the PDR plugin of UFM (`pdr_deterministic_plugin` in ufm_sdk_3.0); it was not compared with the plugin itself.
It prints the number of compared values, and exits with 1 if a value differs.
"""

import bisect
import collections
import json
import math
import subprocess
import sys

MINUTE = 60 * 10**9
SPEEDS = {"EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
Z = 1.959963984540054


def logs(count, mean):
    return count * math.log(mean) - mean - math.lgamma(count + 1)


def tail(count, mean, step):
    """Probability of `count` and of all counts above it (step 1) or below it (step -1)."""
    total, number = 0.0, count
    while number >= 0:
        term = math.exp(logs(number, mean))
        total += term
        if term <= total * 1e-14 and (number - mean) * step > 0:
            break
        number += step
    return total


def interval(count):
    """The 95 % interval of a Poisson mean, by the sums of probabilities, or for large counts by a series."""
    if count > 20_000:
        ends = []
        for shape, z in ((count, -Z), (count + 1, Z)):
            root = math.sqrt(shape)
            ends.append(shape + z * root + (z * z - 1) / 3 + (z**3 - 7 * z) / (36 * root))
        return ends

    def solve(step):
        low, high = 1e-9, count + 10 * math.sqrt(count + 1) + 10
        for _ in range(100):
            middle = (low + high) / 2
            # The upper tail grows with the mean, and the lower tail shrinks.
            if (tail(count, middle, step) < 0.025) == (step == 1):
                low = middle
            else:
                high = middle
        return low

    return [solve(1) if count else 0.0, solve(-1)]


class Checked:
    def __init__(self):
        self.count, self.different = 0, []

    def equal(self, what, shown, expected, tolerance=0.0):
        self.count += 1
        if tolerance and shown is not None and expected is not None:
            same = math.isclose(shown, expected, rel_tol=tolerance, abs_tol=1e-300)
        else:
            same = shown == expected
        if not same:
            self.different.append(f"{what}: {shown} instead of {expected}")


def read(name):
    readings, modules, ports = (collections.defaultdict(list) for _ in range(3))
    for line in open(name):
        record = json.loads(line)
        key = record.get("guid"), record.get("port")
        if record["type"] == "phy":
            readings[key].append(record)
        elif record["type"] == "module":
            modules[key].append(record)
        elif record["type"] == "port":
            ports[key].append(record)
    for records in (readings, modules, ports):
        for of_port in records.values():
            of_port.sort(key=lambda record: record["ts"])
    return readings, modules, ports


def ratios(rows, readings, checked):
    checked.equal("ports", len(rows), len(readings))
    for row in rows:
        own = readings[row["guid"], row["port"]]
        last = own[-1]
        first = next((record for record in own if record["ts"] == last["ts"] - row["ratios_ns"]), None)
        name = f"{row['node']} port {row['port']}"
        if first is None:
            checked.equal(f"{name}: first reading", row["ratios_ns"], "the time of a reading")
            continue
        # The oldest reading since the counters were reset.
        fields = ["phy_received_bits", "phy_corrected_bits", "phy_symbol_errors"]
        start = max((i for i in range(1, len(own)) if any(own[i][f] < own[i - 1][f] for f in fields)), default=0)
        all_ns = last["ts"] - own[start]["ts"]
        is_right = 125 * MINUTE <= row["ratios_ns"] <= 150 * MINUTE if all_ns >= 125 * MINUTE else row["ratios_ns"] == all_ns
        checked.equal(f"{name}: length {row['ratios_ns']} of {all_ns}", is_right, True)
        bits = last["phy_received_bits"] - first["phy_received_bits"]
        pairs = [("raw", "phy_corrected_bits", None), ("effective", "phy_effective_errors", "rs_fec_uncorrectable_blocks"),
                 ("symbol", "phy_symbol_errors", "plr_rcv_uncorrectable_code")]
        for ratio, field, events in pairs:
            if bits == 0:
                checked.equal(f"{name} {ratio}", row[ratio], None)
                continue
            errors = last[field] - first[field]
            number = last[events] - first[events] if events else 0
            if not 0 < number <= errors:
                number = errors
            size = errors / number if number else 1.0
            low, high = interval(number)
            for part, value in (("errors", errors), ("bits", bits), ("ratio", errors / bits),
                                ("lower", low * size / bits), ("upper", high * size / bits)):
                checked.equal(f"{name} {ratio} {part}", row[ratio][part], value, 3e-7)
        lanes = [a - b for a, b in zip(last["phy_raw_errors_lane"], first["phy_raw_errors_lane"])]
        for lane, shown in enumerate(row["lanes"]):
            checked.equal(f"{name} lane {lane}", shown, lanes[lane] * len(row["lanes"]) / bits, 1e-9)
            ratio, of_lane = row["lane_ratios"][lane], bits / len(row["lanes"])
            for part, value in zip(("lower", "upper"), interval(lanes[lane])):
                checked.equal(f"{name} lane {lane} {part}", ratio[part], value / of_lane, 3e-7)
        lost = last["rs_fec_uncorrectable_blocks"] - first["rs_fec_uncorrectable_blocks"]
        checked.equal(f"{name} lost blocks", row["lost_blocks"], lost)


def newest(records, times, until):
    place = bisect.bisect_right(times, until)
    return records[place - 1] if place else None


def went_down_so_far(phy):
    """LinkDownedCounter, which the plugin reads, counts intended link downs too."""
    return phy["unintentional_link_down_events"] + phy["intentional_link_down_events"]


def decisions(readings, modules, ports):
    """The rule, poll by poll: each 300 s every port is sampled."""
    names = sorted(set(readings) | set(modules), key=lambda key: (int(key[0], 16), key[1]))
    times = {(kind, key): [record["ts"] for record in records.get(key, [])]
             for kind, records in (("phy", readings), ("module", modules)) for key in names}
    every = [ts for of_port in times.values() for ts in of_port]
    first, last = (-(-ts // (5 * MINUTE)) for ts in (min(every), max(every)))
    history = {key: [] for key in names}  # (time, symbol errors, link downs, temperature)
    isolated, resets, found = {}, collections.defaultdict(list), []
    for poll in range(first, last + 1):
        now = poll * 5 * MINUTE
        for key in names:
            phy = newest(readings.get(key, []), times["phy", key], now)
            module = newest(modules.get(key, []), times["module", key], now)
            history[key].append((now, phy and phy["phy_symbol_errors"], phy and went_down_so_far(phy),
                                 module and module["temperature_c"]))

        def went_down(key):
            past = history.get(key, [])
            return len(past) > 1 and None not in (past[-1][2], past[-2][2]) and past[-1][2] > past[-2][2]

        def reason(key):
            past, record = history[key], ports[key][-1] if ports.get(key) else None
            width, speed = record["link"].split("x") if record else ("0", "EDR")
            rate = int(width) * SPEEDS[speed] * 1e9
            # Samples before a reset of the counter do not count.
            symbols = [(ts, errors) for ts, errors, *_ in past if errors is not None]
            resets_at = [i for i in range(1, len(symbols)) if symbols[i][1] < symbols[i - 1][1]]
            symbols = symbols[resets_at[-1] if resets_at else 0:]
            for minutes, ratio, text in ((12, 1e-14, "symbols_12min"), (125, 1e-15, "symbols_125min")):
                old = [errors for ts, errors in symbols if ts <= now - minutes * MINUTE]
                if rate and old and symbols[-1][1] - old[-1] > rate * minutes * 60 * ratio:
                    return text
            warm, before = past[-1][3], past[-2][3] if len(past) > 1 else None
            if warm is not None and (warm > 70 or before is not None and abs(warm - before) > 10):
                return "temperature"
            peer = record and (record["peer_guid"], record["peer_port"])
            if went_down(key) and went_down(peer):
                return "link_down"
            return None

        reasons = {key: reason(key) for key in names}
        for key in names:
            if reasons[key]:
                if key in isolated:
                    isolated[key] = now
                elif len(isolated) >= max(10, int(0.005 * len(names))):
                    found.append([now, *key, "over_limit", reasons[key]])
                else:
                    isolated[key] = now
                    found.append([now, *key, "isolate", reasons[key]])
            elif key in isolated and now - isolated[key] >= 126 * MINUTE:
                resets[key] = [ts for ts in resets[key] if now - ts < 7 * 24 * 60 * MINUTE]
                if len(resets[key]) < 2:
                    resets[key].append(now)
                    del isolated[key]
                    found.append([now, *key, "return", None])
    return found


def main():
    view, name = sys.argv[1:]
    checked, (readings, modules, ports) = Checked(), read(name)

    def rows(*options):
        run = subprocess.run([view, "health", name, *options, "--format", "json"], check=True, capture_output=True, text=True)
        return json.loads(run.stdout)["rows"]

    ratios(rows(), readings, checked)
    shown = [[row[field] for field in ("ts", "guid", "port", "action", "reason")] for row in rows("--rule", "pdr")]
    expected = decisions(readings, modules, ports)
    for number in range(max(len(shown), len(expected))):
        pair = [rows[number] if number < len(rows) else None for rows in (shown, expected)]
        checked.equal(f"decision {number}", *pair)
    for line in checked.different[:40]:
        print(line)
    kinds = collections.Counter(f"{action} {reason}" for *_, action, reason in expected)
    print(f"differences: {len(checked.different)}; compared: {checked.count}; decisions: {dict(kinds)}")
    sys.exit(1 if checked.different else 0)


main()
