//! The slot stream, over a connection that reopens by itself.

import { decodeFrame, type Frame } from "./frame";
import type { LiveHello } from "./types";

export type Connection = "connecting" | "open" | "lost";

export interface LiveListener {
  hello(hello: LiveHello): void;
  frame(frame: Frame): void;
  connection(state: Connection): void;
}

const FIRST_DELAY = 500;
const LONGEST_DELAY = 5000;

/** One WebSocket at a time, with growing delays between attempts. */
export class Live {
  private socket: WebSocket | null = null;
  private delay = FIRST_DELAY;
  private timer = 0;

  constructor(
    private readonly listener: LiveListener,
    private metrics: string[],
  ) {}

  open(): void {
    window.clearTimeout(this.timer);
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/api/v1/live`);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.subscribe(this.metrics);
    socket.onmessage = (message: MessageEvent<unknown>) => {
      try {
        this.receive(message.data);
      } catch (error) {
        // The message is damaged. A new connection starts with a complete one.
        console.error(error);
        socket.close();
      }
    };
    socket.onclose = () => this.closed(socket);
    this.socket = socket;
  }

  /** Replaces the metrics of the following frames. */
  subscribe(metrics: string[]): void {
    this.metrics = metrics;
    if (this.socket?.readyState === WebSocket.OPEN) {
      this.socket.send(JSON.stringify({ metrics }));
    }
  }

  private receive(data: unknown): void {
    if (data instanceof ArrayBuffer) {
      this.listener.frame(decodeFrame(data));
    } else if (typeof data === "string") {
      this.delay = FIRST_DELAY;
      this.listener.connection("open");
      this.listener.hello(JSON.parse(data) as LiveHello);
    }
  }

  private closed(socket: WebSocket): void {
    if (socket !== this.socket) return;
    this.listener.connection("lost");
    this.timer = window.setTimeout(() => this.open(), this.delay);
    this.delay = Math.min(2 * this.delay, LONGEST_DELAY);
  }
}
