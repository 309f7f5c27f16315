// Makes the types of the answers of the hub from `hub/openapi.json`: `npm run types`.
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { compile } from "json-schema-to-typescript";

export const file = new URL("../src/contract/openapi.ts", import.meta.url);

const BANNER = `// generated from hub/openapi.json by \`npm run types\`; do not change by hand`;

/** Returns the text of the file. */
export async function types() {
  const text = await readFile(new URL("../../openapi.json", import.meta.url), "utf8");
  const api = JSON.parse(text.replaceAll("#/components/schemas/", "#/definitions/"));
  const definitions = api.components.schemas;
  const names = Object.keys(definitions);
  const properties = Object.fromEntries(
    names.map((name) => [name, { $ref: `#/definitions/${name}` }]),
  );
  const schemas = { type: "object", definitions, properties, required: names };
  return compile(schemas, "Schemas", { additionalProperties: false, bannerComment: BANNER });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await writeFile(file, await types());
