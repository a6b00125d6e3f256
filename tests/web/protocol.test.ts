// The server's messages as docs/PROTOCOL.md gives them, and things that are not messages.

import assert from "node:assert/strict";
import { test } from "node:test";

import { decodePcm16, encodePcm16 } from "../../web/pcm16";
import { parseInfo, parseServerMessage } from "../../web/protocol";

const kDefaults = { text_temperature: 0.7, text_top_k: 25, audio_temperature: 0.8, audio_top_k: 250 };

test("hello", () => {
  const message = parseServerMessage(
    JSON.stringify({
      type: "hello",
      version: 1,
      server: "antiphond 0.1.0",
      session: "s1",
      model: { name: "embedded", family: "moshi" },
      voices: ["NATF0", 7, "NATM1"],
      text_prompt: true,
      has_text: true,
      defaults: kDefaults,
    }),
  );
  assert.deepEqual(message, {
    type: "hello",
    server: "antiphond 0.1.0",
    session: "s1",
    model: {
      name: "embedded",
      family: "moshi",
      voices: ["NATF0", "NATM1"],
      textPrompt: true,
      hasText: true,
      defaults: kDefaults,
    },
  });
});

test("text, progress, error and bye", () => {
  assert.deepEqual(parseServerMessage('{"type":"text","text":" héllo","time_ms":640}'), {
    type: "text",
    text: " héllo",
    timeMs: 640,
  });
  assert.deepEqual(parseServerMessage('{"type":"progress","done_frames":3,"total_frames":12}'), {
    type: "progress",
    doneFrames: 3,
    totalFrames: 12,
  });
  assert.deepEqual(
    parseServerMessage('{"type":"error","code":"busy","message":"full","retry_after_ms":2000}'),
    { type: "error", error: { code: "busy", message: "full", retryAfterMs: 2000 } },
  );
  assert.deepEqual(parseServerMessage('{"type":"bye","reason":"idle"}'), {
    type: "bye",
    reason: "idle",
  });
});

test("what is no message is unknown, what is missing is empty", () => {
  for (const text of ["", "{", "null", "[]", "7", '"hello"', '{"type":"later"}', '{"type":{}}']) {
    assert.deepEqual(parseServerMessage(text), { type: "unknown" });
  }
  const hello = parseServerMessage('{"type":"hello","model":3,"voices":"all","defaults":[]}');
  assert.ok(hello.type === "hello" && hello.model.voices.length === 0 && !hello.model.defaults);
});

test("/v1/info tells of the model, or not", () => {
  const model = { name: "m", family: "moshi", voices: ["a"], text_prompt: true, defaults: kDefaults };
  assert.deepEqual(parseInfo({ model })?.voices, ["a"]);
  assert.equal(parseInfo({ model: "embedded" }), null);
  assert.equal(parseInfo(null), null);
});

test("pcm16 goes there and back", () => {
  const bytes = encodePcm16(Float32Array.of(0, 0.5, -0.5, 1, -1, 3));
  assert.deepEqual([...bytes.subarray(2, 4)], [0x00, 0x40]);
  const back = decodePcm16(bytes);
  [0, 0.5, -0.5, 1, -1, 1].forEach((value, i) => assert.ok(Math.abs(back[i] - value) < 1e-4));
  assert.equal(decodePcm16(bytes.subarray(1, 4)).length, 1);
});
