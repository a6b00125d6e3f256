// What the main thread and the playback worklet tell each other.

import type { PlayoutStats } from "./playout_buffer";

export type PlaybackOrder = "clear" | { samples: Float32Array; rateHz: number };

export interface PlaybackReport extends PlayoutStats {
  levelDb: number; // of what was played since the last report
}
