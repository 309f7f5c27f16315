//! How many rows the parts of the overview show, so that all parts fit on a laptop.

/** Height of a window that has room for all rows, in pixels. */
const LOW = 900;

/** Returns the number of rows for the height of the window. */
export function rowsThatFit(most: number, mostOnLow: number): number {
  return innerHeight < LOW ? mostOnLow : most;
}
