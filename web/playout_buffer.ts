// What stands between the network and the loudspeaker: holds a small, bounded amount of speech,
// brings it to the device's rate, and keeps the amount near a target although the two clocks differ.
//
// Speech comes in bursts (a frame of 80 ms each 80 ms), so the depth is a saw-tooth. What counts is
// its lowest point: the margin that jitter may eat before there is a gap.

import { Resampler } from "./resample";

export const kMinTargetMs = 60; // margin to begin with
export const kMaxTargetMs = 120;
export const kBoundMs = 250; // never deeper: the delay cannot grow
const kFrameMs = 80;
const kFadeMs = 5;
const kWindowMs = 1000; // the lowest depth is taken over this time
const kCalmWindows = 20; // without a gap, before the target shrinks by a step
const kTargetStepMs = 20;
const kMaxTrim = 0.004; // nobody hears 0.4 % of tempo and pitch
const kTrimPerMs = 0.0001;
const kTrimDeadbandMs = 8;

export interface PlayoutStats {
  depthMs: number; // speech held now
  targetMs: number;
  underruns: number; // gaps heard
  droppedMs: number; // cut because the buffer was over its bound
}

export class PlayoutBuffer {
  private readonly outputRateHz: number;

  private inputRateHz = 0;
  private resampler: Resampler | null = null;
  private ring = new Float32Array(0); // one second: > kBoundMs + the longest push
  private read = 0;
  private count = 0;
  private taken = new Float32Array(256);

  private playing = false; // false: waits for speech; then `lead` of silence goes first
  private leadSamples = 0; // at the output rate
  private fadeInLeft = 0;
  private lastSample = 0;

  private targetMs = kMinTargetMs;
  private lowestMs = Infinity;
  private windowLeft: number;
  private calmWindows = 0;
  private underruns = 0;
  private droppedSamples = 0;

  constructor(outputRateHz: number) {
    this.outputRateHz = outputRateHz;
    this.windowLeft = this.samples(kWindowMs);
  }

  stats(): PlayoutStats {
    return {
      depthMs: this.depthMs(),
      targetMs: this.targetMs,
      underruns: this.underruns,
      droppedMs: this.inputRateHz ? (1000 * this.droppedSamples) / this.inputRateHz : 0,
    };
  }

  // Adds decoded speech (of more than half a second only the end).
  push(samples: Float32Array, rateHz: number): void {
    if (rateHz !== this.inputRateHz) this.setInputRate(rateHz);
    if (samples.length > rateHz / 2) samples = samples.subarray(samples.length - rateHz / 2);
    let at = (this.read + this.count) % this.ring.length;
    for (let i = 0; i < samples.length; ++i) {
      this.ring[at] = samples[i];
      if (++at === this.ring.length) at = 0;
    }
    this.count += samples.length;
    if (!this.playing) this.begin();
    if (this.depthMs() > kBoundMs) {
      const kept = ((this.targetMs + kFrameMs) / 1000) * rateHz;
      this.drop(this.count - Math.floor(kept));
    }
  }

  // Forgets what is held, without counting it (the conversation ended, or the agent was cut off).
  clear(): void {
    this.count = 0;
    this.playing = false;
    this.lowestMs = Infinity;
  }

  // Fills one block of the device; silence where there is nothing to play.
  render(output: Float32Array): void {
    const silent = this.playing ? Math.min(this.leadSamples, output.length) : output.length;
    this.glideToSilence(output, 0, silent);
    if (this.playing) this.leadSamples -= silent;
    if (silent < output.length && this.resampler) {
      const lacking = Math.min(this.resampler.lacking(output.length - silent), this.count);
      if (lacking > 0) this.resampler.push(this.take(lacking));
      const end = silent + this.resampler.pull(output, silent);
      this.fadeIn(output, silent, end);
      if (end > silent) this.lastSample = output[end - 1];
      if (end < output.length) this.gap();
      this.glideToSilence(output, end, output.length);
    }
    this.watch(output.length);
  }

  private samples(ms: number): number {
    return Math.round((ms / 1000) * this.outputRateHz);
  }

  private depthMs(): number {
    return this.inputRateHz ? (1000 * this.count) / this.inputRateHz : 0;
  }

  private setInputRate(rateHz: number): void {
    this.inputRateHz = rateHz;
    this.resampler = new Resampler(rateHz, this.outputRateHz);
    this.ring = new Float32Array(rateHz); // one second
    this.read = 0;
    this.count = 0;
  }

  private begin(): void {
    this.playing = true;
    this.leadSamples = this.samples(this.targetMs);
    this.fadeInLeft = this.samples(kFadeMs);
    this.lowestMs = Infinity;
  }

  private take(count: number): Float32Array {
    if (this.taken.length < count) this.taken = new Float32Array(count);
    const out = this.taken.subarray(0, count);
    for (let i = 0; i < count; ++i) {
      out[i] = this.ring[this.read];
      if (++this.read === this.ring.length) this.read = 0;
    }
    this.count -= count;
    return out;
  }

  // Cuts the oldest `count` samples, fading over the seam.
  private drop(count: number): void {
    const fade = Math.min(Math.floor((kFadeMs / 1000) * this.inputRateHz), this.count - count);
    const size = this.ring.length;
    for (let i = 0; i < fade; ++i) {
      const to = (this.read + count + i) % size;
      const share = (i + 1) / fade;
      this.ring[to] = share * this.ring[to] + (1 - share) * this.ring[(this.read + i) % size];
    }
    this.read = (this.read + count) % size;
    this.count -= count;
    this.droppedSamples += count;
  }

  private gap(): void {
    ++this.underruns;
    this.playing = false;
    this.targetMs = Math.min(kMaxTargetMs, this.targetMs + kTargetStepMs);
    this.calmWindows = 0;
  }

  private fadeIn(output: Float32Array, from: number, to: number): void {
    const total = this.samples(kFadeMs);
    for (let i = from; i < to && this.fadeInLeft > 0; ++i, --this.fadeInLeft) {
      output[i] *= 1 - this.fadeInLeft / total;
    }
  }

  // After the last sample of speech the signal glides to zero instead of stepping there.
  private glideToSilence(output: Float32Array, from: number, to: number): void {
    const decay = Math.exp(-5 / this.samples(kFadeMs));
    for (let i = from; i < to; ++i) {
      this.lastSample *= decay;
      output[i] = this.lastSample;
    }
    if (Math.abs(this.lastSample) < 1e-5) this.lastSample = 0;
  }

  // Once per window, steers the lowest depth towards the target.
  private watch(elapsed: number): void {
    if (this.playing && this.leadSamples === 0) {
      this.lowestMs = Math.min(this.lowestMs, this.depthMs());
    }
    this.windowLeft -= elapsed;
    if (this.windowLeft > 0) return;
    this.windowLeft += this.samples(kWindowMs);
    if (this.lowestMs === Infinity || !this.resampler) return;
    const excessMs = this.lowestMs - this.targetMs;
    const trim = Math.abs(excessMs) < kTrimDeadbandMs ? 0 : excessMs * kTrimPerMs;
    this.resampler.setTrim(Math.max(-kMaxTrim, Math.min(kMaxTrim, trim)));
    this.lowestMs = Infinity;
    if (++this.calmWindows >= kCalmWindows && this.targetMs > kMinTargetMs) {
      this.targetMs -= kTargetStepMs;
      this.calmWindows = 0;
    }
  }
}
