// Saves each table and each picture of each view, and reads the files.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openPage, recordsOf, settled, show, skip, VIEWS, withHub } from "./harness.mjs";

const shared = withHub(80);
const { hub } = shared;

/** Returns the views with all items that have tables or pictures. */
async function views() {
  const { guid, port } = shared.topology.ports.find(({ kind }) => kind === "switch");
  const [job] = (await hub.json("jobs?state=running")).rows;
  const trees = (await hub.json("trees")).rows.slice(0, 1).map(({ root }) => root);
  return [
    ...trees.map(({ guid, port }) => `tree/${guid}/${port}`),
    ...VIEWS,
    `port/${guid}/${port}`,
    `switch/${guid}`,
    `job/${job.job}`,
  ];
}

/** Pictures, and the parts of those without a canvas whose colours are values. */
const PICTURES = "canvas, .tree svg, .front, .gantt, .matrix";
const PARTS = ".tree-share, .front-lamp, .gantt-bar, .matrix i";

/**
 * Keeps the files that the page saves, because Chromium loses a download now and then if many
 * follow each other. The export of a port is a real download (page.test.mjs).
 */
const keepFiles = () => {
  const blobs = new Map();
  const { createObjectURL } = URL;
  URL.createObjectURL = (blob) => {
    const url = createObjectURL(blob);
    blobs.set(url, blob);
    return url;
  };
  window.files = [];
  HTMLAnchorElement.prototype.click = function () {
    window.files.push({ name: this.download, blob: blobs.get(this.href) });
  };
};

/** Clicks a button, and returns the name and the bytes of its file. */
async function saved(page, button) {
  await button.focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => window.files.length > 0);
  const { name, url } = await page.evaluate(async () => {
    const { name, blob } = window.files.shift();
    const reader = new FileReader();
    reader.readAsDataURL(blob);
    await new Promise((resolve) => reader.addEventListener("load", resolve));
    return { name, url: reader.result };
  });
  return { name, bytes: Buffer.from(url.slice(url.indexOf(",") + 1), "base64") };
}

test("each_table_and_each_picture_is_saved", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  await page.addInitScript(keepFiles);
  const kinds = { table: 0, chart: 0, picture: 0 };
  const names = [];
  const all = await views();
  for (const view of all) {
    await show(page, hub, view);
    // The page stays at this slot, so the files have what is on the screen.
    if ((await page.textContent(".live b")) === "Live") await page.click(".live");
    await settled(page);
    // A file has all jobs, also those that are scrolled away.
    await page.evaluate(() => {
      const jobs = document.querySelector(".job-gantt .panel-body");
      if (jobs !== null) jobs.style.maxHeight = "3rem";
    });
    // A part without rows is a line of text.
    const has = page.locator(".save-button:visible");
    for (const table of await page.locator(".table:visible", { has }).all()) {
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
        return { width: image.width, height: image.height, colours: [...new Set(pixels)] };
      }, bytes.toString("base64"));
      const screen = await buttons.evaluate(
        (element, [pictures, parts]) => {
          let parent = element;
          const find = () =>
            [...parent.querySelectorAll(pictures)].find((each) => each.checkVisibility());
          while (find() === undefined) parent = parent.parentElement;
          const found = find();
          const colours = [...found.querySelectorAll(parts)]
            .filter((part) => part.getBoundingClientRect().width > 2)
            .map((part) => getComputedStyle(part))
            .map((style) => (style.fill === "rgb(0, 0, 0)" ? style.backgroundColor : style.fill))
            .filter((colour) => colour.startsWith("rgb("));
          return found instanceof HTMLCanvasElement
            ? { width: found.width, height: found.height, colours }
            : { width: found.clientWidth, height: found.scrollHeight, colours };
        },
        [PICTURES, PARTS],
      );
      assert.ok(picture.width >= screen.width, `${view}: ${name} is ${picture.width} wide`);
      assert.ok(picture.height > screen.height + 30, `${view}: ${name} is ${picture.height} high`);
      assert.ok(picture.colours.length > 5, `${view}: ${name} is blank`);
      for (const colour of screen.colours) {
        const [red, green, blue] = colour.match(/\d+/g).map(Number);
        const pixel = (255 << 24) | (blue << 16) | (green << 8) | red;
        assert.ok(picture.colours.includes(pixel), `${view}: ${name} has no ${colour}`);
      }
      names.push(name);
      kinds[name.includes("Timeline") ? "chart" : "picture"]++;
    }
  }
  const [tree, ...others] = ["Congestion-tree", "Front-of", "Jobs-over-time", "Traffic-between"];
  for (const title of all[0].startsWith("tree/") ? [tree, ...others] : others)
    assert.ok(
      names.some((name) => name.includes(title)),
      `${title} in ${names}`,
    );
  assert.ok(kinds.table >= 12 && kinds.picture >= 6, JSON.stringify(kinds));
  assert.deepEqual(faults, []);
});
