// Measures the main thread of a page in Chromium from a trace.
//
// A trace has the CPU time of each task of a thread, so the numbers do not depend on what else runs
// on the machine.

/** Records a trace while `work` runs, and returns its events. */
export async function trace(browser, page, work) {
  await browser.startTracing(page, {
    categories: ["devtools.timeline", "disabled-by-default-devtools.timeline"],
  });
  await work();
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  return traceEvents;
}

/**
 * Returns the CPU time of each frame that ran a callback of requestAnimationFrame, and its start, in
 * milliseconds: the whole task, with script, style, layout and drawing.
 */
export function frames(events) {
  const threads = new Map();
  for (const event of events) {
    const key = `${event.pid} ${event.tid}`;
    if (event.name === "FireAnimationFrame") threads.set(key, []);
  }
  const starts = [];
  for (const event of events) {
    const key = `${event.pid} ${event.tid}`;
    if (!threads.has(key)) continue;
    if (event.name === "FireAnimationFrame") starts.push({ key, ts: event.ts });
    if (event.name === "RunTask" && event.tdur !== undefined) threads.get(key).push(event);
  }
  const times = new Map();
  for (const { key, ts } of starts) {
    const task = threads.get(key).find((task) => task.ts <= ts && ts < task.ts + task.dur);
    if (task !== undefined)
      times.set(`${key} ${task.ts}`, { time: task.tdur / 1000, at: task.ts / 1000 });
  }
  return [...times.values()];
}

/** Returns the value that a share of the numbers does not exceed. */
export function quantile(numbers, share) {
  const sorted = [...numbers].sort((x, y) => x - y);
  if (sorted.length === 0) return Number.NaN;
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}
