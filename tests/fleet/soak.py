#!/usr/bin/env python3
"""A fleet of samplers -> NATS JetStream -> archive and page; the server is killed, and is away for a while.

    tests/fleet/soak.py                                                  20 samplers, 2,000 ports, 60 s, away 15 s
    tests/fleet/soak.py --play --samplers 300 --ports 40000 --seconds 600 --away 60

The samplers simulate their fabrics. With `--play`, one program plays recorded slots of the samplers in real time: a
machine with few CPUs can so have the traffic of a large fleet. Records reach the archive by `ibnet-sweep collect` and
`ibnet-view pack`, or with `--packer hub` by `ibnet-hub`.

Nothing may be lost: in the archive, each sampler has every slot from its first to its last, with each port once, and
reports no lost record. With `--play`, the sum of a counter must be the sum that was sent. `ibnet-hub` has to know every
sampler and must not miss a slot. `ibnet-sweep status` has to find all samplers. A slot that a sampler could not sample,
because the machine was too slow, is a fault too, unless `--missed` permits it.

The CPU time of the fleet, the server, the collector and the hub is measured apart.

Needs programs with the feature `nats`, nats-server, and a Python with duckdb and pyarrow (`make tools`).
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import fabric
import player
from nats import TOOLS, Nats, free_port
from start import cpu_seconds

HERE = os.path.dirname(os.path.abspath(__file__))

#: Seconds after the run in which the samplers have to be ok.
CATCH_UP = 60

#: Seconds in which the hub has to take and to pack the last records.
LAST = 300


def configure(folder, copy, sampler, port):
    """Writes the configuration of a sampler."""
    path = os.path.join(folder, f"{sampler}.toml")
    with open(path, "w") as file:
        file.write(f"""simulate = "{copy.net}"
assignments = "{copy.plan}"
sampler = "{sampler}"
drain = "30s"
[[output]]
type = "nats"
server = "nats://127.0.0.1:{port}"
fabric = "soak"
batch = "slot"
compress = true
spool = "{folder}/spool/{sampler}"
""")
    return path


def start_samplers(args, folder, fleet, port, log):
    """Starts the processes of the fleet."""
    program, processes = os.path.join(args.programs, "ibnet-sweep"), []
    if args.play:
        recorded = {}
        for copy in fleet:
            if len(copy.samplers) not in recorded:
                # The player replaces the names and GUIDs of the copy 0.
                first = fabric.Copy(args.programs, folder, args.net, 0, len(copy.samplers))
                recorded[len(copy.samplers)] = player.record(program, folder, first)
        spec = os.path.join(folder, "fleet.json")
        with open(spec, "w") as file:
            json.dump([{"number": number, "lines": recorded[len(copy.samplers)]} for number, copy in enumerate(fleet)], file)
        command = [sys.executable, os.path.join(HERE, "player.py"), "--port", str(port), "--fleet", spec]
        with open(os.path.join(folder, "played.json"), "wb") as out:
            return [subprocess.Popen(command, stdout=out, stderr=log)]
    for copy in fleet:
        for sampler in copy.samplers:
            command = [program, "-c", configure(folder, copy, sampler, port)]
            processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log))
    return processes


class Hub:
    """ibnet-hub with a stream, and with an archive if it packs."""

    def __init__(self, args, folder, url):
        self.log = os.path.join(folder, "hub.log")
        self.port, command = free_port(), [os.path.join(args.programs, "ibnet-hub")]
        if args.packer == "hub":
            path = os.path.join(folder, "hub.toml")
            with open(path, "w") as file:
                file.write(f'archive = "{folder}/archive"\narchive_every = "10s"\n')
            command += ["-c", path]
        command += ["--input", f"{url}/ibnet.>?stream=IBNET", "--listen", f"127.0.0.1:{self.port}"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

        #: Largest size of the spool in octets, and the longest time of an answer in seconds.
        self.spool, self.slowest = 0, 0.0
        threading.Thread(target=self.watch, daemon=True).start()

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return answer.read()

    def packing(self):
        return json.loads(self.get("/api/v1/health"))["archive"]

    def watch(self):
        """Notes the size of the spool and the slowest answer, once a second."""
        while self.process.poll() is None:
            before = time.time()
            try:
                packing = self.packing()
                self.slowest = max(self.slowest, time.time() - before)
                self.spool = max(self.spool, (packing or {}).get("spool_octets", 0))
            except OSError:
                # The hub starts or ends.
                pass
            time.sleep(1)

    def samplers(self):
        return json.loads(self.get("/api/v1/samplers"))["rows"]

    def faults(self, expected, last):
        """Waits until the hub has the last slots, and returns what is wrong. `last` has a slot for each sampler."""
        until, rows = time.time() + LAST, self.samplers()
        while time.time() < until and any(row["last_slot"] < last.get(row["sampler"], 0) for row in rows):
            time.sleep(1)
            rows = self.samplers()
        lost = sum(row["slots_lost"] + row["lines_lost"] for row in rows)
        late = sum(row["last_slot"] < last.get(row["sampler"], 0) for row in rows)
        print(f"hub: {len(rows)} samplers, {lost} slots or lines lost, page of {len(self.get('/')):,} octets")
        self.last = {row["sampler"]: row["last_slot"] for row in rows}
        wrong = [f"hub: {sampler} is missing" for sampler in set(expected) - {row["sampler"] for row in rows}]
        wrong += [f"hub: {lost} slots or lines lost"] if lost else []
        wrong += [f"hub: {late} samplers without their last slot after {LAST} s"] if late else []
        with open(self.log, errors="replace") as log:
            return wrong + ([f"hub: its log ends with {line.rstrip()}" for line in log.readlines()[-5:]] if wrong else [])


def wait_for_archive(archive, last):
    """Waits until the hub has packed the last slot of each sampler."""
    import duckdb

    until = time.time() + LAST
    while time.time() < until:
        try:
            query = f"SELECT sampler, max(slot) FROM read_parquet('{archive}/sweeps/**/*.parquet') GROUP BY sampler"
            found = dict(duckdb.sql(query).fetchall())
        except duckdb.IOException:
            found = {}
        if all(found.get(sampler, 0) >= slot for sampler, slot in last.items()):
            return
        time.sleep(2)


class Found:
    """What an archive has: faults, numbers of slots, of slots that were not sampled, of rows, and a sum."""

    def __init__(self, archive, expected):
        import duckdb

        def rows(query):
            return duckdb.sql(query).fetchall()

        self.wrong = []
        ports = f"read_parquet('{archive}/ports/**/*.parquet')"
        sweeps = f"read_parquet('{archive}/sweeps/**/*.parquet')"
        found = rows(f"SELECT sampler, min(slot), max(slot), count(DISTINCT slot), count(*), sum(lines_lost), sum(slots_missed) FROM {sweeps} GROUP BY sampler")
        counts = {}
        for sampler, slot, count, single in rows(f"SELECT sampler, slot, count(*), count(DISTINCT (guid, port)) FROM {ports} GROUP BY ALL"):
            counts.setdefault(sampler, {})[slot] = (count, single)
        for sampler, first, last, slots, records, lost, missed in found:
            if not slots == records == last - first + 1 - missed or lost:
                self.wrong.append(f"{sampler}: {slots} of {last - first + 1} slots, {records} sweep records, {lost} lines lost, {missed} slots missed")
            of_sampler, ports_of = counts.get(sampler, {}), expected.get(sampler)
            partial = [slot for slot, count in of_sampler.items() if count != (ports_of, ports_of)]
            if partial or len(of_sampler) != slots:
                self.wrong.append(f"{sampler}: {len(partial)} of {len(of_sampler)} slots do not have each of {ports_of} ports once")
        self.last = {row[0]: (row[1], row[2]) for row in found}
        self.wrong += [f"{sampler}: no record" for sampler in expected if sampler not in self.last]
        self.slots, self.missed = sum(row[3] for row in found), int(sum(row[6] for row in found))
        self.octets, self.rows = rows(f"SELECT sum(port_xmit_data_bytes), count(*) FROM {ports}")[0]

    def compare(self, sent):
        """Adds the differences to what the player sent."""
        for sampler, slots in self.last.items():
            if slots != (sent["first"], sent["last"]):
                self.wrong.append(f"{sampler}: slots {slots[0]} to {slots[1]}, sent were {sent['first']} to {sent['last']}")
        if int(self.octets) != sent["octets"]:
            self.wrong.append(f"the sum of port_xmit_data_bytes is {self.octets}, sent was {sent['octets']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default="target/release", metavar="DIR")
    parser.add_argument("--net", default="examples/stria.p", metavar="FILE", help="fabric that is copied")
    parser.add_argument("--samplers", type=int, default=20, metavar="N")
    parser.add_argument("--ports", type=int, default=2000, metavar="N")
    parser.add_argument("--seconds", type=float, default=60, metavar="N")
    parser.add_argument("--away", type=float, default=15, metavar="N", help="seconds for which the server is killed, in the middle")
    parser.add_argument("--play", action="store_true", help="play recorded slots in real time, in place of samplers")
    parser.add_argument("--packer", choices=["collect", "hub"], default="collect", help="program that fills the archive")
    parser.add_argument("--missed", type=int, default=0, metavar="N", help="slots that the samplers may miss on a slow machine (0)")
    parser.add_argument("--folder", metavar="DIR", help="keep all files in this folder")
    args = parser.parse_args()
    try:
        import duckdb  # noqa: F401
    except ImportError:
        python = os.path.join(TOOLS, "python/bin/python3")
        if not os.path.exists(python) or os.environ.get("IBNET_FLEET_PYTHON"):
            sys.exit("error: duckdb is missing; `make tools` fetches it")
        os.environ["IBNET_FLEET_PYTHON"] = "1"
        os.execv(python, [python] + sys.argv)
    folder = args.folder or tempfile.mkdtemp(prefix="ibnet-fleet-")
    os.makedirs(folder, exist_ok=True)
    try:
        sys.exit(soak(args, os.path.abspath(folder)))
    finally:
        if not args.folder:
            shutil.rmtree(folder, ignore_errors=True)


def status(program, url):
    """Waits until `ibnet-sweep status` finds that all samplers are ok. Prints its last line, and returns its exit code."""
    until = time.time() + CATCH_UP
    while True:
        found = subprocess.run([program, "status", "--from", url], capture_output=True, text=True)
        # After the return of the server, the last slots of the samplers wait behind older ones.
        if found.returncode != 3 or time.time() > until:
            break
        time.sleep(2)
    text = (found.stderr or found.stdout).strip()
    print(f"status: exit code {found.returncode}, {text if found.returncode not in (0, 3) else text.splitlines()[-1]}", flush=True)
    return found.returncode


def soak(args, folder):
    program = lambda name: os.path.join(args.programs, name)
    fleet = fabric.copies(args.programs, folder, args.net, args.samplers, args.ports)
    expected = {sampler: ports for copy in fleet for sampler, ports in copy.samplers.items()}
    nats = Nats(folder)
    nats.add_stream()
    log, others = open(os.path.join(folder, "log"), "wb"), []
    url = f"nats://127.0.0.1:{nats.port}"
    lines, archive = os.path.join(folder, "lines"), os.path.join(folder, "archive")
    collect = [program("ibnet-sweep"), "collect", "--from", url, "-o", lines, "--every", "30s"]
    samplers = []
    try:
        hub = Hub(args, folder, url)
        others.append(("hub", hub.process))
        if args.packer == "collect":
            others.append(("collector", subprocess.Popen(collect, stdout=log, stderr=log)))
        samplers = start_samplers(args, folder, fleet, nats.port, log)
        begin = time.time()
        how = "played from recorded slots" if args.play else "simulated"
        print(f"{len(expected)} samplers, {how}, {sum(expected.values()):,} ports, {args.seconds:.0f} s, server away for {args.away:.0f} s", flush=True)
        time.sleep((args.seconds - args.away) / 2)
        nats.stop()
        time.sleep(args.away)
        spool = os.path.join(folder, "spool")
        spooled = sum(os.path.getsize(os.path.join(path, name)) for path, _, names in os.walk(spool) for name in names)
        nats.start()
        time.sleep(max(0, begin + args.seconds - time.time()))
        code = status(program("ibnet-sweep"), url)
        lived = time.time() - begin
        used = [("fleet", sum(cpu_seconds(process.pid) for process in samplers)), ("nats-server", nats.cpu_seconds())]
        used += [(name, cpu_seconds(process.pid)) for name, process in others]
        ended = time.time()
        for process in samplers:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait() for process in samplers]
        wrong = [f"{codes.count(code)} processes of the fleet ended with exit code {code}" for code in sorted(set(codes)) if code != 0]
        sent = None
        if args.play:
            with open(os.path.join(folder, "played.json")) as file:
                sent = json.load(file)
            print(f"player: {sent['last'] - sent['first'] + 1} slots of each sampler, at most {sent['late_s']:.2f} s late; {sent['repeated']} messages sent again")
        state = nats.state()
        wrong += hub.faults(expected, {sampler: sent["last"] for sampler in expected} if sent else {})
        before = time.time()
        if args.packer == "hub":
            wait_for_archive(archive, hub.last)
            done, packing = time.time() - ended, hub.packing()
            written = packing["written"] / max(packing["added"], 1)
            print(f"packing: all records {done:.1f} s after the end, {written:.1f} rows written for each record, "
                  f"spool of at most {hub.spool / 1e6:,.0f} MB, CPU of the hub {cpu_seconds(hub.process.pid):.1f} s")
        print(f"hub: slowest answer {hub.slowest:.2f} s")
    finally:
        for process in samplers + [process for _, process in others]:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for _, process in others:
            process.wait()
    if args.packer == "collect":
        subprocess.run(collect + ["--until-empty"], check=True, stderr=log)
        before = time.time()
        subprocess.run([program("ibnet-view"), "pack", os.path.join(lines, "*.jsonl.zst"), "-o", archive], check=True, stdout=log, stderr=log)
    packed = time.time() - before
    nats.process.kill()
    found = Found(archive, expected)
    if sent:
        found.compare(sent)
    if code != 0 and (code != 3 or sent or not found.missed):
        found.wrong.append(f"status: exit code {code}")
    if found.missed > args.missed:
        found.wrong.append(f"{found.missed:,} slots were missed, permitted are {args.missed:,}")
    wrong += found.wrong
    rows, size = max(found.rows, 1), sum(os.path.getsize(os.path.join(path, name)) for path, _, names in os.walk(archive) for name in names)
    held = "" if sent else f"; spool at the return of the server: {spooled / 1e6:,.1f} MB"
    print(f"stream: {state['messages']:,} messages, {state['bytes'] / 1e6:,.0f} MB, {state['bytes'] / rows:.0f} octets a port record{held}")
    print(f"missed: {found.missed:,} of {found.slots + found.missed:,} slots were not sampled, and are reported; permitted are {args.missed:,}")
    print(f"archive: {found.slots:,} slots, {found.rows:,} port records, {size / 1e6:,.1f} MB, {size / rows:.1f} octets a port record; packed in {packed:.1f} s")
    for name, seconds in used:
        print(f"CPU of the {name}: {seconds:.2f} s, {seconds / lived:.3f} cores, {seconds / rows * 1e6:.1f} us a port record")
    for text in wrong[:20]:
        print(f"WRONG {text}")
    print("nothing is lost" if not wrong else f"{len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    main()
