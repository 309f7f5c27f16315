//! A verdict on a link in words.

import type { HealthLink } from "../contract/types";

/** Returns the rules that apply, why the link went down, and how much of the time was seen. */
export function verdictText(row: HealthLink): string {
  const { why, link_down, seen_minutes, window_minutes, verdict } = row;
  const seen =
    seen_minutes < window_minutes ? `${seen_minutes} of ${window_minutes} minutes seen` : "";
  // A reason explains a link that is not good; a good link was only disabled or restarted.
  const down = verdict === "good" || link_down === null ? "" : `last link down: ${link_down}`;
  return [...why, down, seen].filter((part) => part !== "").join("; ");
}
