// Where a conversation stands, and the words the page has for it.

import type { MicrophoneProblem } from "./microphone";

export type Phase =
  | "idle"
  | "microphone" // asking for it
  | "connecting"
  | "refused" // every place is taken: waits and tries again
  | "preparing" // a prompt runs through the model
  | "listening"
  | "speaking"
  | "paused" // the browser or the phone stopped our sound
  | "reconnecting"
  | "problem"; // needs the user

export type Problem = MicrophoneProblem | "gone" | "unreachable" | "rejected";

export interface Status {
  phase: Phase;
  reason?: string; // idle: why it ended; refused, reconnecting: why
  retryAtMs?: number; // refused, reconnecting: performance.now() of the next try
  progress?: number; // preparing: 0..1
  problem?: Problem;
  detail?: string; // problem: the server's own words
}

export const kLive: ReadonlySet<Phase> = new Set<Phase>(["listening", "speaking"]);

// Trying again on this page, in this browser, cannot help.
export function isHopeless({ problem }: Status): boolean {
  return problem === "insecure" || problem === "unsupported";
}

export interface Words {
  headline: string;
  hint: string;
  button: string; // what pressing the button does
}

export function wordsFor(status: Status, nowMs: number): Words {
  const { phase, reason = "" } = status;
  switch (phase) {
    case "idle":
      return {
        headline: reason ? "Conversation ended" : "Ready when you are",
        hint: reason || "Press the button and speak. Wear headphones if you can.",
        button: "Talk",
      };
    case "microphone":
      return {
        headline: "May I listen?",
        hint: "Your browser is asking for the microphone. Please choose “Allow”.",
        button: "Cancel",
      };
    case "connecting":
      return { headline: "Connecting", hint: "Reaching the service…", button: "Cancel" };
    case "refused":
      return {
        headline: "Waiting for a free place",
        hint: `${reason} ${nextTry(status, nowMs)}`,
        button: "Stop waiting",
      };
    case "preparing":
      return { headline: "Preparing", hint: preparing(status.progress), button: "Cancel" };
    case "listening":
      return { headline: "Listening", hint: "Speak freely. You may interrupt.", button: "End" };
    case "speaking":
      return { headline: "Speaking", hint: "Speak freely. You may interrupt.", button: "End" };
    case "paused":
      return {
        headline: "Sound is paused",
        hint: "Your device stopped the sound, perhaps for a call. Press the button to go on.",
        button: "Resume",
      };
    case "reconnecting":
      return {
        headline: "Reconnecting",
        hint: `${reason} ${nextTry(status, nowMs)}`,
        button: "Stop",
      };
    case "problem":
      return { ...problemWords(status), button: isHopeless(status) ? "Talk" : "Try again" };
  }
}

function preparing(progress?: number): string {
  if (progress === undefined) return "The model is getting ready for you…";
  return `The model is reading its persona: ${Math.floor(100 * progress)} %`;
}

function nextTry({ retryAtMs }: Status, nowMs: number): string {
  const seconds = retryAtMs === undefined ? 0 : Math.ceil((retryAtMs - nowMs) / 1000);
  return seconds > 0 ? `Trying again in ${seconds} s.` : "Trying again…";
}

function problemWords({ problem, detail }: Status): { headline: string; hint: string } {
  switch (problem) {
    case "insecure":
      return {
        headline: "This page needs a secure address",
        hint: "Browsers allow the microphone only over https or on the computer itself.",
      };
    case "denied":
      return {
        headline: "The microphone is blocked",
        hint: "Your browser or system does not let this page use the microphone.",
      };
    case "missing":
      return {
        headline: "No microphone found",
        hint: "Your browser sees no microphone on this device.",
      };
    case "busy":
      return {
        headline: "The microphone does not start",
        hint: "Another program may be using it, or the system holds it back.",
      };
    case "gone":
      return {
        headline: "The microphone went away",
        hint: "It was unplugged or switched off during the conversation.",
      };
    case "unreachable":
      return {
        headline: "The service cannot be reached",
        hint: "It did not answer for about two minutes.",
      };
    case "rejected":
      return {
        headline: "The service ended the conversation",
        hint: detail || "It did not accept what this page sent.",
      };
    default:
      return {
        headline: "This browser cannot talk",
        hint: "It lacks the sound features this page is built on.",
      };
  }
}
