"""Attacks on a running sampler: signals, files, disks, sockets, NATS, metrics."""

import json
import os
import re
import signal
import socket
import struct
import threading
import time

from tools import MIB, Failed, FakeClock, Flood, Skipped, free_port, net_file, require, wait_for


def configure(place, text):
    place.write("net.p", net_file())
    return place.write("ibnet.toml", f'simulate = "net.p"\n{text}\n')


def lines(place, name):
    """Whole lines that are records, and the number of other lines."""
    records, torn = [], 0
    for line in place.read(name).split(b"\n"):
        try:
            records.append(json.loads(line))
        except ValueError:
            torn += line != b""
    return records, torn


def slots(place, name):
    return [record["slot"] for record in lines(place, name)[0] if record["type"] == "sweep"]


def check_slots(records):
    """No port twice in a slot, and all ports in each slot that ended."""
    seen, ports = set(), {}
    for record in records:
        if record["type"] == "port":
            key = (record["slot"], record["guid"], record["port"])
            require(key not in seen, f"a port is there twice: {key}")
            seen.add(key)
            ports[record["slot"]] = ports.get(record["slot"], 0) + 1
        if record["type"] == "sweep":
            found = ports.get(record["slot"], 0)
            require(found == record["ports"], f"slot {record['slot']} has {found} of {record['ports']} ports")


def killed_sampler(place):
    """20 kills: at most one torn line each, no port twice"""
    configure(place, 'interval = "50ms"\noutput = "lines"')
    for _ in range(20):
        before = len(slots(place, "lines"))
        process = place.start("ibnet-sweep", "-c", "ibnet.toml")
        wait_for("slot", lambda: len(slots(place, "lines")) > before + 1)
        time.sleep(place.random.uniform(0, 0.06))
        process.signal(signal.SIGKILL)
        process.wait(10)
    place.run("ibnet-sweep", "-c", "ibnet.toml", "--sweeps", "2").check((0,))
    records, torn = lines(place, "lines")
    require(torn <= 20, f"{torn} torn lines after 20 kills")
    check_slots(records)


def second_writer(place):
    """two samplers on one file"""
    configure(place, 'interval = "50ms"\noutput = "lines"')
    first = place.start("ibnet-sweep", "-c", "ibnet.toml")
    wait_for("slot", lambda: slots(place, "lines"))
    os.symlink("lines", place.path("other"))
    place.run("ibnet-sweep", "-c", "ibnet.toml", "-o", "other", "--sweeps", "2").check((1,))
    first.stop().check((0,))
    check_slots(lines(place, "lines")[0])


def plan_is_a_pipe(place):
    """the plan becomes a named pipe: slots go on, and SIGTERM ends the program"""
    configure(place, 'assignments = "plan.toml"\nsampler = "n1"\ninterval = "50ms"\noutput = "lines"')
    place.run("ibnet-gen", "--net", "net.p", "--samplers", "n1,n5", "-o", "plan.toml").check((0,))
    process = place.start("ibnet-sweep", "-c", "ibnet.toml")
    wait_for("slot", lambda: slots(place, "lines"))
    os.unlink(place.path("plan.toml"))
    os.mkfifo(place.path("plan.toml"))
    process.signal(signal.SIGHUP)
    time.sleep(1)
    before = len(slots(place, "lines"))
    wait_for("slot", lambda: len(slots(place, "lines")) > before + 5)
    process.stop(10).check((0, 4))


def reload_storm(place):
    """300 reloads while the plan is replaced by other plans and by nonsense"""
    configure(place, 'assignments = "plan.toml"\nsampler = "n1"\ninterval = "50ms"\noutput = "lines"')
    plans = []
    for samplers in ("n1,n5", "n1,n9", "n1"):
        place.run("ibnet-gen", "--net", "net.p", "--samplers", samplers, "-o", "made.toml").check((0,))
        plans.append(place.read("made.toml"))
    place.write("plan.toml", plans[0])
    process = place.start("ibnet-sweep", "-c", "ibnet.toml")
    wait_for("slot", lambda: slots(place, "lines"))
    for _ in range(300):
        kind = place.random.randrange(5)
        text = plans[kind] if kind < 3 else (b"nonsense" if kind == 3 else plans[0][: place.random.randrange(len(plans[0]))])
        place.write("plan.new", text)
        os.replace(place.path("plan.new"), place.path("plan.toml"))
        process.signal(signal.SIGHUP)
        time.sleep(place.random.uniform(0, 0.02))
    before = len(slots(place, "lines"))
    wait_for("slot", lambda: len(slots(place, "lines")) > before + 5)
    process.stop().check((0,), 256 * MIB)
    check_slots(lines(place, "lines")[0])


def suspended(place):
    """SIGSTOP for two seconds: the missed slots are reported"""
    configure(place, 'interval = "100ms"\noutput = "lines"')
    process = place.start("ibnet-sweep", "-c", "ibnet.toml")
    wait_for("slots", lambda: len(slots(place, "lines")) > 5)
    process.signal(signal.SIGSTOP)
    time.sleep(2)
    process.signal(signal.SIGCONT)
    before = len(slots(place, "lines"))
    wait_for("slots", lambda: len(slots(place, "lines")) > before + 5)
    process.stop().check((0,))
    records = lines(place, "lines")[0]
    check_slots(records)
    sweeps = [record for record in records if record["type"] == "sweep"]
    between = sweeps[-1]["slot"] - sweeps[0]["slot"] + 1 - len(sweeps)
    told = sum(sweep["slots_missed"] for sweep in sweeps[1:])
    require(between == told >= 10, f"{between} slots are missing, {told} are reported")


def clock_steps(place):
    """8 steps of the clock, forward and back: each is reported, and no slot is lost without a report"""
    clock = FakeClock(place)
    configure(place, 'interval = "100ms"\noutput = "lines"')
    process = place.start("ibnet-sweep", "-c", "ibnet.toml", env=clock.env)
    wait_for("slots", lambda: len(slots(place, "lines")) > 5)
    steps, offset = [], 0
    for size in place.random.sample([2, 2, 2, 3, 3, 61, 3600, 86_400], 8):
        steps.append(size * place.random.choice([-1, 1]))
        offset += steps[-1]
        clock.set(offset)
        reported = lambda: [record for record in lines(place, "lines")[0] if record.get("event") == "clock_step"]
        wait_for(f"report of a step of {steps[-1]} s", lambda: len(reported()) >= len(steps))
        before = len(slots(place, "lines"))
        wait_for("slots", lambda: len(slots(place, "lines")) > before + place.random.randrange(3, 25))
    process.stop().check((0,))
    records, _ = lines(place, "lines")
    told = [float(re.search(r"([+-][0-9.]+) s", record["detail"])[1]) for record in records if record.get("event") == "clock_step"]
    require(len(told) == len(steps), f"steps {steps}, reported {told}")
    require(all(abs(a - b) < 0.5 for a, b in zip(told, steps)), f"steps {steps}, reported {told}")
    # Between two steps, no slot is missing without a report.
    parts, missed = [[]], 0
    for record in records:
        if record.get("event") == "clock_step":
            parts.append([])
        parts[-1].append(record)
    for part in parts:
        check_slots(part)
        sweeps = [record for record in part if record["type"] == "sweep"]
        missing = sweeps[-1]["slot"] - sweeps[0]["slot"] + 1 - len(sweeps)
        told = sum(sweep["slots_missed"] for sweep in sweeps[1:])
        require(missing == told, f"{missing} slots are missing, {told} are reported")
        missed += missing
    return f"steps {steps}, {missed} slots missed"


def full_disk(place):
    """a full disk that is freed: the lost lines are reported exactly"""
    folder = place.disk("disk", 2)
    configure(place, 'interval = "50ms"\n[[output]]\ntype = "file"\npath = "all"\n[[output]]\ntype = "file"\npath = "disk/lines"')
    with open(os.path.join(folder, "filler"), "wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, MIB + MIB // 2)
    process = place.start("ibnet-sweep", "-c", "ibnet.toml")
    wait_for("full disk", lambda: len(slots(place, "all")) > len(slots(place, "disk/lines")) + 20)
    os.unlink(os.path.join(folder, "filler"))
    before = len(slots(place, "disk/lines"))
    wait_for("slots", lambda: len(slots(place, "disk/lines")) > before + 3)
    process.stop().check((0,))
    told = sum(int(record["detail"].split()[0]) for record in lines(place, "disk/lines")[0] if record.get("event") == "lines_lost")
    count = lambda name: sum(record.get("event") != "lines_lost" for record in lines(place, name)[0])
    missing = count("all") - count("disk/lines")
    require(missing == told > 0, f"{missing} lines are missing, {told} are reported")


def silent_readers(place):
    """300 readers of a socket that read nothing"""
    configure(place, 'interval = "20ms"\n[[output]]\ntype = "unix"\npath = "sock"\nreaders = 1024\nbuffer_mib = 1\n[[output]]\ntype = "file"\npath = "lines"')
    process = place.start("ibnet-sweep", "-c", "ibnet.toml")
    wait_for("socket", lambda: os.path.exists(place.path("sock")))
    readers = []
    for _ in range(300):
        reader = socket.socket(socket.AF_UNIX)
        reader.connect(place.path("sock"))
        readers.append(reader)
    before = len(slots(place, "lines"))
    wait_for("slots", lambda: len(slots(place, "lines")) > before + 100)
    require(process.memory() < 256 * MIB, f"{process.memory() // MIB} MiB of memory")
    process.stop().check((0, 4), 256 * MIB)


def closed_outputs(place):
    """a closed standard output, and an output onto the configuration"""
    configure(place, 'interval = "50ms"')
    closed = lambda: os.close(1)
    place.run("ibnet-sweep", "-c", "ibnet.toml", "--sweeps", "3", preexec=closed).check((1,))
    text = place.read("ibnet.toml")
    place.run("ibnet-sweep", "-c", "ibnet.toml", "--sweeps", "3", "-o", "ibnet.toml").check((1, 2))
    require(place.read("ibnet.toml") == text, "the configuration was overwritten")


def stalled_pipe(place):
    """a named pipe whose reader stops: the end reports the records"""
    configure(place, 'interval = "20ms"\ndrain = "500ms"\noutput = "pipe"')
    os.mkfifo(place.path("pipe"))
    reader = os.open(place.path("pipe"), os.O_RDONLY | os.O_NONBLOCK)
    process = place.start("ibnet-sweep", "-c", "ibnet.toml")
    time.sleep(3)
    result = process.stop().check((4,))
    os.close(reader)
    require("dropped" in result.stderr, result.stderr[-300:])


class NatsServer(threading.Thread):
    """Answers as a NATS server, and then sends a message of any size without end."""

    def __init__(self, header, most):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.header, self.most, self.sent, self.connections = header, most, 0, 0
        self.start()

    def run(self):
        info = {"server_id": "X", "server_name": "X", "version": "2.10.0", "go": "go1", "host": "127.0.0.1", "port": self.port}
        info.update(max_payload=1 << 20, proto=1, client_id=1, headers=True)
        zeros = bytes(MIB)
        while True:
            connection, _ = self.listener.accept()
            self.connections += 1
            sent = 0
            try:
                connection.sendall(b"INFO " + json.dumps(info).encode() + b"\r\n")
                received = b""
                while b"PING" not in received:
                    received += connection.recv(4096) or b"PING"
                connection.sendall(b"PONG\r\n" + self.header)
                while sent < self.most:
                    connection.sendall(zeros)
                    sent += len(zeros)
            except OSError:
                pass
            self.sent = max(self.sent, sent)
            connection.close()


def hostile_nats(place):
    """a NATS server that sends messages of 100 GB"""
    for header in (b"MSG x 1 99999999999\r\n", b"HMSG x 1 10 99999999999\r\n", b"no line feed "):
        server = NatsServer(header, 2048 * MIB)
        configure(place, f'interval = "50ms"\ndrain = "200ms"\n[[output]]\ntype = "nats"\nserver = "nats://127.0.0.1:{server.port}"')
        process = place.start("ibnet-sweep", "-c", "ibnet.toml")
        try:
            wait_for("second connection", lambda: server.connections > 1 or not process.is_running(), 30)
        except Failed as failed:
            raise Failed(f"{failed}; {server.sent // MIB} MiB were sent") from None
        if not process.is_running() and "built without" in process.errors():
            raise Skipped("the programs are built without NATS")
        require(process.is_running(), process.errors()[-300:])
        memory = process.memory()
        require(memory < 1024 * MIB, f"{header!r}: {memory // MIB} MiB of memory")
        process.stop().check((4,))


class Http:
    """Requests to the metrics of a sampler."""

    def __init__(self, place, password=""):
        self.port, self.password = free_port(), password
        text = f'interval = "100ms"\noutput = "lines"\n[metrics]\nlisten = "127.0.0.1:{self.port}"\n'
        if password:
            place.write("password", password)
            os.chmod(place.path("password"), 0o600)
            text += 'password_file = "password"\n'
        configure(place, text)
        self.process = place.start("ibnet-sweep", "-c", "ibnet.toml")
        wait_for("slot", lambda: slots(place, "lines"))

    def ask(self, request, seconds=10):
        try:
            with socket.create_connection(("127.0.0.1", self.port), seconds) as connection:
                connection.settimeout(seconds)
                connection.sendall(request)
                answer = b""
                while True:
                    octets = connection.recv(65536)
                    if not octets:
                        return answer
                    answer += octets
        except OSError:
            return b""

    def scrape(self, host=b"localhost"):
        password = f"Authorization: Bearer {self.password}\r\n".encode() if self.password else b""
        # OpenMetrics has an end, `# EOF`.
        accept = b"Accept: application/openmetrics-text\r\n"
        return self.ask(b"GET /metrics HTTP/1.1\r\nHost: " + host + b"\r\n" + accept + password + b"\r\n")


def metrics_held(place):
    """300 silent connections, slow headers, and requests without the password: scrapes work"""
    http = Http(place, "sixteen-letters!")
    for first, again in ((b"", b""), (b"GET / HTTP/1.1\r\nX: ", b"x"), (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", b"")):
        with Flood(http.port, 300, first, again):
            answers = [http.scrape() for _ in range(10)]
        good = sum(answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"# EOF\n") for answer in answers)
        require(good == 10, f"{first[:20]!r}: {good} of 10 scrapes work")
    http.process.stop().check((0,), 256 * MIB)


def metrics_requests(place):
    """200 malformed requests and foreign names of the host"""
    http = Http(place)
    require(http.scrape().startswith(b"HTTP/1.1 200"), "no metrics")
    for host in (b"evil.example", b"localhost\xff", b"\xc3\xa9", b"localhost\r\nHost: evil.example", b"127.0.0.1.evil.example"):
        answer = http.scrape(host)
        require(not answer.startswith(b"HTTP/1.1 200"), f"host {host!r} gets metrics")
    for _ in range(200):
        size = place.random.choice([1, 10, 100, 20_000])
        request = bytes(place.random.randrange(256) for _ in range(size))
        http.ask(place.random.choice([b"", b"GET ", b"GET /metrics HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nContent-Length: -1\r\n"]) + request + b"\r\n\r\n", 5)
    # A reset instead of an end.
    for _ in range(50):
        connection = socket.create_connection(("127.0.0.1", http.port), 5)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.send(b"GET /metrics")
        connection.close()
    require(http.scrape().startswith(b"HTTP/1.1 200"), "no metrics after the attack")
    http.process.stop().check((0,), 256 * MIB)


def secrets_are_hidden(place):
    """a password in the configuration: not in --print-config, logs and errors"""
    port = free_port()
    configure(place, f'interval = "50ms"\ndrain = "100ms"\n[[output]]\ntype = "nats"\nserver = "nats://user:hidden,word@127.0.0.1:{port}"')
    for args in (["--print-config"], ["--sweeps", "2"]):
        result = place.run("ibnet-sweep", "-c", "ibnet.toml", *args, env={"RUST_LOG": "trace"})
        require("hidden" not in result.stdout + result.stderr, f"{args}: the password is shown")


ATTACKS = [
    killed_sampler,
    second_writer,
    plan_is_a_pipe,
    reload_storm,
    suspended,
    clock_steps,
    full_disk,
    silent_readers,
    closed_outputs,
    stalled_pipe,
    hostile_nats,
    metrics_held,
    metrics_requests,
    secrets_are_hidden,
]
