// The questions of an operator, on a simulated fabric with known faults: a congested port, a switch
// that does not answer, a link that goes down, a failover of the subnet manager, a lost sampler, and
// a hostile name.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { after, before, test } from "node:test";
import {
  isSimulated,
  openBrowser,
  openPage,
  pictures,
  show,
  skip,
  TestHub,
  VIEWS,
} from "./harness.mjs";

const HOSTILE = "<img src=x onerror=window.attacked=1>";
/** A host that is neither dead nor a sampler, and gets the hostile name. */
const RENAMED = "node00150";
/** The switch that does not answer. Its hosts do not answer either. */
const DEAD = "leaf08";
/** The server of the incast, and the switch port that sends to it, by the net file. */
const SERVER = "oss6";
const ROOT = { node: "io04", port: 7 };

const reason = isSimulated ? skip : "SKIPPED: IBNET_HUB does not name the program ibnet-hub";
let folder;
let hub;
let browser;
let hosts;

if (reason) console.log(reason);

before(async () => {
  if (reason) return;
  folder = await mkdtemp(`${tmpdir()}/ibnet-faults-`);
  const net = (await readFile(process.env.IBNET_NET, "utf8")).replaceAll(RENAMED, HOSTILE);
  await writeFile(`${folder}/fabric.p`, net);
  // Lines such as: CA 43 1 0x...1 4x EDR - SW 8 24 0x...80 ( 'node00192 mlx5_0' - 'leaf08' )
  const cables = net.matchAll(/^CA .*\( '(\S+) .*' - '(.*)' \)$/gm);
  hosts = [...cables].filter(([, , leaf]) => leaf === DEAD).map(([, host]) => host);
  assert.equal(hosts.length, 24);
  const dead = [DEAD, ...hosts].map((name) => JSON.stringify(name)).join(", ");
  await writeFile(
    `${folder}/hub.toml`,
    `simulate = "${folder}/fabric.p"
[simulated]
scenario = "incast"
scenario_start = "2s"
scenario_length = "1h"
dead = [${dead}]
`,
  );
  hub = new TestHub(`${folder}/hub.toml`);
  await hub.start();
  browser = await openBrowser();
});

after(async () => {
  if (reason) return;
  await browser.close();
  await hub.end();
  await rm(folder, { recursive: true });
});

test("overview_names_the_congested_port_and_puts_the_dead_switch_first", {
  skip: reason,
}, async (context) => {
  const { page, faults } = await openPage(context, browser, hub);
  await show(page, hub, "overview");
  await page.waitForSelector(".card");
  assert.equal(await page.textContent(".card-title b"), `${ROOT.node} / ${ROOT.port}`);
  assert.match(await page.textContent(".card"), new RegExp(SERVER));
  await page.waitForFunction(
    (text) => document.querySelector(".fault")?.textContent.includes(text),
    `${hosts.length} devices`,
  );
  const first = await page.textContent(".fault");
  assert.match(first, new RegExp(`${DEAD}.*no answer; ${hosts.length} devices behind it`));
  await page.screenshot({ path: `${pictures}/faults-overview.png` });
  await page.click(".card");
  await page.waitForFunction(() => document.location.hash.startsWith("#/tree"));
  await page.locator("main", { hasText: `${ROOT.node} / ${ROOT.port}` }).waitFor();
  assert.deepEqual(faults, []);
});

test("hostile_name_is_only_text", { skip: reason }, async (context) => {
  const { page, faults } = await openPage(context, browser, hub);
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
  const { page, faults } = await openPage(context, browser, hub);
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
  const { page, faults } = await openPage(context, browser, hub);
  await hub.until(async () => (await hub.json("sm")).master_changes > 0, 120);
  const { rows, master_changes } = await hub.json("sm");
  const [master] = rows;
  assert.ok(master.is_master);
  await show(page, hub, "events?kind=sm");
  const named = page.locator(".manager-text", { hasText: `${master.node} (LID ${master.lid}` });
  await named.waitFor();
  assert.match(await named.textContent(), new RegExp(`${master_changes} failovers?\\.`));
  await page.screenshot({ path: `${pictures}/faults-failover.png` });
  assert.deepEqual(faults, []);
});

test("lost_sampler_is_named_and_its_ports_have_no_values", { skip: reason }, async (context) => {
  const { page, faults } = await openPage(context, browser, hub);
  const samplers = async () => (await hub.json("samplers")).rows;
  // The simulation stops its second sampler.
  const { sampler: name } = (await samplers())[1];
  const { interval_ns } = await hub.json("health");
  const behind = async () => {
    const { last_slot } = (await samplers()).find(({ sampler }) => sampler === name);
    return (await hub.json("health")).last_slot - last_slot;
  };
  await show(page, hub, "overview");
  await hub.until(async () => (await behind()) > 5, 150);
  const late = page.locator(".sampler:not([data-state=ok])", { hasText: name });
  await late.waitFor();
  assert.match(await late.textContent(), /no new slot|disconnected/);
  await page.locator(".verdict-text", { hasText: "1 sampler sends no records" }).waitFor();
  await page.screenshot({ path: `${pictures}/faults-sampler.png` });
  const { ports } = await hub.json("topology");
  const port = ports.find(({ sampler, kind }) => sampler === name && kind === "switch");
  const key = `${port.guid}/${port.port}`;
  await show(page, hub, `ports?q=${encodeURIComponent(port.node)}&sort=port&order=up`);
  const cell = page.locator(`.table-row[data-id="${key}"] [role=gridcell]`).nth(5);
  assert.doesNotMatch(await cell.textContent(), /^\d/);
  const { last_slot } = (await samplers()).find(({ sampler }) => sampler === name);
  const slot = last_slot + 3;
  assert.equal(await hub.value(key, "xmit_utilization", slot, interval_ns), undefined);
  assert.deepEqual(faults, []);
});
