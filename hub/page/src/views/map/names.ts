//! Short names of switches that belong together.

/**
 * Returns what the names have in common, up to a separator: `leaf1` for `leaf1-01` to `leaf1-40`.
 * Null if they have no common beginning.
 */
export function commonName(names: readonly string[]): string | null {
  const [first, ...others] = names;
  let length = first.length;
  for (const name of others) while (!name.startsWith(first.slice(0, length))) length--;
  const found = /^.*\w(?=[^\dA-Za-z])/.exec(first.slice(0, length));
  return others.length > 0 && found !== null ? found[0] : null;
}
