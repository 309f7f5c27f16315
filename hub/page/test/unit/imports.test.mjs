import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const source = fileURLToPath(new URL("../../src", import.meta.url));
const LAYERS = ["views", "parts", "draw", "model", "contract"];

/** Returns the imports of each file, as paths relative to `src` without their ending. */
function imports() {
  const files = readdirSync(source, { recursive: true }).filter((name) => name.endsWith(".ts"));
  const exists = new Set(files.map((name) => name.replace(/\.ts$/, "")));
  return new Map(
    files.map((name) => {
      const text = readFileSync(join(source, name), "utf8");
      const found = [...text.matchAll(/from "(\.[^"]+)"/g)].map(([, path]) => {
        const target = normalize(join(dirname(name), path));
        return exists.has(target) ? target : join(target, "index");
      });
      return [name.replace(/\.ts$/, ""), found];
    }),
  );
}

test("imports_run_in_one_direction", () => {
  for (const [file, targets] of imports()) {
    const from = LAYERS.indexOf(file.split("/")[0]);
    for (const target of targets) {
      assert.ok(from <= LAYERS.indexOf(target.split("/")[0]), `${file} imports ${target}`);
    }
  }
});

test("no_files_import_each_other_in_a_cycle", () => {
  const graph = imports();
  const done = new Set();
  const visit = (file, path) => {
    assert.ok(!path.includes(file), [...path, file].join(" -> "));
    if (done.has(file)) return;
    for (const target of graph.get(file) ?? []) visit(target, [...path, file]);
    done.add(file);
  };
  for (const file of graph.keys()) visit(file, []);
});
