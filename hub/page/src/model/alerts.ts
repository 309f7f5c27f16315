//! The alerts of the hub. They are of now, whatever time the page shows.

import { ApiError, getJson, postJson } from "../contract/api";
import type { AlertRow, Alerts } from "../contract/types";

/** Time between two requests, in milliseconds: the hub looks for conditions as often. */
const PERIOD = 10_000;

/** Order of severities, worst first. */
export const SEVERITIES: readonly AlertRow["severity"][] = ["critical", "warning", "info"];

export class AlertWatch {
  answer: Alerts | null = null;
  error = "";

  /** `changed` is called after each answer and each failure. */
  constructor(private readonly changed: () => void) {}

  start(): void {
    void this.load();
    window.setInterval(() => void this.load(), PERIOD);
  }

  async load(): Promise<void> {
    try {
      this.answer = await getJson<Alerts>("alerts");
      this.error = "";
    } catch (error) {
      this.error = error instanceof ApiError ? error.message : String(error);
    }
    this.changed();
  }

  /** Marks an alert until a time in nanoseconds since 1970; 0 removes the mark. */
  async mark(token: string, id: string, why: string, silent: boolean, until: number) {
    const body = { id, why, silent, until_ns: until };
    this.answer = await postJson<Alerts>("alerts/mark", token, body);
    this.changed();
  }

  /** Number of firing alerts that are not silenced. */
  get firing(): number {
    return this.answer?.firing ?? 0;
  }
}

/** Returns the number of alerts in each state. */
export function countsText({ rows, firing }: Pick<Alerts, "rows" | "firing">): string {
  const states = rows.map(({ state, mark }) =>
    state === "firing" && mark?.silent ? "silenced" : state,
  );
  return ["silenced", "pending", "resolved"].reduce((text, state) => {
    const { length } = states.filter((each) => each === state);
    return length === 0 ? text : `${text}, ${length} ${state}`;
  }, `${firing} firing`);
}
