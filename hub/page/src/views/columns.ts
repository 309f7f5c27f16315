//! Columns that several tables share.

import { codeOf, FULL, shareOf, stateOf } from "../contract/frame";
import type { PortName } from "../contract/types";
import { blockedScale, utilizationScale } from "../draw/scale";
import type { App } from "../model/app";
import { UTILIZATION } from "../model/state";
import { portKey } from "../model/topology";
import { duration, percent, scaled } from "../model/units";
import { barText } from "../parts/meter";
import { type Column, linkCell } from "../parts/table";

/** A column with the newest value of a port as a bar. */
export function meterColumn<Row>(
  id: string,
  title: string,
  hint: string,
  code: (row: Row) => number,
  isBlocked: boolean,
): Column<Row> {
  return {
    id,
    title,
    hint,
    end: true,
    width: "minmax(96px, 1fr)",
    value: (row) => rank(code(row)),
    saved: (row) => shareOf(code(row)),
    unit: "share",
    state: (row) => (shareOf(code(row)) === null ? stateOf(code(row)) : ""),
    picture: (row) => ({
      codes: code(row),
      scale: isBlocked ? blockedScale : utilizationScale,
    }),
    draw: (cell, row) => {
      const share = shareOf(code(row));
      barText(cell, share === null ? stateOf(code(row)) : percent(share));
    },
  };
}

/** Returns a code that is a value, for sorting. */
export function rank(code: number): number | null {
  return code <= FULL ? code : null;
}

/** Number of slots of a curve in a table. */
const TREND_SLOTS = 60;

/**
 * A column with the utilization of the last minute, of the port that had the highest value. The
 * order is that of this value.
 */
export function trendColumn<Row>(app: App, ports: (row: Row) => number[]): Column<Row> {
  const trace = (row: Row) =>
    ports(row)
      .map((port) => app.trace(UTILIZATION, port, TREND_SLOTS))
      .reduce((x, y) => ((highest(y) ?? -1) > (highest(x) ?? -1) ? y : x));
  return {
    id: "trend",
    title: "Use, 1 min",
    hint: "Utilization of the end that was fuller; the order is that of its highest value",
    width: "minmax(80px, 0.9fr)",
    value: (row) => highest(trace(row)),
    picture: (row) => ({ codes: trace(row), scale: utilizationScale }),
  };
}

/** Returns the highest code that is a value. */
function highest(codes: Uint16Array): number | null {
  let found: number | null = null;
  for (const code of codes) if (code <= FULL && (found === null || code > found)) found = code;
  return found;
}

/** A column with a share as a bar. */
export function shareColumn<Row>(
  id: string,
  title: string,
  hint: string,
  value: (row: Row) => number | null,
  isBlocked: boolean,
): Column<Row> {
  return {
    id,
    title,
    hint,
    end: true,
    width: "minmax(104px, 0.9fr)",
    value,
    unit: "share",
    picture: (row) => ({
      codes: codeOf(value(row)),
      scale: isBlocked ? blockedScale : utilizationScale,
    }),
    draw: (cell, row) => barText(cell, percent(value(row))),
  };
}

/** A column with an amount of data. */
export function octetsColumn<Row>(
  id: string,
  title: string,
  hint: string,
  octets: (row: Row) => number | null,
): Column<Row> {
  return {
    id,
    title,
    hint,
    end: true,
    width: "76px",
    value: octets,
    unit: "B",
    text: (row) => scaled(octets(row), "B"),
  };
}

/** Bytes that nodes sent and received. */
export function trafficColumns<
  Row extends { injected_bytes: number | null; ejected_bytes: number | null },
>(): Column<Row>[] {
  return [
    octetsColumn("sent", "Sent", "Data that the nodes sent", (row) => row.injected_bytes),
    octetsColumn(
      "received",
      "Received",
      "Data that the nodes received",
      (row) => row.ejected_bytes,
    ),
  ];
}

/** Time for which ports were blocked, summed over the ports. */
export function blockedColumn<Row extends { blocked_seconds: number | null }>(): Column<Row> {
  return {
    id: "blocked",
    title: "Blocked",
    hint: "Time for which the ports of the nodes were blocked, summed",
    end: true,
    width: "84px",
    value: (row) => row.blocked_seconds,
    unit: "s",
    text: (row) => duration(row.blocked_seconds),
  };
}

/** A column with a data rate in Gb/s. */
export function rateColumn<Row>(
  id: string,
  title: string,
  hint: string,
  gbps: (row: Row) => number | null,
): Column<Row> {
  const bits = (row: Row) => {
    const rate = gbps(row);
    return rate === null ? null : rate * 1e9;
  };
  return {
    id,
    title,
    hint,
    end: true,
    width: "84px",
    value: bits,
    unit: "b/s",
    text: (row) => scaled(bits(row), "b/s"),
  };
}

/** A column with a host that opens its ports. */
export function hostColumn<Row extends { host: string }>(app: App, title: string): Column<Row> {
  return {
    id: "host",
    title,
    width: "minmax(90px, 1fr)",
    value: ({ host }) => host,
    draw: (cell, { host }) =>
      linkCell(cell, host, app.href({ view: "ports", item: "", options: { q: host } })),
  };
}

/** Draws the name of a port: a switch opens its page, and the port its own. */
export function drawPort(app: App, cell: HTMLElement, port: PortName, short = port.node): void {
  const { guid, node } = port;
  const href = app.href({ view: "port", item: portKey(guid, port.port), options: {} });
  const device = app.topology?.devices[app.topology.deviceOf(guid)];
  if (cell.firstElementChild === null) cell.replaceChildren();
  if (device?.kind !== "switch" || port.port === 0)
    linkCell(cell, short === node ? `${node} / ${port.port}` : short, href, guid);
  else
    linkCell(cell, node, app.deviceHref(device), `The switch ${node}, ${guid}`, {
      text: ` / ${port.port}`,
      href,
    });
}

/** A column with a port. */
export function portColumn<Row>(
  app: App,
  id: string,
  title: string,
  port: (row: Row) => PortName | null,
): Column<Row> {
  const text = (row: Row) => {
    const name = port(row);
    return name === null ? "–" : `${name.node} / ${name.port}`;
  };
  return {
    id,
    title,
    width: "minmax(84px, 1fr)",
    value: text,
    saved: (row) => (port(row) === null ? null : text(row)),
    draw: (cell, row) => {
      const name = port(row);
      if (name === null) cell.replaceChildren("–");
      else drawPort(app, cell, name);
    },
  };
}
