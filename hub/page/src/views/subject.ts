//! The cell that says what an event or an alert is about.

import type { App } from "../model/app";
import { linkCell } from "../parts/table";
import { faultHref } from "./faults";

/** Draws the port or device that an event or an alert is about as a link, or else another text. */
export function drawSubject(
  app: App,
  cell: HTMLElement,
  row: { guid: string | null; port: number | null; node: string | null },
  otherwise: string,
): void {
  if (row.guid === null) {
    cell.replaceChildren(otherwise);
    return;
  }
  if (cell.firstElementChild === null) cell.replaceChildren();
  const name = row.node ?? row.guid;
  const text = row.port === null ? name : `${name} / ${row.port}`;
  linkCell(cell, text, faultHref(app, { guid: row.guid, port: row.port ?? 0 }), row.guid);
}
