// node run_tests.mjs BUILD_DIR [TEST...]: runs the browser tests against a build of Antiphon.
// node run_tests.mjs BUILD_DIR --picture: writes docs/images/page.png.
//
// Everything runs in this one process: whatever ends it ends the browser with it, and the daemon.

import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { join, resolve } from "node:path";

const kSkipped = 77; // ctest's SKIP_RETURN_CODE in CMakeLists.txt

const here = import.meta.dirname;
const [buildDir, ...tests] = process.argv.slice(2);
process.env.ANTIPHON_BUILD_DIR = resolve(buildDir);

const installed = join(here, "node_modules/.package-lock.json");
const lock = join(here, "package-lock.json");
if (!existsSync(installed) || statSync(installed).mtimeMs < statSync(lock).mtimeMs) {
  const { status } = spawnSync("npm", ["ci"], { cwd: here, stdio: "inherit" });
  if (status !== 0) {
    console.error("skipped: npm could not install what drives the browser (tests/e2e/package.json)");
    process.exit(kSkipped);
  }
}
for (const test of tests) {
  await import(test === "--picture" ? "./picture.mjs" : `./${test}.test.mjs`);
}
