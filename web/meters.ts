// Level meters: how loud each side is, for the eye.

import { kFloorDb } from "./level";

const kQuietDb = -54; // shown as nothing
const kLoudDb = -8; // shown as full
const kReleasePerMs = 0.004; // falls from full to nothing in a quarter of a second

// A level between 0 and 1 that rises at once and falls softly.
export class SmoothLevel {
  private target = 0;
  private shown = 0;

  set(db: number): void {
    this.target = Math.max(0, Math.min(1, (db - kQuietDb) / (kLoudDb - kQuietDb)));
  }

  reset(): void {
    this.set(kFloorDb);
  }

  // The level to show `elapsedMs` after the call before.
  advance(elapsedMs: number): number {
    this.shown = Math.max(this.target, this.shown - kReleasePerMs * elapsedMs);
    return this.shown;
  }
}

// A bar (role="meter") that follows a level. The style sheet reads --level.
export class MeterBar {
  private readonly element: HTMLElement;
  private told = 0;

  constructor(element: HTMLElement) {
    this.element = element;
  }

  show(level: number): void {
    this.element.style.setProperty("--level", level.toFixed(3));
    const percent = Math.round(100 * level);
    // Assistive technology does not need sixty values a second.
    if (Math.abs(percent - this.told) < 5 && (percent > 0 || this.told === 0)) return;
    this.told = percent;
    this.element.setAttribute("aria-valuenow", String(percent));
  }
}
