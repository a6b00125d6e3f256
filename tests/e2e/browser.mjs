// Chromium with a fake microphone, and pages that are recorded.

import { chromium } from "playwright-core";

const kArguments = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--autoplay-policy=no-user-gesture-required",
];

// `microphone`: a WAV file (plays once, or over and over with `loop`), "refused" or "absent".
export async function launch({ microphone, loop = false, args = [] }) {
  const fake = [];
  if (microphone !== "absent") fake.push("--use-fake-device-for-media-stream");
  fake.push(microphone === "refused" ? "--deny-permission-prompts" : "--use-fake-ui-for-media-stream");
  if (microphone !== "absent" && microphone !== "refused") {
    fake.push(`--use-file-for-fake-audio-capture=${microphone}${loop ? "" : "%noloop"}`);
  }
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    args: [...kArguments, ...fake, ...args],
  });
}

let open = [];

// Closes every page that openPage opened; tells what each of them did.
export async function closePages() {
  const pages = open;
  open = [];
  for (const page of pages) await page.context().close();
  return pages;
}

// A page that keeps what it plays: whatever is connected to the loudspeaker goes to a recorder too.
// `deviceRateHz`: of its sound device; `withoutWebCodecs`: as browsers that lack it. Other options
// are playwright's.
export async function openPage(browser, url, { deviceRateHz, withoutWebCodecs, ...options } = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    colorScheme: "light",
    ...options,
  });
  const page = await context.newPage();
  open.push(page);
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") page.faults.push(`${message.text()} (${message.location().url})`);
  });
  page.requests = [];
  page.on("request", (request) => page.requests.push(request.url()));
  await page.addInitScript(installInstruments, { deviceRateHz, withoutWebCodecs });
  await page.goto(url);
  return page;
}

// What the page played so far: { rateHz, samples: Float32Array, startedAtMs } on performance.now().
export async function recording(page) {
  const { base64, rateHz, startedAtMs } = await page.evaluate(() => {
    const { blocks, rateHz, startedAtMs } = window.recorded;
    const all = new Int16Array(blocks.reduce((sum, block) => sum + block.length, 0));
    let at = 0;
    for (const block of blocks) {
      for (const x of block) all[at++] = Math.max(-32768, Math.min(32767, Math.round(32767 * x)));
    }
    let text = "";
    const bytes = new Uint8Array(all.buffer);
    for (let i = 0; i < bytes.length; i += 32768) {
      text += String.fromCharCode(...bytes.subarray(i, i + 32768));
    }
    return { base64: btoa(text), rateHz, startedAtMs };
  });
  const bytes = Buffer.from(base64, "base64");
  const samples = Float32Array.from({ length: bytes.length / 2 }, (_, i) => bytes.readInt16LE(2 * i) / 32768);
  return { rateHz, samples, startedAtMs };
}

export async function state(page) {
  return page.evaluate(() => document.body.dataset.state);
}

// Waits for one of the states; throws after `timeoutMs`, naming the state it found.
export async function waitForState(page, states, timeoutMs = 15000) {
  const wanted = [states].flat();
  try {
    await page.waitForFunction((list) => list.includes(document.body.dataset.state), wanted, {
      timeout: timeoutMs,
      polling: 50,
    });
  } catch {
    const shown = await page.locator("#headline").innerText();
    throw new Error(`the page is "${await state(page)}" (${shown}), expected ${wanted.join(" or ")}`);
  }
}

// Waits until the page has said `words` (a pattern) below its headline, be it for a moment.
export async function waitForHint(page, words, timeoutMs = 15000) {
  const told = ([source, flags]) => window.hints.some((hint) => new RegExp(source, flags).test(hint));
  try {
    await page.waitForFunction(told, [words.source, words.flags], { timeout: timeoutMs, polling: 50 });
  } catch {
    const hints = await page.evaluate(() => window.hints);
    throw new Error(`the page said "${hints.join('", "')}", expected ${words}`);
  }
}

// Runs in the page before its own scripts. A script processor, deprecated as it is, needs no file of
// its own, which the page's Content-Security-Policy would refuse.
function installInstruments({ deviceRateHz, withoutWebCodecs }) {
  window.hints = [];
  new MutationObserver(() => {
    const hint = document.getElementById("hint")?.textContent ?? "";
    if (hint !== window.hints.at(-1)) window.hints.push(hint);
  }).observe(document, { childList: true, characterData: true, subtree: true });
  window.recorded = { blocks: [], rateHz: 0, startedAtMs: 0 };
  const connect = AudioNode.prototype.connect;
  AudioNode.prototype.connect = function (destination, ...rest) {
    if (destination instanceof AudioDestinationNode) {
      const recorder = this.context.createScriptProcessor(4096, 1, 1);
      window.recorded.context = this.context;
      window.recorded.rateHz = this.context.sampleRate;
      window.recorded.startedAtMs ||= performance.now();
      recorder.onaudioprocess = (event) => {
        window.recorded.blocks.push(event.inputBuffer.getChannelData(0).slice());
      };
      connect.call(this, recorder);
      connect.call(recorder, destination);
      this.recorder = recorder; // or it may be collected
    }
    return connect.call(this, destination, ...rest);
  };
  if (deviceRateHz) {
    window.AudioContext = class extends AudioContext {
      constructor(options) {
        super({ ...options, sampleRate: deviceRateHz });
      }
    };
  }
  if (withoutWebCodecs) {
    delete window.AudioEncoder;
    delete window.AudioDecoder;
  }
  if (!navigator.mediaDevices) return;
  window.microphones = [];
  const getUserMedia = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  navigator.mediaDevices.getUserMedia = async (constraints) => {
    const stream = await getUserMedia(constraints);
    window.microphoneAtMs ||= performance.now();
    window.microphones.push(...stream.getAudioTracks());
    return stream;
  };
}
