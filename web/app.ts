// The page: brings the conversation, the settings and everything that shows them together.

import { Conversation, isLive } from "./conversation";
import { Details } from "./details";
import { keyHeaders, takeKeyFromAddress } from "./key";
import { kFloorDb } from "./level";
import { MeterBar, SmoothLevel } from "./meters";
import { obstacle } from "./microphone";
import { Panels } from "./panels";
import { parseInfo, type ModelFacts } from "./protocol";
import { remediesFor } from "./remedies";
import { Ring } from "./ring";
import { Settings } from "./settings";
import { isHopeless, wordsFor, type Status } from "./status";
import { Transcript } from "./transcript";
import { VoiceActivity } from "./voice_activity";

const kPieceMs = 20; // between two levels of the caller
const kCountdownMs = 250;
const kDetailsMs = 500;

function byId<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

class App {
  private readonly talk = byId<HTMLButtonElement>("talk");
  private readonly mute = byId<HTMLButtonElement>("mute");
  private readonly ring = new Ring(byId<HTMLCanvasElement>("ring"));
  private readonly callerBar = new MeterBar(byId("meter-you"));
  private readonly agentBar = new MeterBar(byId("meter-agent"));
  private readonly callerLevel = new SmoothLevel();
  private readonly agentLevel = new SmoothLevel();
  private readonly details = new Details(byId("details"));
  private readonly settings = new Settings(byId<HTMLFormElement>("settings"), () => this.noteChange());
  private readonly panels = new Panels((id, open) => {
    if (id === "details") this.details.setOpen(open);
  });
  private readonly transcript = new Transcript(byId("turns"));
  private readonly activity = new VoiceActivity({
    onBegin: () => {
      this.transcript.beginCallerTurn(performance.now() - this.beganAt);
      document.body.dataset.turns = "some";
    },
    onLevel: (db) => this.transcript.addCallerLevel(db),
    onEnd: (durationMs) => this.transcript.endCallerTurn(durationMs),
  });

  private conversation: Conversation | null = null;
  private status: Status = { phase: "idle" };
  private beganAt = 0; // performance.now() when the conversation's clock began
  private lastFrameAt = 0;

  constructor() {
    takeKeyFromAddress();
    this.talk.addEventListener("click", () => this.press());
    this.mute.addEventListener("click", () => this.toggleMute());
    document.addEventListener("keydown", (event) => this.onKey(event));
    setInterval(() => this.showWords(), kCountdownMs);
    setInterval(() => this.details.refresh(this.conversation?.soundFacts() ?? null), kDetailsMs);
    addEventListener("resize", () => this.drawFrame(performance.now()));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
      this.drawFrame(performance.now()),
    );
    const inTheWay = obstacle();
    this.show(inTheWay ? { phase: "problem", problem: inTheWay } : { phase: "idle" });
    this.drawFrame(performance.now());
    void this.askForModel();
  }

  private press(): void {
    if (this.status.phase === "paused") this.conversation?.resume();
    else if (this.conversation) this.conversation.end();
    else this.begin();
  }

  private begin(): void {
    this.transcript.clear();
    document.body.dataset.turns = "none";
    const url = new URL("v1/voice", document.baseURI);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    url.search = url.hash = "";
    this.conversation = new Conversation(url.href, () => this.settings.options(), {
      onStatus: (status) => this.show(status),
      onModel: (model, server, session) => {
        this.showModel(model);
        this.details.showSession(server, session);
      },
      onReady: (timeMs) => this.beginSession(timeMs),
      onText: (text, timeMs) => {
        this.transcript.addWords(text, timeMs);
        document.body.dataset.turns = "some";
      },
      onCallerLevel: (db) => {
        if (!isLive(this.status)) return; // nobody hears it
        this.callerLevel.set(db);
        this.activity.take(db, kPieceMs);
      },
      onPlayback: (report) => {
        this.agentLevel.set(report.levelDb);
        this.details.takeReport(report);
      },
      onServerStats: (stats) => this.details.takeStats(stats),
    });
    this.setMuted(false);
    requestAnimationFrame((now) => this.animate(now));
    void this.conversation.begin();
  }

  private beginSession(timeMs: number): void {
    this.beganAt = performance.now() - timeMs;
    const again = document.body.dataset.turns === "some";
    if (again) this.transcript.addNote("Connected again: the agent starts afresh");
  }

  private show(status: Status): void {
    const wasLive = isLive(this.status);
    this.status = status;
    const { body } = document;
    body.dataset.state = status.phase;
    body.dataset.problem = status.problem ?? "";
    body.toggleAttribute("data-progress", status.progress !== undefined);
    body.style.setProperty("--progress", String(status.progress ?? 0));
    if (status.phase === "idle" || status.phase === "problem") {
      this.conversation = null;
      this.agentLevel.set(kFloorDb);
    }
    if (wasLive && !isLive(status)) {
      this.activity.stop();
      this.callerLevel.set(kFloorDb);
    }
    this.showRemedies(status);
    this.showWords();
    this.announce(status, wasLive);
    this.talk.disabled = isHopeless(status);
    this.mute.hidden = !this.conversation;
  }

  private showWords(): void {
    const words = wordsFor(this.status, performance.now());
    put(byId("headline"), words.headline);
    put(byId("hint"), words.hint);
    put(byId("talk-label"), words.button);
    const verb = { Talk: "Start talking", End: "End the conversation" }[words.button];
    this.talk.setAttribute("aria-label", verb ?? words.button);
  }

  // Listening and speaking alternate too often to be read out.
  private announce(status: Status, wasLive: boolean): void {
    if (wasLive && isLive(status)) return;
    const { headline, hint } = wordsFor(status, performance.now());
    put(byId("announcer"), `${headline}. ${hint}`);
  }

  private showRemedies({ problem }: Status): void {
    const list = byId("remedies");
    list.hidden = problem === undefined;
    const steps = problem ? remediesFor(problem, new URL(location.href)) : [];
    list.replaceChildren(...steps.map((step) => withCode(document.createElement("li"), step)));
  }

  private showModel(model: ModelFacts): void {
    put(byId("model"), model.name);
    this.panels.setAvailable("settings", this.settings.offer(model));
  }

  // Before the first conversation, so that voice and persona can be chosen for it.
  private async askForModel(): Promise<void> {
    try {
      const answer = await fetch("v1/info", { cache: "no-store", headers: keyHeaders() });
      const model = parseInfo(await answer.json());
      if (model && !this.conversation) this.showModel(model);
    } catch {
      // The first `hello` tells the same.
    }
  }

  private noteChange(): void {
    byId("settings-note").hidden = !this.conversation;
  }

  private toggleMute(): void {
    this.setMuted(this.mute.getAttribute("aria-pressed") !== "true");
  }

  private setMuted(muted: boolean): void {
    this.mute.setAttribute("aria-pressed", String(muted));
    put(byId("mute-label"), muted ? "Muted" : "Mute");
    document.body.dataset.muted = String(muted);
    this.conversation?.setMuted(muted);
  }

  private onKey(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    const typing = target.matches("input, select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.toLowerCase() === "m" && this.conversation) this.toggleMute();
  }

  // Draws as long as there is a conversation, and until its last sound has faded.
  private animate(now: number): void {
    const moving = this.drawFrame(now);
    if (this.conversation || moving) requestAnimationFrame((next) => this.animate(next));
  }

  private drawFrame(now: number): boolean {
    const elapsedMs = Math.min(100, now - this.lastFrameAt);
    this.lastFrameAt = now;
    const caller = this.callerLevel.advance(elapsedMs);
    const agent = this.agentLevel.advance(elapsedMs);
    this.ring.draw(caller, agent, elapsedMs);
    this.callerBar.show(caller);
    this.agentBar.show(agent);
    return caller > 0 || agent > 0;
  }
}

function put(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

// Appends text whose parts between backticks are code.
function withCode(element: HTMLElement, text: string): HTMLElement {
  text.split("`").forEach((part, index) => {
    if (index % 2 === 0) return element.append(part);
    const code = document.createElement("code");
    code.textContent = part;
    element.append(code);
  });
  return element;
}

new App();
