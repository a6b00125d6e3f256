// What the user can do about a problem, step by step. Text between backticks is shown as code.

import type { Problem } from "./status";

export function remediesFor(problem: Problem, page: URL): string[] {
  switch (problem) {
    case "insecure":
      return insecure(page);
    case "denied":
      return [
        "Press the lock or microphone symbol beside the address and set Microphone to “Allow”.",
        "If it is allowed there, look into the privacy settings of your system: the browser itself needs the right to use the microphone.",
        "Come back here and try again.",
      ];
    case "missing":
      return [
        "Plug in a microphone or a headset, or switch on your Bluetooth headset.",
        "Check that your system's sound settings list it as an input.",
        "Come back here and try again.",
      ];
    case "busy":
      return [
        "Close other programs and tabs that use the microphone.",
        "Unplug it and plug it in again, or choose another one in your system's sound settings.",
        "Come back here and try again.",
      ];
    case "gone":
      return ["Plug it in again, or choose another one.", "Then start a new conversation."];
    case "unreachable":
      return [
        "Check that this device is online.",
        "Ask whoever runs the service whether it is up; its address is in the bar above.",
      ];
    case "rejected":
      return [
        "Reset the settings to the model's own.",
        "Reload the page: the service may have been updated.",
      ];
    case "unsupported":
      return [
        "Use a current Chrome, Edge, Firefox or Safari.",
        "Within another app, open this page in your real browser.",
      ];
  }
}

function insecure(page: URL): string[] {
  const port = page.port || "80";
  return [
    `Use the service's secure address, if it has one: \`https://${page.hostname}\` with its secure port. On a home network, a warning about an unknown certificate is expected the first time.`,
    `Or sit at the computer that runs the service and open \`http://localhost:${port}\`.`,
    `Or bring that port here with \`ssh -L ${port}:localhost:${port} ${page.hostname}\` and open \`http://localhost:${port}\`.`,
  ];
}
