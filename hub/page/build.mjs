// Bundles the page into `dist/`: three files that the hub embeds and serves.
import { copyFile, mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL(".", import.meta.url));
const development = process.argv.includes("--dev");

await mkdir(`${root}dist`, { recursive: true });
await build({
  absWorkingDir: root,
  entryPoints: { app: "src/main.ts", style: "src/style/main.css" },
  outdir: "dist",
  entryNames: "[name]",
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: !development,
  sourcemap: development ? "inline" : false,
  legalComments: "eof",
  logLevel: "warning",
});
await copyFile(`${root}src/index.html`, `${root}dist/index.html`);
await copyFile(`${root}src/icon.svg`, `${root}dist/icon.svg`);
