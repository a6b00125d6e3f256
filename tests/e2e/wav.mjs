// Plain WAV files: mono, 16 bits, 44 bytes of header.

const kHeaderBytes = 44;

// { rateHz, samples: Float32Array }.
export function soundOf(wav) {
  const length = (wav.length - kHeaderBytes) / 2;
  const samples = Float32Array.from({ length }, (_, i) => wav.readInt16LE(kHeaderBytes + 2 * i) / 32768);
  return { rateHz: wav.readUInt32LE(24), samples };
}

// The part between two times in seconds, as a file of its own.
export function cut(wav, from, to) {
  const bytesPerSecond = wav.readUInt32LE(28);
  const at = (seconds) => kHeaderBytes + 2 * Math.round((seconds * bytesPerSecond) / 2);
  return withData(wav, wav.subarray(at(from), at(to)));
}

// One after the other; all of them have the first one's rate.
export function joined(wavs) {
  return withData(wavs[0], Buffer.concat(wavs.map((wav) => wav.subarray(kHeaderBytes))));
}

function withData(wav, data) {
  const header = Buffer.from(wav.subarray(0, kHeaderBytes));
  header.writeUInt32LE(kHeaderBytes - 8 + data.length, 4);
  header.writeUInt32LE(data.length, 40);
  return Buffer.concat([header, data]);
}
