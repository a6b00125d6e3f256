// node run_tests.mjs ESBUILD OUT_DIR: bundles the page's unit tests and runs them.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

const [esbuild, outDir] = process.argv.slice(2);
const tests = readdirSync(import.meta.dirname).filter((name) => name.endsWith(".test.ts"));
rmSync(outDir, { recursive: true, force: true });
mkdirSync(outDir, { recursive: true });
execFileSync(esbuild, [
  ...tests.map((name) => join(import.meta.dirname, name)),
  "--bundle",
  "--platform=node",
  "--format=esm",
  "--out-extension:.js=.mjs",
  "--sourcemap=inline",
  "--log-level=warning",
  `--outdir=${outDir}`,
]);
const built = readdirSync(outDir).map((name) => join(outDir, name));
const { status } = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...built], {
  stdio: "inherit",
});
process.exit(status ?? 1);
