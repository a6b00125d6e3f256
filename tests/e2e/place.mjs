// Where things are: this checkout, the build under test, and what the page is made of.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { cut } from "./wav.mjs";

export const sourceDir = join(dirname(fileURLToPath(import.meta.url)), "../..");
export const buildDir = process.env.ANTIPHON_BUILD_DIR;
export const screenshotDir = join(buildDir, "screenshots");
mkdirSync(screenshotDir, { recursive: true });

// A question and the quiet in which to answer it.
export const question = sample(0);

// Its words alone: played over and over, somebody always talks.
export const chatter = join(buildDir, "e2e_chatter.wav");
writeFileSync(chatter, cut(readFileSync(question), 1, 2.4));

const bundle = (name) => [join(buildDir, "web", name), "text/javascript; charset=utf-8"];
const file = (name, type) => [join(sourceDir, "web", name), type];

// The page's files, as the daemon has them in its binary.
export const assets = {
  "/": file("index.html", "text/html; charset=utf-8"),
  "/style.css": file("style.css", "text/css; charset=utf-8"),
  "/favicon.svg": file("favicon.svg", "image/svg+xml"),
  "/app.js": bundle("app.js"),
  "/capture_worklet.js": bundle("capture_worklet.js"),
  "/playback_worklet.js": bundle("playback_worklet.js"),
};

// The policy the daemon sends with them.
const header = readFileSync(join(sourceDir, "web/web_assets.h"), "utf8");
export const contentSecurityPolicy = [
  ...header.slice(header.indexOf("kContentSecurityPolicy")).matchAll(/^ {4}"(.*)"/gm),
]
  .map(([, text]) => text)
  .join("");

// Question `number` of those that come with the model (samples.json tells words and answers).
export function sample(number) {
  return join(sourceDir, `models/embedded/samples/user_${number}.wav`);
}
