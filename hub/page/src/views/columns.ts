//! Columns that several tables have.

import { FULL, shareOf, stateOf } from "../contract/frame";
import type { PortName } from "../contract/types";
import { blockedScale, utilizationScale } from "../draw/scale";
import type { App } from "../model/app";
import { portKey } from "../model/topology";
import { duration, percent, scaled } from "../model/units";
import { barOf, barText } from "../parts/meter";
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
    width: "minmax(112px, 0.9fr)",
    value,
    draw: (cell, row) => {
      cell.classList.add("cell-bar");
      const share = value(row);
      barOf(cell, share, percent(share), isBlocked ? blockedScale : utilizationScale);
    },
  };
}

/** Octets that nodes sent and received. */
export function trafficColumns<
  Row extends { injected_bytes: number | null; ejected_bytes: number | null },
>(): Column<Row>[] {
  return [
    {
      id: "sent",
      title: "Sent",
      hint: "Data that the nodes sent",
      end: true,
      width: "84px",
      value: (row) => row.injected_bytes,
      text: (row) => scaled(row.injected_bytes, "B"),
    },
    {
      id: "received",
      title: "Received",
      hint: "Data that the nodes received",
      end: true,
      width: "84px",
      value: (row) => row.ejected_bytes,
      text: (row) => scaled(row.ejected_bytes, "B"),
    },
  ];
}

/** Time for which ports were blocked, summed. */
export function blockedColumn<Row extends { blocked_seconds: number | null }>(): Column<Row> {
  return {
    id: "blocked",
    title: "Blocked",
    hint: "Time for which the ports of the nodes were blocked, summed",
    end: true,
    width: "84px",
    value: (row) => row.blocked_seconds,
    text: (row) => duration(row.blocked_seconds),
  };
}

/** A column with a data rate in Gb/s. */
export function rateColumn<Row>(
  id: string,
  title: string,
  hint: string,
  gbps: (row: Row) => number,
): Column<Row> {
  return {
    id,
    title,
    hint,
    end: true,
    width: "84px",
    value: gbps,
    text: (row) => scaled(gbps(row) * 1e9, "b/s"),
  };
}

/** A column with a port that opens its page. */
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
    draw: (cell, row) => {
      const name = port(row);
      if (name === null) cell.replaceChildren("–");
      else
        linkCell(
          cell,
          text(row),
          app.href({ view: "port", item: portKey(name.guid, name.port), options: {} }),
          name.guid,
        );
    },
  };
}
