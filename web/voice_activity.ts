// Finds the caller's turns in the microphone's level: loud against the room's own noise.

const kAboveNoiseDb = 12;
const kLeastDb = -48; // quieter is never speech
const kHoldMs = 700; // a pause within a turn
const kShortestMs = 160; // shorter is a click
const kNoiseRiseDbPerMs = 0.001; // the estimate follows the quietest moments and rises slowly

export interface ActivityEvents {
  onBegin(): void;
  onLevel(db: number): void; // within a turn
  onEnd(durationMs: number): void;
}

export class VoiceActivity {
  private readonly events: ActivityEvents;
  private noiseDb = -50;
  private pending: number[] = []; // levels of a turn that is not long enough to count yet
  private spokenMs = 0; // since the turn began, pauses included
  private quietMs = 0;
  private active = false;

  constructor(events: ActivityEvents) {
    this.events = events;
  }

  // Takes the level of one piece of `pieceMs`.
  take(db: number, pieceMs: number): void {
    this.noiseDb = Math.min(db, this.noiseDb + kNoiseRiseDbPerMs * pieceMs);
    const loud = db > Math.max(kLeastDb, this.noiseDb + kAboveNoiseDb);
    this.quietMs = loud ? 0 : this.quietMs + pieceMs;
    if (this.active) this.goOn(db, pieceMs);
    else this.wait(db, loud, pieceMs);
  }

  // Ends a turn that is under way.
  stop(): void {
    if (this.active) this.events.onEnd(this.spokenMs - this.quietMs);
    this.active = false;
    this.pending = [];
    this.spokenMs = 0;
  }

  private wait(db: number, loud: boolean, pieceMs: number): void {
    if (!loud) {
      this.pending = [];
      return;
    }
    this.pending.push(db);
    if (this.pending.length * pieceMs < kShortestMs) return;
    this.active = true;
    this.spokenMs = this.pending.length * pieceMs;
    this.events.onBegin();
    for (const level of this.pending) this.events.onLevel(level);
    this.pending = [];
  }

  private goOn(db: number, pieceMs: number): void {
    this.spokenMs += pieceMs;
    if (this.quietMs >= kHoldMs) this.stop();
    else this.events.onLevel(db);
  }
}
