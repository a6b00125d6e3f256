// Streaming resampler between any two rates: windowed-sinc polyphase filter with linear
// interpolation between phases, so that the ratio may be any number and may be trimmed while sound
// flows (drift correction). Method: J. O. Smith, "Digital Audio Resampling", ccrma.stanford.edu.

const kZeroCrossings = 32; // each side; with kKaiserBeta: transition band 16 % of Nyquist at -80 dB
const kKaiserBeta = 8; // about 80 dB of stop band
const kPassband = 0.92; // centre of the transition band, as a share of the lower Nyquist frequency
const kPhases = 512; // linear interpolation between them errs below -100 dB

export class Resampler {
  private readonly nominalStep: number; // input samples per output sample
  private readonly half: number; // taps each side of the centre
  private readonly rows: Float32Array[]; // [kPhases + 1][2 * half], row p: centre at p / kPhases
  private step: number;
  private buffer = new Float32Array(4096);
  private filled = 0; // samples in `buffer`
  private position: number; // centre of the next output sample, in samples from buffer[0]

  constructor(inputRateHz: number, outputRateHz: number) {
    this.nominalStep = inputRateHz / outputRateHz;
    this.step = this.nominalStep;
    const cutoff = kPassband * Math.min(1, outputRateHz / inputRateHz);
    this.half = Math.ceil(kZeroCrossings / cutoff);
    this.rows = makeFilter(cutoff, this.half);
    // Silence before the first sample.
    this.filled = this.half - 1;
    this.position = this.half - 1;
  }

  // Shortens (> 0) or stretches (< 0) what is produced from now on by this share.
  setTrim(share: number): void {
    this.step = this.nominalStep * (1 + share);
  }

  // Input samples that `pull` still lacks to produce `count` output samples.
  lacking(count: number): number {
    const last = Math.floor(this.position + (count - 1) * this.step) + this.half;
    return Math.max(0, last + 1 - this.filled);
  }

  push(input: Float32Array): void {
    if (this.filled + input.length > this.buffer.length) this.makeRoom(input.length);
    this.buffer.set(input, this.filled);
    this.filled += input.length;
  }

  // Fills `output` from `offset` on as far as the input reaches; returns the samples written.
  pull(output: Float32Array, offset = 0): number {
    const { buffer, half, rows, filled } = this;
    let at = offset;
    while (at < output.length) {
      const whole = Math.floor(this.position);
      if (whole + half >= filled) break;
      const phase = (this.position - whole) * kPhases;
      const row = Math.floor(phase);
      const low = rows[row];
      const high = rows[row + 1];
      let a = 0;
      let b = 0;
      for (let k = 0, i = whole - half + 1; k < low.length; ++k, ++i) {
        a += low[k] * buffer[i];
        b += high[k] * buffer[i];
      }
      output[at++] = a + (b - a) * (phase - row);
      this.position += this.step;
    }
    return at - offset;
  }

  private makeRoom(count: number): void {
    const spent = Math.max(0, Math.min(this.filled, Math.floor(this.position) - this.half + 1));
    const kept = this.filled - spent;
    const target =
      kept + count > this.buffer.length ? new Float32Array(2 * (kept + count)) : this.buffer;
    target.set(this.buffer.subarray(spent, this.filled));
    this.buffer = target;
    this.filled = kept;
    this.position -= spent;
  }
}

function makeFilter(cutoff: number, half: number): Float32Array[] {
  const rows: Float32Array[] = [];
  for (let p = 0; p <= kPhases; ++p) {
    const row = new Float32Array(2 * half);
    let sum = 0;
    for (let k = 0; k < row.length; ++k) {
      const x = k - (half - 1) - p / kPhases; // distance from the centre, input samples
      row[k] = cutoff * sinc(cutoff * x) * kaiser(x / half);
      sum += row[k];
    }
    // Each phase passes a constant unchanged.
    for (let k = 0; k < row.length; ++k) row[k] /= sum;
    rows.push(row);
  }
  return rows;
}

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
}

function kaiser(x: number): number {
  return Math.abs(x) >= 1 ? 0 : besselI0(kKaiserBeta * Math.sqrt(1 - x * x)) / besselI0(kKaiserBeta);
}

// Modified Bessel function of the first kind, order 0, by its power series.
function besselI0(x: number): number {
  let sum = 1;
  let term = 1;
  for (let k = 1; term > 1e-12 * sum; ++k) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}
