//! The columns of links that compare the shown time with an earlier one.

import { codeIn, FULL, NO_DATA } from "../contract/frame";
import type { App } from "../model/app";
import { points, shiftText, signed } from "../model/shift";
import { BLOCKED, UTILIZATION } from "../model/state";
import type { Link } from "../model/topology";
import { dayTime } from "../model/units";
import { barText } from "../parts/meter";
import { lackOf } from "../parts/shift";
import type { Column } from "../parts/table";
import { meterColumn, rank } from "./columns";
import { combineCodes } from "./heatmap/rows";

/** The means are those of whole minutes, because the hub keeps older values so. */
const MINUTE = 60_000;

/** Returns the larger code of both directions of a link, or a state if there is none. */
function larger(codes: Uint16Array | undefined, { a, b }: Link): number {
  return codes === undefined ? NO_DATA : codeIn(combineCodes([a, b], codes, "max"));
}

export class LinkChange {
  /** For each metric, the means of all ports now and before. */
  private readonly means = new Map<string, [Uint16Array?, Uint16Array?]>();

  /** The minutes of now. */
  private minutes: { from: number; to: number } | null = null;

  constructor(private readonly app: App) {}

  /** Requests the means that the page does not have. */
  update(): void {
    const { span, shift } = this.app;
    if (span === null) return;
    const to = Math.floor(span.to / MINUTE) * MINUTE;
    const now = { from: Math.min(Math.floor(span.from / MINUTE) * MINUTE, to - MINUTE), to };
    this.minutes = now;
    const before = { from: now.from - shift, to: now.to - shift };
    for (const metric of [UTILIZATION, BLOCKED]) {
      // A live page keeps the means of the minute before until the hub has answered.
      const known = (this.app.isLive && this.means.get(metric)) || [];
      const found = [now, before].map((time) => this.app.over(metric, time, "mean"));
      this.means.set(metric, [found[0] ?? known[0], found[1] ?? known[1]]);
    }
  }

  /** Whether the hub has answered for both times and both metrics, each with an answer of its own. */
  get isKnown(): boolean {
    const all = [...this.means.values()].flat();
    return all.length > 0 && all.every((codes) => codes !== undefined);
  }

  /** Returns what is missing, or which times are compared. */
  get text(): string {
    const { to } = this.minutes ?? { to: 0 };
    const times = [to, to - this.app.shift].map(dayTime).join(" and ");
    return (
      lackOf(this.app, this.minutes) ||
      `means of the sweeps with data in the minutes until ${times}`
    );
  }

  get columns(): Column<Link>[] {
    const earlier = shiftText(this.app.shift);
    return [
      ...this.columnsOf(UTILIZATION, "use", "Use", "utilization", earlier),
      ...this.columnsOf(BLOCKED, "wait", "Blocked", "blocked share", earlier),
    ];
  }

  private columnsOf(metric: string, id: string, title: string, what: string, earlier: string) {
    const means = (time: 0 | 1) => this.means.get(metric)?.[time];
    const of = (time: 0 | 1) => (link: Link) => larger(means(time), link);
    const [now, before] = [of(0), of(1)];
    /** Shows that values are loading, which is not the same as no data. */
    const orLoading = (time: 0 | 1, column: Column<Link>): Column<Link> => ({
      ...column,
      picture: (link) => {
        const picture = column.picture!(link);
        return means(time) === undefined ? { ...picture, codes: 0 } : picture;
      },
      draw: (cell, link) =>
        means(time) === undefined ? barText(cell, "…") : column.draw!(cell, link),
    });
    const change = (link: Link) => {
      const [x, y] = [rank(now(link)), rank(before(link))];
      return x === null || y === null ? null : (x - y) / FULL;
    };
    const isBlocked = metric === BLOCKED;
    // A phone has room for one of both metrics.
    const line = isBlocked ? undefined : (2 as const);
    const hint = `Mean ${what} of the direction with more`;
    const column: Column<Link> = {
      id: `${id}-change`,
      title: "Change",
      hint: `${hint}: the difference of both times in percentage points; the order is that of its size`,
      end: true,
      width: "",
      // The largest falls and rises are together.
      value: (link) => size(change(link)),
      saved: change,
      savedTitle: `${title}, change`,
      unit: "share",
      text: (link) => {
        const difference = change(link);
        return difference === null ? "–" : signed(difference, points);
      },
    };
    const columns = [
      {
        ...orLoading(0, meterColumn(`${id}-now`, `${title} now`, hint, now, isBlocked)),
        savedTitle: title,
      },
      {
        ...orLoading(
          1,
          meterColumn(`${id}-before`, "Before", `${hint}, ${earlier}`, before, isBlocked),
        ),
        savedTitle: `${title}, ${earlier}`,
      },
      column,
    ];
    return columns.map((each) => ({ ...each, width: "minmax(106px, 1fr)", line }));
  }
}

function size(change: number | null): number | null {
  return change === null ? null : Math.abs(change);
}
