// One conversation, from the press of the button to its end: microphone, connection, both sound
// paths, and coming back after the connection was lost. Made anew for each press.

import { Capture } from "./capture";
import { canDecodeOpus, canEncodeOpus } from "./codec_opus";
import { Connection, type Ending } from "./connection";
import { MicrophoneError, openMicrophone } from "./microphone";
import { Playback } from "./playback";
import type { PlaybackReport } from "./playback_messages";
import type { ModelFacts, ServerMessage, ServerStats, StartOptions } from "./protocol";
import { judge } from "./retry";
import { kLive, type Status } from "./status";
import { WakeLock } from "./wake_lock";

const kStatsIntervalMs = 1000;
const kSpeakingDb = -42; // the agent's sound above this counts as speech
const kSpeakingHoldMs = 600; // and goes on counting so long after

export interface ConversationEvents {
  onStatus(status: Status): void;
  onModel(model: ModelFacts, server: string, session: string): void;
  onReady(timeMs: number): void; // a session begins, so long after the conversation did
  onText(text: string, timeMs: number): void; // times count from the conversation's start
  onCallerLevel(db: number): void;
  onPlayback(report: PlaybackReport): void;
  onServerStats(stats: ServerStats): void;
}

// What the details show of the sound paths.
export interface SoundFacts {
  sends: string;
  hears: string;
  deviceRateHz: number;
  outputLatencyMs: number;
  droppedPackets: number;
}

export class Conversation {
  // Given to us.
  private readonly socketUrl: string;
  private readonly options: () => Omit<StartOptions, "audio">;
  private readonly events: ConversationEvents;

  // Owned by us.
  private readonly context = new AudioContext({ latencyHint: "interactive" });
  private readonly wakeLock = new WakeLock();
  private capture: Capture | null = null;
  private playback: Playback | null = null;
  private connection: Connection | null = null;
  private statsTimer = 0;
  private retryTimer = 0;

  // State.
  private over = false;
  private opusIn = false;
  private opusOut = false;
  private ready = false;
  private muted = false;
  private attempts = 0;
  private droppedBefore = 0; // packets of earlier connections
  private beganAt = 0; // performance.now() of the first `ready`
  private sessionOffsetMs = 0;
  private lastSpeechAt = -Infinity;
  private report: PlaybackReport | null = null;
  private status: Status = { phase: "idle" };

  // Must be made within a user gesture, or browsers keep the sound off.
  constructor(
    socketUrl: string,
    options: () => Omit<StartOptions, "audio">,
    events: ConversationEvents,
  ) {
    this.socketUrl = socketUrl;
    this.options = options;
    this.events = events;
    this.context.onstatechange = () => this.refresh();
    addEventListener("online", this.retryNow);
  }

  // Runs until the sound flows or the user is needed; never throws.
  async begin(): Promise<void> {
    this.show({ phase: "microphone" });
    try {
      this.resume();
      const stream = await openMicrophone();
      if (this.over) return stopTracks(stream);
      this.show({ phase: "connecting" });
      [this.opusIn, this.opusOut] = await Promise.all([
        canEncodeOpus(),
        canDecodeOpus(),
        this.context.audioWorklet.addModule("capture_worklet.js"),
        this.context.audioWorklet.addModule("playback_worklet.js"),
      ]);
      if (this.over) return stopTracks(stream);
      this.listenTo(stream);
      this.openPlayback();
    } catch (error) {
      if (!(error instanceof MicrophoneError)) console.error(error);
      const problem = error instanceof MicrophoneError ? error.problem : "unsupported";
      this.finish({ phase: "problem", problem });
      return;
    }
    this.statsTimer = setInterval(() => this.sendStats(), kStatsIntervalMs);
    this.wakeLock.take();
    this.connect();
  }

  end(): void {
    this.finish({ phase: "idle" });
  }

  // After the device paused our sound; within a user gesture.
  resume(): void {
    // Refused while a phone call holds the sound: the "paused" state stays.
    this.context.resume().catch(() => undefined);
  }

  setMuted(muted: boolean): void {
    this.muted = muted;
    if (this.capture) this.capture.muted = muted;
  }

  soundFacts(): SoundFacts {
    const { baseLatency, outputLatency = 0, sampleRate } = this.context;
    return {
      sends: this.capture?.codec ?? "–",
      hears: this.opusOut ? "Opus" : "PCM",
      deviceRateHz: sampleRate,
      outputLatencyMs: 1000 * (baseLatency + outputLatency),
      droppedPackets: this.droppedBefore + (this.connection?.dropped ?? 0),
    };
  }

  private listenTo(stream: MediaStream): void {
    this.capture = new Capture(this.context, stream, this.opusIn, {
      onPacket: (kind, payload) => this.connection?.sendSound(kind, payload),
      onLevel: (db) => this.events.onCallerLevel(db),
      onGone: () => void this.reopenMicrophone(),
    });
    this.capture.muted = this.muted;
  }

  // The device went away: another one may take its place without the agent noticing.
  private async reopenMicrophone(): Promise<void> {
    this.capture?.close();
    this.capture = null;
    try {
      const stream = await openMicrophone();
      if (this.over) return stopTracks(stream);
      this.listenTo(stream);
    } catch {
      this.finish({ phase: "problem", problem: "gone" });
    }
  }

  private openPlayback(): void {
    this.playback?.close();
    this.playback = new Playback(
      this.context,
      this.opusOut,
      (report) => this.takeReport(report),
      () => this.fallBackToPcm(),
    );
  }

  private fallBackToPcm(): void {
    this.opusOut = false;
    this.openPlayback();
    this.dropConnection();
    this.connect();
  }

  private connect(): void {
    clearTimeout(this.retryTimer);
    this.retryTimer = 0;
    this.ready = false;
    if (this.status.phase !== "refused") {
      const { reason } = this.status;
      this.show(this.beganAt > 0 ? { phase: "reconnecting", reason } : { phase: "connecting" });
    }
    this.connection = new Connection(this.socketUrl, {
      onMessage: (message) => this.take(message),
      onSound: (kind, payload) => this.playback?.play(kind, payload),
      onEnd: (ending) => this.afterEnd(ending),
    });
  }

  private readonly retryNow = (): void => {
    if (this.retryTimer && this.status.phase === "reconnecting") this.connect();
  };

  private take(message: ServerMessage): void {
    switch (message.type) {
      case "hello":
        this.events.onModel(message.model, message.server, message.session);
        this.show({ phase: "preparing" });
        this.connection?.start({ audio: this.opusOut ? "opus" : "pcm16", ...this.options() });
        break;
      case "progress":
        if (message.totalFrames > 0) {
          const progress = Math.min(1, message.doneFrames / message.totalFrames);
          this.show({ phase: "preparing", progress });
        }
        break;
      case "ready":
        this.takeReady();
        break;
      case "text":
        this.events.onText(message.text, this.sessionOffsetMs + message.timeMs);
        break;
      case "stats":
        this.events.onServerStats(message.stats);
        break;
      case "error":
        // Before `ready` it is our `start` that was not understood: waiting would not help.
        if (!this.ready && message.error.code.startsWith("bad_")) {
          this.finish({ phase: "problem", problem: "rejected", detail: message.error.message });
        }
        break;
      case "bye":
      case "unknown":
        break;
    }
  }

  private takeReady(): void {
    this.ready = true;
    this.attempts = 0;
    if (this.beganAt === 0) this.beganAt = performance.now();
    this.sessionOffsetMs = performance.now() - this.beganAt;
    this.events.onReady(this.sessionOffsetMs);
    this.show({ phase: "listening" });
    this.refresh();
  }

  private takeReport(report: PlaybackReport): void {
    this.report = report;
    if (report.levelDb > kSpeakingDb) this.lastSpeechAt = performance.now();
    this.events.onPlayback(report);
    this.refresh();
  }

  // Once sound flows, the phase follows what is heard and whether the device lets it be heard.
  private refresh(): void {
    if (!this.ready || this.over) return;
    const speaking = performance.now() - this.lastSpeechAt < kSpeakingHoldMs;
    const running = this.context.state === "running";
    const phase = !running ? "paused" : speaking ? "speaking" : "listening";
    if (phase !== this.status.phase) this.show({ phase });
  }

  private sendStats(): void {
    if (!this.ready || !this.report) return;
    this.connection?.sendStats(Math.round(this.report.depthMs), this.report.underruns);
  }

  private afterEnd(ending: Ending): void {
    this.forgetConnection();
    const verdict = judge(ending, ++this.attempts, Math.random);
    if (verdict.action === "stop") {
      this.finish({ phase: "idle", reason: verdict.notice });
    } else if (verdict.action === "fail") {
      this.finish({ phase: "problem", problem: verdict.problem, detail: verdict.detail });
    } else {
      const retryAtMs = performance.now() + verdict.delayMs;
      this.retryTimer = setTimeout(() => this.connect(), verdict.delayMs);
      this.show({ phase: verdict.phase, reason: verdict.reason, retryAtMs });
    }
  }

  private dropConnection(): void {
    this.connection?.leave();
    this.forgetConnection();
  }

  private forgetConnection(): void {
    this.droppedBefore += this.connection?.dropped ?? 0;
    this.connection = null;
    this.ready = false;
    this.lastSpeechAt = -Infinity;
    this.playback?.clear();
  }

  private finish(last: Status): void {
    if (this.over) return;
    this.over = true;
    removeEventListener("online", this.retryNow);
    clearTimeout(this.retryTimer);
    clearInterval(this.statsTimer);
    this.dropConnection();
    this.capture?.close();
    this.playback?.close();
    this.wakeLock.release();
    this.context.onstatechange = null;
    void this.context.close();
    this.status = last;
    this.events.onStatus(last);
  }

  private show(status: Status): void {
    if (this.over) return;
    this.status = status;
    this.events.onStatus(status);
  }
}

export function isLive(status: Status): boolean {
  return kLive.has(status.phase);
}

function stopTracks(stream: MediaStream): void {
  for (const track of stream.getTracks()) track.stop();
}
