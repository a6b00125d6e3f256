// The resampler against what theory says of it: tones below the lower Nyquist frequency pass
// unchanged, tones above it are gone, and the length is right at any pair of rates.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Resampler } from "../../web/resample";

function tone(frequencyHz: number, rateHz: number, count: number): Float32Array {
  return Float32Array.from({ length: count }, (_, i) =>
    Math.sin((2 * Math.PI * frequencyHz * i) / rateHz),
  );
}

// Feeds `input` in blocks of 128, as the browser does.
function resample(input: Float32Array, fromHz: number, toHz: number): Float32Array {
  const resampler = new Resampler(fromHz, toHz);
  const output = new Float32Array(Math.ceil((input.length * toHz) / fromHz));
  let filled = 0;
  for (let at = 0; at < input.length; at += 128) {
    resampler.push(input.subarray(at, at + 128));
    filled += resampler.pull(output, filled);
  }
  return output.subarray(0, filled);
}

// Power outside the sine of this frequency that fits best, against the power of that sine, in dB.
function noiseDb(signal: Float32Array, frequencyHz: number, rateHz: number): number {
  const omega = (2 * Math.PI * frequencyHz) / rateHz;
  let [ss, cc, sc, xs, xc] = [0, 0, 0, 0, 0];
  signal.forEach((x, i) => {
    const s = Math.sin(omega * i);
    const c = Math.cos(omega * i);
    [ss, cc, sc, xs, xc] = [ss + s * s, cc + c * c, sc + s * c, xs + x * s, xc + x * c];
  });
  const a = (xs * cc - xc * sc) / (ss * cc - sc * sc);
  const b = (xc * ss - xs * sc) / (ss * cc - sc * sc);
  let noise = 0;
  let power = 0;
  signal.forEach((x, i) => {
    const fit = a * Math.sin(omega * i) + b * Math.cos(omega * i);
    noise += (x - fit) ** 2;
    power += fit ** 2;
  });
  return 10 * Math.log10(noise / power);
}

function rmsDb(signal: Float32Array): number {
  return 10 * Math.log10(signal.reduce((sum, x) => sum + x * x, 0) / signal.length);
}

const kRates = [8000, 16000, 22050, 24000, 44100, 48000, 96000, 192000];

for (const device of kRates) {
  test(`a tone passes between ${device} Hz and 24 kHz both ways`, () => {
    for (const [from, to] of [[device, 24000], [24000, device]]) {
      const frequency = 0.35 * Math.min(from, to);
      const output = resample(tone(frequency, from, from), from, to);
      assert.ok(Math.abs(output.length - to) < 0.012 * to, `${output.length} samples of ${to}`);
      const steady = output.subarray(Math.floor(to / 10), Math.floor(0.9 * to));
      assert.ok(Math.abs(rmsDb(steady) + 3.01) < 0.05, `level ${rmsDb(steady)} dB`);
      const noise = noiseDb(steady, frequency, to);
      assert.ok(noise < -75, `noise ${noise} dB from ${from} to ${to} Hz`);
    }
  });
}

test("what 24 kHz cannot hold is removed, not folded back", () => {
  for (const device of [44100, 48000, 96000]) {
    for (const frequency of [12500, 15000, 19000]) {
      const output = resample(tone(frequency, device, device), device, 24000);
      const level = rmsDb(output.subarray(2400, 21600));
      assert.ok(level < -75, `${frequency} Hz at ${device} Hz leaves ${level} dB`);
    }
  }
});

test("a trim shortens the sound by its share", () => {
  const resampler = new Resampler(24000, 48000);
  resampler.setTrim(0.004);
  resampler.push(tone(440, 24000, 24000));
  const produced = resampler.pull(new Float32Array(60000));
  assert.ok(Math.abs(produced - 48000 / 1.004) < 100, `${produced} samples`);
});

test("lacking() tells exactly how much input a block needs", () => {
  const resampler = new Resampler(48000, 44100);
  for (let block = 0; block < 500; ++block) {
    const lacking = resampler.lacking(128);
    if (lacking > 0) {
      resampler.push(new Float32Array(lacking - 1));
      assert.ok(resampler.lacking(128) === 1);
      resampler.push(new Float32Array(1));
    }
    assert.equal(resampler.pull(new Float32Array(128)), 128);
  }
});
