//! How often the page shows a new slot. All slots are kept, also those that are not shown.

const KEY = "ibnet-rate";

/** Display rates: seconds between two shown slots, and their names. */
export const RATES = [
  ["0", "Every slot"],
  ["2", "Every 2 s"],
  ["5", "Every 5 s"],
  ["10", "Every 10 s"],
] as const;

/** The clock of the browser. */
const BROWSER = {
  now: () => performance.now(),
  later: (work: () => void, delay: number) => window.setTimeout(work, delay),
  cancel: (timer: number) => window.clearTimeout(timer),
};

/** Calls `show` for arrivals, at most once a period and at its end at the latest. */
export class Pace {
  /** Time between two shown slots in milliseconds; 0 shows each at once. */
  period = 0;
  private due = Number.NEGATIVE_INFINITY;
  private timer: number | null = null;

  constructor(
    private readonly show: () => void,
    private readonly clock = BROWSER,
  ) {}

  /** Takes the choice that the browser keeps. */
  restore(): void {
    const kept = localStorage.getItem(KEY);
    this.period = 1000 * Number(RATES.find(([seconds]) => seconds === kept)?.[0] ?? 0);
  }

  /** Changes the period and keeps the choice. What has arrived is shown at once. */
  choose(seconds: string): void {
    if (seconds === "0") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, seconds);
    this.restore();
    if (this.timer !== null) this.clock.cancel(this.timer);
    this.fire();
  }

  /** Notes that there is something new to show. */
  arrive(): void {
    if (this.timer !== null) return;
    const wait = this.due - this.clock.now();
    if (wait <= 0) this.fire();
    else this.timer = this.clock.later(() => this.fire(), wait);
  }

  private fire(): void {
    this.timer = null;
    this.due = this.clock.now() + this.period;
    this.show();
  }
}
