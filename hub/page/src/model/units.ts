//! Formats numbers and times for display, with units: shares with one decimal, and others with three
//! significant digits.

/** Space between a number and its unit, at which no line breaks. */
const SPACE = "\u00a0";

/** Formats a share of 1 in percent. The digits do not depend on the size, so that columns align. */
export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  const isTiny = share !== 0 && Math.abs(share) < 0.0005;
  // 967 ports of 968 are not all of them.
  const isNearlyAll = share < 1 && share >= 0.9995;
  const tiny = share < 0 ? "> −0.1" : "< 0.1";
  const text = isTiny ? tiny : isNearlyAll ? "> 99.9" : (100 * share).toFixed(1);
  return `${text}${SPACE}%`;
}

/** Gives the numbers of an axis the same digits: as many as one of them needs. */
export function withSameDigits(texts: readonly string[]): string[] {
  const parts = texts.map((text) => /^(.*?\d)(?:\.(\d*?)0*)?(\D*)$/.exec(text) ?? [text, text]);
  const digits = Math.max(...parts.map(([, , rest]) => rest?.length ?? 0));
  return parts.map(([, whole, rest = "", unit = ""]) => {
    const isZero = whole === "0" && rest === "";
    return `${whole}${digits > 0 && !isZero ? `.${rest.padEnd(digits, "0")}` : ""}${unit}`;
  });
}

/** Formats a number with three significant digits, without an exponent. */
export function significant(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 99.95) return grouped(Math.round(value));
  if (size >= 9.995) return value.toFixed(1);
  if (size >= 0.9995) return value.toFixed(2);
  if (size >= 0.01) return value.toFixed(2);
  return value < 0 ? "> −0.01" : "< 0.01";
}

/** Formats a whole number with narrow spaces between thousands. */
export function grouped(value: number | string | bigint): string {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

/**
 * Formats a value with a decimal prefix: `scaled(2.5e9, "B")` is `2.50 GB`. Values beside each other
 * get the prefix and the digits of the largest one, `like`.
 */
export function scaled(
  value: number | null | undefined,
  unit: string,
  like: number | null | undefined = value,
): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  let power = 0;
  let most = Math.abs(like ?? value);
  while (most >= 999.5 && power < PREFIXES.length - 1) {
    most /= 1000;
    power++;
  }
  const rest = value / 1000 ** power;
  const digits =
    power === 0 && Number.isInteger(rest)
      ? String(rest)
      : like === value
        ? significant(rest)
        : rest.toFixed(most >= 99.95 ? 0 : most >= 9.995 ? 1 : 2);
  return `${digits}${SPACE}${PREFIXES[power]}${unit}`;
}

/** Formats a duration in seconds. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  const size = Math.abs(seconds);
  if (size === 0) return `0${SPACE}s`;
  // A value that would round to 1000 gets the next unit.
  if (size < 999.5e-9) return `${significant(seconds * 1e9)}${SPACE}ns`;
  if (size < 999.5e-6) return `${significant(seconds * 1e6)}${SPACE}µs`;
  if (size < 0.9995) return `${significant(seconds * 1e3)}${SPACE}ms`;
  if (size < 60) return `${significant(seconds)}${SPACE}s`;
  const whole = Math.round(seconds);
  const parts: [number, string][] = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count}${SPACE}${unit}`)
    .join(" ");
}

const pad = (value: number, digits = 2) => String(value).padStart(digits, "0");

/** Formats the time of the day in the zone of the browser. */
export function clock(milliseconds: number): string {
  const date = new Date(milliseconds);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** Formats date and time of the day in the zone of the browser. */
export function dateTime(milliseconds: number): string {
  const date = new Date(milliseconds);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clock(milliseconds)}`;
}

/** Formats a time: with seconds on the current day, else with the date. */
export function dayTime(milliseconds: number): string {
  const text = dateTime(milliseconds);
  const isToday = text.slice(0, 10) === dateTime(Date.now()).slice(0, 10);
  return isToday ? text.slice(11) : text.slice(0, 16);
}

/** Returns the date and the time of a moment, or of a range; one with two dates has both in its time. */
export function timeTexts(from: number, to = from): [string, string] {
  const [first, last] = [dateTime(from), dateTime(to)];
  const date = first.slice(0, 10);
  if (date !== last.slice(0, 10)) return ["", `${first.slice(5, 16)} – ${last.slice(5, 16)}`];
  return [date, from === to ? first.slice(11) : `${first.slice(11)} – ${last.slice(11)}`];
}

/** Returns the name of the time zone of the browser, such as `UTC+01:00`. */
export function zone(milliseconds: number): string {
  const minutes = -new Date(milliseconds).getTimezoneOffset();
  if (minutes === 0) return "UTC";
  const size = Math.abs(minutes);
  return `UTC${minutes < 0 ? "−" : "+"}${pad(Math.floor(size / 60))}:${pad(size % 60)}`;
}

/** Begins a sentence. */
export function upper(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Orders names by the numbers in them: `leaf2` before `leaf10`. */
export const compareNames = new Intl.Collator(undefined, { numeric: true }).compare;

/** Returns `1 port` or `2 ports`. */
export function count(value: number, one: string, many = `${one}s`): string {
  return `${grouped(value)} ${value === 1 ? one : many}`;
}
