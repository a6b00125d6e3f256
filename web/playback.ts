// The agent's side: Opus or PCM packets → worklet (bounded buffer, device rate) → loudspeaker.

import { OpusDecoder } from "./codec_opus";
import { decodePcm16 } from "./pcm16";
import type { PlaybackOrder, PlaybackReport } from "./playback_messages";
import { kPacketMs, kRateHz, SoundKind } from "./protocol";

export class Playback {
  private readonly node: AudioWorkletNode;
  private decoder: OpusDecoder | null = null;
  private rateHz = kRateHz; // of the decoder's sound

  // REQUIRES: playback_worklet.js is loaded in `context`. `onOpusFailure`: the browser's decoder gave
  // up; ask the server for PCM.
  constructor(
    context: AudioContext,
    opus: boolean,
    onReport: (report: PlaybackReport) => void,
    onOpusFailure: () => void,
  ) {
    if (opus) {
      const push = (samples: Float32Array, rateHz: number) => this.push(samples, rateHz);
      this.decoder = new OpusDecoder(push, () => {
        this.decoder = null;
        onOpusFailure();
      });
    }
    this.node = new AudioWorkletNode(context, "antiphon-playback", {
      numberOfInputs: 0,
      outputChannelCount: [1],
    });
    this.node.port.onmessage = (event: MessageEvent<PlaybackReport>) => onReport(event.data);
    this.node.connect(context.destination);
  }

  // Takes the payload of one binary message; kinds it does not know are ignored.
  play(kind: number, payload: Uint8Array): void {
    if (kind === SoundKind.kPcm16) this.push(decodePcm16(payload), kRateHz);
    if (kind !== SoundKind.kOpus || !this.decoder) return;
    if (payload.length > 0) this.decoder.decode(payload);
    else this.push(new Float32Array((kPacketMs / 1000) * this.rateHz), this.rateHz); // one lost
  }

  // Forgets what is not played yet.
  clear(): void {
    this.order("clear");
  }

  close(): void {
    this.node.port.onmessage = null;
    this.node.disconnect();
    this.decoder?.close();
  }

  private push(samples: Float32Array, rateHz: number): void {
    this.rateHz = rateHz;
    if (samples.length > 0) this.order({ samples, rateHz }, [samples.buffer]);
  }

  private order(order: PlaybackOrder, transfer: Transferable[] = []): void {
    this.node.port.postMessage(order, transfer);
  }
}
