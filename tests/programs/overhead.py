#!/usr/bin/env python3
"""Tests the statistics of `scripts/overhead` on simulated run times, and the program on a command whose
values are known. Nothing is measured, so the result does not depend on the machine."""

import importlib.machinery
import importlib.util
import json
import math
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/overhead"
LOADER = importlib.machinery.SourceFileLoader("overhead", str(SCRIPT))
overhead = importlib.util.module_from_spec(importlib.util.spec_from_loader("overhead", LOADER))
LOADER.exec_module(overhead)

SERIES = 400


def normal(rng):
    return rng.gauss(0, 0.01)


def with_spikes(rng):
    """One run of ten is disturbed by up to some percent."""
    return rng.gauss(0, 0.005) + (rng.expovariate(50) if rng.random() < 0.1 else 0)


def simulated(seed, pairs, effect, noise):
    """Run times on a machine that becomes slower, in pairs (without, with)."""
    rng = random.Random(seed)
    values = []
    for pair, first in enumerate(overhead.order(pairs, seed)):
        times = [(10 + 0.1 * pair) * math.exp(noise(rng)) for _ in range(2)]
        times[0 if first else 1] *= 1 + effect
        values.append((times[1], times[0]) if first else (times[0], times[1]))
    return values


def all_found(pairs, effect, noise=normal):
    return [overhead.evaluated(simulated(seed, pairs, effect, noise)) for seed in range(SERIES)]


class Statistics(unittest.TestCase):
    def test_interval_contains_the_true_effect_in_95_of_100_series(self):
        for noise in (normal, with_spikes):
            for effect in (0, 0.02, -0.3):
                series = all_found(10, effect, noise)
                covered = sum(found["low"] <= 100 * effect <= found["high"] for found in series) / SERIES
                self.assertTrue(0.92 <= covered <= 0.98, f"{noise.__name__} {effect}: {covered}")

    def test_false_effect_is_found_in_5_of_100_series(self):
        wrong = sum(overhead.permutation(simulated(seed, 8, 0, normal), seed) < 0.05 for seed in range(SERIES)) / SERIES
        self.assertTrue(0.025 <= wrong <= 0.075, wrong)

    def test_smallest_effect_is_found_in_80_of_100_series(self):
        # The noise of a difference is 0.01 x sqrt(2). The factor is that of 10 pairs.
        smallest = math.expm1((2.262 + 0.883) * 0.01 * math.sqrt(2 / 10))
        series = all_found(10, smallest)
        power = sum(found["low"] > 0 for found in series) / SERIES
        self.assertTrue(0.75 <= power <= 0.87, power)
        mean = sum(found["smallest"] for found in series) / SERIES
        self.assertAlmostEqual(mean / (100 * smallest), 1, delta=0.05)

    def test_quantiles_of_the_t_distribution_are_those_of_the_tables(self):
        for share, degrees, value in ((0.975, 2, 4.3027), (0.975, 19, 2.0930), (0.8, 19, 0.8610), (0.95, 100, 1.6602)):
            self.assertAlmostEqual(overhead.quantile(share, degrees), value, delta=1e-4)

    def test_permutations_of_few_pairs_are_exact(self):
        self.assertEqual(overhead.permutation([(10, 11), (10, 12), (10, 13)], 1), 2 / 8)
        self.assertEqual(overhead.permutation([(10, 11), (10, 9.5), (10, 10.5)], 1), 6 / 8)
        # More than 2^16 assignments are sampled: 22 equal signs are nearly never as extreme.
        self.assertAlmostEqual(overhead.permutation([(10, 11)] * 22, 1), 1e-5, delta=2e-5)

    def test_order_is_random_and_repeatable(self):
        first = overhead.order(1000, 7)
        self.assertEqual(first, overhead.order(1000, 7))
        self.assertTrue(430 <= sum(first) <= 570, sum(first))


class Program(unittest.TestCase):
    def run_in(self, folder, *args):
        return subprocess.run([SCRIPT, "--settle", "0", *args], cwd=folder, capture_output=True, text=True)

    def test_effect_of_a_known_command_is_printed_and_a_series_goes_on(self):
        command = ["sh", "-c", 'if [ -e on ]; then echo "time 11 s"; else echo "time 10 s"; fi']
        options = ["--on", "touch on", "--off", "rm -f on", "--value", r"time (\S+) s", "--seed", "7"]
        with tempfile.TemporaryDirectory() as folder:
            first = self.run_in(folder, *options, "--pairs", "3", "--", *command)
            self.assertEqual(first.returncode, 0, first.stderr)
            self.assertIn("mean      10 without samplers, 11 with them", first.stdout)
            self.assertIn("effect    +10.00 % (95 % interval +10.00 to +10.00 %; permutation test p = 0.250)", first.stdout)
            self.assertFalse((Path(folder) / "on").exists(), "the samplers are stopped at the end")
            more = self.run_in(folder, *options, "--pairs", "4", "--", *command)
            self.assertEqual(more.stdout.count("pair 4 of 4"), 2, more.stdout)
            self.assertNotIn("pair 3 of 4", more.stdout)
            rows = [json.loads(line) for line in (Path(folder) / "overhead.jsonl").read_text().splitlines()]
            self.assertEqual([(row["pair"], row["value"]) for row in rows if row["on"]], [(pair, 11) for pair in range(4)])

    def test_sampler_is_ended_after_each_run(self):
        sampler = "sh -c 'echo $$ >> pids; exec sleep 100000'"
        with tempfile.TemporaryDirectory() as folder:
            ended = self.run_in(folder, "--sampler", sampler, "--pairs", "3", "true")
            self.assertEqual(ended.returncode, 0, ended.stderr)
            pids = Path(folder) / "pids"
            alive = [pid for pid in (pids.read_text().split() if pids.exists() else []) if Path("/proc", pid).exists()]
            self.assertEqual(alive, [])

    def test_failed_command_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            for args, text in (
                (["--on", "true", "--off", "true", "false"], "cannot measure `false`"),
                (["--on", "false", "--off", "false", "true"], "cannot run `false`"),
                (["--on", "true", "--off", "true", "--value", "(x)", "true"], "no positive number"),
                (["--sampler", "/no/such", "true"], "cannot start `/no/such`: No such file"),
                (["--on", "true", "--off", "true", "/no/such"], "cannot run `/no/such`: No such file"),
                (["true"], "expected --sampler, or --on and --off"),
            ):
                found = self.run_in(folder, *args)
                self.assertNotEqual(found.returncode, 0)
                self.assertIn(text, found.stderr)


unittest.main()
