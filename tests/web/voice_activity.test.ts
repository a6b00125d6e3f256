// Turns found in a level: speech among a room's noise, pauses within it, clicks that are none.

import assert from "node:assert/strict";
import { test } from "node:test";

import { VoiceActivity } from "../../web/voice_activity";

// Feeds [dB, duration in ms] parts in pieces of 20 ms; returns the turns as [begin, duration].
function turns(parts: [number, number][]): [number, number][] {
  const found: [number, number][] = [];
  let now = 0;
  let began = 0;
  let levels = 0;
  const activity = new VoiceActivity({
    onBegin: () => (began = now),
    onLevel: () => ++levels,
    onEnd: (duration) => found.push([began, duration]),
  });
  for (const [db, duration] of parts) {
    for (let ms = 0; ms < duration; ms += 20) {
      now += 20;
      activity.take(db, 20);
    }
  }
  activity.stop();
  return found;
}

test("a sentence with a pause is one turn", () => {
  const found = turns([[-58, 1000], [-25, 800], [-57, 400], [-22, 600], [-58, 2000]]);
  assert.equal(found.length, 1);
  assert.ok(Math.abs(found[0][0] - 1160) <= 20);
  assert.ok(Math.abs(found[0][1] - 1800) <= 20);
});

test("two sentences are two turns", () => {
  assert.equal(turns([[-58, 500], [-25, 800], [-58, 1500], [-25, 800], [-58, 1500]]).length, 2);
});

test("clicks and steady noise are no turns", () => {
  assert.deepEqual(turns([[-58, 500], [-20, 60], [-58, 1000], [-20, 100], [-58, 1000]]), []);
  assert.deepEqual(turns([[-44, 20], [-40, 5000], [-42, 5000]]), []);
});

test("a turn under way ends when the conversation does", () => {
  assert.equal(turns([[-58, 500], [-25, 800]]).length, 1);
});
