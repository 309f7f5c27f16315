#!/usr/bin/env python3
"""Measures how long a fleet needs to start: N processes on this machine, each with a simulated fabric.

    tests/fleet/start.py --programs target/release 1 8 32 128 300

Each sampler has two ports or more, so that the simulation costs little. For each N: the time from the first fork until
all processes run, and until the end of the first slot that is complete on all samplers. Prints a table in Markdown. One
machine runs the whole fleet, so the times are upper limits: in a real fleet, each host starts one process.
"""

import argparse
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import fabric

#: Time after which a fleet that is not complete is a failure, in seconds.
LIMIT = 120


def slots(path):
    """Returns the complete slots of a sampler: number and end in seconds since 1970."""
    found = {}
    with open(path) as lines:
        for line in lines:
            if line.startswith('{"type":"sweep"') and line.endswith("\n"):
                sweep = json.loads(line)
                if sweep["ok"] + sweep["late"] + sweep["down"] == sweep["ports"]:
                    found[sweep["slot"]] = sweep["ts"] / 1e9
    return found


def first_common(folder, count):
    """Returns the first slot that all samplers have, with the time of its end; None if there is none yet."""
    paths = glob.glob(os.path.join(folder, "*.jsonl"))
    if len(paths) < count:
        return None
    all_slots = [slots(path) for path in paths]
    common = set.intersection(*map(set, all_slots))
    return min(((slot, max(of[slot] for of in all_slots)) for slot in common), default=None)


def measure(args, count):
    with tempfile.TemporaryDirectory() as folder:
        net = os.path.join(folder, "small.p")
        fabric.small(net)
        fleet = fabric.copies(args.programs, folder, net, count, 0)
        program = os.path.join(args.programs, "ibnet-sweep")
        out = os.path.join(folder, "lines/")
        begin, processes = time.time(), []
        for copy in fleet:
            for sampler in copy.samplers:
                command = [program, "-q", "--simulate", copy.net, "--assignments", copy.plan, "--sampler", sampler, "-o", out]
                processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        started, found = time.time(), None
        while found is None and time.time() < begin + LIMIT:
            time.sleep(0.5)
            found = first_common(out, count)
        cpu = sum(cpu_seconds(process.pid) for process in processes)
        lived = time.time() - begin
        for process in processes:
            process.send_signal(signal.SIGTERM)
        failed = sum(process.wait() != 0 for process in processes)
        if found is None or failed:
            sys.exit(f"error: {count} samplers: no common slot within {LIMIT} s, or {failed} processes failed")
        ports = sum(sum(copy.samplers.values()) for copy in fleet)
        print(f"| {count} | {ports:,} | {started - begin:.2f} | {found[1] - begin:.2f} | {cpu / lived:.2f} |", flush=True)


def cpu_seconds(pid):
    """Returns the CPU time of a process."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default="target/release", metavar="DIR")
    parser.add_argument("counts", nargs="*", type=int, default=[1, 8, 32, 128, 300], metavar="N", help="numbers of samplers")
    args = parser.parse_args()
    print("| samplers | ports | all processes forked, s | first slot complete on all, s | CPU, cores |")
    print("|---|---|---|---|---|")
    for count in args.counts:
        measure(args, count)


if __name__ == "__main__":
    main()
