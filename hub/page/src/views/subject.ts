//! The cell that says what an event or an alert is about.

import type { App } from "../model/app";
import { portKey } from "../model/topology";
import { linkCell } from "../parts/table";
import { drawPort } from "./columns";
import { faultHref } from "./faults";

interface Subject {
  guid: string | null;
  port: number | null;
  node: string | null;
}

/** Returns the name of what an event or an alert is about. */
export function subjectText({ guid, port, node }: Subject, otherwise: string): string {
  if (guid === null) return otherwise;
  return port === null ? (node ?? guid) : `${node ?? guid} / ${port}`;
}

/**
 * Draws the port or device that an event or an alert is about as a link, or else another text. A
 * region of congestion opens its tree, at a time in milliseconds or now.
 */
export function drawSubject(
  app: App,
  cell: HTMLElement,
  row: Subject,
  otherwise: string,
  region: { at: number | null } | null = null,
): void {
  if (row.guid === null) {
    cell.replaceChildren(otherwise);
    return;
  }
  if (cell.firstElementChild === null) cell.replaceChildren();
  const text = subjectText(row, otherwise);
  const port = { guid: row.guid, port: row.port ?? 0 };
  const item = portKey(port.guid, port.port);
  const href =
    region === null
      ? faultHref(app, port)
      : app.href({ view: "tree", item, at: slotAfter(app, region.at), range: null });
  if (region === null && row.port !== null && row.node !== null)
    drawPort(app, cell, { ...port, node: row.node });
  else linkCell(cell, text, href, row.guid);
}

/** Returns the end of the slot of a time in milliseconds. */
function slotAfter(app: App, time: number | null): number | null {
  return time === null ? null : Math.ceil(time / app.interval) * app.interval;
}
