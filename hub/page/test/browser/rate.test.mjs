import assert from "node:assert/strict";
import { test } from "node:test";
import { isSimulated, openPage, settled, show, skip, withHub } from "./harness.mjs";

/** Slots that the hub has at the start. The records have more. */
const shared = withHub(60);
const { hub } = shared;
const PACE = 5e9;

const slots = (page) =>
  page.evaluate(() => {
    const { slot, shown } = document.documentElement.dataset;
    return [Number(slot), Number(shown)];
  });

test("display_rate_holds_the_shown_slot_and_loses_none", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  await show(page, hub, "links");
  await page.selectOption(".pace", "5");
  const period = (slot) => Math.floor((slot * shared.interval) / PACE);
  const seen = new Set();
  const [first] = await slots(page);
  let held = 0;
  for (let at = first; at < first + 12; ) {
    await hub.send(1);
    const { last_slot } = await hub.json("health");
    await page.waitForFunction(
      (slot) => Number(document.documentElement.dataset.slot) >= slot,
      last_slot,
    );
    const [slot, shown] = await slots(page);
    if (shown < slot) held++;
    seen.add(shown);
    assert.ok(shown === first || period(shown) === period(slot), `${shown} of ${slot}`);
    assert.equal(await page.isVisible(".banner"), false);
    at = slot;
  }
  assert.ok(held > 3 && seen.size <= 5, `${held} ${[...seen]}`);
  // The time on the page is that of the shown slot.
  const clock = await page.evaluate((interval) => {
    const slot = Number(document.documentElement.dataset.shown);
    return new Date((slot * interval) / 1e6).toTimeString().slice(0, 8);
  }, shared.interval);
  assert.equal(await page.textContent(".live b"), "Live");
  assert.equal(await page.textContent(".live time"), clock);
  // The slots in between are there.
  await page.selectOption(".pace", "0");
  await settled(page);
  const [newest, shown] = await slots(page);
  assert.ok(newest - shown <= (isSimulated ? 0 : 1));
  for (let back = 1; back <= 6; back++) {
    await page.keyboard.press("ArrowLeft");
    await page.waitForFunction(
      (slot) => Number(document.documentElement.dataset.shown) <= slot,
      shown - back + 1,
    );
  }
  await settled(page);
  assert.match(await page.textContent(".table-row:not([hidden]) .bar-text"), /^\d/);
  assert.equal(await page.inputValue(".pace"), "paused");
  assert.deepEqual(faults, []);
});

test("display_rate_stays_when_the_page_opens_again", { skip }, async (context) => {
  const { page } = await openPage(context, shared.browser, hub);
  await show(page, hub, "overview");
  await page.selectOption(".pace", "10");
  await page.reload();
  await page.waitForFunction(() => document.documentElement.dataset.slot > 0);
  assert.equal(await page.inputValue(".pace"), "10");
  await page.selectOption(".pace", "paused");
  const [, shown] = await slots(page);
  assert.match(page.url(), /at=/);
  await hub.send(1);
  assert.equal((await slots(page))[1], shown);
  await page.click(".live");
  await page.waitForFunction(() => document.querySelector(".pace").value === "10");
});

test("events_do_not_wait_for_the_display_rate", { skip }, async (context) => {
  const { page } = await openPage(context, shared.browser, hub);
  await show(page, hub, "events");
  await page.selectOption(".pace", "10");
  const period = () => slots(page).then(([, shown]) => shown);
  let shown = await period();
  // A request for events goes out while the page still shows the same slot.
  for (;;) {
    const request = page.waitForRequest(/\/events\?/);
    await hub.send(1);
    await request;
    const now = await period();
    if (now === shown && (await slots(page))[0] > now) break;
    shown = now;
  }
});
