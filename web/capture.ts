// The caller's side: microphone → worklet (24 kHz) → Opus or PCM packets.

import { OpusEncoder } from "./codec_opus";
import { levelDb } from "./level";
import { encodePcm16 } from "./pcm16";
import { SoundKind } from "./protocol";

export interface CaptureEvents {
  onPacket(kind: SoundKind, payload: Uint8Array): void;
  onLevel(db: number): void; // each 20 ms
  onGone(): void; // the device was unplugged or taken away
}

export class Capture {
  private readonly stream: MediaStream;
  private readonly source: MediaStreamAudioSourceNode;
  private readonly node: AudioWorkletNode;
  private readonly events: CaptureEvents;
  private encoder: OpusEncoder | null = null;

  // REQUIRES: capture_worklet.js is loaded in `context`. Owns `stream` from here on.
  constructor(context: AudioContext, stream: MediaStream, opus: boolean, events: CaptureEvents) {
    this.stream = stream;
    this.events = events;
    if (opus) {
      this.encoder = new OpusEncoder(
        (packet) => events.onPacket(SoundKind.kOpus, packet),
        () => (this.encoder = null),
      );
    }
    this.source = context.createMediaStreamSource(stream);
    this.node = new AudioWorkletNode(context, "antiphon-capture", { numberOfOutputs: 0 });
    this.node.port.onmessage = (event: MessageEvent<Float32Array<ArrayBuffer>>) =>
      this.take(event.data);
    this.source.connect(this.node);
    for (const track of stream.getAudioTracks()) track.onended = () => events.onGone();
  }

  get codec(): string {
    return this.encoder ? "Opus" : "PCM";
  }

  // Silence goes out while muted, so that the model hears a quiet room.
  set muted(muted: boolean) {
    for (const track of this.stream.getAudioTracks()) track.enabled = !muted;
  }

  close(): void {
    this.node.port.onmessage = null;
    this.source.disconnect();
    this.node.disconnect();
    for (const track of this.stream.getTracks()) {
      track.onended = null;
      track.stop();
    }
    this.encoder?.close();
  }

  private take(piece: Float32Array<ArrayBuffer>): void {
    this.events.onLevel(levelDb(piece));
    if (this.encoder) this.encoder.encode(piece);
    else this.events.onPacket(SoundKind.kPcm16, encodePcm16(piece));
  }
}
