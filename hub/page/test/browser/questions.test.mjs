// Eleven questions of an operator. Each test starts at the overview, clicks at most twice, and finds
// the answer on the screen of a laptop without scrolling. The records are those of the known
// faults, and one link is degraded.
import assert from "node:assert/strict";
import { test } from "node:test";
import { isSimulated, openPage, pictures, show, skip, withHub } from "./harness.mjs";

/** Largest number of clicks from the overview to an answer. Typing a name is not a click. */
const MOST_CLICKS = 2;
/** Slots that the hub has: one link was down, another is degraded, and the master has changed. */
const SLOTS = 60;
/** Slots that are sent at once. A busy hub takes more of them for a sampler with a wrong clock. */
const STEP = 10;
/** Time without a new slot after which no page may call its data live, in milliseconds. */
const OLD = 12 * 60_000;
/** The host with the degraded link, as in `hub/tests/page.rs`, and the server of the incast. */
const NARROW = "node00010";
const SERVER = "oss6";

/**
 * The questions. `clicks` are selectors, or a text that is typed. `answers` returns places with the
 * texts that answer the question, from what the hub knows.
 */
const QUESTIONS = [
  {
    question: "Which link is blocked most right now, and which host causes it?",
    clicks: [],
    answers: ({ mostBlocked, root }) => [
      ["#figure-blocked", mostBlocked],
      [".card", [root]],
      [".card", [SERVER]],
    ],
  },
  {
    question: "Which job waits?",
    clicks: ['nav [title="Jobs"]'],
    answers: ({ waitingJob }) => [['.table-row[aria-rowindex="2"]', [waitingJob]]],
  },
  {
    question: "Is every sampler alive?",
    clicks: [],
    answers: ({ samplers }) => [[".samplers .panel-note", [samplers]]],
  },
  {
    question: "Which link had errors in the last hour?",
    clicks: ['[aria-label="Time range"] button:text-is("1 h")'],
    answers: ({ errors }) => [
      [".broken", [errors.port]],
      [".broken", [errors.text]],
    ],
  },
  {
    question: "What changed in the last ten minutes?",
    clicks: ['[aria-label="Time range"] button:text-is("10 min")', 'nav [title="Events"]'],
    answers: ({ linkDown, master }) => [
      [".table-body", [linkDown]],
      [".table-body", [`at LID ${master.lid}`]],
    ],
  },
  {
    question: "Is this link degraded, in width or speed?",
    clicks: ["#search", NARROW, ".hit"],
    answers: () => [
      ["main", ["1xEDR"]],
      [".port-faults", ["link is slower than before"]],
    ],
  },
  {
    question: "Where is host node00002, and how busy is it?",
    clicks: ["#search", "node00002", ".hit"],
    answers: ({ host }) => [
      ["h1", ["node00002"]],
      [".ends", [host.peer]],
      [".ends .bar-text", host.busy],
    ],
  },
  {
    question: "Is the data that I see of now?",
    clicks: [],
    answers: ({ ports }) => [
      [".live", ["Live"]],
      [".mark", [`of ${ports} ports answer`]],
    ],
  },
  {
    question: "Who is the subnet manager?",
    clicks: ['nav [title="Events"]'],
    answers: ({ master }) => [[".manager-text", [`${master.node} (LID ${master.lid}`]]],
  },
  {
    question: "How full is the fabric, and which leaf switch is the fullest?",
    clicks: [],
    answers: ({ injected, leaf }) => [
      ["#figure-injected", injected],
      ["#figure-leaf", [leaf.node]],
      ["#figure-leaf", leaf.share],
    ],
  },
  {
    question: "Which cable ages, why, and what is its serial number?",
    clicks: ['nav [title="Health"]', '.table-row[aria-rowindex="2"]'],
    answers: ({ ageing }) => [
      ["h1", [ageing.node]],
      [".physical-verdict", ageing.why],
      [".physical-verdict", [ageing.serial]],
    ],
  },
];

const reason = isSimulated ? skip : "SKIPPED: IBNET_HUB does not name the program ibnet-hub";
if (reason) console.log(reason);
const shared = reason ? { hub: {} } : withHub(STEP);
const { hub } = shared;

/** Sends the records, and opens the overview. */
async function openOverview(context, options) {
  for (let slots = STEP; slots <= SLOTS; slots += STEP) await hub.sendUntil(slots);
  const opened = await openPage(context, shared.browser, hub, options);
  await show(opened.page, hub, "overview");
  return opened;
}

/** Returns a share as the page writes it, for values with steps of 1/64000. */
function shareTexts(share) {
  const ends = [share - 1 / 64000, share, share + 1 / 64000];
  return [...new Set(ends.map((value) => `${(100 * Math.max(0, value)).toFixed(1)}\u00a0%`))];
}

/** Returns what the hub knows, independent of the page. */
async function facts() {
  const [{ rows }, { devices, ports }, trees, jobs, errors, sm, events, samplers, health] =
    await Promise.all(
      [
        "ports?limit=5000",
        "topology",
        "trees",
        "jobs?state=running",
        "errors",
        "sm",
        "events",
        "samplers",
        "links/health",
      ].map((path) => hub.json(path)),
    );
  const values = rows.filter(({ xmit_utilization }) => typeof xmit_utilization === "number");
  const name = ({ node, port }) => `${node} / ${port}`;
  const most = (list, value) => list.reduce((x, y) => (value(y) > value(x) ? y : x));
  const blocked = most(values, ({ xmit_blocked }) => xmit_blocked ?? 0).xmit_blocked;
  const sent = values.reduce(
    (sum, { kind, gbps, xmit_utilization }) =>
      sum + (kind === "switch" ? 0 : gbps * xmit_utilization),
    0,
  );
  const capacity = values.reduce((sum, { kind, gbps }) => sum + (kind === "switch" ? 0 : gbps), 0);
  // A leaf is as full as the mean of its ports, sending and receiving.
  const leaves = devices
    .filter(({ kind, tier }) => kind === "switch" && tier === 1)
    .map(({ node, guid }) => {
      const own = values.filter((row) => row.guid === guid);
      const both = own.flatMap(({ xmit_utilization, peer_guid, peer_port }) => [
        xmit_utilization,
        ...values
          .filter((row) => row.guid === peer_guid && row.port === peer_port)
          .map((row) => row.xmit_utilization),
      ]);
      return { node, mean: both.reduce((sum, each) => sum + each, 0) / Math.max(1, both.length) };
    });
  const leaf = most(leaves, ({ mean }) => mean);
  const host = values.find(({ node }) => node.startsWith("node00002 "));
  const counter = most(
    errors.rows.filter(({ increase }) => increase !== null),
    ({ rate }) => rate ?? 0,
  );
  const down = events.rows.find(({ event }) => event === "link_down");
  const newest = Math.max(...samplers.rows.map(({ last_slot }) => last_slot));
  const late = samplers.rows.filter(
    ({ connected, wrong_clock, last_slot }) => !connected || wrong_clock || newest - last_slot > 3,
  ).length;
  return {
    mostBlocked: values
      .filter(({ xmit_blocked }) => xmit_blocked >= blocked - 1 / 64000)
      .map(({ node, port }) => (node.includes(" ") ? node.split(" ")[0] : `${node} / ${port}`)),
    root: name(trees.rows[0].root),
    waitingJob: most(jobs.rows, ({ blocked }) => blocked ?? 0).job,
    samplers:
      late === 0
        ? `${samplers.rows.length} samplers, all on time`
        : `${late} of ${samplers.rows.length}`,
    errors: { port: name(counter), text: `+${counter.increase} ` },
    linkDown: name(down),
    master: sm.rows[0],
    host: {
      peer: `${host.peer_node} / ${host.peer_port}`,
      busy: shareTexts(host.xmit_utilization),
    },
    ports: ports.length,
    ageing: health.rows[0],
    injected: shareTexts(sent / capacity),
    leaf: { node: leaf.node, share: shareTexts(leaf.mean) },
  };
}

/** Returns whether a place in the window of the page has one of some texts. */
function isShown([place, texts]) {
  return [...document.querySelectorAll(place)].some((element) => {
    const { left, right, top, bottom, width } = element.getBoundingClientRect();
    const isInside = left >= 0 && right <= innerWidth + 1 && top >= 0 && top < innerHeight;
    const has = texts.some((text) => element.textContent.includes(text));
    return has && isInside && width > 0 && bottom > top;
  });
}

async function ask(context, name, { question, clicks, answers }) {
  assert.ok(clicks.filter((click) => /[\][. #]/.test(click)).length <= MOST_CLICKS, question);
  const viewport = { width: 1366, height: 768 };
  const { page, faults } = await openOverview(context, { viewport });
  for (const click of clicks) {
    if (/^\w+$/.test(click)) await page.keyboard.type(click);
    else await page.click(click);
  }
  // The state of a sampler can change while the page shows it.
  await hub.until(async () => {
    for (const answer of answers(await facts())) {
      const [place, texts] = answer;
      assert.ok(texts.length > 0 && texts.every((text) => String(text).length > 0), place);
      if (!(await page.evaluate(isShown, answer))) throw new Error(`no ${texts} in ${place}`);
    }
    return true;
  });
  await page.screenshot({ path: `${pictures}/${name}.png` });
  assert.deepEqual(faults, []);
}

assert.equal(QUESTIONS.length, 11);
QUESTIONS.forEach((each, index) => {
  const words = each.question.replaceAll(/[^A-Za-z0-9]+/g, "_").toLowerCase();
  const name = `question_${index + 1}_${words.slice(0, -1)}`;
  test(name, { skip: reason }, (context) => ask(context, name, each));
});

test("old_data_is_not_called_live", { skip: reason }, async (context) => {
  const { page } = await openOverview(context);
  await page.evaluate((later) => {
    const now = Date.now() + later;
    Date.now = () => now;
  }, OLD);
  await page.waitForSelector(".banner:not([hidden])");
  assert.match(await page.textContent(".live"), /12\smin old/);
  await page.screenshot({ path: `${pictures}/questions-old.png` });
});
