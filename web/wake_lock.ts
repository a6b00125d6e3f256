// Keeps a phone's screen on during a conversation: a locked phone takes the microphone away. The
// lock falls whenever the page is hidden, so it is taken again when the page comes back.

export class WakeLock {
  private wanted = false;
  private lock: WakeLockSentinel | null = null;

  take(): void {
    this.wanted = true;
    document.addEventListener("visibilitychange", this.request);
    this.request();
  }

  release(): void {
    this.wanted = false;
    document.removeEventListener("visibilitychange", this.request);
    this.lock?.release().catch(() => undefined);
    this.lock = null;
  }

  private readonly request = (): void => {
    if (!("wakeLock" in navigator) || document.visibilityState !== "visible") return;
    // Refused on low battery: then the screen may go dark, no more.
    navigator.wakeLock.request("screen").then(
      (lock) => {
        this.lock = lock;
        if (!this.wanted) this.release();
      },
      () => undefined,
    );
  };
}
