//! How often a live page goes on to the newest slot. All slots are kept whatever the pace is.

const KEY = "ibnet-pace";

/** Seconds between two shown slots; 0 shows each slot as it arrives. */
export const PACES = [0, 2, 5, 10] as const;

/** Returns the choice of the user in milliseconds. */
export function storedPace(): number {
  const stored = Number(localStorage.getItem(KEY));
  return 1000 * (PACES.find((seconds) => seconds === stored) ?? 0);
}

export function storePace(pace: number): void {
  if (pace === 0) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, String(pace / 1000));
}

/**
 * Returns whether the page goes on from the shown slot to the newest one. It does so once in each
 * period of the time of the slots, so pages with the same pace show the same slots, however their
 * frames arrive. `interval` is the length of a slot; it and `pace` are in milliseconds.
 */
export function goesOn(shown: number | null, newest: number, interval: number, pace: number) {
  const period = (slot: number) => Math.floor((slot * interval) / Math.max(pace, interval));
  return shown === null || period(newest) !== period(shown);
}
