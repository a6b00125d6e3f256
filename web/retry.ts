// What to do when a connection is over: stop, try again (and when), or give up with words.

import type { Ending } from "./connection";

const kFirstDelayMs = 500;
const kLongestDelayMs = 15000;
const kMostAttempts = 12; // about two minutes
const kDefaultRetryAfterMs = 5000;

export type Verdict =
  | { action: "stop"; notice: string }
  | { action: "retry"; phase: "refused" | "reconnecting"; reason: string; delayMs: number }
  | { action: "fail"; problem: "unreachable" | "rejected"; detail: string };

// `attempts`: connections that failed since the last one that held a conversation, this one included.
export function judge(ending: Ending, attempts: number, random: () => number): Verdict {
  const { code, error, byeReason } = ending;
  if (byeReason === "client") return { action: "stop", notice: "" };
  if (byeReason === "idle") {
    return { action: "stop", notice: "The conversation ended because it was quiet for a long time." };
  }
  if (error?.code === "busy" || error?.code === "draining" || code === 1013) {
    return refused(ending, random);
  }
  if (code === 1008 || code === 1009 || error?.code === "bad_option") {
    return { action: "fail", problem: "rejected", detail: error?.message ?? "" };
  }
  if (attempts > kMostAttempts) return { action: "fail", problem: "unreachable", detail: "" };
  const delayMs = jitter(Math.min(kLongestDelayMs, kFirstDelayMs * 2 ** (attempts - 1)), random);
  return { action: "retry", phase: "reconnecting", reason: whyReconnect(ending), delayMs };
}

// A refusal is waited out as long as the user likes, never asking earlier than the server said.
function refused(ending: Ending, random: () => number): Verdict {
  const { error } = ending;
  const reason =
    error?.code === "draining"
      ? "The service is about to stop and takes no new conversations."
      : "Every place is taken by another conversation.";
  const delayMs = (error?.retryAfterMs ?? kDefaultRetryAfterMs) * (1 + 0.2 * random());
  return { action: "retry", phase: "refused", reason, delayMs: Math.max(kFirstDelayMs, delayMs) };
}

function whyReconnect({ code, error, byeReason, wasReady }: Ending): string {
  if (error?.code === "too_slow") return "Your network was too slow to keep up.";
  if (code === 1001 || byeReason === "draining") return "The service is restarting.";
  if (code === 1011 || error?.code === "internal" || byeReason === "internal") {
    return "The service had a fault.";
  }
  return wasReady ? "The connection was lost." : "The service does not answer.";
}

function jitter(ms: number, random: () => number): number {
  return ms * (0.75 + 0.5 * random());
}
