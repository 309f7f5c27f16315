import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import {
  isSimulated,
  openPage,
  pictures,
  recordsOf,
  settled,
  show,
  shownSlot,
  skip,
  stepBack,
  VIEWS,
  withHub,
} from "./harness.mjs";

/** Slots that the hub has at the start. The records have more. */
const SLOTS = 80;
const shared = withHub(SLOTS);
const { hub } = shared;

/** Returns the share of a text such as `12.3 %`, and half a unit of its last digit. */
function parseShare(text) {
  const number = text.replace(/[^0-9.]/g, "");
  const digits = number.includes(".") ? number.split(".")[1].length : 0;
  return { share: Number(number) / 100, tolerance: (0.51 * 10 ** -digits) / 100 };
}

test("every_view_opens_without_faults_and_its_picture_is_kept", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  for (const view of VIEWS) {
    await show(page, hub, view);
    await page.screenshot({ path: `${pictures}/${view.replaceAll(/[^a-z]+/g, "-")}.png` });
    assert.deepEqual(faults, [], view);
    assert.ok((await page.textContent("main")).length > 0, view);
  }
});

test("answer_has_the_content_policy", { skip }, async () => {
  const response = await fetch(hub.url);
  const policy = response.headers.get("content-security-policy");
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe/);
});

/** Sends a slot, and waits until the page has it. Returns the newest slot of the hub. */
async function sendNext(page) {
  await hub.send(1);
  const { last_slot } = await hub.json("health");
  await page.waitForFunction(
    (slot) => Number(document.documentElement.dataset.slot) >= slot,
    last_slot,
  );
  await settled(page);
  return last_slot;
}

/** Compares the values in a table of ports with the records of the shown slot. */
async function compareWithRecords(page) {
  const slot = await shownSlot(page);
  const rows = await page.$$eval(".table-row:not([hidden])", (elements) =>
    elements.map((row) => ({
      key: row.dataset.id,
      text: row.querySelectorAll("[role=gridcell]")[5].textContent,
    })),
  );
  assert.ok(rows.length > 3);
  let compared = 0;
  for (const { key, text } of rows.slice(0, 12)) {
    const value = await hub.value(key, "xmit_utilization", slot, shared.interval);
    // A dead host has no value.
    assert.equal(/^\d/.test(text), typeof value === "number", `${key}: ${text}, record ${value}`);
    if (typeof value !== "number") continue;
    const { share, tolerance } = parseShare(text);
    // A frame has steps of 1/64000.
    const difference = Math.abs(share - Math.min(1, value));
    assert.ok(difference <= tolerance + 1 / 64000, `${key}: ${text}, record ${value}`);
    compared++;
  }
  assert.ok(compared > 3);
}

test("value_on_the_page_equals_the_value_of_the_interface", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  const ports = shared.topology.ports.filter(({ kind }) => kind === "switch").slice(0, 40);
  await show(page, hub, `ports?q=${ports[0].node}&sort=port&order=up`);
  if (isSimulated) {
    // The page has this slot from the stream. The generated fabric would go on meanwhile.
    await sendNext(page);
    await compareWithRecords(page);
    assert.equal(await shownSlot(page), (await hub.json("health")).last_slot);
  }
  await stepBack(page);
  await compareWithRecords(page);
  assert.deepEqual(faults, []);
});

test("page_of_a_port_shows_the_counters_of_its_last_record", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  const port = shared.topology.ports.find(
    ({ kind, sampler }) => kind === "switch" && sampler !== null,
  );
  const key = `${port.guid}/${port.port}`;
  await show(page, hub, `port/${key}`);
  await page.waitForSelector(".counter");
  const detail = await hub.json(`port/${key}`);
  const shown = await page.$$eval(".counter", (rows) =>
    rows.map((row) => row.querySelector("label").textContent),
  );
  assert.deepEqual(
    shown.sort(),
    Object.keys(detail.counters)
      .map((name) => name.replaceAll("_", " "))
      .sort(),
  );
  assert.equal(await page.textContent("h1"), `${port.node} / ${port.port}`);
  const fact = (name) => page.textContent(`.facts dt:text-is("${name}") + dd`);
  const { mtu, vls } = detail.port_info;
  assert.ok(mtu > 0 && vls > 1, JSON.stringify(detail.port_info));
  assert.deepEqual(
    [await fact("MTU"), await fact("Data VLs")],
    [`${mtu} bytes`, `${vls} (VL0 to VL${vls - 1})`],
  );
  const { limits } = detail.port_info;
  assert.ok(limits.vl_cap > 1, JSON.stringify(limits));
  assert.deepEqual(
    [await fact("MTU of the port (MTUCap)"), await fact("VLStallCount"), await fact("Wrong keys")],
    [`${limits.mtu_cap} bytes`, `${limits.vl_stall_count} packets`, "none counted"],
  );
  assert.deepEqual(faults, []);
  await page.screenshot({ path: `${pictures}/port.png` });
});

const live = isSimulated ? skip : "SKIPPED: the generated fabric has no records";
test("a_switch_shows_the_verdicts_that_name_its_neighbours", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  const { devices } = shared.topology;
  const switches = devices.filter(({ kind }) => kind === "switch").map(({ guid }) => guid);
  const { rows } = await hub.json("links/health?top=0");
  const { peer } = rows.find((row) => switches.includes(row.peer?.guid));
  const ofNeighbours = rows.filter((row) => row.peer?.guid === peer.guid);
  await show(page, hub, `switch/${peer.guid}`);
  // A port with faults shows these instead.
  await page.waitForFunction(
    (verdicts) =>
      [...document.querySelectorAll(".switch-ports .table-row")].some(
        ({ firstElementChild, lastElementChild }) =>
          lastElementChild.textContent.startsWith(verdicts[firstElementChild.textContent] ?? "?"),
      ),
    Object.fromEntries(ofNeighbours.map((row) => [row.peer.port, row.verdict])),
  );
  assert.deepEqual(faults, []);
});

test("two_clicks_lead_to_the_worst_port_of_the_fullest_switch", { skip: live }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  await show(page, hub, "overview");
  await page.waitForSelector("#figure-leaf[href*='switch/']");
  await page.click("#figure-leaf");
  await page.waitForSelector(".front-port:not(.unread)");
  const guid = decodeURIComponent(page.url().split("switch/")[1].split("?")[0]);
  const { devices, ports } = shared.topology;
  const { node } = devices.find((device) => device.guid === guid);
  assert.equal(await page.textContent("h1"), `Switch ${node}`);
  const own = ports.filter((port) => port.guid === guid).map(({ port }) => port);
  const shown = await page.$$eval(".front-port:not(.unread) .front-number", (numbers) =>
    numbers.map(({ textContent }) => Number(textContent)),
  );
  assert.deepEqual(
    shown,
    own.sort((x, y) => x - y),
  );
  await page.screenshot({ path: `${pictures}/switch.png` });
  const worst = await page.textContent("#worst-port");
  const number = Number(/port: (\d+)/.exec(worst)[1]);
  await page.click("#worst-port");
  await page.waitForFunction(
    (text) => document.querySelector("h1")?.textContent === text,
    `${node} / ${number}`,
  );
  // It is the one that waits most, or else the fullest.
  const rows = (await hub.json(`ports?limit=5000`)).rows.filter((row) => row.guid === guid);
  const blocked = Math.max(...rows.map(({ xmit_blocked }) => xmit_blocked ?? 0));
  const found = rows.find(({ port }) => port === number);
  if (worst.includes("blocked") && blocked > 0.1)
    assert.ok(found.xmit_blocked > blocked - 0.01, `${worst}, most blocked: ${blocked}`);
  assert.deepEqual(faults, []);
});

test("map_shows_the_path_of_two_hosts", { skip: live }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  const hosts = shared.topology.devices.filter(({ kind }) => kind === "hca");
  const [sender, receiver] = [hosts[0], hosts[hosts.length - 1]].map(
    ({ node }) => node.split(" ")[0],
  );
  await show(page, hub, "map");
  await page.click("#path-button");
  for (const [label, name] of [
    ["Sending host", sender],
    ["Receiving host", receiver],
  ]) {
    await page.fill(`[aria-label="${label}"]`, name);
    await page.keyboard.press("Enter");
  }
  await page.waitForFunction((name) => location.hash.includes(`b=${name}`), receiver);
  await page.waitForSelector(".path-panel .table-row:not([hidden]) a");
  const answer = await hub.json(`path?sender=${sender}&receiver=${receiver}`);
  assert.equal(answer.reason, null);
  const links = [...answer.rows, ...answer.back].map(({ from, to }) =>
    [from, to].map(({ node, port }) => `${node} / ${port}`),
  );
  const shown = await page.$$eval(".path-panel .table-row:not([hidden])", (rows) =>
    rows.map((row) => [1, 2].map((cell) => row.children[cell].textContent)),
  );
  assert.deepEqual(shown, links);
  assert.ok(answer.rows.length >= 3, "the hosts have different switches");
  // The links follow each other from the sender to the receiver.
  answer.rows.slice(1).forEach(({ from }, index) => {
    assert.equal(from.guid, answer.rows[index].to.guid);
  });
  assert.deepEqual(faults, []);
  await page.screenshot({ path: `${pictures}/path.png` });
});

test("compared_ports_are_in_one_chart_and_in_the_export", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  const node = shared.topology.ports.find(
    ({ kind, sampler }) => kind === "switch" && sampler !== null,
  ).node;
  await show(page, hub, `ports?q=${node}&sort=port&order=up`);
  const keys = await page.$$eval(".table-row:not([hidden])", (rows) =>
    rows.slice(0, 3).map((row) => row.dataset.id),
  );
  assert.equal(keys.length, 3);
  for (const key of keys) await page.click(`.table-row[data-id="${key}"] input`);
  await page.click("text=Compare 3 ports");
  await page.waitForFunction(
    () => document.querySelectorAll(".charts .chart:first-child .u-legend .u-series").length === 4,
  );
  assert.match(page.url(), new RegExp(`with=${keys[1]}`));
  const names = await page.$$eval(".charts .chart:first-child .u-legend .u-label", (labels) =>
    labels.slice(1).map((label) => label.textContent),
  );
  const expected = keys.map((key) => {
    const port = shared.topology.ports.find(({ guid, port }) => `${guid}/${port}` === key);
    return `${port.node} / ${port.port}`;
  });
  assert.deepEqual(names, expected);
  await page.screenshot({ path: `${pictures}/compared.png` });
  await stepBack(page);
  const download = page.waitForEvent("download");
  await page.click('[aria-label="Save Utilization of each sending end as CSV"]');
  const [head, ...exported] = recordsOf(await readFile(await (await download).path(), "utf8"));
  assert.deepEqual(head.slice(0, 2), ["Time (UTC)", "Time (ns)"]);
  for (const name of expected) assert.ok(head.includes(`${name} (share)`), head.join());
  const column = head.indexOf(`${expected[0]} (share)`);
  const rows = exported.filter((cells) => cells[column] !== "");
  assert.ok(rows.length > 1, "the export has values");
  const last = rows[rows.length - 2];
  const slot = Math.floor(Number(last[1]) / shared.interval);
  const value = await hub.value(keys[0], "xmit_utilization", slot, shared.interval);
  assert.ok(Math.abs(Number(last[column]) - value) < 1e-6, `${last[column]} and ${value}`);
  assert.deepEqual(faults, []);
});

/** Returns the tables that have more rows than room, and those whose last visible row is cut. */
const tablesWithMore = () => {
  const bodies = [...document.querySelectorAll(".table-body")].filter(
    (body) => body.scrollHeight > body.clientHeight + 2 && body.clientHeight > 0,
  );
  const isCut = (body) => {
    const { bottom } = body.getBoundingClientRect();
    return [...body.querySelectorAll(".table-row:not([hidden])")].some((row) => {
      const box = row.getBoundingClientRect();
      return box.top < bottom - 1 && box.bottom > bottom + 1;
    });
  };
  const name = (body) => body.getAttribute("aria-label");
  return { all: bodies.map(name), cut: bodies.filter(isCut).map(name) };
};

test("table_with_more_rows_than_room_ends_with_a_whole_row", { skip }, async (context) => {
  const { rows } = await hub.json("jobs");
  for (const [width, height] of [
    [390, 844],
    [1366, 768],
    [1920, 1080],
  ]) {
    const { page } = await openPage(context, shared.browser, hub, { viewport: { width, height } });
    for (const view of ["ports", "links", "health", "events", `job/${rows[0].job}`]) {
      await show(page, hub, view);
      const { all, cut } = await page.evaluate(tablesWithMore);
      assert.deepEqual(cut, [], `${view} at ${width} x ${height}`);
      if (view === "ports") assert.equal(all.length, 1);
    }
    await page.close();
  }
});

test("job_that_nothing_held_up_has_a_line_of_text_and_no_table", { skip }, async (context) => {
  const { page } = await openPage(context, shared.browser, hub);
  const { rows } = await hub.json("jobs");
  await page.route("**/api/v1/job/*", async (route) => {
    const answer = await (await route.fetch()).json();
    const [links_from_ns, links_to_ns] = [1, 2];
    await route.fulfill({ json: { ...answer, trees: [], links_from_ns, links_to_ns } });
  });
  await show(page, hub, `job/${rows[0].job}`);
  const part = page.locator(".job-part", { has: page.locator("h2:text-is('Held up by')") });
  assert.equal(
    await part.locator(".empty").innerText(),
    "Nothing: no node of the job waited in a congestion tree.",
  );
  // The head is for screen readers only.
  const clip = (head) => getComputedStyle(head).clipPath;
  assert.equal(await part.locator(".table-top").evaluate(clip), "inset(50%)");
});

test("job_page_shows_its_traffic_and_marks_its_nodes", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  await hub.until(async () =>
    (await hub.json("jobs?state=running")).rows.some(({ injected_bytes }) => injected_bytes > 0),
  );
  const { rows } = await hub.json("jobs?state=running");
  const row = rows.find(({ injected_bytes }) => injected_bytes > 0);
  await show(page, hub, "jobs?state=running");
  await page.waitForSelector(`.table-row:not([hidden]) .name:text-is("${row.job}")`);
  await show(page, hub, `job/${row.job}`);
  await page.waitForSelector(".figure b");
  assert.ok((await page.textContent("h1")).startsWith(`Job ${row.job}`));
  const figures = await page.$$eval(".figure b", (all) =>
    all.map(({ textContent }) => textContent),
  );
  assert.equal(figures[0], String(row.node_count));
  const { hosts } = await hub.json(`job/${row.job}`);
  assert.ok(
    hosts.some(({ host }) => host === figures.at(-1)),
    figures.at(-1),
  );
  assert.deepEqual(
    await page.$$eval(".job-part h2", (all) => all.map((each) => each.textContent)),
    [
      "Held up by",
      "Neighbours on the same links",
      "Links between switches",
      "Jobs over time",
      "Traffic between nodes",
      "Largest pairs",
      "Phases of the application",
      "Nodes",
    ],
  );
  // One bar for the job, and one for each job at its leaf switches.
  const { neighbours } = await hub.json(`job/${row.job}`);
  const bars = await page.$$eval(".gantt-line .name", (all) =>
    all.map(({ textContent }) => textContent.split(" ")[0]),
  );
  assert.equal(bars[0], row.job);
  assert.equal(bars.length, 1 + Math.min(24, neighbours.length));
  await page.screenshot({ path: `${pictures}/job.png` });
  await page.click("text=Nodes on the map");
  await page.waitForFunction(
    (text) => document.querySelector(".chip:not([hidden])")?.textContent.startsWith(text),
    `Job ${row.job}: ${row.node_count} node`,
  );
  await show(page, hub, `heatmap?by=host&job=${row.job}`);
  await page.waitForFunction((most) => {
    const hosts = /^(\d+) host/.exec(document.querySelector(".foot > :last-child").textContent);
    return hosts !== null && Number(hosts[1]) > 0 && Number(hosts[1]) <= most;
  }, row.node_count);
  assert.deepEqual(faults, []);
});

test("job_page_estimates_the_traffic_between_nodes_or_names_the_missing_key", {
  skip,
}, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  await hub.until(async () => (await hub.json("jobs?state=running")).rows.length > 0);
  const [{ job }] = (await hub.json("jobs?state=running")).rows;
  const { matrix } = await hub.json(`job/${job}/matrix`);
  await show(page, hub, `job/${job}`);
  await page.waitForSelector(".job-matrix:not([hidden]) ~ .panel .table-row:not([hidden])");
  const cells = await page.$$eval(
    ".job-matrix + .panel .table-row:not([hidden]):first-child > *",
    (all) => all.map(({ textContent }) => textContent),
  );
  const [{ from, to, estimate_bytes }] = matrix.cells;
  assert.deepEqual(cells.slice(0, 2), [from, to]);
  const { octets, tolerance } = parseOctets(cells[3]);
  assert.ok(Math.abs(octets - estimate_bytes) <= tolerance, `${cells[3]}: ${estimate_bytes}`);
  assert.match(await page.textContent(".matrix-worth"), /Port counters have no destinations/);
  const titles = await page.$$eval(".matrix i", (all) => all.map(({ title }) => title));
  const ends = new Set(matrix.cells.flatMap(({ from, to }) => [from, to])).size;
  assert.equal(titles.length, ends * (ends - 1));
  assert.ok(titles.some((title) => title.startsWith(`${from} to ${to}: ${cells[3]} (`)));
  /** Returns how many cells show their number, after a check that it fits. */
  const numbers = async () => {
    const shown = await page.$$eval(".matrix i > b", (all) =>
      all
        .filter(({ offsetWidth }) => offsetWidth > 0)
        .map((b) => [b.offsetWidth <= b.parentElement.offsetWidth, b.textContent]),
    );
    assert.deepEqual(
      shown.filter(([fits]) => !fits),
      [],
    );
    return shown.length;
  };
  await page.setViewportSize({ width: 1366, height: 900 });
  assert.equal(await numbers(), ends <= 20 ? ends * (ends - 1) : 0);
  // A phone has a view of its own, which asks the hub again.
  await page.setViewportSize({ width: 320, height: 900 });
  await page.waitForSelector(
    ".job-matrix:not([hidden]) ~ .panel .in-lines .table-row:not([hidden])",
  );
  await page.waitForSelector(".matrix i", { state: "attached" });
  await numbers();
  await page.route("**/matrix*", (route) =>
    route.fulfill({
      json: { from_ns: 0, to_ns: 0, ends: "hosts", matrix: null, reason: "set the key routes" },
    }),
  );
  await page.reload();
  await page.waitForSelector("text=There is no estimate: set the key routes.");
  assert.equal(await page.isVisible(".job-matrix"), false);
  assert.deepEqual(faults, []);
});

test("marks_of_an_application_are_on_heat_maps_and_jobs", {
  skip: skip || (isSimulated ? false : "the generated fabric has no marks"),
}, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  await show(page, hub, "heatmap");
  const { rows } = await hub.json("marks");
  assert.deepEqual(
    rows.map(({ name }) => name),
    ["compute", "write"],
  );
  const box = await page.locator(".picture").boundingBox();
  await page.mouse.move(box.x + 0.9 * box.width, box.y + box.height / 2);
  await page.waitForFunction(() =>
    document.querySelector(".tip:not([hidden])")?.textContent.includes("Markswrite"),
  );
  const { rows: jobs } = await hub.json("jobs?state=running");
  await show(page, hub, `job/${jobs[0].job}`);
  await page.waitForSelector(".job-phases:not([hidden]) .table-row:not([hidden])");
  assert.match(await page.textContent(".job-phases .table-rows"), /write/);
  await page.screenshot({ path: `${pictures}/marks.png`, fullPage: true });
  assert.deepEqual(faults, []);
});

/** Returns the key of a switch port whose link has records at both ends. */
function linkedPort() {
  const { ports } = shared.topology;
  const { guid, port } = ports.find(
    ({ kind, sampler, peer }) =>
      kind === "switch" && sampler !== null && peer !== null && ports[peer].kind === "hca",
  );
  return `${guid}/${port}`;
}

test("mark_that_a_user_posts_is_on_the_page_of_a_port", { skip: live }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  const { last_slot } = await hub.json("health");
  const post = async (path, body, token = "0123456789abcdef") => {
    const headers = { "ibnet-token": token };
    const post = { method: "POST", headers, body: JSON.stringify(body) };
    return fetch(`${hub.url}/api/v1/${path}`, post);
  };
  const mark = { name: "deploy <b>1.2</b>", start_ns: (last_slot - 20) * 1e9 };
  assert.equal((await post("marks", mark, "no token of a user")).status, 403);
  const { id } = await (await post("marks", mark)).json();
  await show(page, hub, "events?kind=marks");
  const row = page.locator("[aria-label='Marks'] .table-row", { hasText: mark.name });
  await row.waitFor();
  assert.match(await row.textContent(), /a momentdeploy <b>1.2<\/b>userada–all$/);
  await page.getByRole("button", { name: /^Marks [2-9]/ }).waitFor();
  await page.screenshot({ path: `${pictures}/marks-list.png` });

  await show(page, hub, `port/${linkedPort()}`);
  const flag = page.locator(".charts .chart:first-child .mark-flag[aria-label^='deploy']");
  await flag.waitFor();
  // It is where the time is: the charts show five minutes.
  const over = await page.locator(".charts .chart:first-child .u-over").boundingBox();
  const { x, width } = await flag.boundingBox();
  const expected = over.x + over.width * (1 - 20 / 300);
  assert.ok(Math.abs(x + width / 2 - expected) < 3, `${x} and ${expected}`);
  await flag.focus();
  assert.match(await flag.getAttribute("aria-label"), /^deploy <b>1.2<\/b> \(ada\), .* a moment$/);
  const label = await flag.evaluate((flag) => getComputedStyle(flag, "::after").content);
  assert.match(label, /^"deploy <b>1.2/);
  await page.screenshot({ path: `${pictures}/mark.png` });

  assert.equal((await post("marks/remove", { id })).status, 200);
  await show(page, hub, "events?kind=marks");
  await page.waitForSelector("[aria-label='Marks'] .table-row");
  assert.equal(await row.count(), 0);
  assert.deepEqual(faults, []);
});

test("earlier_values_are_beside_those_of_now", { skip: live }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  const key = linkedPort();
  const { last_slot } = await hub.json("health");
  const SHIFT = 20;
  await show(page, hub, `port/${key}`);
  await page.selectOption("[aria-label='Compare with']", "own");
  await page.fill("[aria-label^='How much earlier']", `${SHIFT}s`);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.includes("shift=20s"));
  const chart = ".charts .chart:first-child";
  await page.waitForFunction(
    (chart) => document.querySelectorAll(`${chart} .u-series`).length === 5,
    chart,
  );
  await settled(page);
  const over = await page.locator(`${chart} .u-over`).boundingBox();
  await page.mouse.move(over.x + over.width * (1 - 10 / 300), over.y + over.height / 2);
  const [time, own, , earlier] = await page.$$eval(`${chart} .u-series`, (all) =>
    all.map((row) => ["label", "value"].map((part) => row.querySelector(`.u-${part}`).textContent)),
  );
  assert.match(earlier[0], /, 20.0\ss earlier$/u);
  const clocks = await page.evaluate(
    ([first, count]) =>
      Array.from({ length: count }, (_, slot) =>
        new Date(1000 * (first + slot)).toTimeString().slice(0, 8),
      ),
    [last_slot - SLOTS, SLOTS + 1],
  );
  const [now, before] = time[1].split(" and ").map((text) => {
    const place = clocks.findIndex((clock) => text.endsWith(clock));
    return place < 0 ? text : last_slot - SLOTS + place;
  });
  assert.equal(before, now - SHIFT, time[1]);
  const [x, y] = await Promise.all(
    [now, before].map((slot) => hub.value(key, "xmit_utilization", slot, shared.interval)),
  );
  assert.ok(x !== null && y !== null);
  const [, shown, difference] = /^(.*%) \(now ([+−].*)\spoints/u.exec(earlier[1]);
  for (const [text, value] of [
    [own[1], x],
    [shown, y],
    [difference, Math.abs(x - y)],
  ]) {
    const { share, tolerance } = parseShare(text);
    assert.ok(Math.abs(share - value) <= tolerance, `${text} and ${value}`);
  }
  assert.equal(difference.startsWith("−"), x < y);
  await page.screenshot({ path: `${pictures}/shift-port.png` });

  // The difference of a heat map is that of the values that its tip shows.
  await show(page, hub, "heatmap?shift=20s&by=link");
  const box = await page.locator(".picture").boundingBox();
  await page.mouse.move(box.x + 0.9 * box.width, box.y + 0.3 * box.height);
  await page.waitForSelector(".tip:not([hidden]) >> text=Change");
  const tip = await page.$$eval(".tip .tip-line", (lines) =>
    Object.fromEntries(lines.map((line) => [...line.children].map((part) => part.textContent))),
  );
  const [of, at] = [tip["Utilization, sending"], tip["20.0\u00a0s earlier"]].map(parseShare);
  const change = parseShare(tip.Change);
  const sign = tip.Change.startsWith("−") ? -1 : 1;
  const error = Math.abs(of.share - at.share - sign * change.share);
  assert.ok(
    error <= of.tolerance + at.tolerance + change.tolerance + 2 / 64_000,
    JSON.stringify(tip),
  );
  await page.screenshot({ path: `${pictures}/shift-heatmap.png` });

  // The means of a link are those of its records in the last whole minute.
  await show(page, hub, "links?shift=10s");
  const rows = page.locator("[aria-label='Links'] .table-row:not([hidden])");
  await page.waitForFunction(() => /[+−±]/.test(document.querySelector(".table-row").textContent));
  const link = await rows.first().evaluate((row) => ({
    key: row.dataset.id,
    cells: [...row.children].map(({ textContent }) => textContent),
  }));
  const to = Math.floor(last_slot / 60) * 60;
  const { peer } = shared.topology.ports.find(({ guid, port }) => `${guid}/${port}` === link.key);
  const other = shared.topology.ports[peer];
  const mean = async (shift) => {
    const range = `from=${(to - 59 - shift) * 1e9}&to=${(to + 1 - shift) * 1e9}`;
    const ports = `port=${link.key}&port=${other.guid}/${other.port}`;
    const { series } = await hub.json(`series?${ports}&metric=xmit_utilization&${range}`);
    const means = series.map(({ v }) => {
      const known = v.filter((value) => value !== null);
      return known.reduce((sum, value) => sum + value, 0) / known.length;
    });
    return Math.max(...means);
  };
  const [use, was] = [await mean(0), await mean(10)];
  const cells = link.cells.slice(3, 6);
  for (const [text, value] of [
    [cells[0], use],
    [cells[1], was],
    [cells[2], Math.abs(use - was)],
  ]) {
    const { share, tolerance } = parseShare(text);
    // Slots of one port differ a little in length.
    assert.ok(Math.abs(share - value) <= tolerance + 0.002, `${text} and ${value}: ${cells}`);
  }
  await page.screenshot({ path: `${pictures}/shift-links.png` });

  // What the hub does not keep is named, and nothing is drawn as zero.
  await show(page, hub, `port/${key}?shift=7d`);
  await page.waitForSelector("text=/before: the hub holds only \\d+ minutes?/");
  await show(page, hub, "links?shift=7d");
  await page.waitForSelector("text=/before: the hub holds only \\d+ minutes?/");
  const text = await rows.first().textContent();
  assert.match(text, /no data–/, text);
  assert.deepEqual(faults, []);
});

/**
 * Returns bounds of the octets that a port received between two times, from the rates of its
 * records. The time of a record is that of its last reply, and a rate describes the time between two
 * readings. So at both ends one more interval is in doubt.
 */
async function octetsReceived(port, from, to) {
  const range = `from=${from - 5 * shared.interval}&to=${to + 5 * shared.interval}`;
  const { series } = await hub.json(`series?port=${port}&metric=rcv_gbps&${range}`);
  const { t, v } = series[0];
  let [least, most] = [0, 0];
  for (let place = 1; place < t.length; place++) {
    const octets = ((t[place] - t[place - 1]) * (v[place] ?? 0)) / 8;
    if (t[place - 1] > from + shared.interval && t[place] < to - shared.interval) least += octets;
    if (t[place] > from - shared.interval && t[place - 1] < to + shared.interval) most += octets;
  }
  return { least, most };
}

/** Parses a text such as `1.23 TB`, with half a unit of its last digit. */
function parseOctets(text) {
  const [, number, prefix] = /^([\d.]+)\s([kMGT]?)B$/u.exec(text);
  const factor = 1000 ** " kMGT".indexOf(prefix || " ");
  const digits = number.includes(".") ? number.split(".")[1].length : 0;
  return { octets: Number(number) * factor, tolerance: 0.51 * 10 ** -digits * factor };
}

test("group_page_shows_the_octets_of_the_records_and_selects_its_hosts", {
  skip,
}, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  // The generated fabric has just started.
  const { kept } = await hub.json("health");
  await hub.until(
    async () => (await hub.json("health")).last_ts > kept.from_ns + 35 * shared.interval,
  );
  const [{ group, nodes }] = (await hub.json("groups")).rows;
  const to = Math.floor((await hub.json("health")).last_ts / shared.interval - 3) * shared.interval;
  const from = to - 30 * shared.interval;
  const iso = (time) => new Date(time / 1e6).toISOString();
  await show(page, hub, `groups/${group}?from=${iso(from)}&to=${iso(to)}`);
  await page.waitForSelector(".group-figures b");
  const figures = await page.$$eval(".group-figures b", (all) => all.map((b) => b.textContent));
  const detail = await hub.json(`group/${group}?from=${from}&to=${to}`);
  assert.equal(figures[0], String(detail.targets.length));
  for (const [text, octets] of [
    [figures[1], detail.in_bytes],
    [figures[2], detail.out_bytes],
  ]) {
    const shown = parseOctets(text);
    assert.ok(Math.abs(shown.octets - octets) <= shown.tolerance, `${text}, hub ${octets}`);
  }
  if (isSimulated) {
    // The first topology of a hub can lack the ports of a sampler that started later.
    const { ports } = await hub.json("topology");
    const own = ports.filter(
      ({ kind, node }) => kind === "hca" && nodes.includes(node.split(" ")[0]),
    );
    let [least, most] = [0, 0];
    for (const { guid, port } of own) {
      const octets = await octetsReceived(`${guid}/${port}`, from, to);
      least += octets.least;
      most += octets.most;
    }
    const shown = parseOctets(figures[1]).octets;
    assert.ok(least > 0 && own.length >= nodes.length);
    assert.ok(least <= shown && shown <= most, `${figures[1]}, not from ${least} to ${most}`);
  }
  const hosts = await page.$$eval(
    '[aria-label="Hosts of the group"] .table-row:not([hidden])',
    (rows) => rows.map(({ dataset }) => dataset.id),
  );
  const expected = detail.targets.map(({ host }) => host);
  assert.deepEqual(hosts, expected.slice(0, hosts.length));
  assert.ok(hosts.length > 0);
  await page.screenshot({ path: `${pictures}/group.png` });
  await page.click("text=Heat map of its hosts");
  await page.waitForFunction(
    (count) =>
      document.querySelector(".foot > :last-child")?.textContent.startsWith(`${count} host`),
    nodes.length,
  );
  await page.click('nav [title="Map"]');
  await page.selectOption('[aria-label="Group of hosts"]', group);
  assert.match(page.url(), new RegExp(`#/map\\?.*group=${group}`));
  assert.deepEqual(faults, []);
});

test("events_name_the_subnet_manager_or_say_why_not", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  await show(page, hub, "events?kind=sm");
  const { rows } = await hub.json("sm");
  const expected = rows.length === 0 ? "no event of the samplers has named it" : rows[0].node;
  await page.locator(".manager-text", { hasText: expected }).waitFor();
  assert.deepEqual(faults, []);
});

test("live_page_shows_each_slot_that_the_hub_receives", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  await show(page, hub, "overview");
  await page.evaluate(() => {
    const slots = [];
    new MutationObserver(() => slots.push(document.documentElement.dataset.slot)).observe(
      document.documentElement,
      { attributeFilter: ["data-slot"] },
    );
    window.slots = slots;
  });
  let { last_slot } = await hub.json("health");
  for (let round = 0; round < 3; round++) {
    const now = await sendNext(page);
    assert.ok(now > last_slot);
    last_slot = now;
    if (isSimulated) assert.equal(await shownSlot(page), last_slot);
  }
  const slots = (await page.evaluate(() => window.slots)).map(Number);
  assert.deepEqual(
    slots,
    [...slots].sort((x, y) => x - y),
    "the time of the page goes forward",
  );
  assert.deepEqual(faults, []);
});

test("url_opens_the_same_view_again", { skip }, async (context) => {
  const { page } = await openPage(context, shared.browser, hub);
  await show(page, hub, "heatmap?metric=xmit_blocked&by=switch&agg=mean");
  await stepBack(page);
  const url = page.url();
  const at = Date.parse(/[?&]at=([^&]*)/.exec(url)[1]);
  const slot = Math.round((at * 1e6) / shared.interval);
  const other = await openPage(context, shared.browser, hub);
  await other.page.goto(url);
  await other.page.waitForSelector(".toolbar select");
  for (const each of [page, other.page]) {
    await each.waitForFunction(
      (slot) => document.documentElement.dataset.shown === String(slot),
      slot,
    );
  }
  assert.equal(await other.page.$eval(".toolbar select", (select) => select.value), "xmit_blocked");
  const pressed = await other.page.$$eval('[aria-pressed="true"]', (all) =>
    all.map((each) => each.textContent),
  );
  assert.ok(pressed.includes("Switches") && pressed.includes("mean"), pressed.join());
});

/** Holds back the answers to some requests until the function that it returns is called. */
async function hold(page, path) {
  let release;
  const held = new Promise((resolve) => {
    release = resolve;
  });
  await page.route(path, async (route) => {
    await held;
    await route.continue();
  });
  return release;
}

test("page_that_connects_is_neither_live_nor_in_alarm", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  const release = await hold(page, "**/api/v1/topology");
  await page.goto(`${hub.url}/#/overview`);
  await page.locator(".mark", { hasText: "connecting" }).waitFor();
  assert.equal(await page.textContent(".live"), "Connecting");
  assert.equal(await page.$(".mark.bad"), null);
  assert.equal(await page.isVisible(".banner"), false);
  release();
  await page.locator(".live.on", { hasText: "Live" }).waitFor();
  assert.deepEqual(faults, []);
});

test("earlier_values_stay_until_the_hub_has_answered", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  await show(page, hub, "links");
  const release = await hold(page, "**/api/v1/heat*");
  await page.click('[aria-label="Time range"] button:text-is("10 min")');
  await page.waitForSelector("main[aria-busy=true]");
  // A row below the visible ones is drawn when it scrolls into view.
  const cells = await page.$$eval(".table-row:not([hidden]) .bar-text", (all) => {
    const { bottom } = document.querySelector(".table-body").getBoundingClientRect();
    return all
      .filter((cell) => cell.getBoundingClientRect().top < bottom)
      .map(({ textContent }) => textContent);
  });
  assert.ok(cells.filter((text) => /^\d/.test(text)).length > 3, cells.join());
  assert.ok(!cells.includes("no data"), cells.join());
  release();
  await page.waitForSelector("main[aria-busy=false]");
  assert.deepEqual(faults, []);
});

test("heat_map_says_that_it_loads_beside_its_axes", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  await page.addInitScript(() => {
    const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.clearRect = function (...area) {
      this.canvas.texts = [];
      clearRect.apply(this, area);
    };
    CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
      this.canvas.texts?.push(text);
      fillText.call(this, text, ...place);
    };
  });
  const release = await hold(page, "**/api/v1/heat*");
  await page.goto(`${hub.url}/#/heatmap?by=switch`);
  await page.reload();
  await page.waitForSelector("main[aria-busy=true]");
  const { last_slot } = await hub.json("health");
  await hub.send(1);
  await page.waitForFunction(
    (slot) => Number(document.documentElement.dataset.slot) > slot,
    last_slot,
  );
  const { node } = shared.topology.devices.find(({ kind }) => kind === "switch");
  const hasTexts = (texts) => {
    const all = document.querySelector(".picture canvas").texts ?? [];
    return texts.every((text) => all.includes(text));
  };
  await page.waitForFunction(hasTexts, [node, "Loading…"]);
  release();
  await page.waitForSelector("main[aria-busy=false]");
  await page.waitForFunction(
    () => !document.querySelector(".picture canvas").texts.includes("Loading…"),
  );
  assert.deepEqual(faults, []);
});

test("heat_map_of_errors_has_its_own_scale_until_the_whole_one_is_chosen", {
  skip: isSimulated ? skip : "SKIPPED: the generated fabric has no errors",
}, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  await show(page, hub, "heatmap?metric=errors");
  const ticks = () =>
    page.$$eval(".legend-scale .legend-number, .legend-tick", (all) =>
      all.map(({ textContent }) => textContent),
    );
  const shown = await ticks();
  assert.match(shown[0], /^0\s\/s$/);
  assert.ok(shown.length >= 3, shown.join());
  await page.click('button:text-is("Full scale")');
  const { metrics } = await hub.json("health");
  const { scale } = metrics.find(({ name }) => name === "errors");
  await page.locator(".legend-number", { hasText: `${scale / 1000}\u00a0k/s` }).waitFor();
  assert.notDeepEqual(await ticks(), shown);
  assert.match(page.url(), /range=full/);
  await page.click('button:text-is("Largest first")');
  await page.waitForFunction(() => /scroll/.test(document.querySelector(".foot").textContent));
  assert.deepEqual(faults, []);
});

test("page_connects_again_after_the_hub_restarts", { skip }, async (context) => {
  const { page } = await openPage(context, shared.browser, hub);
  await show(page, hub, "overview");
  await hub.stop();
  await page.waitForSelector(".banner:not([hidden])");
  assert.match(await page.textContent(".banner"), /connection to the hub is lost.*last sweep/i);
  await page.screenshot({ path: `${pictures}/lost.png` });
  await hub.start();
  await hub.send(1);
  const { last_slot } = await hub.json("health");
  await page.waitForFunction(
    (slot) => Number(document.documentElement.dataset.slot) >= slot,
    last_slot,
  );
  await page.waitForSelector(".banner", { state: "hidden" });
});

test("each_view_leads_to_the_archive_with_a_command_and_a_link", { skip }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  const { guid, port } = shared.topology.ports.find(({ kind }) => kind === "switch");
  const [job] = (await hub.json("jobs")).rows;
  const { archive, kept } = await hub.json("health");
  const items = [`port/${guid}/${port}`, `switch/${guid}`, `job/${job.job}`];
  for (const view of [...VIEWS.filter((name) => name !== "overview"), ...items]) {
    await show(page, hub, view);
    await page.focus('[aria-label="The same view from the archive"]');
    await page.keyboard.press("Enter");
    await page.waitForSelector("dialog.archive[open]");
    assert.match(await page.textContent(".command"), /^ibnet-view [a-z]+ /, view);
    const hasArchive = archive !== null || kept.archive_from_ns !== null;
    assert.equal(await page.isVisible(".archive a"), hasArchive, view);
    const href = await page.getAttribute(".archive a", "href");
    assert.match(href, /from=\d{4}-.*&to=\d{4}-/, view);
    assert.ok(href.startsWith(`#/${view.split("?")[0]}`), href);
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog.archive", { state: "hidden" });
  }
  assert.deepEqual(faults, []);
});
