// Runs on the audio thread: plays what the main thread sends and reports on it.

import { toDb } from "./level";
import { PlayoutBuffer } from "./playout_buffer";
import type { PlaybackOrder, PlaybackReport } from "./playback_messages";

const kReportMs = 40;

class PlaybackProcessor extends AudioWorkletProcessor {
  private readonly buffer = new PlayoutBuffer(sampleRate);
  private sum = 0;
  private count = 0;

  constructor() {
    super();
    this.port.onmessage = (event: MessageEvent<PlaybackOrder>) => {
      if (event.data === "clear") this.buffer.clear();
      else this.buffer.push(event.data.samples, event.data.rateHz);
    };
  }

  override process(_inputs: Float32Array[][], outputs: Float32Array[][]): boolean {
    const [first, ...others] = outputs[0];
    this.buffer.render(first);
    for (const channel of others) channel.set(first);
    for (let i = 0; i < first.length; ++i) this.sum += first[i] * first[i];
    this.count += first.length;
    if (this.count >= (kReportMs / 1000) * sampleRate) this.report();
    return true;
  }

  private report(): void {
    const report: PlaybackReport = { ...this.buffer.stats(), levelDb: toDb(this.sum, this.count) };
    this.port.postMessage(report);
    this.sum = 0;
    this.count = 0;
  }
}

registerProcessor("antiphon-playback", PlaybackProcessor);
