// The questions of an operator, on a simulated fabric with known faults: a congested port, a switch
// that does not answer, a link that goes down, a failover of the subnet manager, a lost sampler, and
// a hostile name. The tests run in order, each at its time of the records.
import assert from "node:assert/strict";
import { test } from "node:test";
import { isSimulated, openPage, pictures, show, skip, VIEWS, withHub } from "./harness.mjs";

// These names are also in `hub/tests/page.rs`.
const HOSTILE = "<img src=x onerror=window.attacked=1>";
/** The switch that does not answer, and the number of its hosts. They do not answer either. */
const DEAD = "leaf08";
const HOSTS = 24;
/** The server of the incast, and the switch port that sends to it, by the net file. */
const SERVER = "oss6";
const ROOT = { node: "io04", port: 7 };

/** Slots in which a link is down and has not gone up again. */
const LINK_DOWN = 31;
/** Slots after the failover of the subnet manager. */
const FAILOVER = 60;
/** Slots that the lost sampler does not send: the page names it after four. */
const LOST = 6;

const reason = isSimulated ? skip : "SKIPPED: IBNET_HUB does not name the program ibnet-hub";
if (reason) console.log(reason);
const shared = reason ? { hub: {} } : withHub(LINK_DOWN);
const { hub } = shared;

test("overview_names_the_congested_port_and_puts_the_dead_switch_first", {
  skip: reason,
}, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  await show(page, hub, "overview");
  await page.waitForSelector(".card");
  assert.equal(await page.textContent(".card-title b"), `${ROOT.node} / ${ROOT.port}`);
  assert.match(await page.textContent(".card"), new RegExp(SERVER));
  await page.waitForFunction(
    (text) => document.querySelector(".fault")?.textContent.includes(text),
    `${HOSTS} devices`,
  );
  const first = await page.textContent(".fault");
  assert.match(first, new RegExp(`${DEAD}.*no answer; ${HOSTS} devices behind it`));
  await page.screenshot({ path: `${pictures}/faults-overview.png` });
  await page.click(".card");
  await page.waitForFunction(() => document.location.hash.startsWith("#/tree"));
  await page.locator("main", { hasText: `${ROOT.node} / ${ROOT.port}` }).waitFor();
  assert.deepEqual(faults, []);
});

test("hostile_name_is_only_text", { skip: reason }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  const { ports } = await hub.json("topology");
  const port = ports.find(({ node }) => node.startsWith(HOSTILE));
  for (const view of [
    ...VIEWS,
    "ports?q=%3Cimg",
    `port/${port.guid}/${port.port}`,
    "job/%3Cimg%20src=x%20onerror=alert(1)%3E",
    "groups/%3Cimg",
  ]) {
    await show(page, hub, view);
    assert.equal(await page.evaluate(() => window.attacked), undefined, view);
    assert.equal(await page.$("main img"), null, view);
  }
  await show(page, hub, `port/${port.guid}/${port.port}`);
  assert.ok((await page.textContent("h1")).includes(HOSTILE));
  await page.keyboard.press("/");
  await page.keyboard.type("<img");
  await page.waitForSelector(".hit");
  assert.equal(await page.$("img"), null);
  assert.deepEqual(
    faults.filter((text) => !text.includes("404")),
    [],
  );
});

test("link_that_is_down_is_two_clicks_from_its_port", { skip: reason }, async (context) => {
  const { page, faults } = await openPage(context, shared.browser, hub);
  await show(page, hub, "overview");
  const fault = page.locator(".fault", { hasText: "link down" }).first();
  await fault.waitFor();
  const text = await fault.textContent();
  // Both ends report the fault, and the page shows it once.
  assert.equal(await page.locator(".fault", { hasText: /link down|up and down/ }).count(), 1);
  // The verdict waits for more answers of the hub than the list of faults.
  await page.locator(".verdict-text", { hasText: "1 link is down" }).waitFor();
  await fault.click();
  await page.waitForSelector(".port-page");
  const title = await page.textContent("h1");
  assert.ok(text.startsWith(title), `${text} opened ${title}`);
  await page.screenshot({ path: `${pictures}/faults-link-down.png` });
  assert.deepEqual(faults, []);
});

test("failover_is_in_the_events_of_the_subnet_manager", { skip: reason }, async (context) => {
  await hub.sendUntil(FAILOVER);
  const { page, faults } = await openPage(context, shared.browser, hub);
  const { rows, master_changes } = await hub.json("sm");
  const [master] = rows;
  assert.ok(master.is_master);
  assert.equal(master_changes, 1);
  await show(page, hub, "events?kind=sm");
  const named = page.locator(".manager-text", { hasText: `${master.node} (LID ${master.lid}` });
  await named.waitFor();
  assert.match(await named.textContent(), new RegExp(`${master_changes} failovers?\\.`));
  await page.screenshot({ path: `${pictures}/faults-failover.png` });
  assert.deepEqual(faults, []);
});

test("lost_sampler_is_named_and_its_ports_have_no_values", { skip: reason }, async (context) => {
  await hub.sendUntil(FAILOVER);
  const { page, faults } = await openPage(context, shared.browser, hub);
  const name = hub.feed.samplers[1];
  const { ports } = await hub.json("topology");
  const port = ports.find(({ sampler, kind }) => sampler === name && kind === "switch");
  const key = `${port.guid}/${port.port}`;
  const cells = page.locator(`.table-row[data-id="${key}"] [role=gridcell]`);
  const portView = `ports?q=${encodeURIComponent(port.node)}&sort=port&order=up`;
  await show(page, hub, portView);
  assert.match(await cells.nth(5).textContent(), /^\d/, "the sampler is not lost yet");
  const lost = hub.feed.last + 1;
  hub.feed.lost.add(name);
  await hub.send(LOST);
  // The hub marks the sampler when nothing has arrived for a time. Its ports have no value before.
  await show(page, hub, portView);
  assert.equal(await cells.nth(4).textContent(), "no data");
  assert.doesNotMatch(await cells.nth(5).textContent(), /^\d/);
  // Before it is silent, it is late, or its clock seems to be behind: several slots come at once.
  await hub.until(async () => {
    const { samplers, samplers_connected } = await hub.json("health");
    return samplers_connected === samplers - 1;
  });
  await show(page, hub, "overview");
  const silent = page.locator(".sampler[data-state=lost]", { hasText: name });
  await silent.waitFor();
  assert.match(await silent.textContent(), /disconnected/);
  await page.locator(".verdict-text", { hasText: "1 sampler sends no records" }).waitFor();
  await page.screenshot({ path: `${pictures}/faults-sampler.png` });
  const { interval_ns } = await hub.json("health");
  const value = (slot) => hub.value(key, "xmit_utilization", slot, interval_ns);
  assert.equal(typeof (await value(lost - 1)), "number");
  for (let slot = lost; slot <= hub.feed.last; slot++) assert.equal(await value(slot), undefined);
  assert.deepEqual(faults, []);
});
