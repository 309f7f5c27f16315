"""A nats-server with JetStream, and the requests of a fleet test to it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from start import cpu_seconds

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../out/tools")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Nats:
    """A nats-server with JetStream, which can be killed and started again."""

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
