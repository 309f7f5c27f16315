//! Icons as paths on a 20 x 20 grid, drawn for this web page.

import { s } from "./dom";

const PATHS: Record<string, string> = {
  overview: "M3 11.5h5V17H3zM3 3h5v6H3zM11 3h6v4.5h-6zM11 10h6v7h-6z",
  map: "M10 3v5M10 8 4 13M10 8l6 5M10 8v5M8 2.5h4v2.5H8zM2.500 13h3.500v3.500H2.500zM8.250 13h3.500v3.500h-3.500zM14 13h3.500v3.500H14z",
  heatmap:
    "M3 3h4v4H3zM8 3h4v4H8zM13 3h4v4h-4zM3 8h4v4H3zM8 8h4v4H8zM13 8h4v4h-4zM3 13h4v4H3zM8 13h4v4H8zM13 13h4v4h-4z",
  links:
    "M8 12l4-4M9 6l1.500-1.500a3.200 3.200 0 0 1 4.500 4.500L13.500 10.500M11 14l-1.500 1.500a3.200 3.200 0 0 1-4.500-4.500L6.500 9.500",
  ports: "M3 4h14v12H3zM6 16v-4h8v4M7.500 9V6.500M10 9V6.500M12.500 9V6.500",
  health:
    "M10 16.500 4 10.200a3.700 3.700 0 0 1 6-4.200a3.700 3.700 0 0 1 6 4.200zM3 10h3.500l1.500-2.500 2 4.500 1.500-2h5.500",
  jobs: "M3 4h9v3H3zM6 8.500h11v3H6zM4 13h8v3H4z",
  groups:
    "M4 5.500a6 2.500 0 0 1 12 0a6 2.500 0 0 1-12 0M4 5.500v9a6 2.500 0 0 0 12 0v-9M4 10a6 2.500 0 0 0 12 0",
  events: "M10 3v7l4 3M10 2.500a7.500 7.500 0 1 1 0 15 7.500 7.500 0 0 1 0-15z",
  samplers: "M2.500 10h3l2-5 3.500 10 2.500-7 1 2h3",
  play: "M6 4l10 6-10 6z",
  pause: "M5.500 4h3v12h-3zM11.500 4h3v12h-3z",
  back: "M14 4 6 10l8 6zM4.500 4v12",
  forward: "M6 4l8 6-8 6zM15.500 4v12",
  theme: "M10 3a7 7 0 1 0 0 14zM10 3a7 7 0 0 1 0 14",
  help: "M7.500 7.500a2.500 2.500 0 1 1 3.600 2.200c-.800.400-1.100.900-1.100 1.800M10 14.300v.400M10 2.500a7.500 7.500 0 1 1 0 15 7.500 7.500 0 0 1 0-15z",
  info: "M10 9v5M10 6v.400M10 2.500a7.500 7.500 0 1 1 0 15 7.500 7.500 0 0 1 0-15z",
  controls: "M3 6h14M3 14h14M7 3.500v5M13 11.500v5",
  alerts: "M4.500 14.500h11l-1.500-2V8.500a4 4 0 0 0-8 0v4zM8.500 17h3M10 3v1.500",
  alert: "M10 3 18 17H2zM10 8v4M10 14.300v.400",
  archive: "M3 4h14v3.500H3zM4.500 7.500V16.500h11V7.500M8 10.500h4",
  save: "M10 3v9M6 8.500l4 4 4-4M4 16.500h12",
  ok: "M4 10.500l4 4 8-9",
  down: "M4 4l12 12M16 4 4 16",
};

/** Creates an icon. It is decoration: the text next to it carries the meaning. */
export function icon(name: string, className = "icon"): SVGSVGElement {
  const filled = name === "play" || name === "pause";
  return s(
    "svg",
    { class: className + (filled ? " filled" : ""), viewBox: "0 0 20 20", "aria-hidden": "true" },
    s("path", { d: PATHS[name] ?? "" }),
  );
}
