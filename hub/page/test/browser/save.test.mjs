// Saves each table and each picture of each view, and reads the files.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { openPage, recordsOf, show, skip, VIEWS, withHub } from "./harness.mjs";

const shared = withHub(80);
const { hub } = shared;

/** Returns the views with all items that have tables or pictures. */
async function views() {
  const { guid, port } = shared.topology.ports.find(({ kind }) => kind === "switch");
  const [job] = (await hub.json("jobs")).rows;
  return [...VIEWS, `port/${guid}/${port}`, `switch/${guid}`, `job/${job.job}`];
}

/** Clicks a button, and returns the name and the bytes of its file. */
async function saved(page, button) {
  const download = page.waitForEvent("download");
  await button.focus();
  await page.keyboard.press("Enter");
  const file = await download;
  return { name: file.suggestedFilename(), bytes: await readFile(await file.path()) };
}

test("each_table_and_each_picture_is_saved", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  const kinds = { table: 0, chart: 0, picture: 0 };
  for (const view of await views()) {
    await show(page, hub, view);
    // The page stays at this slot, so the files have what is on the screen.
    if ((await page.textContent(".live")) === "Live") await page.click(".live");
    for (const table of await page.locator(".table:visible").all()) {
      const { name, bytes } = await saved(page, table.locator(".save-button"));
      const [head, ...rows] = recordsOf(bytes.toString("utf8"));
      assert.match(name, /_\d{8}T\d{6}Z(-\d{8}T\d{6}Z)?\.csv$/, view);
      const count = Number(await table.locator("[role=grid]").getAttribute("aria-rowcount")) || 1;
      assert.equal(rows.length, count - 1, `${view}: ${name}`);
      assert.ok(head.length > 1, `${view}: ${head}`);
      for (const row of rows) assert.equal(row.length, head.length, `${view}: ${row}`);
      kinds.table++;
      const [first] = await table.locator(".table-row[aria-rowindex='2']:visible .name").all();
      if (first === undefined) continue;
      const shown = (await first.textContent()).trim();
      assert.ok(
        rows[0].some((cell) => cell.includes(shown)),
        `${view}: ${shown}: ${rows[0]}`,
      );
    }
    for (const buttons of await page.locator(".save:visible").all()) {
      const csv = await saved(page, buttons.locator("button").nth(0));
      const records = recordsOf(csv.bytes.toString("utf8"));
      assert.ok(records[0].length > 1, `${view}: ${csv.name}`);
      const { name, bytes } = await saved(page, buttons.locator("button").nth(1));
      assert.match(name, /_\d{8}T\d{6}Z(-\d{8}T\d{6}Z)?\.png$/, view);
      const picture = await page.evaluate(async (data) => {
        const image = new Image();
        image.src = `data:image/png;base64,${data}`;
        await image.decode();
        const canvas = document.createElement("canvas");
        Object.assign(canvas, { width: image.width, height: image.height });
        const pen = canvas.getContext("2d");
        pen.drawImage(image, 0, 0);
        const pixels = new Int32Array(
          pen.getImageData(0, 0, image.width, image.height).data.buffer,
        );
        return { width: image.width, height: image.height, colours: new Set(pixels).size };
      }, bytes.toString("base64"));
      const screen = await buttons.evaluate((element) => {
        let parent = element;
        const find = () =>
          [...parent.querySelectorAll("canvas")].find((each) => each.checkVisibility());
        while (find() === undefined) parent = parent.parentElement;
        return { width: find().width, height: find().height };
      });
      assert.ok(picture.width >= screen.width, `${view}: ${name} is ${picture.width} wide`);
      assert.ok(picture.height > screen.height + 30, `${view}: ${name} is ${picture.height} high`);
      assert.ok(picture.colours > 5, `${view}: ${name} is blank`);
      kinds[name.includes("Timeline") ? "chart" : "picture"]++;
    }
  }
  assert.ok(kinds.table >= 12 && kinds.picture >= 6, JSON.stringify(kinds));
  assert.deepEqual(faults, []);
});
