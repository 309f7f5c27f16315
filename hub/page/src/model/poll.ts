//! Requests lists that the hub computes, repeatedly while the web page is live.

import { ApiError, getJson, type Params } from "../contract/api";
import type { App } from "./app";

/** Lists that a slower display does not delay. */
const PROMPT = ["events", "sm"];

/** A repeated request and its state. */
export class Poll<Answer> {
  answer: Answer | null = null;
  error = "";
  /** Whether the requested item does not exist in the hub. */
  isMissing = false;
  private last = "";
  private time = 0;
  private abort: AbortController | null = null;

  /**
   * `params` returns the parameters for what the page shows, or null to request nothing. `done` is
   * called after each answer and each failure.
   */
  constructor(
    private readonly app: App,
    private readonly path: string,
    private readonly params: () => Params | null,
    private readonly done: () => void,
    private readonly period = 2000,
  ) {}

  /** Requests the list if its parameters changed, or if the page is live and the list is old. */
  refresh(): void {
    const params = this.params();
    if (params === null) return;
    const key = this.app.isLive
      ? JSON.stringify({ ...params, from: 0, to: 0 })
      : JSON.stringify(params);
    const now = performance.now();
    const pace = PROMPT.includes(this.path) ? 0 : this.app.pace.period;
    const old = this.app.isLive && now - this.time >= Math.max(this.period, pace);
    if (key === this.last && (!old || this.abort !== null)) return;
    this.abort?.abort();
    const abort = new AbortController();
    this.abort = abort;
    // The answer to the same request is still right: nobody waits for its repetition.
    const done = key === this.last || this.answer === null ? null : this.app.wait(this.path);
    this.last = key;
    this.time = now;
    getJson<Answer>(this.path, params, abort.signal)
      .then((answer) => {
        this.answer = answer;
        this.error = "";
        this.isMissing = false;
        this.done();
      })
      .catch((error: unknown) => {
        if (error instanceof DOMException) return;
        this.error = error instanceof ApiError ? error.message : String(error);
        this.isMissing = error instanceof ApiError && error.status === 404;
        this.done();
      })
      .finally(() => {
        if (this.abort === abort) this.abort = null;
        done?.();
      });
  }

  /** Makes the next `refresh` request the list, whatever its age. */
  expire(): void {
    this.last = "";
  }

  close(): void {
    this.abort?.abort();
  }
}
