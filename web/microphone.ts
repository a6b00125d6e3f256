// Getting the microphone, and why that may fail.

export type MicrophoneProblem = "insecure" | "denied" | "missing" | "busy" | "unsupported";

export class MicrophoneError extends Error {
  readonly problem: MicrophoneProblem;

  constructor(problem: MicrophoneProblem) {
    super(problem);
    this.problem = problem;
  }
}

// What stands in the way on this page, known before anything is asked; null: nothing.
export function obstacle(): MicrophoneProblem | null {
  if (!window.isSecureContext) return "insecure";
  const able = "mediaDevices" in navigator && "AudioWorkletNode" in window;
  return able ? null : "unsupported";
}

// Asks the user and opens the microphone. Throws MicrophoneError.
export async function openMicrophone(): Promise<MediaStream> {
  const inTheWay = obstacle();
  if (inTheWay) throw new MicrophoneError(inTheWay);
  try {
    return await navigator.mediaDevices.getUserMedia({
      audio: {
        echoCancellation: true, // or the agent hears, and answers, itself
        noiseSuppression: true,
        autoGainControl: true,
        channelCount: { ideal: 1 },
      },
    });
  } catch (error) {
    throw new MicrophoneError(problemOf(error));
  }
}

// Names of DOMExceptions: https://w3c.github.io/mediacapture-main/#dom-mediadevices-getusermedia
function problemOf(error: unknown): MicrophoneProblem {
  switch (error instanceof DOMException ? error.name : "") {
    case "NotAllowedError":
    case "SecurityError":
      return "denied";
    case "NotFoundError":
    case "OverconstrainedError":
      return "missing";
    case "NotReadableError":
    case "AbortError":
      return "busy";
    default:
      return "unsupported";
  }
}
