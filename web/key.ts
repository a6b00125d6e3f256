// The key that opens a daemon on another machine. It comes once in the address, as #key=..., which
// browsers do not send; then it is kept here and taken out of the address.

const kStored = "antiphon.key";
const kShape = /^[A-Za-z0-9_-]{1,128}$/;

export function takeKeyFromAddress(): void {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (key === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    if (key === "") localStorage.removeItem(kStored);
    else if (kShape.test(key)) localStorage.setItem(kStored, key);
  } catch {
    // Storage that is shut off: the key would be asked for again anyway.
  }
}

export function storedKey(): string | null {
  try {
    return localStorage.getItem(kStored);
  } catch {
    return null;
  }
}

// For WebSockets, which can carry no header of ours: a sub-protocol beside the real one.
export function keyProtocols(): string[] {
  const key = storedKey();
  return key === null ? [] : [`antiphon.key.${key}`];
}

export function keyHeaders(): Record<string, string> {
  const key = storedKey();
  return key === null ? {} : { Authorization: `Bearer ${key}` };
}
