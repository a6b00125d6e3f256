// Runs on the audio thread: brings the microphone to 24 kHz mono and hands it on in pieces of 20 ms.

import { Resampler } from "./resample";

const kRateHz = 24000;
const kPieceSamples = 480;

class CaptureProcessor extends AudioWorkletProcessor {
  private readonly resampler = new Resampler(sampleRate, kRateHz);
  private piece = new Float32Array(kPieceSamples);
  private filled = 0;
  private mono = new Float32Array(128);

  override process(inputs: Float32Array[][]): boolean {
    const channels = inputs[0];
    if (channels.length > 0) {
      this.resampler.push(this.mix(channels));
      while ((this.filled += this.resampler.pull(this.piece, this.filled)) === kPieceSamples) {
        this.port.postMessage(this.piece, [this.piece.buffer]);
        this.piece = new Float32Array(kPieceSamples);
        this.filled = 0;
      }
    }
    return true;
  }

  private mix(channels: Float32Array[]): Float32Array {
    if (channels.length === 1) return channels[0];
    if (this.mono.length !== channels[0].length) this.mono = new Float32Array(channels[0].length);
    this.mono.fill(0);
    for (const channel of channels) {
      for (let i = 0; i < channel.length; ++i) this.mono[i] += channel[i] / channels.length;
    }
    return this.mono;
  }
}

registerProcessor("antiphon-capture", CaptureProcessor);
