//! Formats bit error ratios.

/** Formats a ratio with two significant digits and an exponent: `1.4e−9`. */
export function significantRatio(ratio: number): string {
  return ratio === 0 ? "0" : ratio.toExponential(1).replace("-", "−");
}

/** Formats a measured ratio. Without errors, it is below the upper end of its interval. */
export function ratioText(measured: { ratio: number; upper: number } | null): string {
  if (measured === null) return "two readings needed";
  return measured.ratio === 0
    ? `below ${significantRatio(measured.upper)}`
    : significantRatio(measured.ratio);
}
