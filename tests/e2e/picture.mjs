// The picture of the page in the documentation: a conversation with antiphond and its own model.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { closePages, launch, openPage } from "./browser.mjs";
import { Daemon } from "./daemon.mjs";
import { buildDir, sample, sourceDir } from "./place.mjs";
import { cut, joined } from "./wav.mjs";

const kPicture = join(sourceDir, "docs/images/page.png");
const kViewport = { width: 1200, height: 680 };
const kTurns = [[2, 4.5], [3, 5], [0, 5]]; // question, and the seconds it has with its answer
const kTries = 10; // the model is small: it does not answer right every time

const samples = JSON.parse(readFileSync(sample(0).replace("user_0.wav", "samples.json"), "utf8"));
const wanted = kTurns.map(([number]) => samples[number].expected);
const microphone = join(buildDir, "e2e_picture.wav");
writeFileSync(microphone, joined(kTurns.map(([number, seconds]) => cut(readFileSync(sample(number)), 0, seconds))));

const daemon = await Daemon.start();
const browser = await launch({ microphone });
try {
  await take();
} finally {
  await browser.close();
  await daemon.stop();
}

async function take() {
  for (let tried = 0; tried < kTries; ++tried) {
    const page = await openPage(browser, daemon.url, { viewport: kViewport });
    await page.click("#talk");
    const answers = page.locator(".turn.agent p");
    const told = await answers.getByText(wanted.at(-1)).waitFor({ timeout: 20000 }).then(() => true, () => false);
    const picture = await page.screenshot();
    const words = await answers.allInnerTexts();
    await closePages();
    if (told && words.join() === wanted.join()) {
      mkdirSync(dirname(kPicture), { recursive: true });
      return writeFileSync(kPicture, picture);
    }
    console.error(`not this one: ${words.join(" | ")}`);
  }
  throw new Error(`${kPicture}: expected a conversation that goes ${wanted.join(" | ")}, found none`);
}
