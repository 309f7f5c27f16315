#!/usr/bin/env python3
"""Plays records of all types of a large fabric to ibnet-hub, and prints the CPU time, the memory and the lag of the hub.

    tests/fleet/hub.py                                20,000 ports for 15 minutes, in real time
    tests/fleet/hub.py --fast --seconds 120           as fast as the hub reads, for the CPU time of a slot
    tests/fleet/hub.py --ask --ports 100000           with a client that asks for everything, and how long it waits

The samplers of one simulated fabric are recorded with all counter groups, the physical layer, sensors, modules, states
of links, events and routes. Copies of these slots, with other names, GUIDs and times, are the large fabric. After the
last recorded slot follows the first one again, so counters decrease there. `--folder` keeps the recording for the next
run. The player needs a core of its own.
"""

import argparse
import collections
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import fabric

#: Recorded slots. The registers of all ports are read once in this time.
SLOTS = 120

#: Samplers of a copy.
SAMPLERS = 6

#: What the client of `--ask` asks for.
ANSWERS = ["health", "topology", "links?top=500", "links/health?top=500", "alerts", "errors", "trees", "heat",
           "ports?q=node&limit=500", "events?limit=500", "samplers", "timeline"]

SLOT = re.compile(rb'"slot":(\d+)')


def record(args, folder):
    """Records the samplers of the copy 0, each in a file, and returns their folder."""
    lines = os.path.join(folder, "lines")
    if os.path.isdir(lines):
        return lines
    copy = fabric.Copy(args.programs, folder, args.net, 0, SAMPLERS)
    path = os.path.join(folder, "sweep.toml")
    with open(path, "w") as file:
        file.write(f"""simulate = "{copy.net}"
assignments = "{copy.plan}"
sampler = "all"
groups = [{args.groups}]
peers = true
traps = true
[simulated]
links_down = 1
[physical]
enabled = true
budget = 0.2
[routes]
enabled = true
""")
    command = [os.path.join(args.programs, "ibnet-sweep"), "-q", "-c", path, "--sweeps", str(SLOTS + 4), "-o", lines + "/"]
    print(f"recording {SLOTS} slots", flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return lines


class Player:
    """The recorded slots of all samplers of a copy."""

    def __init__(self, lines):
        self.types, self.samplers, self.ports = collections.Counter(), [], 0
        for path in sorted(glob.glob(os.path.join(lines, "*.jsonl"))):
            starts, slots = b"", collections.defaultdict(list)
            with open(path, "rb") as file:
                for line in file:
                    if line.startswith(b'{"type":"start"'):
                        starts += line
                    else:
                        slots[int(SLOT.search(line)[1])].append(line)
            # The first slots have no rates, and the last one has records of the end.
            numbers = sorted(slots)[2:2 + SLOTS]
            for number in numbers:
                self.types.update(line[9:line.index(b'"', 9)].decode() for line in slots[number])
            self.ports += sum(line.startswith(b'{"type":"port"') for line in slots[numbers[0]])
            self.samplers.append((starts, [(number, b"".join(slots[number])) for number in numbers]))

    def texts(self, slot, copies, with_starts):
        """Returns the lines of each sampler in a slot."""
        for starts, slots in self.samplers:
            recorded, text = slots[slot % len(slots)]
            if with_starts:
                text = starts + text
            # All times are in seconds and nanoseconds since 1970.
            for ahead in (1, 0):
                text = text.replace(b"%d" % (recorded + ahead), b"%d" % (slot + ahead))
            for copy in range(copies):
                yield text.replace(b'"f00', b'"f%02d' % copy).replace(b'"0x000001', b'"0x%06x' % (copy + 1))


class Hub:
    """ibnet-hub with the player as its input."""

    def __init__(self, args):
        self.listener = socket.create_server(("127.0.0.1", 0))
        source = "-" if args.fast else f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        command = [os.path.join(args.hub or args.programs, "ibnet-hub"), "--listen", "127.0.0.1:0", "--input", source] + args.option
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.url = self.process.stdout.readline().decode().strip()
        self.write = self.process.stdin.write if args.fast else self.listener.accept()[0].sendall

    def get(self, path):
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}", timeout=300) as answer:
            return answer.read()

    def threads(self):
        """Returns the CPU time of the threads by name, in seconds."""
        found = collections.Counter()
        for folder in glob.glob(f"/proc/{self.process.pid}/task/*"):
            with open(folder + "/stat") as stat:
                head, fields = stat.read().rsplit(")", 1)
            ticks = sum(map(int, fields.split()[11:13]))
            found[head.split("(", 1)[1].rstrip("-0123456789")] += ticks / os.sysconf("SC_CLK_TCK")
        return found

    def resident(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmRSS:\s*(\d+)", status.read())[1]) * 1024

    def settled(self):
        """Waits until the hub has read all lines, and returns its health."""
        before = None
        while True:
            health = json.loads(self.get("health"))
            if health["inputs"][0]["lines"] == before:
                return health
            before = health["inputs"][0]["lines"]
            time.sleep(2)


class Client:
    """Asks a hub for all answers in turn, and remembers how long each took."""

    def __init__(self, hub):
        self.hub, self.times, self.is_over = hub, {path: [] for path in ANSWERS}, False
        self.thread = threading.Thread(target=self.ask, daemon=True)
        self.thread.start()

    def ask(self):
        while not self.is_over:
            for path in ANSWERS:
                begin = time.monotonic()
                self.hub.get(path)
                self.times[path].append(time.monotonic() - begin)
            time.sleep(1)

    def end(self):
        self.is_over = True
        self.thread.join()
        for path, times in self.times.items():
            print(f"{path}: {len(times)} answers, mean {sum(times) / len(times):.2f} s, longest {max(times):.2f} s")


def share(after, before, seconds):
    """Describes the CPU time between two readings as a share of a core."""
    used = after - before
    parts = ", ".join(f"{name} {100 * used[name] / seconds:.1f}" for name, _ in used.most_common(4))
    return f"{100 * used.total() / seconds:.1f} % of a core ({parts})"


def play(args, folder):
    player = Player(record(args, folder))
    copies = -(-args.ports // player.ports)
    ports = copies * player.ports
    types = ", ".join(f"{count * copies / SLOTS:,.0f} {name}" for name, count in player.types.most_common())
    size = sum(len(text) for _, slots in player.samplers for _, text in slots) * copies / SLOTS
    print(f"{ports:,} ports, {copies * len(player.samplers)} samplers; records of a slot: {types}; {size / 1e6:.1f} MB")
    hub = Hub(args)
    try:
        first = int(time.time()) + 1 - args.fast * (args.seconds + 10)
        before = start = hub.threads()
        lag, late, since = 0, 0, time.monotonic()
        client = Client(hub) if args.ask else None
        for slot in range(first, first + args.seconds):
            for place, text in enumerate(player.texts(slot, copies, slot == first)):
                # The samplers send in the first half of the second.
                due = slot + place / copies / len(player.samplers) / 2 - time.time()
                if not args.fast and due > 0:
                    time.sleep(due)
                late = max(late, -due)
                hub.write(text)
            played = slot - first + 1
            if not args.fast:
                lag = max(lag, json.loads(hub.get("health"))["lag_ns"])
            if played % args.report == 0 or played == args.seconds:
                health = hub.settled() if args.fast else json.loads(hub.get("health"))
                now = hub.threads()
                passed = (played - 1) % args.report + 1 if args.fast else time.monotonic() - since
                print(f"{played:5} slots: {share(now, before, passed)}, resident {hub.resident() / 1e6:,.0f} MB, "
                      f"kept {health['kept']['octets'] / 1e6:,.0f} MB"
                      + ("" if args.fast else f", lag at most {lag / 1e9:.2f} s, player late by {late:.1f} s"), flush=True)
                before, lag, late, since = now, 0, 0, time.monotonic()
        if client:
            client.end()
        health, used = hub.settled(), hub.threads() - start
        print(f"{1e6 * used.total() / health['counts']['added']:.2f} us a port record; counts {health['counts']}, malformed {health['inputs'][0]['malformed']}")
        # A lookup for alerts of the last records, and nothing else.
        time.sleep(20)
        for path in ["links/health?top=500", "alerts", "links?top=20", "trees", "topology", "health"]:
            before = hub.threads()
            sizes = {len(hub.get(path)) for _ in range(args.answers)}
            cost = 1000 * (hub.threads() - before).total() / args.answers
            print(f"{path}: {cost:.0f} ms of CPU time an answer, {max(sizes):,} bytes")
    finally:
        hub.process.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default="target/release", metavar="DIR")
    parser.add_argument("--hub", metavar="DIR", help="folder of another ibnet-hub")
    parser.add_argument("--net", default="examples/stria.p", metavar="FILE", help="fabric that is copied")
    parser.add_argument("--groups", default='"all"', metavar="LIST", help='counter groups: "all", or "extended","base"')
    parser.add_argument("--ports", type=int, default=20_000, metavar="N")
    parser.add_argument("--seconds", type=int, default=900, metavar="N")
    parser.add_argument("--report", type=int, default=60, metavar="N", help="slots between two lines of the output")
    parser.add_argument("--answers", type=int, default=5, metavar="N", help="answers of each kind at the end")
    parser.add_argument("--ask", action="store_true", help="a client asks for all answers in turn")
    parser.add_argument("--fast", action="store_true", help="write to standard input of the hub, as fast as it reads")
    parser.add_argument("--folder", metavar="DIR", help="keep the recording in this folder, or take it from there")
    parser.add_argument("--option", action="append", default=[], metavar="TEXT", help="argument of ibnet-hub")
    args = parser.parse_args()
    folder = args.folder or tempfile.mkdtemp(prefix="ibnet-fleet-")
    os.makedirs(folder, exist_ok=True)
    try:
        play(args, os.path.abspath(folder))
    finally:
        if not args.folder:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
