"""Makes the stream of docs/outputs.md: the same request as the command `nats stream add` of that page."""

import json
import socket

config = {
    "name": "IBNET", "subjects": ["ibnet.>"], "storage": "file", "retention": "limits", "num_replicas": 1,
    "max_age": 2 * 86400 * 10**9, "duplicate_window": 600 * 10**9,
}
payload = json.dumps(config)
with socket.create_connection(("127.0.0.1", 4222), timeout=5) as server:
    request = f"CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\nPUB $JS.API.STREAM.CREATE.IBNET answer {len(payload)}\r\n{payload}\r\n"
    server.sendall(request.encode())
    text = ""
    while "stream_create_response" not in text:
        text += server.recv(4096).decode()
if '"error"' in text:
    raise SystemExit(text)
