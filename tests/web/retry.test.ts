// How each way a connection can end is answered (docs/PROTOCOL.md, "Close codes").

import assert from "node:assert/strict";
import { test } from "node:test";

import type { Ending } from "../../web/connection";
import { judge } from "../../web/retry";

function ending(code: number, parts: Partial<Ending> = {}): Ending {
  return { code, byeReason: null, error: null, wasReady: true, ...parts };
}

function retry(end: Ending, attempts = 1, random = 0.5) {
  const verdict = judge(end, attempts, () => random);
  assert.equal(verdict.action, "retry");
  return verdict as Extract<typeof verdict, { action: "retry" }>;
}

test("a full house is waited out, never shorter than the service says", () => {
  const error = { code: "busy", message: "", retryAfterMs: 3000 };
  for (const random of [0, 0.999]) {
    const verdict = retry(ending(1013, { error, wasReady: false }), 1, random);
    assert.equal(verdict.phase, "refused");
    assert.ok(verdict.delayMs >= 3000 && verdict.delayMs <= 3600);
    assert.match(verdict.reason, /taken/);
  }
  assert.equal(retry(ending(1013, { error }), 500).phase, "refused");
});

test("draining says so", () => {
  const error = { code: "draining", message: "", retryAfterMs: null };
  assert.match(retry(ending(1013, { error })).reason, /about to stop/);
});

test("lost connections are tried again with growing pauses, then given up", () => {
  const pauses = [1, 2, 3, 4, 5, 6, 12].map((attempt) => retry(ending(1006), attempt).delayMs);
  assert.deepEqual(pauses, [500, 1000, 2000, 4000, 8000, 15000, 15000]);
  const last = judge(ending(1006), 13, Math.random);
  assert.deepEqual(last, { action: "fail", problem: "unreachable", detail: "" });
});

test("the pause varies, so that clients do not come back all at once", () => {
  assert.equal(retry(ending(1006), 1, 0).delayMs, 375);
  assert.equal(retry(ending(1006), 1, 1).delayMs, 625);
});

test("each cause has its words", () => {
  assert.match(retry(ending(1001)).reason, /restarting/);
  assert.match(retry(ending(1000, { byeReason: "draining" })).reason, /restarting/);
  assert.match(retry(ending(1011)).reason, /fault/);
  assert.match(retry(ending(1006)).reason, /lost/);
  assert.match(retry(ending(1006, { wasReady: false })).reason, /does not answer/);
  const error = { code: "too_slow", message: "", retryAfterMs: null };
  assert.match(retry(ending(1000, { error })).reason, /too slow/);
});

test("a goodbye ends it; what was not accepted needs the user", () => {
  assert.deepEqual(judge(ending(1000, { byeReason: "client" }), 1, Math.random), {
    action: "stop",
    notice: "",
  });
  assert.equal(judge(ending(1000, { byeReason: "idle" }), 1, Math.random).action, "stop");
  const error = { code: "bad_message", message: "`seed` must be a number", retryAfterMs: null };
  assert.deepEqual(judge(ending(1008, { error }), 1, Math.random), {
    action: "fail",
    problem: "rejected",
    detail: "`seed` must be a number",
  });
});
