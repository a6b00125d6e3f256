// The panels at the foot of the page: each opens by its button, one at a time.

export class Panels {
  private readonly buttons: HTMLButtonElement[];
  private readonly onToggle: (id: string, open: boolean) => void;

  // A button names its panel in aria-controls.
  constructor(onToggle: (id: string, open: boolean) => void) {
    this.onToggle = onToggle;
    this.buttons = [...document.querySelectorAll<HTMLButtonElement>("button[aria-controls]")];
    for (const button of this.buttons) {
      button.addEventListener("click", () => this.set(button, !isOpen(button)));
    }
    document.addEventListener("keydown", (event) => {
      const open = this.buttons.find(isOpen);
      if (event.key !== "Escape" || !open) return;
      this.set(open, false);
      open.focus();
    });
  }

  // A panel with nothing in it has no button.
  setAvailable(id: string, available: boolean): void {
    const button = this.buttons.find((candidate) => panelId(candidate) === id);
    if (!button) return;
    button.hidden = !available;
    if (!available && isOpen(button)) this.set(button, false);
  }

  private set(button: HTMLButtonElement, open: boolean): void {
    if (open) {
      for (const other of this.buttons) if (other !== button && isOpen(other)) this.set(other, false);
    }
    button.setAttribute("aria-expanded", String(open));
    document.getElementById(panelId(button))!.hidden = !open;
    this.onToggle(panelId(button), open);
  }
}

function isOpen(button: HTMLButtonElement): boolean {
  return button.getAttribute("aria-expanded") === "true";
}

function panelId(button: HTMLButtonElement): string {
  return button.getAttribute("aria-controls")!;
}
