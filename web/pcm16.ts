// Raw sound as the protocol carries it: signed 16-bit little-endian.

export function encodePcm16(samples: Float32Array): Uint8Array {
  const bytes = new Uint8Array(2 * samples.length);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < samples.length; ++i) {
    const value = Math.max(-1, Math.min(1, samples[i]));
    view.setInt16(2 * i, Math.round(32767 * value), true);
  }
  return bytes;
}

// An odd last byte is ignored.
export function decodePcm16(bytes: Uint8Array): Float32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const samples = new Float32Array(bytes.length >> 1);
  for (let i = 0; i < samples.length; ++i) samples[i] = view.getInt16(2 * i, true) / 32768;
  return samples;
}
