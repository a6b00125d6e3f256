// The conversation as it can be read: the agent's words as they come, and the caller's turns as
// small pictures of their sound (nobody writes the caller's words down).

import { kFloorDb } from "./level";

const kTurnGapMs = 2200; // a longer silence between two words begins a new turn
const kAnswerGapMs = 900; // so does this one, once the caller has spoken
const kBarMs = 60; // one bar of a caller's turn
const kPieceMs = 20;
const kMostBars = 110; // a longer turn goes on without more bars
const kBarStep = 5; // units of the drawing, one unit is one pixel
const kBarHeight = 28;
const kStickPx = 48; // so near the end, the list follows new words

export class Transcript {
  private readonly list: HTMLElement;

  // The agent's turn that takes words, and when its last word came.
  private words: HTMLElement | null = null;
  private lastWordMs = 0;
  private callerSpoke = false; // since that turn began

  // The caller's turn under way.
  private wave: SVGSVGElement | null = null;
  private caption: HTMLElement | null = null;
  private bars = 0;
  private barPeakDb = kFloorDb;
  private barFilledMs = 0;

  constructor(list: HTMLElement) {
    this.list = list;
  }

  clear(): void {
    this.list.replaceChildren();
    this.words = null;
    this.wave = null;
  }

  // A line between two sessions.
  addNote(text: string): void {
    this.words = null;
    const item = document.createElement("li");
    item.className = "note";
    item.textContent = text;
    this.append(item);
  }

  // One piece of the agent's text, leading space kept.
  addWords(text: string, timeMs: number): void {
    if (text === "") return;
    const longest = this.callerSpoke ? kAnswerGapMs : kTurnGapMs;
    if (!this.words || timeMs - this.lastWordMs > longest) {
      this.callerSpoke = false;
      this.words = document.createElement("p");
      this.append(this.turn("agent", "Antiphon", timeMs, this.words));
      text = text.trimStart();
    }
    this.lastWordMs = timeMs;
    const piece = document.createElement("span");
    piece.textContent = text;
    this.follow(() => this.words!.append(piece));
  }

  beginCallerTurn(timeMs: number): void {
    this.wave = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.wave.classList.add("wave");
    this.wave.setAttribute("aria-hidden", "true");
    this.caption = document.createElement("span");
    this.caption.className = "visually-hidden";
    this.caption.textContent = "You speak";
    this.bars = 0;
    this.barFilledMs = 0;
    this.barPeakDb = kFloorDb;
    this.callerSpoke = true;
    this.append(this.turn("you", "You", timeMs, this.wave, this.caption));
  }

  addCallerLevel(db: number): void {
    this.barPeakDb = Math.max(this.barPeakDb, db);
    this.barFilledMs += kPieceMs;
    if (this.barFilledMs < kBarMs || !this.wave || this.bars >= kMostBars) return;
    this.drawBar(this.wave);
    this.barFilledMs = 0;
    this.barPeakDb = kFloorDb;
  }

  endCallerTurn(durationMs: number): void {
    if (this.caption) this.caption.textContent = `You spoke for ${seconds(durationMs)}`;
    if (this.wave) this.cutBars(this.wave, Math.ceil(durationMs / kBarMs));
    this.wave = null;
    this.caption = null;
  }

  private drawBar(wave: SVGSVGElement): void {
    const share = Math.max(0.08, Math.min(1, (this.barPeakDb + 50) / 42));
    const height = share * (kBarHeight - 3);
    const x = this.bars * kBarStep + kBarStep / 2;
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "line");
    for (const [name, value] of Object.entries({
      x1: x,
      x2: x,
      y1: (kBarHeight - height) / 2,
      y2: (kBarHeight + height) / 2,
    })) {
      bar.setAttribute(name, value.toFixed(1));
    }
    this.follow(() => wave.append(bar));
    ++this.bars;
    this.fitWave(wave);
  }

  // The pause that told the turn's end is not part of it.
  private cutBars(wave: SVGSVGElement, kept: number): void {
    for (; this.bars > Math.max(1, kept); --this.bars) wave.lastElementChild?.remove();
    this.fitWave(wave);
  }

  private fitWave(wave: SVGSVGElement): void {
    const width = this.bars * kBarStep;
    wave.setAttribute("width", String(width));
    wave.setAttribute("height", String(kBarHeight));
    wave.setAttribute("viewBox", `0 0 ${width} ${kBarHeight}`);
  }

  private turn(who: string, name: string, timeMs: number, ...content: Element[]): HTMLElement {
    const item = document.createElement("li");
    item.className = `turn ${who}`;
    const label = document.createElement("span");
    label.className = "who";
    label.textContent = name;
    const time = document.createElement("time");
    time.textContent = clock(timeMs);
    time.dateTime = `PT${(timeMs / 1000).toFixed(1)}S`;
    const head = document.createElement("div");
    head.className = "turn-head";
    head.append(label, time);
    item.append(head, ...content);
    return item;
  }

  private append(item: HTMLElement): void {
    this.follow(() => this.list.append(item));
  }

  // Changes the list and keeps its end in sight, unless the reader scrolled back.
  private follow(change: () => void): void {
    const { list } = this;
    const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < kStickPx;
    change();
    if (atEnd) list.scrollTop = list.scrollHeight;
  }
}

export function clock(ms: number): string {
  const total = Math.floor(ms / 1000);
  return `${Math.floor(total / 60)}:${String(total % 60).padStart(2, "0")}`;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
