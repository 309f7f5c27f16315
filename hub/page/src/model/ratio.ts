//! Formats bit error ratios.

/** Formats a ratio with two significant digits and an exponent: `1.4e−9`. */
export function significantRatio(ratio: number): string {
  if (ratio === 0) return "0";
  const [digits, exponent] = ratio.toExponential(1).split("e");
  return `${digits}e${exponent.replace("-", "−")}`;
}

/** Formats a measured ratio. Without errors, it is below one error among the received bits. */
export function ratioText(ratio: number | null, bits: number): string {
  if (ratio === null) return "two readings needed";
  return ratio === 0 ? `below ${significantRatio(1 / bits)}` : significantRatio(ratio);
}
