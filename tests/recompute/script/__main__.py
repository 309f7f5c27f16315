"""Recomputes the numbers of ibnet-view from the raw records, and compares them with its JSON output.

    recompute VIEW [--hosts HOSTLIST] [--window FROM,TO]... [--jobs FILE] [--heat METRICS/BY]... [--compare FILE]
              [--group NAME=HOST,...] [--host-lines FILE] FILES...

FROM and TO are nanoseconds since 1970, or `-`. This script shares no code with ibnet-view, and uses the
standard library only. The rules are those of docs/viewing.md. It prints the number of compared values of
each view, and exits with 1 if a value differs.
"""

import argparse
import concurrent.futures
import json
import subprocess
import sys

from errors import errors
from groups import groups
from heat import heat
from hosts import hosts
from job import Jobs, all_jobs, job
from latency import comparison, latency
from links import links
from records import TOP, Differences, Recording
from sharing import sharing
from sweeps import sweeps
from trees import trees


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("view")
    parser.add_argument("--hosts")
    parser.add_argument("--window", action="append")
    parser.add_argument("--jobs")
    parser.add_argument("--heat", action="append", default=[])
    parser.add_argument("--compare")
    parser.add_argument("--group")
    parser.add_argument("--host-lines")
    parser.add_argument("files", nargs="+")
    return parser.parse_args()


def compared(args, low, high, differences):
    window = (0 if low == "-" else int(low), TOP if high == "-" else int(high))
    times = [flag for name, value in (("--from", low), ("--to", high)) if value != "-" for flag in (name, value)]

    def document(command):
        run = [args.view, command[0], *args.files, *times, *command[1:], "--format", "json"]
        return json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)

    def shown(*command, has_span=True):
        found = documents[command].result()
        if has_span:
            differences.check(command[0], "times", (found["from_ns"], found["to_ns"]), recording.span(command[0]))
        return found["rows"]

    stats = {stat: ("links", "--top", "100000", "--stat", stat) for stat in ("mean", "peak", "p95")}
    tree, of_hosts = ("links", "--tree", "--top", "100000"), ("job", "--nodes", args.hosts)
    of_group = ("job", "--group", args.group, *(("--slurm-file", args.jobs) if args.jobs else ()))
    of_host_lines = ("heatmap", "--by", "host", "--host-metrics", args.host_lines)
    of_jobs, shifts = ("job", "--all", "--slurm-file", args.jobs), ("latency", "--compare", f"one={args.compare}")
    heats = {text: ("heatmap", "-m", text.split("/")[0], "--by", text.split("/")[1]) for text in args.heat}
    commands = [*stats.values(), ("map",), tree, ("errors",), ("sweeps",), ("latency",), *heats.values()]
    # The recordings of a comparison can have different times.
    is_compared = args.compare and low == high == "-"
    commands += [command for value, command in ((args.hosts, of_hosts), (args.jobs, of_jobs), (is_compared, shifts)) if value]
    commands += [command for value, command in ((args.group, of_group), (args.host_lines, of_host_lines)) if value]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        # ibnet-view runs while this script computes.
        documents = {command: pool.submit(document, command) for command in commands}
        recording = Recording(args.files, *window)
        for stat, command in stats.items():
            links(recording, shown(*command), "links", differences, stat)
        links(recording, shown("map"), "map", differences)
        trees(recording, shown(*tree), differences)
        errors(recording, shown("errors"), differences)
        sweeps(recording, shown("sweeps"), differences)
        latency(recording, shown("latency"), differences)
        for text, command in heats.items():
            heat(recording, shown(*command), *text.split("/"), differences)
        if args.hosts:
            job(recording, shown(*of_hosts), args.hosts.split(","), differences)
        if args.jobs:
            all_jobs(recording, shown(*of_jobs), args.jobs, differences)
            for number, one in enumerate(Jobs(args.jobs).ids if low == high == "-" else []):
                row = document(("job", "--slurm", one, "--slurm-file", args.jobs))["rows"][0]
                sharing(Recording(args.files, *Jobs(args.jobs).times[number]), row, args.jobs, differences)
        if args.group:
            groups(recording, shown(*of_group), args.group, args.jobs, differences)
        if args.host_lines:
            hosts(shown(*of_host_lines), args.host_lines, differences)
        if is_compared:
            comparison(Recording([args.compare], *window), recording, shown(*shifts, has_span=False), differences)


def main():
    args, differences = arguments(), Differences()
    for window in args.window or ["-,-"]:
        before = len(differences.found)
        compared(args, *window.split(","), differences)
        differences.found[before:] = [f"{window}: {line}" for line in differences.found[before:]]
    for line in differences.found[:40]:
        print(line)
    print(f"differences: {len(differences.found)}; in: {sorted(differences.views)}; compared: {dict(differences.compared)}")
    sys.exit(1 if differences.found else 0)


main()
