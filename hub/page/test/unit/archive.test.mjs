import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { load } from "../load.mjs";

const { archiveCommand } = await load("src/model/archive.ts");
const { parseState } = await load("src/model/state.ts");

/** `ibnet-view` runs these commands on a recording: view/tests/program/results.rs. */
const COMMANDS = readFileSync(new URL("archive-commands.txt", import.meta.url), "utf8");

const from = 1_795_262_400_000;
const FACTS = {
  folder: null,
  span: { from, to: from + 5000 },
  interval: 1000,
  nodes: [],
  links: 6,
};
const NODES = ["leaf1", "n11 mlx5_0"];

const RANGE = "from=2026-11-21T12:00:00Z&to=2026-11-21T12:00:04Z";

const command = (url, facts = {}) => archiveCommand(parseState(url), { ...FACTS, ...facts });

test("each_view_has_the_command_that_ibnet_view_takes", () => {
  const commands = [
    command("#/overview"),
    command("#/map"),
    command("#/map?metric=xmit_blocked"),
    command("#/heatmap?metric=errors&by=switch&order=value"),
    command("#/heatmap?metric=rtt_ns&by=link"),
    command(`#/map?${RANGE}`),
    command(`#/links?${RANGE}`),
    command("#/links?sort=wait-up"),
    command("#/links?sort=errors"),
    command("#/links"),
    command("#/ports"),
    command("#/port/0x1/2?m=symbol_error_counter", { nodes: NODES }),
    command("#/switch/0x1", { nodes: ["core"] }),
    command("#/tree/0x1/2"),
    command("#/health"),
    command("#/jobs"),
    command("#/job/7"),
    command("#/groups/storage"),
    command("#/events"),
    command("#/alerts"),
    command("#/samplers"),
  ];
  assert.equal(`${commands.map(({ text }) => text).join("\n")}\n`, COMMANDS);
  for (const { note } of commands) assert.match(note, /FOLDER/);
});

test("command_has_the_selected_range_the_folder_and_no_word_that_a_shell_would_read", () => {
  const { text, note } = command(`#/job/7;rm -rf?${RANGE}`, { folder: "/var/it's" });
  assert.equal(
    text,
    String.raw`ibnet-view job '/var/it'\''s' --from 2026-11-21T12:00:00.000Z --to 2026-11-21T12:00:05.000Z --slurm '7;rm -rf' --slurm-file JOBS -o job.svg`,
  );
  assert.doesNotMatch(note, /FOLDER/);
  assert.match(note, /JOBS/);
  const hostile = command("#/port/0x1/2?m=$(id)", { nodes: ["$(reboot) mlx5_0"] });
  assert.doesNotMatch(hostile.text, /reboot|id\)/);
  assert.match(hostile.note, /all nodes/);
});
