// The page without a mouse, without a good sight, and with wrong addresses.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { test } from "node:test";
import { build } from "esbuild";
import { openPage, settled, show, shownSlot, skip, stepBack, VIEWS, withHub } from "./harness.mjs";

const axe = skip
  ? ""
  : await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const shared = withHub(80);
const { hub } = shared;

test("keyboard_alone_reaches_views_search_rows_and_time", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  await show(page, hub, "overview");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await page.keyboard.press("5");
  await page.waitForSelector("h1:text-is('Ports')");
  const node = shared.topology.devices.find(({ kind }) => kind === "hca").node;
  await page.keyboard.press("/");
  await page.keyboard.type(node.split(" ")[0]);
  await page.waitForSelector(".hit");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".port-page, .table-row");
  await page.keyboard.press("4");
  await page.waitForSelector(".table-row");
  await page.focus(".table-body");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  assert.equal(await page.$$eval(".table-row.active", (rows) => rows.length), 1);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".port-page");
  const before = Number(await page.evaluate(() => document.documentElement.dataset.slot));
  await page.evaluate(() => document.activeElement.blur());
  await stepBack(page);
  assert.ok((await shownSlot(page)) < before);
  // The mark is drawn with the next frame.
  const mark = (text) =>
    page.waitForFunction(
      (text) => document.querySelector(".live").textContent.startsWith(text),
      text,
    );
  await mark("Paused");
  await page.keyboard.press("l");
  await mark("Live");
  assert.deepEqual(faults, []);
});

/** Returns what has the focus: where it is, and whether a person can see it. Null for nothing. */
const focused = () => {
  const element = document.activeElement;
  if (element === document.body) return null;
  const { width, top, bottom } = element.getBoundingClientRect();
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  return {
    html: element.outerHTML.slice(0, 120),
    part: element.closest("header, nav, main, footer")?.tagName,
    isVisible: width > 0 && bottom > 0 && top < innerHeight,
    isMarked: outlineStyle !== "none" && outlineWidth !== "0px",
  };
};

test("focus_is_visible_and_passes_through_all_parts_of_each_view", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  for (const view of VIEWS) {
    await page.goto("about:blank");
    await show(page, hub, view);
    const parts = new Set();
    let stop = {};
    let last = "";
    for (let tabs = 0; stop !== null; tabs++) {
      assert.ok(tabs < 300, `${view}: the focus never leaves the page`);
      await page.keyboard.press("Tab");
      stop = await page.evaluate(focused);
      if (stop === null) break;
      assert.ok(stop.isMarked, `${view}: no mark at ${stop.html}`);
      assert.ok(stop.isVisible, `${view}: ${stop.html}`);
      parts.add(stop.part);
      last = stop.html;
    }
    for (const part of ["HEADER", "NAV", "MAIN", "FOOTER"])
      assert.ok(parts.has(part), `${view}: ${part} is not reached after ${last}`);
  }
  assert.deepEqual(faults, []);
});

test("list_keeps_the_focus_when_its_items_move_and_disappear", { skip }, async (context) => {
  const { page } = await openPage(context, shared.browser, hub);
  const entryPoints = [new URL("../../src/parts/dom.ts", import.meta.url).pathname];
  const options = { entryPoints, bundle: true, format: "iife", globalName: "dom", write: false };
  const script = (await build(options)).outputFiles[0].text;
  await page.goto("about:blank");
  await page.addScriptTag({ content: script });
  const focusAfter = (...names) =>
    page.evaluate((names) => {
      const create = (name) => dom.h("div", {}, dom.h("button", {}, name));
      dom.patch(document.querySelector("main"), names, String, create, () => {});
      return document.activeElement.textContent || document.activeElement.tagName;
    }, names);
  await page.evaluate(() => document.body.append(document.createElement("main")));
  await focusAfter("a", "b", "c");
  await page.getByText("b").focus();
  assert.equal(await focusAfter("b", "c", "a"), "b");
  assert.equal(await focusAfter("c", "a", "b"), "b");
  assert.equal(await focusAfter("c", "a"), "a");
  assert.equal(await focusAfter("d", "e"), "e");
  assert.equal(await focusAfter(), "MAIN");
});

test("keyboard_alone_compares_ports", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  await show(page, hub, "ports");
  await page.focus(".table-body");
  for (const key of ["ArrowDown", " ", "ArrowDown", " "]) await page.keyboard.press(key);
  await page.waitForSelector("button:text-is('Compare 2 ports')");
  assert.equal(await page.$$eval(".table-row input:checked", (all) => all.length), 2);
  assert.deepEqual(faults, []);
});

/** Types a part of the name of a node. */
async function search(page) {
  await page.keyboard.press("/");
  await page.keyboard.type(shared.topology.ports[0].node.split(" ")[0]);
  await page.waitForSelector(".hit");
}

/** Returns the serious faults that axe-core finds on the page. */
async function accessibilityFaults(page) {
  // The policy of the page allows no inline script, and the debugger protocol is not bound by it.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() =>
    window.axe.run(document, { resultTypes: ["violations"] }),
  );
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(
      ({ id, nodes }) =>
        `${id}: ${nodes
          .slice(0, 3)
          .map(({ html }) => html.slice(0, 160))
          .join(" | ")}`,
    );
}

/** Returns the addresses of all views: with and without an item, in the past, and of nothing. */
async function addresses() {
  const port = shared.topology.ports[0];
  const key = `${port.guid}/${port.port}`;
  const [job] = (await hub.json("jobs")).rows;
  const [{ group }] = (await hub.json("groups")).rows;
  const { last_ts } = await hub.json("health");
  const before = (slots) => new Date((last_ts - slots * shared.interval) / 1e6).toISOString();
  return [
    ...VIEWS,
    `port/${key}`,
    `switch/${key.split("/")[0]}`,
    `tree/${key}`,
    `job/${job.job}`,
    `groups/${group}`,
    `overview?at=${before(5)}`,
    `links?from=${before(40)}&to=${before(5)}`,
    "links?shift=10s",
    "heatmap?shift=10s&by=host",
    `port/${key}?shift=1d`,
    "events?kind=marks",
    "nothing",
    "port/0x0000000000000000/1",
    "switch/0x0000000000000000",
    "job/none",
    "heatmap?metric=none",
  ];
}

test("views_have_no_serious_accessibility_fault", { skip }, async (context) => {
  const { page } = await openPage(context, shared.browser, hub);
  const check = async (view) => {
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      // While the hub has not answered, the earlier values are dimmed on purpose.
      await page.waitForFunction(() => {
        const main = document.querySelector("main");
        const isFull = getComputedStyle(main.firstElementChild).opacity === "1";
        return isFull && main.getAttribute("aria-busy") === "false";
      });
      assert.deepEqual(await accessibilityFaults(page), [], `${view}, ${colorScheme}`);
    }
  };
  for (const view of await addresses()) {
    await show(page, hub, view);
    await check(view);
  }
  await show(page, hub, "overview");
  await search(page);
  await check("search");
});

test("wrong_addresses_are_named", { skip }, async (context) => {
  const { page } = await openPage(context, shared.browser, hub);
  for (const [view, place, text] of [
    ["nothing", ".banner", "There is no view “nothing”"],
    ["port/0x0000000000000000/1", "main", "The hub has no such port"],
    ["switch/0x0000000000000000", "main", "The hub has no port of this switch"],
    ["job/none", "main", "The hub has no job none"],
    ["groups/none", "main", "There is no group none"],
    ["heatmap?metric=none", ".foot", "The hub has no metric none"],
  ]) {
    await show(page, hub, view);
    await page.waitForFunction(
      ([place, text]) => document.querySelector(place).textContent.includes(text),
      [place, text],
    );
  }
});

/** Returns the texts that are cut off, or that leave their card or the window. */
const brokenTexts = () => {
  const CARDS = ".panel, .card, .verdict, .table-row, .table-head, .toolbar, .nav, .top, .live";
  const found = [];
  for (const input of document.querySelectorAll("input:placeholder-shown")) {
    if (input.checkVisibility() && input.scrollWidth > input.clientWidth)
      found.push(`${input.placeholder} (input)`);
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const element = node.parentElement;
    if (node.data.trim() === "" || element.closest("svg, option, .hidden, .skip, script")) continue;
    range.selectNodeContents(node);
    const text = range.getBoundingClientRect();
    if (text.width === 0 || !element.checkVisibility({ visibilityProperty: true })) continue;
    let box = element;
    for (; box !== document.body && box.id !== "main"; box = box.parentElement) {
      const { overflowX, textOverflow } = getComputedStyle(box);
      // A reader can scroll to the rest of a text, or sees by the ellipsis that there is more.
      if (["auto", "scroll"].includes(overflowX) || textOverflow === "ellipsis") break;
      const { left, right } = box.getBoundingClientRect();
      const isOut = text.left < left - 1 || text.right > right + 1;
      if (isOut && (overflowX !== "visible" || box.matches(CARDS))) {
        found.push(`${node.data.trim().slice(0, 40)} (${box.className})`);
        break;
      }
    }
    const isFree = box === document.body || box.id === "main";
    if (isFree && text.right > innerWidth + 1)
      found.push(`${node.data.trim().slice(0, 40)} (window)`);
  }
  return found;
};

test("no_text_leaves_its_card_at_five_sizes", { skip }, async (context) => {
  for (const [width, height] of [
    [390, 844],
    [640, 400],
    [1024, 768],
    [1366, 768],
    [1920, 1080],
  ]) {
    const { page } = await openPage(context, shared.browser, hub, { viewport: { width, height } });
    const check = async (view) =>
      assert.deepEqual(await page.evaluate(brokenTexts), [], `${view} at ${width} x ${height}`);
    for (const view of await addresses()) {
      await show(page, hub, view);
      await check(view);
    }
    await search(page);
    await check("search");
    await page.keyboard.press("Escape");
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("?");
    await check("keys");
    await page.close();
  }
});

test("phone_shows_whole_sentences_and_congestion_trees", { skip }, async (context) => {
  const viewport = { width: 390, height: 844 };
  const { page, faults } = await openPage(context, shared.browser, hub, { viewport });
  for (const view of ["alerts", "events?all=all", "health"]) {
    await show(page, hub, view);
    const cut = await page.$$eval(".table-row:not([hidden]) .sentence", (cells) =>
      cells
        .map((cell) => [cell.parentElement, cell])
        .filter(
          ([row, cell]) =>
            cell.scrollHeight > cell.clientHeight + 1 ||
            cell.getBoundingClientRect().bottom > row.getBoundingClientRect().bottom,
        )
        .map(([, cell]) => cell.textContent),
    );
    assert.deepEqual(cut, [], view);
    // Lines with the same number of columns have the same edges.
    const edges = await page.$$eval(".table-head > div", (cells) => {
      const lines = new Map();
      for (const { x, y } of cells.map((cell) => cell.getBoundingClientRect()))
        lines.set(Math.round(y), [...(lines.get(Math.round(y)) ?? []), Math.round(x)]);
      return [...lines.values()];
    });
    const pairs = edges.filter(({ length }) => length === 2).map((line) => line.join());
    assert.equal(new Set(pairs).size, Math.min(1, pairs.length), `${view}: ${pairs.join(" / ")}`);
    // Rows of different heights end where the table ends.
    const body = await page.$(".table:has(.sentence) .table-body");
    if (body === null) continue;
    await body.focus();
    await page.keyboard.press("End");
    await page.waitForFunction(() => {
      const grid = document.querySelector(".table:has(.sentence) [role=grid]");
      const last = grid.querySelector(`[aria-rowindex="${grid.ariaRowCount}"]:not([hidden])`);
      if (last === null) return false;
      const bottom = (element) => element.getBoundingClientRect().bottom;
      return Math.abs(bottom(last) - bottom(grid.querySelector(".table-rows"))) < 1;
    });
  }
  const { rows } = await hub.json("trees");
  if (rows.length > 0) {
    const { guid, port } = rows[0].root;
    await show(page, hub, `tree/${guid}/${port}`);
    await page.waitForSelector(".tree svg");
    const wide = await page.$eval(".tree", (tree) => tree.scrollWidth - tree.clientWidth);
    assert.equal(wide, 0);
    assert.ok((await page.$$(".tree-box")).length > 1);
  }
  assert.deepEqual(faults, []);
});

test("phone_reaches_all_views_and_finds_a_host", { skip }, async (context) => {
  const viewport = { width: 390, height: 844 };
  const { page, faults } = await openPage(context, shared.browser, hub, { viewport });
  await show(page, hub, "overview");
  for (const [title, head] of [
    ["Links", "Upper end"],
    ["Ports", "Sends"],
    ["Events", "Subject"],
  ]) {
    await page.click(`nav [title="${title}"]`);
    await page.waitForSelector(`.table-head button:text-is("${head}")`);
    const wide = await page.evaluate(() => {
      const table = document.querySelector(".table-row") ?? document.querySelector(".table-head");
      return table.scrollWidth - table.clientWidth;
    });
    assert.ok(wide <= 1, `${title}: a row is ${wide} pixels too wide`);
  }
  const host = shared.topology.devices.find(({ kind }) => kind === "hca").node.split(" ")[0];
  await page.click("#search");
  await page.keyboard.type(host);
  await page.click(".hit");
  await page.locator("h1", { hasText: host }).waitFor();
  assert.deepEqual(faults, []);
});

/** Moves fingers over the middle of an element. Each of them has its places as shares of the width. */
async function touch(page, selector, ...fingers) {
  const box = await page.locator(selector).boundingBox();
  const session = await page.context().newCDPSession(page);
  const at = (step) =>
    fingers.map((places, id) => ({
      x: box.x + box.width * places[step],
      y: box.y + box.height / 2,
      id,
    }));
  const send = (type, touchPoints) =>
    session.send("Input.dispatchTouchEvent", { type, touchPoints });
  await send("touchStart", at(0));
  for (let step = 1; step < fingers[0].length; step++) await send("touchMove", at(step));
  await send("touchEnd", []);
  await session.detach();
}

test("two_fingers_zoom_the_time_and_one_moves_it", { skip }, async (context) => {
  const viewport = { width: 390, height: 844 };
  const { page, faults } = await openPage(context, shared.browser, hub, { viewport });
  const end = (await hub.json("health")).last_ts / 1e6;
  const address = (from, to) =>
    `heatmap?from=${new Date(end - from).toISOString()}&to=${new Date(end - to).toISOString()}`;
  await show(page, hub, address(70_000, 10_000));
  const range = async (change) => {
    const before = page.url();
    await change();
    await page.waitForFunction((before) => location.href !== before, before);
    await settled(page);
    assert.match(page.url(), /#\/heatmap/);
    const query = new URLSearchParams(page.url().split("?")[1]);
    const [from, to] = ["from", "to"].map((name) => Date.parse(query.get(name)));
    return { from, length: to - from };
  };
  // The ends of a range are those of slots, so its length can differ by one slot.
  const isOf = ({ length }, expected) =>
    assert.ok(Math.abs(length - expected) <= shared.interval / 1e6, `${length} and ${expected} ms`);
  const near = await range(() => touch(page, ".picture", [0.5, 0.45, 0.4], [0.7, 0.75, 0.8]));
  isOf(near, 30_000);
  const moved = await range(() => touch(page, ".picture", [0.5, 0.6, 0.7]));
  isOf(moved, near.length);
  assert.ok(moved.from < near.from);
  const far = await range(() => touch(page, ".picture", [0.4, 0.5], [0.8, 0.7]));
  isOf(far, 2 * moved.length);

  const oldest = (request) =>
    request.url().includes("/timeline?") && new URL(request.url()).searchParams.get("from");
  await page.goto("about:blank");
  const whole = page.waitForRequest(oldest);
  await show(page, hub, "overview");
  const live = page.url();
  const zoomed = page.waitForRequest(
    async (request) => Number(oldest(request)) > Number(oldest(await whole)),
  );
  await touch(page, ".timeline", [0.5, 0.1], [0.5, 0.9]);
  await zoomed;
  assert.equal(page.url(), live);
  assert.deepEqual(faults, []);
});

test("question_mark_lists_the_keys", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  await show(page, hub, "overview");
  await stepBack(page);
  await page.keyboard.press("?");
  await page.waitForSelector("dialog[open]");
  assert.match(await page.textContent("dialog"), /return to live/);
  assert.deepEqual(await accessibilityFaults(page), []);
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "hidden" });
  // Escape has only closed the list.
  assert.match(await page.textContent(".live"), /^Paused/);
  assert.deepEqual(faults, []);
});

test("each_size_has_the_shown_time_and_the_legend_of_the_strip", { skip }, async (context) => {
  for (const width of [390, 1024, 1366]) {
    const viewport = { width, height: 844 };
    const { page, faults } = await openPage(context, shared.browser, hub, { viewport });
    await show(page, hub, "overview");
    await stepBack(page);
    const clock = await page.evaluate((interval) => {
      const slot = Number(document.documentElement.dataset.shown);
      return new Date((slot * interval) / 1e6).toTimeString().slice(0, 8);
    }, shared.interval);
    assert.equal(await page.innerText(".live b"), "Paused");
    assert.ok(await page.isVisible(".live time"));
    assert.equal(await page.innerText(".live time"), clock);
    if (width === 390) {
      const frame = await page.$eval(".content", ({ clientHeight }) => innerHeight - clientHeight);
      assert.ok(frame <= 150, `${frame} pixels are not the view`);
      await page.click(".more");
    }
    const ranges = page.locator(".transport .choice");
    assert.match(await ranges.getAttribute("title"), /none/);
    await ranges.locator("button").first().click();
    await ranges.locator("[aria-pressed=true]").waitFor();
    assert.match(await ranges.getAttribute("title"), /10 min/);
    await page.click("[title='What the strip shows']");
    assert.match(await page.innerText("dialog[open]"), /Utilization.*Blocked share.*severe event/s);
    assert.deepEqual(await accessibilityFaults(page), []);
    assert.deepEqual(faults, []);
    await page.close();
  }
});

test("narrow_window_at_double_zoom_has_no_horizontal_scrolling", { skip }, async (context) => {
  const { page } = await openPage(context, shared.browser, hub, {
    viewport: { width: 640, height: 400 },
  });
  for (const view of ["overview", "map", "heatmap", "links", "events"]) {
    await show(page, hub, view);
    const wide = await page.evaluate(
      () => document.querySelector("main").scrollWidth - document.querySelector("main").clientWidth,
    );
    assert.ok(wide <= 1, `${view}: ${wide} pixels too wide`);
  }
});

test("admin_sees_the_audit_log_and_an_operator_does_not", { skip }, async (context) => {
  const entry = {
    at_ns: 1.8e18,
    who: "eve",
    role: "admin",
    address: "10.0.0.9",
    why: "at the vendor",
  };
  const rows = [
    { ...entry, what: "silence", about: "InfinibandHcaDead/0x0000000000000001" },
    { ...entry, what: "login_failed", who: "", about: null, why: null },
  ];
  for (const role of ["operator", "admin"]) {
    const { page, faults } = await openPage(context, shared.browser, hub);
    let requests = 0;
    await page.route("**/api/v1/whoami", (route) => route.fulfill({ json: { name: "eve", role } }));
    await page.route("**/api/v1/audit", (route) => {
      requests++;
      return route.fulfill({ json: { rows, reason: null } });
    });
    const known = page.waitForResponse("**/api/v1/whoami");
    await show(page, hub, "alerts");
    await known;
    if (role === "admin") await page.waitForSelector(".audit .table-row:has-text('login failed')");
    const text = await page.locator(".audit").innerText();
    const texts = ["eve", "InfinibandHcaDead/0x0000000000000001", "at the vendor"];
    assert.deepEqual(
      texts.map((part) => text.includes(part)),
      texts.map(() => role === "admin"),
    );
    assert.equal(requests > 0, role === "admin");
    assert.deepEqual(faults, []);
  }
});
