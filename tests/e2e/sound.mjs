// Measures of recorded sound.

const kWindowMs = 20;

// Level of each 20 ms, in dB below full scale.
export function levels({ samples, rateHz }) {
  const size = Math.round((kWindowMs / 1000) * rateHz);
  const out = [];
  for (let at = 0; at + size <= samples.length; at += size) {
    let sum = 0;
    for (let i = at; i < at + size; ++i) sum += samples[i] ** 2;
    out.push(10 * Math.log10(sum / size + 1e-12));
  }
  return out;
}

// Milliseconds louder than `db`.
export function loudMs(recorded, db) {
  return kWindowMs * levels(recorded).filter((level) => level > db).length;
}

// Frequency of a tone: the median over the windows louder than `db`, each measured from its first
// to its last upward crossing of zero.
export function pitchHz({ samples, rateHz }, db) {
  const size = Math.round((kWindowMs / 1000) * rateHz);
  const pitches = [];
  levels({ samples, rateHz }).forEach((level, window) => {
    if (level <= db) return;
    const crossings = [];
    for (let i = window * size + 1; i < (window + 1) * size; ++i) {
      const [a, b] = [samples[i - 1], samples[i]];
      if (a < 0 && b >= 0) crossings.push(i - b / (b - a));
    }
    const periods = crossings.length - 1;
    if (periods > 0) pitches.push((periods * rateHz) / (crossings[periods] - crossings[0]));
  });
  return pitches.sort((x, y) => x - y)[pitches.length >> 1];
}
