#!/usr/bin/env python3
"""A fleet of samplers -> NATS JetStream -> files -> archive, and -> ibnet-hub; the server is away for a while.

    tests/fleet/soak.py                                                  20 samplers, 2,000 ports, 60 s, away 15 s
    tests/fleet/soak.py --samplers 300 --ports 40000 --seconds 600 --away 60

The samplers simulate their fabrics. Nothing may be lost: in the archive, each sampler has every slot from its first to
its last, with a record of each port, and reports no lost record. A slot that a sampler could not sample, because the
machine was too slow, is reported by the sampler and counts apart. The CPU time of the fleet, the server, the collector
and the hub is measured apart.

Needs programs with the feature `nats`, nats-server, and a Python with duckdb (`make tools`).
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import fabric
from start import cpu_seconds

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.join(HERE, "../../out/tools")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Nats:
    """A nats-server with JetStream."""

    def __init__(self, folder):
        ours = os.path.join(TOOLS, "nats-server")
        program = ours if os.path.exists(ours) else shutil.which("nats-server")
        if program is None:
            sys.exit("error: nats-server is missing; `make tools` fetches it")
        self.port = free_port()
        self.command = [program, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", os.path.join(folder, "store")]
        self.cpu = 0
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self):
        self.cpu += cpu_seconds(self.process.pid)
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def cpu_seconds(self):
        return self.cpu + cpu_seconds(self.process.pid)

    def request(self, subject, body):
        """Sends a request to the server and returns the answer."""
        for _ in range(100):
            try:
                with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
                    stream = connection.makefile("rwb")
                    stream.readline()
                    head = f'CONNECT {{"verbose":false,"pedantic":false}}\r\nSUB answer 1\r\nPUB {subject} answer {len(body)}\r\n'
                    stream.write(head.encode() + body + b"\r\n")
                    stream.flush()
                    while line := stream.readline():
                        if line.startswith(b"PING"):
                            stream.write(b"PONG\r\n")
                            stream.flush()
                        elif line.startswith(b"MSG"):
                            return json.loads(stream.read(int(line.split()[-1])))
            except OSError:
                pass
            time.sleep(0.1)
        sys.exit("error: nats-server does not answer")

    def add_stream(self):
        config = {"name": "IBNET", "subjects": ["ibnet.>"], "retention": "limits", "storage": "file", "num_replicas": 1, "discard": "old",
                  "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0, "duplicate_window": 120_000_000_000}
        answer = self.request("$JS.API.STREAM.CREATE.IBNET", json.dumps(config).encode())
        if "error" in answer:
            sys.exit(f"error: {answer['error']}")

    def state(self):
        return self.request("$JS.API.STREAM.INFO.IBNET", b"")["state"]


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


def samplers_of_hub(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/samplers", timeout=10) as answer:
        return json.load(answer)["rows"]


def page_of_hub(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
        return answer.status


def check(archive, expected):
    """Returns what is wrong with the archive, and its numbers of slots, of slots that were not sampled, and of rows."""
    import duckdb

    def rows(query):
        return duckdb.sql(query).fetchall()

    wrong = []
    ports = f"read_parquet('{archive}/ports/**/*.parquet')"
    sweeps = f"read_parquet('{archive}/sweeps/**/*.parquet')"
    found = rows(f"SELECT sampler, min(slot), max(slot), count(DISTINCT slot), count(*), sum(lines_lost), sum(slots_missed) FROM {sweeps} GROUP BY sampler")
    counts = {}
    for sampler, slot, count in rows(f"SELECT sampler, slot, count(*) FROM {ports} GROUP BY ALL"):
        counts.setdefault(sampler, {})[slot] = count
    for sampler, first, last, slots, records, lost, missed in found:
        if not slots == records == last - first + 1 - missed or lost:
            wrong.append(f"{sampler}: {slots} of {last - first + 1} slots, {records} sweep records, {lost} lines lost, {missed} slots missed")
        of_sampler = counts.get(sampler, {})
        partial = [slot for slot, count in of_sampler.items() if count != expected[sampler]]
        if partial or len(of_sampler) != slots:
            wrong.append(f"{sampler}: {len(partial)} of {len(of_sampler)} slots without all {expected[sampler]} ports")
    wrong += [f"{sampler}: no record" for sampler in expected if sampler not in {row[0] for row in found}]
    return wrong, sum(row[3] for row in found), sum(row[6] for row in found), sum(sum(of.values()) for of in counts.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default="target/release", metavar="DIR")
    parser.add_argument("--net", default="examples/stria.p", metavar="FILE", help="fabric that is copied")
    parser.add_argument("--samplers", type=int, default=20, metavar="N")
    parser.add_argument("--ports", type=int, default=2000, metavar="N")
    parser.add_argument("--seconds", type=float, default=60, metavar="N")
    parser.add_argument("--away", type=float, default=15, metavar="N", help="seconds for which the server is killed, in the middle")
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
        sys.exit(soak(args, folder))
    finally:
        if not args.folder:
            shutil.rmtree(folder, ignore_errors=True)


def soak(args, folder):
    program = lambda name: os.path.join(args.programs, name)
    fleet = fabric.copies(args.programs, folder, args.net, args.samplers, args.ports)
    expected = {sampler: ports for copy in fleet for sampler, ports in copy.samplers.items()}
    nats = Nats(folder)
    nats.add_stream()
    others, log = [], open(os.path.join(folder, "log"), "wb")
    url = f"nats://127.0.0.1:{nats.port}"
    hub_port = free_port() if os.path.exists(program("ibnet-hub")) else None
    if hub_port:
        hub = [program("ibnet-hub"), "--input", f"{url}/ibnet.>?stream=IBNET", "--listen", f"127.0.0.1:{hub_port}"]
        others.append(("hub", subprocess.Popen(hub, stdout=log, stderr=log)))
    collect = [program("ibnet-sweep"), "collect", "--from", url, "-o", os.path.join(folder, "lines"), "--every", "30s"]
    others.append(("collector", subprocess.Popen(collect, stdout=log, stderr=log)))
    begin, samplers = time.time(), []
    try:
        for copy in fleet:
            for sampler in copy.samplers:
                command = [program("ibnet-sweep"), "-c", configure(folder, copy, sampler, nats.port)]
                samplers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log))
        print(f"{len(samplers)} samplers, {sum(expected.values()):,} ports, {args.seconds:.0f} s, server away for {args.away:.0f} s", flush=True)
        time.sleep((args.seconds - args.away) / 2)
        nats.stop()
        time.sleep(args.away)
        spooled = sum(os.path.getsize(os.path.join(path, name)) for path, _, names in os.walk(os.path.join(folder, "spool")) for name in names)
        nats.start()
        time.sleep(max(0, begin + args.seconds - time.time()))
        status = subprocess.run([program("ibnet-sweep"), "status", "--from", url], capture_output=True, text=True)
        last_line = (status.stderr or status.stdout).strip().splitlines()
        print(f"status: exit code {status.returncode}, {last_line[0] if status.stderr else last_line[-1]}")
        lived = time.time() - begin
        used = [("fleet", sum(cpu_seconds(process.pid) for process in samplers)), ("nats-server", nats.cpu_seconds())]
        used += [(name, cpu_seconds(process.pid)) for name, process in others]
        wrong = [f"hub: page has status {page_of_hub(hub_port)}" for _ in [0] if hub_port and page_of_hub(hub_port) != 200]
        for process in samplers:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait() for process in samplers]
        wrong += [f"{codes.count(code)} samplers ended with exit code {code}" for code in sorted(set(codes)) if code != 0]
        if hub_port:
            time.sleep(3)
            rows = samplers_of_hub(hub_port)
            lost = sum(row["slots_lost"] + row["lines_lost"] for row in rows)
            print(f"hub: {len(rows)} samplers, {lost} slots or lines lost")
            wrong += ["hub: records are missing"] if lost or len(rows) != len(expected) else []
        state = nats.state()
    finally:
        for process in samplers + [process for _, process in others]:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for _, process in others:
            process.wait()
    subprocess.run(collect + ["--until-empty"], check=True, stderr=log)
    lines, archive = os.path.join(folder, "lines"), os.path.join(folder, "archive")
    before = time.time()
    subprocess.run([program("ibnet-view"), "pack", os.path.join(lines, "*.jsonl.zst"), "-o", archive], check=True, stdout=log, stderr=log)
    packed = time.time() - before
    nats.process.kill()
    more, slots, missed, rows = check(archive, expected)
    wrong += more
    size = sum(os.path.getsize(os.path.join(path, name)) for path, _, names in os.walk(archive) for name in names)
    print(f"stream: {state['messages']:,} messages, {state['bytes'] / 1e6:,.0f} MB, {state['bytes'] / max(rows, 1):.0f} octets a port record; spool at the return of the server: {spooled / 1e6:,.1f} MB")
    if missed:
        print(f"the machine was too slow for the samplers: {missed:,} of {slots + missed:,} slots were not sampled, and are reported")
    print(f"archive: {slots:,} slots, {rows:,} port records, {size / 1e6:,.1f} MB, {size / max(rows, 1):.1f} octets a port record; packed in {packed:.1f} s")
    for name, seconds in used:
        print(f"CPU of the {name}: {seconds:.2f} s, {seconds / lived:.3f} cores, {seconds / max(rows, 1) * 1e6:.1f} us a port record")
    for text in wrong[:20]:
        print(f"WRONG {text}")
    print("nothing is lost" if not wrong else f"{len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    main()
