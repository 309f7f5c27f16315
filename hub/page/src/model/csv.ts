//! Writes tables and curves as CSV (RFC 4180), and names files.
//!
//! Numbers are plain numbers in the unit that the head names, and nothing is rounded. A time is two
//! columns: ISO 8601 in UTC, and nanoseconds since 1970.

export type Cell = number | string | null;

/** Values over time. */
export interface Course {
  label: string;
  /** Milliseconds since 1970. */
  t: readonly number[];
  v: readonly (number | null | undefined)[];
}

/** Returns lines of CSV. An unknown value is an empty cell. */
export function csv(rows: Iterable<readonly Cell[]>): string[] {
  return Array.from(rows, (row) => `${row.map(cell).join(",")}\r\n`);
}

/** Quotes a cell, and escapes a leading character that a spreadsheet would take for a formula. */
function cell(value: Cell): string {
  if (value === null) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Returns the head of a column with its unit. */
export function head(title: string, unit = ""): string {
  return unit === "" ? title : `${title} (${unit})`;
}

/** Returns the heads of the two columns of a time. */
export function timeHeads(title: string): string[] {
  return [head(title, "UTC"), head(title, "ns")];
}

/** Returns the two cells of a time in nanoseconds since 1970. */
export function timeCells(ns: number | null): Cell[] {
  return ns === null ? [null, null] : [new Date(ns / 1e6).toISOString(), ns];
}

/** Returns the rows of curves: one for each time, and one column for each curve. */
export function courseRows(courses: readonly Course[], unit: string): Cell[][] {
  const times = [...new Set(courses.flatMap(({ t }) => t))].sort((x, y) => x - y);
  const columns = courses.map(({ t, v }) => new Map(t.map((time, at) => [time, v[at]])));
  return [
    [...timeHeads("Time"), ...courses.map(({ label }) => head(label, unit))],
    ...times.map((time) => [
      ...timeCells(Math.round(1e6 * time)),
      ...columns.map((column) => column.get(time) ?? null),
    ]),
  ];
}

/** Returns a file name of parts and of the shown time, in milliseconds since 1970. */
export function fileName(
  parts: readonly string[],
  span: { from: number; to: number } | null,
  ending: string,
): string {
  const stamp = (time: number) => new Date(time).toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const ends = span === null ? [] : [...new Set([stamp(span.from), stamp(span.to)])];
  const names = [...parts, ends.join("-")].map((part) =>
    part
      .normalize("NFC")
      .replaceAll(/[^\p{L}\p{N}.]+/gu, "-")
      .replaceAll(/^[-.]+|-+$/g, ""),
  );
  return `${names
    .filter((name) => name !== "")
    .join("_")
    .slice(0, 180)}.${ending}`;
}
