"""Processes, fabrics and files for the attacks."""

import glob
import itertools
import os
import random
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time

MIB = 1 << 20


class Skipped(Exception):
    """The attack cannot run here. The text is the reason."""


class Failed(Exception):
    """The program did not hold. The text is the reason."""


def require(condition, reason):
    if not condition:
        raise Failed(reason)


class Ended:
    """Result of a program: exit code, output, largest memory in octets."""

    def __init__(self, code, stdout, stderr, memory, seconds):
        self.code, self.stdout, self.stderr = code, stdout, stderr
        self.memory, self.seconds = memory, seconds

    def check(self, codes, memory=1024 * MIB):
        """Requires one of the exit codes, no panic, and less memory."""
        require("panicked" not in self.stderr, f"panic: {self.stderr[-300:]!r}")
        require(self.code in codes, f"exit code {self.code}, expected {codes}: {self.stderr[-300:]!r}")
        require(self.memory < memory, f"{self.memory // MIB} MiB of memory, expected less than {memory // MIB}")
        return self


class Place:
    """A temporary folder, the programs, and all processes that an attack started."""

    def __init__(self, programs, seed, depth=1):
        self.programs, self.depth = os.path.abspath(programs), depth
        self.random = random.Random(seed)
        self.folder = tempfile.TemporaryDirectory(prefix="ibnet-torture-")
        self.running = []
        self.mounts = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            process.end()
        for folder in self.mounts:
            subprocess.run(["umount", "-l", folder], check=False)
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, content):
        mode = "wb" if isinstance(content, bytes) else "w"
        with open(self.path(name), mode) as file:
            file.write(content)
        return self.path(name)

    def read(self, name):
        try:
            with open(self.path(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def program(self, name):
        path = os.path.join(self.programs, name)
        if not os.path.exists(path):
            raise Skipped(f"{path} does not exist")
        return path

    def start(self, name, *args, **options):
        process = Process(self, [self.program(name), *map(str, args)], **options)
        self.running.append(process)
        return process

    def run(self, name, *args, seconds=60, **options):
        return self.start(name, *args, **options).wait(seconds)

    def disk(self, name, mebibytes):
        """Mounts a small file system in memory."""
        if os.geteuid() != 0:
            raise Skipped("mounting a small file system needs root")
        folder = self.path(name)
        os.mkdir(folder)
        options = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", folder]
        if subprocess.run(options, stderr=subprocess.DEVNULL, check=False).returncode != 0:
            raise Skipped("a small file system cannot be mounted here")
        self.mounts.append(folder)
        return folder


class Process:
    """A process. Its output goes to files, so it never waits for this script."""

    numbers = itertools.count(1)

    def __init__(self, place, command, env=None, stdin=None, stdout=None, preexec=None):
        number = next(self.numbers)
        self.out, self.err = (place.path(f"{stream}.{number}") for stream in ("stdout", "stderr"))
        self.result = None
        self.begin = time.monotonic()
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.child = subprocess.Popen(
                command,
                cwd=place.folder.name,
                env={**os.environ, "NO_COLOR": "1", **(env or {})},
                stdin=stdin or subprocess.DEVNULL,
                stdout=stdout if stdout is not None else out,
                stderr=err,
                preexec_fn=preexec or no_core_dump,
            )

    @property
    def pid(self):
        return self.child.pid

    def signal(self, number):
        if self.is_running():
            os.kill(self.pid, number)

    def is_running(self):
        if self.result is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self.finish(status, usage)
        return self.result is None

    def memory(self):
        """Largest memory so far in octets."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))

    def errors(self):
        with open(self.err, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait(self, seconds):
        """Waits for the end. A program that does not end fails the attack."""
        limit = time.monotonic() + seconds
        while self.is_running():
            if time.monotonic() > limit:
                self.end()
                raise Failed(f"the program did not end within {seconds} s")
            time.sleep(0.005)
        return self.result

    def finish(self, status, usage):
        code = os.waitstatus_to_exitcode(status)
        self.child.returncode = code
        with open(self.out, "rb") as file:
            stdout = file.read(16 * MIB).decode("utf-8", "replace")
        self.result = Ended(code, stdout, self.errors(), usage.ru_maxrss << 10, time.monotonic() - self.begin)

    def end(self):
        if self.is_running():
            os.kill(self.pid, signal.SIGKILL)
            _, status, usage = os.wait4(self.pid, 0)
            self.finish(status, usage)

    def stop(self, seconds=15):
        self.signal(signal.SIGTERM)
        return self.wait(seconds)


def no_core_dump():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def wait_for(what, is_true, seconds=600):
    limit = time.monotonic() + seconds
    while True:
        value = is_true()
        if value:
            return value
        if time.monotonic() > limit:
            raise Failed(f"no {what} within {seconds} s")
        time.sleep(0.01)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def net_file(leaves=4, hosts=4, spines=2):
    """A small fabric as `ibnetdiscover -p` prints it: hosts n1, n2, ... on leaf switches."""
    lines = []
    leaf = lambda number: (100 + number, 0x200000 + number)
    spine = lambda number: (200 + number, 0x300000 + number)

    def link(kind, lid, port, guid, name, other_kind, other_lid, other_port, other_guid, other_name):
        lines.append(
            f"{kind} {lid:5d} {port:2d} 0x{guid:016x} 4x EDR - "
            f"{other_kind} {other_lid:5d} {other_port:2d} 0x{other_guid:016x} ( '{name}' - '{other_name}' )"
        )

    def both(*ends):
        link(*ends[0], *ends[1])
        link(*ends[1], *ends[0])

    host = 0
    for number in range(1, leaves + 1):
        lid, guid = leaf(number)
        for port in range(1, hosts + 1):
            host += 1
            both(("CA", 1000 + host, 1, 0x100000 + host, f"n{host} mlx5_0"), ("SW", lid, port, guid, f"leaf{number}"))
        for other in range(1, spines + 1):
            spine_lid, spine_guid = spine(other)
            both(("SW", lid, hosts + other, guid, f"leaf{number}"), ("SW", spine_lid, number, spine_guid, f"spine{other}"))
    return "\n".join(lines) + "\n"


# `make tools` puts programs and libraries here.
TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../out/tools")


def first_existing(*paths):
    return next((os.path.abspath(path) for path in paths if path and os.path.exists(path)), None)


class FakeClock:
    """A wall clock for the processes with the variables `env`, which this script sets while they run."""

    def __init__(self, place):
        name = "libfaketimeMT.so.1"
        library = first_existing(os.path.join(TOOLS, name), *glob.glob(f"/usr/lib/*/faketime/{name}"))
        if not library:
            raise Skipped("libfaketime is not installed: run `make tools`")
        self.place, self.env = place, {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": place.path("clock"),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        self.set(0)

    def set(self, offset):
        """Sets the clock to this many seconds from the right time."""
        self.place.write("clock.new", f"{offset:+.1f}")
        os.replace(self.place.path("clock.new"), self.place.path("clock"))


class Flood:
    """Keeps a number of connections to a port of this host, which send `first`, and then `again` without an end. A
    closed connection is replaced."""

    def __init__(self, port, count, first=b"", again=b""):
        self.port, self.count, self.first, self.again = port, count, first, again
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        time.sleep(0.5)

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()

    def run(self):
        connections = []
        while not self.is_over.is_set():
            for connection in list(connections):
                try:
                    if self.again:
                        connection.send(self.again)
                    elif connection.recv(1) == b"":
                        raise ConnectionResetError
                except BlockingIOError:
                    pass
                except OSError:
                    connections.remove(connection)
                    connection.close()
            while len(connections) < self.count:
                try:
                    connection = socket.create_connection(("127.0.0.1", self.port), 1)
                    connection.sendall(self.first)
                    connection.setblocking(False)
                    connections.append(connection)
                except OSError:
                    break
            time.sleep(0.01)
        for connection in connections:
            connection.close()


def raw_zstd(octets, block):
    """A frame of zstd whose blocks are not compressed (RFC 8878)."""
    # No content size, window of 128 KiB, no dictionary, no checksum.
    frame = bytearray(b"\x28\xb5\x2f\xfd" + b"\x00" + bytes([(17 - 10) << 3]))
    for at in range(0, len(octets), block):
        some = octets[at : at + block]
        frame += (len(some) << 3 | (at + block >= len(octets))).to_bytes(3, "little") + some
    return bytes(frame)


def zeros_as_zstd(octets):
    """Zeros, compressed by hand (RFC 8878): blocks of one repeated octet."""
    block = 128 << 10
    # No content size, window of 128 KiB, no dictionary, no checksum.
    frame = bytearray(b"\x28\xb5\x2f\xfd" + b"\x00" + bytes([(17 - 10) << 3]))
    count = octets // block
    for number in range(count):
        header = (block << 3) | (1 << 1) | (number == count - 1)
        frame += header.to_bytes(3, "little") + b"\x00"
    return bytes(frame)
