// One WebSocket to the daemon: frames the messages, watches that sound keeps coming, and tells once
// how it ended.

import { keyProtocols } from "./key";
import {
  kSubProtocol,
  parseServerMessage,
  type ServerError,
  type ServerMessage,
  type SoundKind,
  type StartOptions,
} from "./protocol";

const kHelloTimeoutMs = 8000;
const kSilenceTimeoutMs = 5000; // a frame is due each 80 ms; none for so long: the network is gone
const kMaxQueuedBytes = 24000; // half a second of raw sound, more of Opus: then sound is dropped

// Why a connection is over, as far as it is known.
export interface Ending {
  code: number; // RFC 6455 7.4.1; 1006 where the network just went
  byeReason: string | null;
  error: ServerError | null; // the last error the server told of
  wasReady: boolean;
}

export interface ConnectionEvents {
  onMessage(message: ServerMessage): void;
  onSound(kind: number, payload: Uint8Array): void;
  onEnd(ending: Ending): void; // once, and nothing after it
}

export class Connection {
  private readonly events: ConnectionEvents;
  private readonly socket: WebSocket;
  private watchdog: number;
  private byeReason: string | null = null;
  private error: ServerError | null = null;
  private ready = false;
  private over = false;
  private droppedPackets = 0;

  constructor(url: string, events: ConnectionEvents) {
    this.events = events;
    this.socket = new WebSocket(url, [kSubProtocol, ...keyProtocols()]);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = (event) => this.receive(event.data);
    this.socket.onclose = (event) => this.end(event.code);
    this.watchdog = setTimeout(() => this.giveUp(), kHelloTimeoutMs);
  }

  // Packets not sent because the network did not take the ones before.
  get dropped(): number {
    return this.droppedPackets;
  }

  start(options: StartOptions): void {
    this.sendJson({ type: "start", ...options });
  }

  sendStats(bufferMs: number, underruns: number): void {
    this.sendJson({ type: "stats", buffer_ms: bufferMs, underruns });
  }

  sendSound(kind: SoundKind, payload: Uint8Array): void {
    if (this.socket.readyState !== WebSocket.OPEN || !this.ready) return;
    if (this.socket.bufferedAmount > kMaxQueuedBytes) {
      ++this.droppedPackets;
      return;
    }
    const message = new Uint8Array(1 + payload.length);
    message[0] = kind;
    message.set(payload, 1);
    this.socket.send(message);
  }

  // Says goodbye and closes; onEnd does not come.
  leave(): void {
    this.sendJson({ type: "bye" });
    this.over = true;
    clearTimeout(this.watchdog);
    this.socket.close(1000);
  }

  private sendJson(message: object): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  private receive(data: unknown): void {
    if (this.over) return;
    if (data instanceof ArrayBuffer) {
      if (this.ready) this.expectWithin(kSilenceTimeoutMs);
      const bytes = new Uint8Array(data);
      if (bytes.length > 0) this.events.onSound(bytes[0], bytes.subarray(1));
      return;
    }
    if (typeof data !== "string") return;
    const message = parseServerMessage(data);
    if (message.type === "hello") clearTimeout(this.watchdog);
    if (message.type === "error") this.error = message.error;
    if (message.type === "bye") this.byeReason = message.reason;
    if (message.type === "ready") {
      this.ready = true;
      this.expectWithin(kSilenceTimeoutMs);
    }
    this.events.onMessage(message);
  }

  private expectWithin(ms: number): void {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.giveUp(), ms);
  }

  private giveUp(): void {
    this.socket.close();
    this.end(1006);
  }

  private end(code: number): void {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.watchdog);
    const { byeReason, error, ready } = this;
    this.events.onEnd({ code, byeReason, error, wasReady: ready });
  }
}
