// The playback buffer in simulated time: what it plays, how deep it gets, what it counts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { kBoundMs, kMaxTargetMs, kMinTargetMs, PlayoutBuffer } from "../../web/playout_buffer";

const kDeviceHz = 48000;
const kBlock = 128;

// Delivers packets of 20 ms at the given times while a device plays for `seconds`.
class Simulation {
  readonly buffer = new PlayoutBuffer(kDeviceHz);
  readonly played: number[] = []; // the first ten seconds
  deepestMs = 0;
  private readonly sourceHz: number;
  private sample = 0;

  constructor(sourceHz = 24000) {
    this.sourceHz = sourceHz;
  }

  // `arrivalsMs` ascending; the device starts at 0.
  run(arrivalsMs: number[], seconds: number): void {
    let next = 0;
    const output = new Float32Array(kBlock);
    for (let block = 0; block < (seconds * kDeviceHz) / kBlock; ++block) {
      const nowMs = (1000 * block * kBlock) / kDeviceHz;
      for (; next < arrivalsMs.length && arrivalsMs[next] <= nowMs; ++next) this.deliver();
      this.deepestMs = Math.max(this.deepestMs, this.buffer.stats().depthMs);
      this.buffer.render(output);
      if (this.played.length < 10 * kDeviceHz) this.played.push(...output);
    }
  }

  private deliver(): void {
    const count = this.sourceHz / 50;
    const packet = Float32Array.from({ length: count }, (_, i) =>
      0.5 * Math.sin((2 * Math.PI * 500 * (this.sample + i)) / this.sourceHz),
    );
    this.sample += count;
    this.buffer.push(packet, this.sourceHz);
  }
}

// From sample to sample; a sine of 500 Hz and 0.5 moves by 2 pi 500 / 48000 * 0.5 = 0.033.
const kStep = 0.034;

function largestStep(samples: number[]): number {
  return samples.reduce((largest, x, i) => Math.max(largest, Math.abs(x - samples[i - 1] || 0)), 0);
}

// A frame of 80 ms (four packets) each `periodMs`, each as late as `delayMs(frame)` says.
function frames(count: number, periodMs = 80, delayMs: (frame: number) => number = () => 0) {
  return Array.from({ length: 4 * count }, (_, packet) => {
    const frame = Math.floor(packet / 4);
    return 100 + frame * periodMs + delayMs(frame);
  }).sort((a, b) => a - b);
}

test("speech begins after the margin and goes on without a gap", () => {
  const simulation = new Simulation();
  simulation.run(frames(50), 4);
  const { underruns, droppedMs } = simulation.buffer.stats();
  assert.equal(underruns, 0);
  assert.equal(droppedMs, 0);
  const first = simulation.played.findIndex((x) => Math.abs(x) > 0.1) / kDeviceHz;
  assert.ok(Math.abs(first - (0.1 + kMinTargetMs / 1000)) < 0.01, `begins at ${first} s`);
  assert.ok(largestStep(simulation.played) < kStep, `a step of ${largestStep(simulation.played)}`);
});

test("jitter within the margin is not heard", () => {
  const simulation = new Simulation(48000);
  simulation.run(frames(120, 80, (frame) => (frame * 37) % 50), 9);
  assert.equal(simulation.buffer.stats().underruns, 0);
});

test("a stall is one gap, the flood after it is cut to the bound", () => {
  const simulation = new Simulation();
  // Frames 25 to 50 all arrive when frame 50 is due: two seconds late.
  const stalled = (frame: number) => (frame >= 25 && frame < 50 ? (50 - frame) * 80 : 0);
  simulation.run(frames(100, 80, stalled), 8);
  const { underruns, droppedMs } = simulation.buffer.stats();
  assert.equal(underruns, 1);
  assert.ok(droppedMs > 1500 && droppedMs < 2100, `${droppedMs} ms cut`);
  assert.ok(simulation.deepestMs <= kBoundMs, `${simulation.deepestMs} ms deep`);
  // Neither the gap nor the seam clicks: the fades are steeper than the sine, but are fades.
  assert.ok(largestStep(simulation.played) < 2 * kStep, `a step of ${largestStep(simulation.played)}`);
});

test("clocks that differ by 500 ppm cause neither gaps nor cuts in five minutes", () => {
  for (const period of [80 * 1.0005, 80 / 1.0005]) {
    const simulation = new Simulation();
    simulation.run(frames(3800, period), 300);
    const { underruns, droppedMs } = simulation.buffer.stats();
    assert.equal(underruns, 0);
    assert.equal(droppedMs, 0);
    assert.ok(simulation.deepestMs < 200, `${simulation.deepestMs} ms deep`);
  }
});

test("the margin grows with each gap, to its limit, and shrinks in calm", () => {
  const simulation = new Simulation();
  simulation.run(frames(60, 80, (frame) => (frame % 10 === 9 ? 220 : 0)), 6);
  assert.ok(simulation.buffer.stats().underruns >= 3);
  assert.equal(simulation.buffer.stats().targetMs, kMaxTargetMs);
  simulation.run(frames(1100), 81);
  assert.equal(simulation.buffer.stats().targetMs, kMinTargetMs);
});

test("an absurd packet is cut, not stored", () => {
  const buffer = new PlayoutBuffer(kDeviceHz);
  buffer.push(new Float32Array(100000), 24000);
  assert.ok(buffer.stats().depthMs <= kBoundMs);
});
