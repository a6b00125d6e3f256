// The page talks with antiphond and the model that comes with it.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { closePages, launch, openPage, recording, state, waitForHint, waitForState } from "./browser.mjs";
import { Daemon } from "./daemon.mjs";
import { question, screenshotDir } from "./place.mjs";
import { levels } from "./sound.mjs";
import { soundOf } from "./wav.mjs";

const kLive = ["listening", "speaking"];
const kAnswer = "The light is on."; // models/embedded/samples/samples.json, to the question that is played
const kAnswerMs = 10000; // after the conversation began; the question takes three seconds
const kConversations = 3; // a machine too busy to bring every packet in time may cut the question
const kWindowMs = 20;
const kLoudDb = -35; // words; the model's own are around -15
const kQuietDb = -55; // the model's pauses are around -90

let browser;
let daemon;

before(async () => {
  browser = await launch({ microphone: question });
});
after(() => browser?.close());
beforeEach(async () => {
  daemon = await Daemon.start(["--sessions.max=1"]);
});
// Nothing in the console, nothing from elsewhere.
afterEach(async () => {
  const pages = await closePages();
  await daemon.stop();
  console.error(daemon.log);
  for (const { faults, requests } of pages) {
    // Chromium says what it could not fetch (its own icon for the tab included) from a daemon that is down.
    assert.deepEqual(faults.filter((fault) => !fault.includes("net::ERR_CONNECTION_")), []);
    for (const url of requests) assert.equal(new URL(url).port, String(daemon.port), url);
  }
});

async function begin(page = undefined) {
  const opened = page ?? (await openPage(browser, daemon.url));
  await opened.click("#talk");
  return opened;
}

async function shot(page, name) {
  await page.screenshot({ path: join(screenshotDir, `${name}.png`) });
}

// Where in the file the words are, in ms.
function wordsOf(file) {
  const loud = levels(soundOf(readFileSync(file))).map((db) => db > kLoudDb);
  return { from: kWindowMs * loud.indexOf(true), to: kWindowMs * (loud.lastIndexOf(true) + 1) };
}

// One conversation from its begin until the answer was heard: what was read, and what was heard.
async function ask() {
  const page = await begin();
  await waitForState(page, "listening");
  const answered = await waitForState(page, "speaking", kAnswerMs).then(
    () => true,
    () => false, // no words read either: the question did not arrive
  );
  if (answered) await shot(page, "daemon-speaking");
  await waitForState(page, "listening", kAnswerMs);
  await page.waitForTimeout(500);
  await shot(page, "daemon-answered");
  const [words, sound, microphoneAtMs] = [
    await page.locator(".turn.agent p").allInnerTexts(),
    await recording(page),
    await page.evaluate(() => window.microphoneAtMs),
  ];
  const callerTurns = await page.locator(".turn.you").count();
  await begin(page); // again: ends it
  await waitForState(page, "idle");
  return { words, callerTurns, sound, questionAtMs: microphoneAtMs - sound.startedAtMs };
}

test("a question is answered, in words and in sound", async () => {
  const spoken = wordsOf(question);
  const answers = [];
  while (answers.at(-1)?.words.join() !== kAnswer && answers.length < kConversations) {
    answers.push(await ask());
    await closePages();
  }
  const { words, callerTurns, sound, questionAtMs } = answers.at(-1);
  assert.deepEqual(words, [kAnswer], `after ${answers.map((answer) => answer.words).join(" | ")}`);
  assert.equal(callerTurns, 1);

  const heard = levels(sound);
  const first = heard.findIndex((db) => db > kLoudDb);
  const last = heard.findLastIndex((db) => db > kLoudDb);
  // The microphone's file plays since a moment before the page had the stream.
  const slackMs = 500;
  assert.ok(kWindowMs * first > questionAtMs + spoken.to - slackMs, `heard at ${kWindowMs * first} ms`);
  assert.ok(kWindowMs * (last - first) > 500, `${kWindowMs * (last - first)} ms of sound`);
  const quietTo = Math.floor((questionAtMs + spoken.to - slackMs) / kWindowMs);
  assert.ok(Math.max(...heard.slice(0, quietTo)) < kQuietDb, "quiet before");
  assert.ok(Math.max(...heard.slice(-10)) < kQuietDb, "quiet after");

  const { sessions, ticks } = await daemon.info();
  assert.equal(sessions.admitted, answers.length);
  assert.equal(sessions.faulty_messages + sessions.ignored_messages, 0);
  assert.equal(ticks.degraded, 0);
});

test("a caller too many is told so, and takes the place that becomes free", async () => {
  const first = await begin();
  await waitForState(first, kLive);
  const second = await begin();
  await waitForState(second, "refused");
  await waitForHint(second, /taken by another conversation.*again in \d+ s/s);
  await shot(second, "daemon-refusal");
  assert.ok(kLive.includes(await state(first)), "the first caller is left alone");
  assert.ok((await daemon.info()).sessions.refused >= 1);
  await begin(first); // again: ends it
  await waitForState(second, kLive, 30000);
});

for (const [how, words] of [["kill", /connection was lost/], ["stop", /restarting/]]) {
  test(`a daemon that comes back after ${how}() has its caller back`, async () => {
    const page = await begin();
    await page.locator(".turn.you").waitFor();
    await daemon[how]();
    await waitForState(page, "reconnecting");
    await waitForHint(page, words);
    daemon = await Daemon.start([], daemon.port);
    await waitForState(page, kLive, 30000);
    await page.locator(".note", { hasText: "Connected again" }).waitFor();
    assert.equal((await daemon.info()).sessions.open, 1);
  });
}
