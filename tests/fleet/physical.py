#!/usr/bin/env python3
"""Compares how long slots take with `[physical] enabled` false and true, in pairs of runs in turn.

    tests/fleet/physical.py --programs target/release
    tests/fleet/physical.py --programs target/release --ibsim tests/data/fabrics/loginoff-fdr10-qdr.topo --pairs 10 --slots 100 --interval 100ms

Without --ibsim, the samplers of a plan for `examples/stria.p` run on a simulated fabric that has registers, the first of
them at a time. ibsim does not answer class 0x0A: there, only the asking costs. Prints the ratio (true / false) of the
median, the 90th and the 99th percentile of a run: geometric mean of the pairs, with the 95 % interval of a bootstrap.
Needs an idle machine.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading

QUANTILES = {"median": 0.5, "90th percentile": 0.9, "99th percentile": 0.99}
#: Slots at the start of a run that do not count.
FIRST = 10


def run(args, env=None):
    done = subprocess.run(args, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(args)}: {done.stderr}")
    return done.stdout


def quantiles(path):
    """Returns the quantiles of the durations of the slots in a file, and the number of `phy` records."""
    with open(path) as lines:
        records = [json.loads(line) for line in lines if line.startswith(('{"type":"sweep"', '{"type":"phy"'))]
    times = sorted([record["duration_ns"] for record in records if record["type"] == "sweep"][FIRST:])
    found = [times[min(len(times) - 1, int(at * len(times)))] for at in QUANTILES.values()]
    return found, sum(record["type"] == "phy" for record in records)


def start_ibsim(folder, net):
    """Starts ibsim with an opensm that ends after one sweep. Returns the process and the environment of its clients."""
    env = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin", "IBSIM_SOCKNAME": f"physical{os.getpid()}"}
    command = ["ibsim", "-N", "4000", "-S", "1000", "-P", "40000", "-s", net]
    ibsim = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True)
    for line in ibsim.stdout:
        if "MaxMcastCap" in line:
            break
    threading.Thread(target=ibsim.stdout.read, daemon=True).start()
    with open(net) as lines:
        host = next(line.split('"')[1] for line in lines if line.startswith("Ca"))
    client = {**env, "SIM_HOST": host, "OSM_CACHE_DIR": folder}
    library = run(["find", "/usr/lib", "-name", "libumad2sim.so"]).split()
    client["LD_PRELOAD"] = library[0] if library else sys.exit("libumad2sim.so is missing; install libumad2sim0")
    run(["opensm", "-o", "-e", "-f", os.path.join(folder, "opensm.log")], client)
    return ibsim, client


def compare(args, folder, source, env):
    program = os.path.join(args.programs, "ibnet-sweep")
    config, out = os.path.join(folder, "ibnet.toml"), os.path.join(folder, "lines.jsonl")
    logarithms = [[] for _ in QUANTILES]
    for pair in range(args.pairs):
        found = {}
        for enabled in ("false", "true") if pair % 2 == 0 else ("true", "false"):
            with open(config, "w") as file:
                file.write(f'interval = "{args.interval}"\n[physical]\nenabled = {enabled}\n')
            run([program, "-c", config, *source, "--sweeps", str(args.slots), "-o", out], env)
            found[enabled], phy = quantiles(out)
            os.remove(out)
            shown = "  ".join(f"{ns / 1e6:8.3f}" for ns in found[enabled])
            print(f"{pair + 1:4}  {enabled:5}  {shown} ms  {phy:4} phy records", flush=True)
        for all_pairs, with_it, without in zip(logarithms, found["true"], found["false"]):
            all_pairs.append(math.log(with_it / without))
    for name, values in zip(QUANTILES, logarithms):
        means = sorted(statistics.fmean(random.choices(values, k=len(values))) for _ in range(10_000))
        mean, low, high = (math.exp(value) for value in (statistics.fmean(values), means[250], means[9750]))
        print(f"{name:15}  {mean:.3f} ({low:.3f} to {high:.3f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True, help="folder of the programs")
    parser.add_argument("--ibsim", metavar="NET", help="output of ibnetdiscover: compare on ibsim")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--slots", type=int, default=600, help="slots of a run")
    parser.add_argument("--interval", default="20ms")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.ibsim:
            ibsim, env = start_ibsim(folder, args.ibsim)
            try:
                compare(args, folder, ["--net", "umad"], env)
            finally:
                ibsim.kill()
            return
        net = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/stria.p")
        plan, host = os.path.join(folder, "plan.toml"), "node00001"
        run([os.path.join(args.programs, "ibnet-gen"), "--net", net, "--samplers", f"{host},node00025,node00049,"
             "node00073,node00097,node00121,node00145,node00169", "-o", plan])
        compare(args, folder, ["--simulate", net, "--assignments", plan, "--sampler", host], None)


main()
