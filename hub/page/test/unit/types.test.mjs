import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { file, types } from "../../dev/types.mjs";

test("types_are_those_of_openapi_json", async () => {
  const isEqual = readFileSync(file, "utf8") === (await types());
  assert.ok(isEqual, "openapi.ts is not made from hub/openapi.json; run npm run types");
});
