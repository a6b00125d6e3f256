// Messages of `/v1/voice`, sub-protocol antiphon.v1; docs/PROTOCOL.md says what each means.

export const kSubProtocol = "antiphon.v1";
export const kRateHz = 24000;
export const kPacketMs = 20;

export const enum SoundKind {
  kOpus = 1,
  kPcm16 = 2,
}

export interface Sampling {
  text_temperature: number;
  text_top_k: number;
  audio_temperature: number;
  audio_top_k: number;
}

// What a model is and offers: part of `hello`, and `model` of /v1/info.
export interface ModelFacts {
  name: string;
  family: string;
  voices: string[];
  textPrompt: boolean;
  hasText: boolean;
  defaults: Sampling | null;
}

export interface StartOptions extends Partial<Sampling> {
  audio: "opus" | "pcm16";
  voice?: string;
  text_prompt?: string;
  seed?: number;
}

// The server's counters since `ready`.
export interface ServerStats {
  frames: number;
  late: number;
  degraded: number;
  starved: number;
  buffer_ms: number;
  oldest_ms: number;
  dropped_ms: number;
  lost: number;
  queued_bytes: number;
}

export interface ServerError {
  code: string;
  message: string;
  retryAfterMs: number | null;
}

export type ServerMessage =
  | { type: "hello"; server: string; session: string; model: ModelFacts }
  | { type: "progress"; doneFrames: number; totalFrames: number }
  | { type: "ready" }
  | { type: "text"; text: string; timeMs: number }
  | { type: "stats"; stats: ServerStats }
  | { type: "error"; error: ServerError }
  | { type: "bye"; reason: string }
  | { type: "unknown" };

type Fields = Record<string, unknown>;

// Reads one text message; anything that is not of the protocol comes out as "unknown".
export function parseServerMessage(text: string): ServerMessage {
  const fields = asFields(parseJson(text));
  switch (fields.type) {
    case "hello":
      return {
        type: "hello",
        server: asText(fields.server),
        session: asText(fields.session),
        model: modelFacts(asFields(fields.model), fields),
      };
    case "progress":
      return {
        type: "progress",
        doneFrames: asNumber(fields.done_frames),
        totalFrames: asNumber(fields.total_frames),
      };
    case "ready":
      return { type: "ready" };
    case "text":
      return { type: "text", text: asText(fields.text), timeMs: asNumber(fields.time_ms) };
    case "stats":
      return { type: "stats", stats: serverStats(fields) };
    case "error":
      return {
        type: "error",
        error: {
          code: asText(fields.code),
          message: asText(fields.message),
          retryAfterMs: typeof fields.retry_after_ms === "number" ? fields.retry_after_ms : null,
        },
      };
    case "bye":
      return { type: "bye", reason: asText(fields.reason) };
    default:
      return { type: "unknown" };
  }
}

// Reads the model's part of /v1/info; null where the answer does not tell.
export function parseInfo(json: unknown): ModelFacts | null {
  const model = asFields(asFields(json).model);
  return Array.isArray(model.voices) ? modelFacts(model, model) : null;
}

// `offers` holds voices, text_prompt, has_text and defaults: in `hello` they stand beside `model`.
function modelFacts(model: Fields, offers: Fields): ModelFacts {
  const voices = Array.isArray(offers.voices) ? offers.voices : [];
  return {
    name: asText(model.name),
    family: asText(model.family),
    voices: voices.filter((voice): voice is string => typeof voice === "string"),
    textPrompt: offers.text_prompt === true,
    hasText: offers.has_text === true,
    defaults: sampling(asFields(offers.defaults)),
  };
}

function sampling(fields: Fields): Sampling | null {
  if (typeof fields.text_temperature !== "number") return null;
  return {
    text_temperature: asNumber(fields.text_temperature),
    text_top_k: asNumber(fields.text_top_k),
    audio_temperature: asNumber(fields.audio_temperature),
    audio_top_k: asNumber(fields.audio_top_k),
  };
}

function serverStats(fields: Fields): ServerStats {
  return {
    frames: asNumber(fields.frames),
    late: asNumber(fields.late),
    degraded: asNumber(fields.degraded),
    starved: asNumber(fields.starved),
    buffer_ms: asNumber(fields.buffer_ms),
    oldest_ms: asNumber(fields.oldest_ms),
    dropped_ms: asNumber(fields.dropped_ms),
    lost: asNumber(fields.lost),
    queued_bytes: asNumber(fields.queued_bytes),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function asFields(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function asNumber(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}
