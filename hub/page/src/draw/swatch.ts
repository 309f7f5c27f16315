//! Draws the swatches of states without a value, as the style sheet does.

import { dots, noAnswer, noData } from "./canvas";
import { theme } from "./theme";

/** Fills a rectangle with the swatch of a state. */
export function paintSwatch(
  pen: CanvasRenderingContext2D,
  name: string,
  x: number,
  y: number,
  width: number,
  height: number,
): void {
  const { accent, alert, faint, ink } = theme();
  const fills: Record<string, (string | CanvasPattern)[]> = {
    "no-answer": [noAnswer(pen)],
    "no-data": [noData(pen)],
    "at-least": ["#2a788e", dots(pen)],
    increase: ["#d55e00"],
    down: ["#0c0e12"],
    own: [accent],
  };
  for (const fill of fills[name] ?? []) {
    pen.fillStyle = fill;
    pen.fillRect(x, y, width, height);
  }
  if (name === "waits" || name === "root") {
    pen.strokeStyle = ink;
    pen.lineWidth = name === "root" ? 2 : 1;
    pen.setLineDash(name === "root" ? [] : [3, 2]);
    pen.beginPath();
    if (name === "root") pen.arc(x + width / 2, y + height / 2, height / 2 - 1, 0, 2 * Math.PI);
    else {
      pen.moveTo(x, y + height / 2);
      pen.lineTo(x + width, y + height / 2);
    }
    pen.stroke();
    pen.setLineDash([]);
    return;
  }
  pen.lineWidth = 1;
  pen.strokeStyle = name === "root frame" ? ink : faint;
  pen.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  pen.fillStyle = pen.strokeStyle = alert;
  pen.beginPath();
  if (name === "down") {
    pen.lineWidth = 2;
    pen.moveTo(x + 1, y + 1);
    pen.lineTo(x + width - 1, y + height - 1);
    pen.stroke();
  } else if (name === "faulty") {
    pen.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
    pen.arc(x + width / 2, y + height / 2, 3, 0, 2 * Math.PI);
    pen.fill();
  }
}
