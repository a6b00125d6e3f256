// Every state of the page, against a service that follows a script.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { join } from "node:path";

import { closePages, launch, openPage, recording, state, waitForHint, waitForState } from "./browser.mjs";
import { assets, chatter, contentSecurityPolicy, screenshotDir } from "./place.mjs";
import { ScriptedService } from "./scripted_service.mjs";
import { loudMs, pitchHz } from "./sound.mjs";

const kLive = ["listening", "speaking"];
const kLines = [[400, "Good evening."], [1600, "Shall we talk?"]];
const kModel = {
  name: "scripted",
  family: "moshi",
  voices: ["alto", "tenor"],
  text_prompt: true,
  has_text: true,
  defaults: { text_temperature: 0.7, text_top_k: 25, audio_temperature: 0.8, audio_top_k: 250 },
};

let service;
let browser;

before(async () => {
  service = await ScriptedService.start(assets, contentSecurityPolicy);
  browser = await launch({ microphone: chatter, loop: true });
});
after(async () => {
  await browser?.close();
  service?.stop();
});
beforeEach(() => service.reset(kModel));
// Nothing in the console, nothing from elsewhere.
afterEach(async () => {
  for (const { faults, requests } of await closePages()) {
    assert.deepEqual(faults, []);
    for (const url of requests) assert.equal(new URL(url).port, String(service.port), url);
  }
});

async function open(options) {
  return openPage(browser, service.url, options);
}

async function shot(page, name) {
  await page.waitForTimeout(400); // fades
  await page.screenshot({ path: join(screenshotDir, `${name}.png`) });
}

describe("a conversation", () => {
  const places = {
    light: { deviceRateHz: 44100 },
    dark: { deviceRateHz: 48000, colorScheme: "dark" },
    phone: {
      deviceRateHz: 96000,
      viewport: { width: 360, height: 740 },
      deviceScaleFactor: 2,
      isMobile: true,
      hasTouch: true,
    },
  };
  for (const [name, options] of Object.entries(places)) {
    test(`is heard and read: ${name}, device at ${options.deviceRateHz} Hz`, async () => {
      service.script = (call) => call.talk({ lines: kLines });
      const page = await open(options);
      await shot(page, `${name}-idle`);
      await page.click("#talk");
      await page.locator(".turn.agent p", { hasText: "Shall we talk?" }).waitFor();
      await shot(page, `${name}-conversation`);
      await waitForState(page, "listening");
      await heardKLines(page, options.deviceRateHz);
      const turns = await page.locator(".turn.agent p").allInnerTexts();
      assert.deepEqual(turns, ["Good evening. Shall we talk?"]);
      assert.ok((await page.locator(".turn.you").count()) > 0, "the caller's turn is shown");
      const overflow = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.equal(overflow, 0, "the page scrolls sideways");
      await page.click("#talk");
      await waitForState(page, "idle");
      assert.deepEqual([...service.kinds], [1]); // Opus went out
      assert.ok(service.clientStats.length > 1);
      assert.ok(service.clientStats.every(({ buffer_ms }) => buffer_ms <= 250));
    });
  }

  async function heardKLines(page, rateHz) {
    const sound = await recording(page);
    assert.equal(sound.rateHz, rateHz);
    // Five words of two or three frames each, of which a busy machine may lose some.
    const loud = loudMs(sound, -30);
    assert.ok(loud > 5 * 80 && loud < 5 * 240 + 160, `${loud} ms of sound`);
    const pitch = pitchHz(sound, -14);
    assert.ok(Math.abs(pitch - 300) < 3, `${pitch} Hz`); // the buffer may trim by 0.4 %
  }

  test("without WebCodecs talks raw PCM", async () => {
    service.script = (call) => call.talk({ lines: kLines });
    const page = await open({ withoutWebCodecs: true });
    await page.click("#talk");
    await waitForState(page, "speaking");
    assert.equal(service.starts[0].audio, "pcm16");
    await page.waitForFunction(() => document.querySelectorAll(".turn.you").length > 0);
    assert.deepEqual([...service.kinds], [2]);
  });

  test("with Opus both ways comes back as it went out", async () => {
    service.script = (call) => call.echo();
    const page = await open();
    await page.click("#talk");
    await waitForState(page, "speaking");
    await page.waitForTimeout(1500);
    assert.equal(service.starts[0].audio, "opus");
    assert.ok(loudMs(await recording(page), -40) > 400);
    assert.deepEqual([...service.kinds], [1]);
  });

  test("can be muted and ended by the keyboard alone", async () => {
    const page = await open();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await waitForState(page, kLive);
    await page.keyboard.press("m");
    await page.locator("#mute[aria-pressed=true]").waitFor();
    await page.waitForFunction(
      () => document.getElementById("meter-you").getAttribute("aria-valuenow") === "0",
    );
    await page.keyboard.press("Enter");
    await waitForState(page, "idle");
  });

  test("survives a stall: the flood after it is cut and counted", async () => {
    service.script = (call) => call.talk({ lines: [[0, "one two three four five six seven eight"]], stallAtMs: 2000, stallMs: 1500 });
    const page = await open();
    await page.click("#talk");
    await waitForState(page, "speaking");
    await page.click("button[aria-controls=details]");
    await page.waitForFunction(
      () => parseInt(document.querySelector('[data-value="cut"]').textContent) > 500,
    );
    const depth = await page.locator('[data-value="playback"]').innerText();
    assert.ok(parseInt(depth) <= 250, depth);
    assert.ok(parseInt(await page.locator('[data-value="underruns"]').innerText()) >= 1);
    await page.locator('[data-value="delay"]', { hasText: "about" }).waitFor();
    await shot(page, "details");
  });
});

describe("settings", () => {
  test("are offered before the first conversation, sent with it, and remembered", async () => {
    service.script = (call) => call.talk({ promptFrames: 30, promptFrameMs: 40 });
    const page = await open();
    await page.click("button[aria-controls=settings]");
    await page.selectOption("#voice", "tenor");
    await page.fill("#text_prompt", "You are a lighthouse keeper.");
    await page.fill("#text_temperature", "0.4");
    await page.fill("#seed", "7");
    await shot(page, "settings");
    await page.keyboard.press("Escape");
    await page.click("#talk");
    await waitForState(page, "preparing");
    await page.locator("#hint", { hasText: /\d+ %/ }).waitFor();
    await shot(page, "preparing");
    await waitForState(page, kLive);
    assert.deepEqual(service.starts[0], {
      type: "start",
      audio: "opus",
      voice: "tenor",
      text_prompt: "You are a lighthouse keeper.",
      text_temperature: 0.4,
      seed: 7,
    });
    await page.reload();
    await page.click("button[aria-controls=settings]");
    assert.equal(await page.inputValue("#voice"), "tenor");
    await page.click("button[type=reset]");
    await page.waitForFunction(() => document.getElementById("voice").value === "");
    await page.click("#talk");
    await waitForState(page, "preparing");
    await page.waitForFunction(() => document.body.dataset.progress !== undefined);
    assert.deepEqual(service.starts[1], { type: "start", audio: "opus" });
  });

  test("that the service does not accept are explained", async () => {
    service.script = async (call) => {
      await call.hello();
      call.send({ type: "error", code: "bad_option", message: "`voice`: there is no voice tenor" });
    };
    const page = await open();
    await page.click("#talk");
    await waitForState(page, "problem");
    await waitForHint(page, /no voice tenor/);
  });

  test("are not offered by a model without choices", async () => {
    service.model = { ...kModel, voices: [], text_prompt: false, defaults: undefined };
    const page = await open();
    await page.locator("#model", { hasText: "scripted" }).waitFor();
    assert.ok(await page.locator("button[aria-controls=settings]").isHidden());
  });
});

describe("a refusal", () => {
  test("is explained, waited out and tried again", async () => {
    const busy = { code: "busy", message: "4 of 4 places are taken", retry_after_ms: 2500 };
    const times = [];
    service.script = async (call, number) => {
      times.push(Date.now());
      if (number < 1) call.close(1013, busy);
      else await call.talk();
    };
    const page = await open();
    await page.click("#talk");
    await waitForState(page, "refused");
    await waitForHint(page, /taken by another conversation.*again in \d s/s);
    await shot(page, "refusal");
    await waitForState(page, kLive);
    assert.ok(times[1] - times[0] >= 2500, `asked again after ${times[1] - times[0]} ms`);
  });

  test("can be left", async () => {
    service.script = async (call) => call.close(1013, { code: "draining", message: "", retry_after_ms: 60000 });
    const page = await open();
    await page.click("#talk");
    await waitForState(page, "refused");
    await waitForHint(page, /about to stop/);
    await page.click("#talk");
    await waitForState(page, "idle");
  });
});

describe("a connection that ends", () => {
  test("by a cut comes back by itself and says so", async () => {
    service.script = (call) => call.talk({ lines: kLines });
    const page = await open();
    await page.click("#talk");
    await waitForState(page, "speaking");
    service.cut();
    await waitForState(page, "reconnecting");
    await waitForHint(page, /connection was lost/);
    await shot(page, "reconnecting");
    await waitForState(page, kLive);
    await page.locator(".note", { hasText: "Connected again" }).waitFor();
    await page.waitForFunction(() => document.querySelectorAll(".turn.agent").length > 1);
  });

  test("by silence is noticed", async () => {
    service.script = async (call, number) => {
      if (number > 0) return call.talk();
      await call.hello();
      call.send({ type: "ready", time_ms: 0 }); // and never a frame
    };
    const page = await open();
    await page.click("#talk");
    await waitForState(page, "listening");
    await waitForState(page, "reconnecting");
    await waitForState(page, "listening");
  });

  const endings = [
    [1001, null, "reconnecting", /restarting/],
    [1011, null, "reconnecting", /fault/],
    [1008, { code: "bad_message", message: "20 faulty messages" }, "problem", /20 faulty messages/],
    [1000, { code: "too_slow", message: "" }, "reconnecting", /too slow/],
  ];
  for (const [code, error, expected, words] of endings) {
    test(`with ${code}${error ? ` after ${error.code}` : ""} is explained`, async () => {
      service.script = async (call, number) => {
        if (number > 0) return;
        await call.talk();
        setTimeout(() => call.close(code, error), 300);
      };
      const page = await open();
      await page.click("#talk");
      await waitForState(page, expected);
      await waitForHint(page, words);
    });
  }

  test("by the service's goodbye after long quiet ends the conversation", async () => {
    service.script = async (call) => {
      await call.talk();
      call.send({ type: "bye", reason: "idle" });
      call.close(1000);
    };
    const page = await open();
    await page.click("#talk");
    await page.waitForFunction(() => document.getElementById("headline").textContent.includes("ended"));
    assert.equal(await state(page), "idle");
    await waitForHint(page, /quiet for a long time/);
  });
});

describe("what stands in the way is explained:", () => {
  // Opens the page in a browser of its own, presses the button if it can be pressed.
  async function problem(options, url, name) {
    const other = await launch(options);
    try {
      const page = await openPage(other, url);
      if (await page.locator("#talk").isEnabled()) await page.click("#talk");
      await waitForState(page, "problem");
      const found = {
        problem: await page.evaluate(() => document.body.dataset.problem),
        headline: await page.locator("#headline").innerText(),
        steps: await page.locator("#remedies li").allInnerTexts(),
        enabled: await page.locator("#talk").isEnabled(),
      };
      await shot(page, name);
      return found;
    } finally {
      await other.close();
    }
  }

  test("no microphone", async () => {
    const found = await problem({ microphone: "absent" }, service.url, "no-microphone");
    assert.equal(found.problem, "missing");
    assert.match(found.headline, /No microphone/);
    assert.match(found.steps[0], /Plug in/);
    assert.ok(found.enabled);
  });

  test("permission denied", async () => {
    const found = await problem({ microphone: "refused" }, service.url, "denied");
    assert.equal(found.problem, "denied");
    assert.match(found.steps[0], /“Allow”/);
    assert.ok(found.enabled);
  });

  test("a page that is not secure", async () => {
    const args = ["--host-resolver-rules=MAP antiphon.test 127.0.0.1"];
    const url = `http://antiphon.test:${service.port}/`;
    const found = await problem({ microphone: chatter, args }, url, "insecure");
    assert.equal(found.problem, "insecure");
    assert.match(found.headline, /secure address/);
    assert.ok(found.steps.some((step) => step.includes(`http://localhost:${service.port}`)));
    assert.ok(!found.enabled);
  });

  test("sound that the device paused", async () => {
    const page = await open();
    await page.click("#talk");
    await waitForState(page, kLive);
    await page.evaluate(() => window.recorded.context.suspend());
    await waitForState(page, "paused");
    assert.equal(await page.locator("#talk-label").innerText(), "Resume");
    await page.click("#talk");
    await waitForState(page, kLive);
  });

  test("a microphone that goes away is replaced, or missed", async () => {
    const page = await open();
    await page.click("#talk");
    await waitForState(page, kLive);
    await page.evaluate(() => window.microphones.at(-1).dispatchEvent(new Event("ended")));
    await page.waitForFunction(() => window.microphones.length === 2);
    assert.ok(kLive.includes(await state(page)));
    await page.evaluate(() => {
      navigator.mediaDevices.getUserMedia = async () => {
        throw new DOMException("", "NotFoundError");
      };
      window.microphones.at(-1).dispatchEvent(new Event("ended"));
    });
    await waitForState(page, "problem");
    assert.equal(await page.evaluate(() => document.body.dataset.problem), "gone");
  });
});

test("the page works under a path prefix", async () => {
  service.prefix = "/voice";
  const page = await openPage(browser, `${service.url}voice/`);
  await page.click("#talk");
  await waitForState(page, kLive);
});
