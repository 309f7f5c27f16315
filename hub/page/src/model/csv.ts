//! Exports curves as CSV.

import type { Series } from "../contract/types";

/** Returns curves as CSV: one line for each time, one column for each curve. */
export function seriesCsv(series: Series[]): string {
  const times = [...new Set(series.flatMap(({ t }) => t))].sort((x, y) => x - y);
  const columns = series.map(({ t, v }) => new Map(t.map((time, index) => [time, v[index]])));
  const head = ["time_ns", ...series.map(({ port, metric }) => cell(`${port} ${metric}`))].join(
    ",",
  );
  const lines = times.map((time) =>
    [time, ...columns.map((column) => column.get(time) ?? "")].join(","),
  );
  return `${[head, ...lines].join("\n")}\n`;
}

/** Quotes a cell, and escapes a leading character that a spreadsheet would take for a formula. */
function cell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Offers a text as a file download. */
export function download(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
