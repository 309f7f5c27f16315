"""Attacks on the hub: hostile records, clocks, files and connections."""

import json
import os
import time
import urllib.error
import urllib.request

from tools import MIB, Failed, Flood, free_port, raw_zstd, require, wait_for

INTERVAL_NS = 100_000_000

GOOD = 0x7001


class Sampler:
    """Writes records of one port as a sampler of an interval of 100 ms does, with a clock that can be wrong."""

    def __init__(self, place, name, guid, file, ahead_ns=0):
        self.path, self.name, self.guid, self.ahead_ns = place.path(file), name, guid, ahead_ns
        # The hub reads the records of the last minutes: those of each attack begin five seconds ago.
        self.slot = (time.time_ns() + ahead_ns) // INTERVAL_NS - 50
        self.ports, self.start = 0, self.text(type="start", schema=1, pid=1, boot_id="", version="1", interval_ns=INTERVAL_NS, ports=1)

    def text(self, **fields):
        common = {"type": "port", "ts": self.slot * INTERVAL_NS + 1000, "slot": self.slot, "sampler": self.name, "ca": "sim", "ca_port": 1}
        return json.dumps({**common, "role": "primary", **fields}) + "\n"

    def next(self, **fields):
        """The records of the next slot. The port has each fields of `fields` in place of its own."""
        port = {"guid": f"0x{self.guid:016x}", "port": 1, "lid": 1, "node": f"{self.name} mlx5_0"[:60], "kind": "hca", "link": "4xEDR"}
        rates = {"dt_ns": INTERVAL_NS, "xmit_gbps": 1.0, "rcv_gbps": 1.0, "xmit_utilization": 0.01, "rcv_utilization": 0.01}
        answer = {"status": "ok", "rtt_ns": 1000, "mads": 1, "identity": "ok"}
        lines = self.start + self.text(**{**port, **answer, **rates, "xmit_blocked": 0.0, **fields})
        lines += self.text(type="sweep", duration_ns=2000, decode_ns=1, ports=1, ok=1)
        self.start, self.slot, self.ports = "", self.slot + 1, self.ports + 1
        return lines

    def write(self, slots=1, **fields):
        with open(self.path, "a", encoding="utf-8") as file:
            for _ in range(slots):
                file.write(self.next(**fields))

    def follow(self):
        """Writes all slots up to now."""
        self.write((time.time_ns() + self.ahead_ns) // INTERVAL_NS - self.slot)


class Hub:
    def __init__(self, place, *args, **keys):
        self.port = free_port()
        keys = {"recent_max": "16MiB", "history_max": "16MiB", "inputs": [f"file:{place.path('lines')}/*"], **keys}
        place.write("hub.toml", "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()))
        self.process = place.start("ibnet-hub", "-c", "hub.toml", "--listen", f"127.0.0.1:{self.port}", *args)
        wait_for("answer of the hub", lambda: self.is_up() or not self.process.is_running())
        require(self.process.is_running(), self.process.errors()[-300:])

    def is_up(self):
        try:
            return self.get("health")
        except OSError:
            return None

    def get(self, address, seconds=60):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{address}", timeout=seconds) as answer:
            return json.load(answer)

    def values(self, guid):
        """The number of values of a port, and how many different times they have."""
        try:
            times = self.get(f"series?port=0x{guid:016x}/1&metric=xmit_gbps")["t"]
        except urllib.error.HTTPError:
            return 0
        require(len(times) == len(set(times)), f"two values of port {guid:x} have one time")
        return len(times)

    def expect(self, guid, count):
        try:
            wait_for("values", lambda: self.values(guid) >= count)
        except Failed:
            raise Failed(f"{self.values(guid)} of {count} values are there") from None
        require(self.values(guid) == count, f"{self.values(guid)} values instead of {count}")

    def events(self, name):
        return [row for row in self.get("events")["rows"] if row["event"] == name]

    def stop(self, memory=300 * MIB):
        self.process.stop(60).check((0,), memory)


def started(place, *args, **keys):
    os.makedirs(place.path("lines"), exist_ok=True)
    return Hub(place, *args, **keys), Sampler(place, "good", GOOD, "lines/good.jsonl")


def hub_big_texts(place):
    """400 events, samplers and nodes with texts of up to 800 kB: memory is bounded, and values of others stay"""
    hub, good = started(place)
    good.write(40)
    hub.expect(GOOD, 40)
    bad = Sampler(place, "bad", 0x8001, "lines/bad.jsonl")
    for number in range(400):
        text = place.random.choice("xé\U0001f600") * place.random.choice([1000, 200_000])
        kind = place.random.randrange(3)
        if kind == 0:
            bad.slot += 1
            with open(bad.path, "a", encoding="utf-8") as file:
                file.write(bad.text(type="event", event="reload", guid=None, port=None, lid=None, detail=f"{number} {text}"))
        elif kind == 1:
            Sampler(place, f"s{number} {text}", 0x9000 + number, "lines/bad.jsonl").write()
        else:
            bad.write(node=f"n{number} {text}", peer=text, link="4xEDR")
    good.write(5)
    hub.expect(GOOD, 45)
    for address in ("events", "samplers", "topology", "health"):
        hub.get(address)
    hub.stop()


def hub_many_names(place):
    """20,000 samplers and 20,000 ports: memory is bounded, and values of others stay"""
    hub, good = started(place)
    good.write(40)
    hub.expect(GOOD, 40)
    numbers = list(range(20_000))
    place.random.shuffle(numbers)
    with open(place.path("lines/many.jsonl"), "w", encoding="utf-8") as file:
        for number in numbers:
            file.write(Sampler(place, f"s{number}", 0x9000 + number, "lines/many.jsonl").next())
    wait_for("lines", lambda: sum(one["lines"] for one in hub.get("health")["inputs"]) >= 60_000 + 81)
    good.write(5)
    hub.expect(GOOD, 45)
    for address in ("events", "samplers", "topology"):
        hub.get(address)
    hub.stop()


def hub_clock_ahead(place):
    """one of four samplers is 5 s, 20 minutes or 10 years ahead: it is reported, and values of the others stay"""
    for number, ahead in enumerate(place.random.sample([5, 20 * 60, 10 * 365 * 86_400], 3)):
        folder = place.path("lines")
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        hub, first = started(place)
        good = [first, *(Sampler(place, f"good{one}", GOOD + one, f"lines/good{one}.jsonl") for one in (1, 2))]
        bad = Sampler(place, "bad", 0x8001 + number, "lines/bad.jsonl", ahead * 10**9 + place.random.randrange(10**9))

        def follow(samplers):
            for sampler in samplers:
                sampler.follow()

        wait_for("live values", lambda: (follow(good), hub.get("health")["status"] == "ok")[1])

        def is_reported():
            follow([*good, bad])
            return any("bad" in event["detail"] for event in hub.events("wrong_clock"))

        try:
            wait_for("wrong_clock event", is_reported)
        except Failed as failed:
            raise Failed(f"{ahead} s ahead: {failed}") from None
        end = time.monotonic() + 3
        while time.monotonic() < end:
            follow([*good, bad])
            time.sleep(0.05)
        for sampler in good:
            hub.expect(sampler.guid, sampler.ports)
        last = hub.get("health")["last_slot"]
        require(abs(last - first.slot) < 100, f"{ahead} s ahead: the newest slot is {last}, that of the right samplers {first.slot}")
        wrong = {row["sampler"] for row in hub.get("samplers")["rows"] if row["wrong_clock"]}
        require(wrong == {"bad"}, f"{ahead} s ahead: wrong clocks: {wrong}")
        hub.stop()


def hub_cut_zst(place):
    """compressed files that are cut anywhere: each of their lines is read once, whatever follows"""
    hub, good = started(place)
    cut = {}
    for number in range(6):
        sampler = Sampler(place, f"cut{number}", 0x8001 + number, "unused")
        whole = raw_zstd("".join(sampler.next() for _ in range(40)).encode(), 3000)
        cut[f"lines/cut{number}.jsonl.zst"] = whole, place.random.randrange(10, len(whole)), sampler.guid
    for name, (whole, end, _) in cut.items():
        place.write(name, whole[:end])
    good.write(10)
    hub.expect(GOOD, 10)
    lines = lambda: sum(one["lines"] for one in hub.get("health")["inputs"])

    def look(number):
        """A file that came after the others is read: so the hub has looked at the folder again."""
        Sampler(place, f"look{number}", 0x8801 + number, f"lines/look{number}.jsonl").write()
        hub.expect(0x8801 + number, 1)
        return lines(), hub.get("health")["counts"]["added"]

    first, *others = map(look, range(4))
    for number, found in enumerate(others, 1):
        require(found == (first[0] + 3 * number, first[1] + number), f"{first}, then {found} after {number} lines of a port: lines were read again")
    require(first[0] <= 6 * 81 + 21 + 3, f"{first[0]} lines were read")
    require(hub.is_up() and first[1] <= 6 * 40 + 10 + 1, f"{first[1]} records were added")
    # The rest arrives, as with rsync.
    for name, (whole, *_) in cut.items():
        place.write("whole", whole)
        os.replace(place.path("whole"), place.path(name))
    for *_, guid in cut.values():
        hub.expect(guid, 40)
    good.write(5)
    hub.expect(GOOD, 15)
    hub.stop()


def hub_files_grow_again(place):
    """an old file, a renamed one, an emptied one and a compressed one grow: each record is there once"""
    os.makedirs(place.path("lines"), exist_ok=True)
    old, renamed, emptied, frames = (Sampler(place, name, 0x8001 + number, f"lines/{name}.jsonl") for number, name in enumerate(["old", "renamed", "emptied", "frames"]))
    for sampler in (old, renamed, emptied):
        sampler.write(place.random.randrange(3, 9))
    os.utime(old.path, (time.time() - 3600, time.time() - 3600))
    frames.path += ".zst"
    hub = Hub(place)
    for sampler in (renamed, emptied):
        hub.expect(sampler.guid, sampler.ports)
    # As a sampler closes a file: it renames the file and begins a new one.
    os.rename(renamed.path, place.path("lines/renamed-20261121T131144Z.jsonl"))
    # As copytruncate.
    os.truncate(emptied.path, 0)
    for _ in range(place.random.randrange(3, 7)):
        for sampler in (old, renamed, emptied):
            sampler.write(place.random.randrange(1, 4))
        with open(frames.path, "ab") as file:
            file.write(raw_zstd("".join(frames.next() for _ in range(3)).encode(), 200))
        time.sleep(place.random.uniform(0, 1.5))
    for sampler in (renamed, emptied, frames):
        try:
            hub.expect(sampler.guid, sampler.ports)
        except Failed as failed:
            raise Failed(f"{sampler.name}: {failed}") from None
    # Of an old file, what was there before the start of the hub may be left out.
    wait_for("records of the old file", lambda: hub.values(old.guid) >= 3)
    hub.stop()


def hub_silent_connections(place):
    """300 silent connections, slow headers and live streams that nobody reads: answers come, and records are read"""
    hub, good = started(place)
    upgrade = b"GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    upgrade += b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    for first, again in ((b"", b""), (b"GET / HTTP/1.1\r\nX: ", b"x"), (upgrade, b"")):
        with Flood(hub.port, 300, first, again):
            good.write(5)
            answers = sum(bool(hub.is_up()) for _ in range(10))
            require(answers == 10, f"{first[:20]!r}: {answers} of 10 requests are answered")
            hub.expect(GOOD, good.ports)
    hub.stop()


ATTACKS = [hub_big_texts, hub_many_names, hub_clock_ahead, hub_cut_zst, hub_files_grow_again, hub_silent_connections]
