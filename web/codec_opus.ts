// Opus through WebCodecs. Browsers that lack it (or lack Opus in it) talk raw PCM instead.

import { kPacketMs, kRateHz } from "./protocol";

const kBitrate = 32000;

// https://www.w3.org/TR/webcodecs-opus-codec-registration/; the type library lacks half of `opus`.
const kEncoderConfig = {
  codec: "opus",
  sampleRate: kRateHz,
  numberOfChannels: 1,
  bitrate: kBitrate,
  opus: { application: "voip", signal: "voice", frameDuration: kPacketMs * 1000 },
};

const kDecoderConfig: AudioDecoderConfig = {
  codec: "opus",
  sampleRate: kRateHz,
  numberOfChannels: 1,
};

export async function canEncodeOpus(): Promise<boolean> {
  if (typeof AudioEncoder === "undefined") return false;
  return AudioEncoder.isConfigSupported(kEncoderConfig).then(
    (support) => support.supported === true,
    () => false,
  );
}

export async function canDecodeOpus(): Promise<boolean> {
  if (typeof AudioDecoder === "undefined") return false;
  return AudioDecoder.isConfigSupported(kDecoderConfig).then(
    (support) => support.supported === true,
    () => false,
  );
}

// 24 kHz mono pieces in, raw Opus packets of 20 ms out.
export class OpusEncoder {
  private readonly encoder: AudioEncoder;
  private samples = 0;

  // `onFailure` comes at most once; the encoder is of no use after it.
  constructor(onPacket: (packet: Uint8Array) => void, onFailure: () => void) {
    this.encoder = new AudioEncoder({
      output: (chunk) => {
        const packet = new Uint8Array(chunk.byteLength);
        chunk.copyTo(packet);
        onPacket(packet);
      },
      error: onFailure,
    });
    this.encoder.configure(kEncoderConfig);
  }

  encode(piece: Float32Array<ArrayBuffer>): void {
    if (this.encoder.state !== "configured") return;
    const data = new AudioData({
      format: "f32",
      sampleRate: kRateHz,
      numberOfFrames: piece.length,
      numberOfChannels: 1,
      timestamp: (1e6 * this.samples) / kRateHz,
      data: piece,
    });
    this.samples += piece.length;
    this.encoder.encode(data);
    data.close();
  }

  close(): void {
    if (this.encoder.state !== "closed") this.encoder.close();
  }
}

// Raw Opus packets in, mono sound at the decoder's own rate out (browsers choose 48 kHz).
export class OpusDecoder {
  private readonly decoder: AudioDecoder;
  private timestampUs = 0;

  constructor(onSound: (samples: Float32Array, rateHz: number) => void, onFailure: () => void) {
    this.decoder = new AudioDecoder({
      output: (data) => {
        const samples = new Float32Array(data.numberOfFrames);
        data.copyTo(samples, { planeIndex: 0, format: "f32-planar" });
        onSound(samples, data.sampleRate);
        data.close();
      },
      error: onFailure,
    });
    this.decoder.configure(kDecoderConfig);
  }

  decode(packet: Uint8Array): void {
    if (this.decoder.state !== "configured") return;
    const timestamp = this.timestampUs;
    this.timestampUs += kPacketMs * 1000;
    this.decoder.decode(new EncodedAudioChunk({ type: "key", timestamp, data: packet }));
  }

  close(): void {
    if (this.decoder.state !== "closed") this.decoder.close();
  }
}
