//! Formats bit error ratios.

/** Formats a ratio with two significant digits and an exponent: `1.4e−9`. */
export function significantRatio(ratio: number): string {
  return ratio === 0 ? "0" : ratio.toExponential(1).replace("-", "−");
}

/** Formats a ratio that can be missing, or that has no errors yet: its interval bounds it. */
export function ratioText(ratio: number | null | undefined): string {
  if (ratio === null || ratio === undefined) return "–";
  // Devices report 15e-255 without errors.
  return ratio < 1e-60 ? "none" : significantRatio(ratio);
}
