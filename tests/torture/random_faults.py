"""Random faults with a seed. At the end `exact` checks all records."""

import json
import os
import re
import shutil
import signal
import time

import exact
import nats_client
from tools import TOOLS, FakeClock, Skipped, first_existing, free_port, net_file, require, wait_for

# Samplers of the plans. A and B are in each plan, so they always have ports.
PLANS = ["n1,n5", "n1,n5,n9", "n1,n5,n9,n13"]

INTERVAL = "200ms"


def nats_program():
    return first_existing(os.path.join(TOOLS, "nats-server"), shutil.which("nats-server"), "/usr/sbin/nats-server")


class Nats:
    """A NATS server that is killed, suspended and started again."""

    def __init__(self, place, program):
        self.place, self.program, self.port, self.process = place, program, free_port(), None
        place.write("nats.conf", f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{place.path("store")}" }}\n')
        self.start()
        wait_for("JetStream", lambda: "error" not in self.client().add_stream())

    def start(self):
        if self.process is None or not self.process.is_running():
            self.process = self.place.start_program(self.program, "-js", "-c", self.place.path("nats.conf"))

    def client(self):
        def connect():
            try:
                return nats_client.Client(self.port)
            except OSError:
                return None

        return wait_for("NATS server", connect)


class Sampler:
    """A sampler and its processes, one after the other."""

    def __init__(self, place, name, config, env=None):
        self.place, self.name, self.env = place, name, env
        self.config = place.write(f"{name}.toml", config)
        self.processes, self.process = [], None
        self.start()

    def start(self):
        """Starts a process, unless one runs."""
        if self.process is None:
            self.process = self.place.start("ibnet-sweep", "-c", self.config, env=self.env)

    def end(self, is_kill):
        """Ends the process. Reports records that it dropped at the end."""
        process, self.process = self.process, None
        if process is None:
            return
        require(process.is_running(), f"sampler {self.name} has ended: {process.errors()[-300:]!r}")
        process.signal(signal.SIGCONT)
        process.signal(signal.SIGKILL if is_kill else signal.SIGTERM)
        result = process.wait(30)
        dropped = re.search(r"(\d+) records were dropped at the end", result.stderr)
        if not is_kill:
            result.check((4,) if dropped else (0,), 512 << 20)
        self.processes.append(
            {"sampler": self.name, "pid": process.pid, "was_killed": is_kill, "dropped": int(dropped.group(1)) if dropped else 0}
        )

    def signal(self, number):
        if self.process:
            self.process.signal(number)

    def has_records(self):
        return b'"type":"sweep"' in self.place.read(f"{self.name}.jsonl")


class Faults:
    """All faults. Each one lasts some seconds and then ends."""

    def __init__(self, place, samplers, nats, disk, clock):
        self.place, self.random, self.clock = place, place.random, clock
        self.samplers, self.nats, self.disk = samplers, nats, disk
        self.offset, self.count, self.later = 0, {}, []
        # Twice in the list: twice as often.
        self.kinds = [self.killed, self.stopped, self.suspended, self.reloads, self.reloads]
        self.kinds += [self.nats_killed, self.nats_suspended] if nats else []
        self.kinds += [self.disk_full] if disk else []
        self.kinds += [self.clock_jump] if clock else []

    def after(self, seconds, action):
        self.later.append((time.monotonic() + seconds, action))

    def poll(self, is_end=False):
        due = [entry for entry in self.later if is_end or entry[0] <= time.monotonic()]
        for entry in due:
            self.later.remove(entry)
            entry[1]()

    def next(self):
        fault = self.random.choice(self.kinds)
        name = fault.__name__.replace("_", " ")
        # A fault without effect does not count, such as the end of a process that has ended.
        if fault() is not False:
            self.count[name] = self.count.get(name, 0) + 1

    def killed(self):
        return self.ended(is_kill=True)

    def stopped(self):
        return self.ended(is_kill=False)

    def ended(self, is_kill):
        sampler = self.random.choice(self.samplers)
        if sampler.process is None:
            return False
        sampler.end(is_kill)
        self.after(self.random.uniform(0, 3), sampler.start)
        return True

    def suspended(self):
        sampler = self.random.choice(self.samplers)
        if sampler.process is None:
            return False
        sampler.signal(signal.SIGSTOP)
        self.after(self.random.uniform(0.2, 3), lambda: sampler.signal(signal.SIGCONT))
        return True

    def reloads(self):
        for _ in range(self.random.choice([1, 1, 3, 20])):
            self.place.new_plan(self.random.choice(PLANS + ["nonsense"]))
            for sampler in self.samplers:
                sampler.signal(signal.SIGHUP)
            time.sleep(self.random.uniform(0, 0.3))
        # A new process needs a valid plan.
        self.place.new_plan(self.random.choice(PLANS))

    def nats_killed(self):
        if not self.nats.process.is_running():
            return False
        self.nats.process.end()
        self.after(self.random.uniform(0, 5), self.nats.start)
        return True

    def nats_suspended(self):
        self.nats.process.signal(signal.SIGSTOP)
        server = self.nats.process
        self.after(self.random.uniform(0.5, 5), lambda: server.signal(signal.SIGCONT))

    def disk_full(self):
        path = os.path.join(self.disk, "filler")
        if os.path.exists(path):
            return False
        free = os.statvfs(self.disk)
        with open(path, "wb") as filler:
            try:
                os.posix_fallocate(filler.fileno(), 0, free.f_bavail * free.f_bsize)
            except OSError:
                # The disk is full already, which is the purpose.
                pass
        self.after(self.random.uniform(1, 8), lambda: os.unlink(path))
        return True

    def clock_jump(self):
        self.offset += self.random.choice([-1, 1]) * self.random.choice([0.3, 2, 60, 3600])
        self.clock.set(self.offset)


def extend(place):
    """Adds what only these faults need."""

    def start_program(program, *args):
        from tools import Process

        process = Process(place, [program, *args])
        place.running.append(process)
        return process

    def new_plan(samplers):
        if samplers == "nonsense":
            place.write("plan.new", "nonsense")
        else:
            place.run("ibnet-gen", "--net", "net.p", "--samplers", samplers, "-o", "plan.new").check((0,))
        os.replace(place.path("plan.new"), place.path("plan.toml"))

    place.start_program, place.new_plan = start_program, new_plan


def run(place, minutes, keep):
    """Runs the faults and the checks. Returns a sentence with the figures."""
    exact.open_duckdb()
    extend(place)
    place.write("net.p", net_file())
    place.new_plan(PLANS[0])
    skipped = []
    program = nats_program()
    nats = Nats(place, program) if program else None
    skipped += [] if nats else ["no NATS faults, because nats-server is not installed"]
    try:
        disk = place.disk("disk", 2048)
    except Skipped as reason:
        disk = None
        skipped.append(f"no full disk, because {reason}")
    try:
        clock = FakeClock(place)
    except Skipped as reason:
        clock = None
        skipped.append(f"no clock jumps, because {reason}")
    common = f'simulate = "net.p"\nassignments = "plan.toml"\ninterval = "{INTERVAL}"\ndrain = "2s"\n'
    output = '[[output]]\ntype = "file"\npath = "{}"\n'.format
    config = f'{common}sampler = "n1"\n{output("A.jsonl")}'
    config += output("disk/A.jsonl") if disk else ""
    config += f'[[output]]\ntype = "nats"\nserver = "nats://127.0.0.1:{nats.port}"\n' if nats else ""
    samplers = [
        Sampler(place, "A", config),
        Sampler(place, "B", f'{common}sampler = "n5"\n{output("B.jsonl")}', clock and clock.env),
    ]
    for sampler in samplers:
        wait_for("slot", sampler.has_records)
    faults = Faults(place, samplers, nats, disk, clock)
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        wait = time.monotonic() + place.random.choice([0.1, 1, 3, 6])
        while time.monotonic() < wait:
            faults.poll()
            time.sleep(0.02)
        faults.next()
    faults.poll(is_end=True)
    time.sleep(3)
    for sampler in samplers:
        sampler.start()
        time.sleep(2)
        sampler.end(is_kill=False)
    return checked(place, samplers, nats, disk, faults, keep) + "".join(f"; SKIPPED: {reason}" for reason in skipped)


def checked(place, samplers, nats, disk, faults, keep):
    outputs = [{"sampler": sampler.name, "name": "lines", "file": f"{sampler.name}.jsonl"} for sampler in samplers]
    if disk:
        outputs.append({"sampler": "A", "name": "disk", "file": "disk/A.jsonl"})
    if nats:
        nats.process.signal(signal.SIGCONT)
        nats.start()
        with open(place.path("nats.jsonl"), "wb") as file:
            for message in nats.client().messages():
                file.write(message + b"\n")
        outputs.append({"sampler": "A", "name": "nats", "file": "nats.jsonl"})
    processes = [process for sampler in samplers for process in sampler.processes]
    place.write("manifest.json", json.dumps({"outputs": outputs, "processes": processes, "faults": faults.count}))
    if keep:
        os.makedirs(os.path.join(keep, "disk"), exist_ok=True)
        for name in ["manifest.json", *(output["file"] for output in outputs)]:
            shutil.copyfile(place.path(name), os.path.join(keep, name))
    return exact.check(place.folder.name)
