//! The colour scales of the web page, and the colours of states without a value.
//!
//! Viridis shows utilization, and a scale from grey over magenta to pink shows the blocked share.
//! The latter runs away from the ground: to light colours in the dark theme, to dark ones in the
//! light theme. The lightness of a scale changes in one direction, so both remain readable for
//! colour-blind users and in greyscale. Red is in neither scale, because it marks what needs a
//! person.

import { FULL, INCREASE, LINK_DOWN, NO_ANSWER, NO_DATA, NOT_ASSIGNED } from "../contract/frame";
import { BLOCKED } from "../model/state";
import { theme } from "./theme";

type Rgb = readonly [number, number, number];

/** Viridis by S. van der Walt, N. Smith and E. Firing (CC0), in steps of a tenth. */
const VIRIDIS: Rgb[] = [
  [0x44, 0x01, 0x54],
  [0x48, 0x24, 0x75],
  [0x41, 0x44, 0x87],
  [0x35, 0x5f, 0x8d],
  [0x2a, 0x78, 0x8e],
  [0x21, 0x91, 0x8c],
  [0x22, 0xa8, 0x84],
  [0x44, 0xbf, 0x70],
  [0x7a, 0xd1, 0x51],
  [0xbd, 0xdf, 0x26],
  [0xfd, 0xe7, 0x25],
];

const MAGENTA: Rgb[] = [
  [0x24, 0x22, 0x2c],
  [0x45, 0x20, 0x45],
  [0x6d, 0x1c, 0x5e],
  [0x97, 0x17, 0x74],
  [0xbd, 0x22, 0x86],
  [0xda, 0x3f, 0x97],
  [0xec, 0x66, 0xa8],
  [0xf6, 0x8e, 0xbb],
  [0xfb, 0xb1, 0xce],
  [0xfe, 0xd2, 0xe2],
  [0xff, 0xf0, 0xf6],
];

/** The same for the light theme, from the grey of an empty ground to a colour that is not black. */
const MAGENTA_ON_LIGHT: Rgb[] = [
  [0xf3, 0xf2, 0xf5],
  ...MAGENTA.slice(2, -1).reverse(),
  [0x55, 0x14, 0x4d],
  [0x3f, 0x0b, 0x3d],
];

/** From blue, less than before, over the ground to orange, more. Both ends differ in lightness too. */
const CHANGE: Rgb[] = [
  [0x9a, 0xcf, 0xff],
  [0x3f, 0x8f, 0xdd],
  [0x26, 0x2a, 0x33],
  [0xb8, 0x6a, 0x0c],
  [0xff, 0xc4, 0x66],
];
const CHANGE_ON_LIGHT: Rgb[] = [
  [0x08, 0x3a, 0x7c],
  [0x5a, 0x9b, 0xdc],
  [0xf3, 0xf2, 0xf5],
  [0xe3, 0x97, 0x36],
  [0x7a, 0x3d, 0x00],
];

const STEPS = 256;

/** A colour scale with a precomputed table for each theme. */
export class Scale {
  private readonly tables: Record<"dark" | "light", { rgb: Rgb[]; css: string[] }>;

  constructor(dark: Rgb[], light: Rgb[]) {
    const table = (anchors: Rgb[]) => {
      const rgb = Array.from({ length: STEPS }, (_, step) => mix(anchors, step / (STEPS - 1)));
      return { rgb, css: rgb.map(([r, g, b]) => `rgb(${r} ${g} ${b})`) };
    };
    this.tables = { dark: table(dark), light: table(light) };
  }

  private step(share: number): number {
    return Math.max(0, Math.min(STEPS - 1, Math.round(share * (STEPS - 1))));
  }

  /** Returns the colour of a share, 0 to 1. */
  rgb(share: number): Rgb {
    return this.tables[theme().name].rgb[this.step(share)];
  }

  /** Returns the colour of a share as CSS text. */
  color(share: number): string {
    return this.tables[theme().name].css[this.step(share)];
  }

  /** Returns the colour of text on the colour of a share. */
  ink(share: number): string {
    return inkOn(this.rgb(share));
  }

  /** Returns the gradient of the scale as CSS text. */
  gradient(direction = "to right"): string {
    const stops = Array.from({ length: 11 }, (_, index) => this.color(index / 10));
    return `linear-gradient(${direction}, ${stops.join(", ")})`;
  }
}

/** Returns black or white, whichever has the larger contrast to a ground by WCAG 2. */
export function inkOn(ground: Rgb): string {
  const [r, g, b] = ground.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  const luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return (luminance + 0.05) ** 2 > 0.05 * 1.05 ? "#000" : "#fff";
}

function mix(anchors: Rgb[], share: number): Rgb {
  const position = share * (anchors.length - 1);
  const below = Math.min(Math.floor(position), anchors.length - 2);
  const part = position - below;
  const channel = (index: number) =>
    Math.round(anchors[below][index] + part * (anchors[below + 1][index] - anchors[below][index]));
  return [channel(0), channel(1), channel(2)];
}

export const utilizationScale = new Scale(VIRIDIS, VIRIDIS);
export const blockedScale = new Scale(MAGENTA, MAGENTA_ON_LIGHT);

/** The scale of differences: no change is in its middle. */
export const changeScale = new Scale(CHANGE, CHANGE_ON_LIGHT);

/** Anything that gives a share its colour. */
export type Painter = Pick<Scale, "color">;

/** One colour for shares that are neither utilization nor blocked share. */
export const plainPainter: Painter = { color: () => theme().accent };

/** Returns the scale of a metric. */
export function scaleOf(metric: string): Scale {
  return metric === BLOCKED ? blockedScale : utilizationScale;
}

/** Returns the display name of a metric. */
export function metricName(metric: string): string {
  const names: Record<string, string> = {
    xmit_utilization: "Utilization, sending",
    rcv_utilization: "Utilization, receiving",
    xmit_blocked: "Blocked share",
    xmit_gbps: "Data rate, sending",
    rcv_gbps: "Data rate, receiving",
    errors: "Errors",
    rtt_ns: "Round-trip time",
  };
  return names[metric] ?? metric.replaceAll("_", " ");
}

/** Pixel colours of the states without a value. A pattern shows each too. */
export const STATE_RGB: Record<number, { dark: Rgb; light: Rgb }> = {
  [NO_ANSWER]: { dark: [0x6b, 0x72, 0x80], light: [0x9a, 0xa2, 0xb0] },
  [LINK_DOWN]: { dark: [0x0c, 0x0e, 0x12], light: [0x33, 0x39, 0x42] },
  // An orange that is in neither scale, and differs from both with every kind of colour vision.
  [INCREASE]: { dark: [0xd5, 0x5e, 0x00], light: [0xd5, 0x5e, 0x00] },
  [NOT_ASSIGNED]: { dark: [0x20, 0x24, 0x2c], light: [0xea, 0xed, 0xf2] },
};

/** Packs a colour for a little-endian 32-bit view of pixels. */
function pack([r, g, b]: Rgb): number {
  return (255 << 24) | (b << 16) | (g << 8) | r;
}

const packed = new Map<string, number>();

/** Returns the pixel of a colour of a scale or of the theme: `rgb(1 2 3)` or `#010203`. */
export function pixelOf(color: string): number {
  let pixel = packed.get(color);
  if (pixel === undefined) {
    const parts = color.startsWith("#")
      ? [1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16))
      : (color.match(/\d+/g) ?? []).map(Number);
    pixel = pack([parts[0] ?? 0, parts[1] ?? 0, parts[2] ?? 0]);
    packed.set(color, pixel);
  }
  return pixel;
}

/** Returns the pixel between two opaque pixels. */
export function blend(from: number, to: number, share: number): number {
  let pixel = 255 << 24;
  for (const shift of [0, 8, 16]) {
    const a = (from >> shift) & 255;
    const b = (to >> shift) & 255;
    pixel |= Math.round(a + share * (b - a)) << shift;
  }
  return pixel;
}

/**
 * Returns the pixels of all codes in the current theme. `share` returns the place of a value on the
 * scale. Codes without data are transparent, so that the ground shows.
 */
export function pixelsOf(scale: Scale, share: (code: number) => number) {
  const pixels = new Int32Array(NO_DATA + 1);
  for (let code = 0; code <= FULL; code++) pixels[code] = pack(scale.rgb(share(code)));
  for (const [code, color] of Object.entries(STATE_RGB))
    pixels[Number(code)] = pack(color[theme().name]);
  return pixels;
}

const tables = new Map<string, Int32Array>();

/** Returns the pixels of a scale from 0 to 100 %. */
export function pixelTable(scale: Scale): Int32Array {
  const key = `${theme().name} ${scale.color(1)}`;
  let found = tables.get(key);
  if (found === undefined) {
    found = pixelsOf(scale, (code) => code / FULL);
    tables.set(key, found);
  }
  return found;
}
