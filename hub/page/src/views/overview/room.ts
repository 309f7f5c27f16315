//! Computes how many rows the parts of the overview show, so that all parts fit on a laptop.

/** Height in pixels from which a window has space for all rows. */
const LOW = 900;

/** Returns the number of rows for the height of the window. */
export function rowsThatFit(most: number, mostOnLow: number): number {
  return innerHeight < LOW ? mostOnLow : most;
}
