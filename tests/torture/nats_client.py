"""The few requests to a NATS server that the checks need."""

import base64
import json
import socket


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.socket.settimeout(60)
        self.stream = self.socket.makefile("rb")
        self.stream.readline()
        self.send(b'CONNECT {"verbose":false,"headers":true}\r\nSUB _INBOX.> 1\r\nPING\r\n')
        while self.stream.readline() != b"PONG\r\n":
            pass

    def send(self, octets):
        self.socket.sendall(octets)

    def request(self, subject, body, reply):
        text = json.dumps(body).encode() if body is not None else b""
        self.send(f"PUB {subject} _INBOX.{reply} {len(text)}\r\n".encode() + text + b"\r\n")

    def answer(self):
        """Returns the number and the body of the next answer."""
        while True:
            words = self.stream.readline().decode().split()
            if not words:
                raise OSError("the server closed the connection")
            if words[0] == "PING":
                self.send(b"PONG\r\n")
            if words[0] in ("MSG", "HMSG"):
                body = self.stream.read(int(words[-1]) + 2)[:-2]
                skip = int(words[-2]) if words[0] == "HMSG" else 0
                return words[1].split(".")[1], body[skip:]

    def ask(self, subject, body=None):
        self.request(subject, body, "one")
        return json.loads(self.answer()[1])

    def add_stream(self):
        return self.ask("$JS.API.STREAM.CREATE.IBNET", {"name": "IBNET", "subjects": ["ibnet.>"], "storage": "file", "num_replicas": 1})

    def messages(self):
        """Yields all messages of the stream."""
        state = self.ask("$JS.API.STREAM.INFO.IBNET")["state"]
        numbers = range(state["first_seq"], state["last_seq"] + 1)
        for begin in range(0, len(numbers), 500):
            some = numbers[begin : begin + 500]
            for number in some:
                self.request("$JS.API.STREAM.MSG.GET.IBNET", {"seq": number}, number)
            answers = {}
            while len(answers) < len(some):
                number, body = self.answer()
                answers[int(number)] = json.loads(body)
            for number in some:
                if "message" in answers[number]:
                    yield base64.b64decode(answers[number]["message"]["data"])
