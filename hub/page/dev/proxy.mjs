// Serves `dist/` and forwards the interface to a hub, so that the page changes without a new build
// of the hub:
//
//     npm run build && node dev/proxy.mjs --port 8098 --hub 127.0.0.1:8080
import { readFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { policy } from "./policy.mjs";

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "8098" },
    hub: { type: "string", default: "127.0.0.1:8080" },
  },
});
const dist = fileURLToPath(new URL("../dist/", import.meta.url));
const types = {
  html: "text/html; charset=utf-8",
  js: "text/javascript",
  css: "text/css",
  svg: "image/svg+xml",
};
const [host, port] = values.hub.split(":");

/** Returns a request to the hub with its own name: the hub checks Host and Origin. */
function forward(incoming) {
  const headers = { ...incoming.headers, host: values.hub };
  if (headers.origin !== undefined) headers.origin = `http://${values.hub}`;
  return request({ host, port, path: incoming.url, method: incoming.method, headers });
}

const server = createServer(async (incoming, response) => {
  if (incoming.url.startsWith("/api/")) {
    const outgoing = forward(incoming);
    outgoing.on("response", (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    outgoing.on("error", () => response.writeHead(502).end());
    incoming.pipe(outgoing);
    return;
  }
  const name = incoming.url === "/" ? "index.html" : incoming.url.slice(1).replaceAll("..", "");
  try {
    const body = await readFile(dist + name);
    response.setHeader("content-type", types[name.split(".").at(-1)] ?? "application/octet-stream");
    response.setHeader("content-security-policy", policy);
    response.end(body);
  } catch {
    response.writeHead(404).end();
  }
});

server.on("upgrade", (incoming, socket) => {
  const outgoing = forward(incoming);
  outgoing.on("upgrade", (answer, hub, head) => {
    const lines = Object.entries(answer.headers).map(([name, value]) => `${name}: ${value}`);
    socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join("\r\n")}\r\n\r\n`);
    if (head.length > 0) socket.write(head);
    hub.pipe(socket).pipe(hub);
    for (const each of [hub, socket]) each.on("error", () => socket.destroy());
  });
  outgoing.on("error", () => socket.destroy());
  outgoing.end();
});

server.listen(Number(values.port), "127.0.0.1", () =>
  console.log(`http://127.0.0.1:${values.port}`),
);
