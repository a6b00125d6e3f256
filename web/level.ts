// Loudness of a piece of sound.

export const kFloorDb = -60; // quieter than this is silence to every reader of levels

// Root mean square in dB below full scale, never under kFloorDb.
export function levelDb(samples: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < samples.length; ++i) sum += samples[i] * samples[i];
  return toDb(sum, samples.length);
}

// The same from a sum of squares.
export function toDb(sumOfSquares: number, count: number): number {
  if (count === 0 || sumOfSquares === 0) return kFloorDb;
  return Math.max(kFloorDb, 10 * Math.log10(sumOfSquares / count));
}
