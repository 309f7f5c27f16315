#!/usr/bin/env python3
"""Plays recorded slots of a fleet in real time to a NATS server, as samplers with `batch = "slot"` and `compress` do.

`soak.py --play` records some slots of one copy of the fabric and starts this program for all copies. Each second, each
sampler sends the next recorded slot with the time of now. After the last recorded slot follows the first one again, so
counters decrease there. A message waits until the server has acknowledged it, and is sent again after a loss of the
connection. At its end, the program prints what it sent as JSON.
"""

import argparse
import collections
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time

#: Messages without an acknowledgement.
WINDOW = 512

#: Seconds after which a message without an acknowledgement is sent again.
AGAIN = 10

#: Seconds for the last acknowledgements.
LAST = 300

#: Recorded slots.
SLOTS = 10

SECOND = 1_000_000_000
HEAD = re.compile(rb'"ts":(\d+),"slot":(\d+)')
OCTETS = re.compile(rb'"port_xmit_data_bytes":(\d+)')


def record(program, folder, copy):
    """Records the samplers of a copy, each in a file."""
    out = os.path.join(folder, f"recorded-{len(copy.samplers)}/")
    command = [program, "-q", "--simulate", copy.net, "--assignments", copy.plan, "--sampler", "all", "--sweeps", str(SLOTS + 4), "-o", out]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return out


class Sampler:
    """The recorded slots of a sampler."""

    def __init__(self, path):
        self.starts, slots = [], collections.defaultdict(list)
        with open(path, "rb") as lines:
            for line in lines:
                begin, end = HEAD.search(line).span()
                ts, slot = map(int, HEAD.search(line).groups())
                parts = (line[:begin], ts - slot * SECOND, line[end:])
                (self.starts if line.startswith(b'{"type":"start"') else slots[slot]).append(parts)
        # The first slots have no rates, and the last one can have records of the end.
        numbers = sorted(slots)[2:2 + SLOTS]
        if len(numbers) < SLOTS or numbers[-1] - numbers[0] != SLOTS - 1:
            sys.exit(f"error: {path} lacks a slot; the machine was too slow to record it")
        self.slots = [slots[number] for number in numbers]
        text = [b"".join(part[2] for part in slot) for slot in self.slots]
        self.octets = [sum(map(int, OCTETS.findall(slot))) for slot in text]

    def text(self, slot, with_start):
        """Returns the lines of a slot with the times of this slot."""
        start = slot * SECOND
        parts = (self.starts if with_start else []) + self.slots[slot % SLOTS]
        return b"".join([b'%b"ts":%d,"slot":%d%b' % (before, start + offset, slot, after) for before, offset, after in parts])


class Link:
    """A connection to the server that is made again, and the messages that it has not acknowledged."""

    def __init__(self, port):
        self.port, self.socket, self.retry = port, None, 0
        self.waiting, self.flight = collections.deque(), {}
        self.out, self.into = bytearray(), b""
        self.number, self.checked = 0, 0
        self.repeated = 0

    def put(self, subject, identifier, payload):
        head = f"NATS/1.0\r\nNats-Msg-Id: {identifier}\r\nContent-Encoding: zstd\r\n\r\n".encode()
        self.number += 1
        reply = b"_INBOX.player.%d" % self.number
        sizes = b"%d %d" % (len(head), len(head) + len(payload))
        self.waiting.append((reply, b"HPUB %b %b %b\r\n%b%b\r\n" % (subject.encode(), reply, sizes, head, payload)))

    def is_empty(self):
        return not self.waiting and not self.flight

    def connect(self):
        try:
            self.socket = socket.create_connection(("127.0.0.1", self.port), 1)
        except OSError:
            self.retry = time.monotonic() + 0.2
            return
        self.socket.setblocking(False)
        self.out += b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\nSUB _INBOX.player.* 1\r\n'

    def lose(self):
        if self.socket:
            self.socket.close()
        self.socket, self.retry = None, time.monotonic() + 0.2
        self.out, self.into = bytearray(), b""
        self.again(list(self.flight))

    def again(self, replies):
        """Sends messages again."""
        self.repeated += len(replies)
        self.waiting.extendleft((reply, self.flight.pop(reply)[0]) for reply in reversed(replies))

    def turn(self, seconds):
        """Sends and receives for some time."""
        now = time.monotonic()
        if self.socket is None:
            if now >= self.retry:
                self.connect()
            else:
                time.sleep(min(seconds, 0.05))
            return
        if now > self.checked + 1:
            self.checked = now
            self.again([reply for reply, (_, sent) in self.flight.items() if sent < now - AGAIN])
        while self.waiting and len(self.flight) < WINDOW and len(self.out) < 4 << 20:
            reply, message = self.waiting.popleft()
            self.flight[reply] = (message, now)
            self.out += message
        try:
            with selectors.DefaultSelector() as ready:
                ready.register(self.socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if self.out else 0))
                for _, event in ready.select(seconds):
                    if event & selectors.EVENT_WRITE:
                        del self.out[:self.socket.send(memoryview(self.out)[:1 << 20].tobytes())]
                    if event & selectors.EVENT_READ:
                        octets = self.socket.recv(1 << 20)
                        if not octets:
                            return self.lose()
                        self.take(octets)
        except OSError:
            self.lose()

    def take(self, octets):
        self.into += octets
        while (end := self.into.find(b"\r\n")) >= 0:
            line = self.into[:end]
            after = end + 2
            if line.startswith((b"MSG ", b"HMSG ")):
                whole = after + int(line.split()[-1]) + 2
                if len(self.into) < whole:
                    return
                reply, body = line.split()[1], self.into[after:whole]
                if reply in self.flight:
                    # An error, or no answer of JetStream, is not an acknowledgement.
                    if b'"seq"' in body and b'"error"' not in body:
                        del self.flight[reply]
                    else:
                        self.again([reply])
                after = whole
            elif line.startswith(b"PING"):
                self.out += b"PONG\r\n"
            self.into = self.into[after:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True, help="port of the server on this machine")
    parser.add_argument("--fleet", required=True, metavar="FILE", help="JSON: number of each copy, and folder of its recorded lines")
    args = parser.parse_args()
    import pyarrow
    codec = pyarrow.Codec("zstd", compression_level=1)
    with open(args.fleet) as file:
        copies = json.load(file)
    recorded = {}
    for folder in {copy["lines"] for copy in copies}:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".jsonl"))
        recorded[folder] = {name.removesuffix(".jsonl"): Sampler(os.path.join(folder, name)) for name in names}
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    link = Link(args.port)
    # The recorded copy has the number 0: its names begin with `f00`, and its GUIDs with `0x000001`.
    fleet = [(copy["number"], host, sampler) for copy in copies for host, sampler in recorded[copy["lines"]].items()]
    fleet = [(f"f{number:02}" + host[3:], b'"f%02d' % number, b'"0x%06x' % (number + 1), sampler) for number, host, sampler in fleet]
    first = int(time.time()) + 1
    slot, place, octets, late = first, 0, 0, 0
    while not (ended and place == 0):
        # The samplers send in the first half of the second.
        due = slot + place / len(fleet) / 2
        now = time.time()
        if now < due:
            link.turn(min(due - now, 0.05))
            continue
        late = max(late, now - due)
        name, own, guid, sampler = fleet[place]
        text = sampler.text(slot, slot == first).replace(b'"f00', own).replace(b'"0x000001', guid)
        link.put(f"ibnet.soak.{name}.batch", f"player-{os.getpid()}-{name}-{slot}", codec.compress(text, asbytes=True))
        octets += sampler.octets[slot % SLOTS]
        place += 1
        if place == len(fleet):
            slot, place = slot + 1, 0
        link.turn(0)
    until = time.monotonic() + LAST
    while not link.is_empty() and time.monotonic() < until:
        link.turn(0.05)
    left = len(link.waiting) + len(link.flight)
    print(json.dumps({"first": first, "last": slot - 1, "octets": octets, "late_s": late, "left": left, "repeated": link.repeated}))
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
