// The page's TypeScript passes the strict type check (the build only strips types).

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { join } from "node:path";

import { sourceDir } from "./place.mjs";

test("web/ is well typed", () => {
  const tsc = join(import.meta.dirname, "node_modules/typescript/bin/tsc");
  const { status, stdout } = spawnSync(process.execPath, [tsc, "-p", join(sourceDir, "web")]);
  assert.equal(status, 0, stdout?.toString());
});
