// The read-outs behind "Details": where the delay comes from, and what went wrong how often.

import type { SoundFacts } from "./conversation";
import type { PlaybackReport } from "./playback_messages";
import type { ServerStats } from "./protocol";

const kProbeIntervalMs = 2000;
const kProbesKept = 5;
const kCaptureMs = 20; // a piece is sent when it is full
const kFrameMs = 80; // the model takes and gives whole frames

export class Details {
  private readonly panel: HTMLElement;
  private roundTripsMs: number[] = [];
  private probeTimer = 0;
  private report: PlaybackReport | null = null;
  private stats: ServerStats | null = null;

  // `panel` holds one element with data-value="name" per read-out.
  constructor(panel: HTMLElement) {
    this.panel = panel;
  }

  // Measures the network only while somebody looks.
  setOpen(open: boolean): void {
    clearInterval(this.probeTimer);
    if (!open) return;
    this.probeTimer = setInterval(() => void this.probe(), kProbeIntervalMs);
    void this.probe();
  }

  takeReport(report: PlaybackReport): void {
    this.report = report;
  }

  takeStats(stats: ServerStats): void {
    this.stats = stats;
  }

  showSession(server: string, session: string): void {
    this.put("server", server);
    this.put("session", session);
  }

  // Brings every read-out up to date.
  refresh(sound: SoundFacts | null): void {
    const { report, stats } = this;
    const roundTrip = this.roundTripMs();
    if (sound) {
      this.put("codecs", `${sound.sends} out, ${sound.hears} in`);
      this.put("device", `${(sound.deviceRateHz / 1000).toFixed(1)} kHz`);
      this.put("output", ms(sound.outputLatencyMs));
      this.put("unsent", String(sound.droppedPackets));
    }
    if (report) {
      this.put("playback", `${ms(report.depthMs)} (margin\u00a0${ms(report.targetMs)})`);
      this.put("underruns", String(report.underruns));
      this.put("cut", ms(report.droppedMs));
    }
    if (stats) {
      this.put("server-buffer", `${ms(stats.buffer_ms)} (oldest\u00a0${ms(stats.oldest_ms)})`);
      this.put("frames", `${stats.frames} (${stats.late} late, ${stats.degraded} degraded)`);
      this.put("starved", String(stats.starved));
      this.put("lost", String(stats.lost));
      this.put("flooded", ms(stats.dropped_ms));
      this.put("queued", `${stats.queued_bytes} B`);
    }
    if (roundTrip !== null) this.put("network", ms(roundTrip));
    if (sound && report && stats && roundTrip !== null) {
      const total =
        kCaptureMs + roundTrip + stats.oldest_ms + kFrameMs + report.depthMs + sound.outputLatencyMs;
      this.put("delay", `about ${ms(total)}`);
    }
  }

  private put(name: string, text: string): void {
    const element = this.panel.querySelector(`[data-value="${name}"]`);
    if (element && element.textContent !== text) element.textContent = text;
  }

  // The best of the last few: the others waited for something else than the network.
  private roundTripMs(): number | null {
    return this.roundTripsMs.length > 0 ? Math.min(...this.roundTripsMs) : null;
  }

  private async probe(): Promise<void> {
    const sentAt = performance.now();
    try {
      await fetch("healthz", { cache: "no-store" });
    } catch {
      return; // no network: the connection itself says so
    }
    this.roundTripsMs.push(performance.now() - sentAt);
    if (this.roundTripsMs.length > kProbesKept) this.roundTripsMs.shift();
  }
}

function ms(value: number): string {
  return `${Math.round(value)}\u00a0ms`;
}
