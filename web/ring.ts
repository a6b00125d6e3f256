// The living ring around the button: one line per voice, the caller's inside, the agent's outside.
// At rest both are circles; a voice makes its line swell and ripple.

const kPoints = 120;
const kLines = 3; // of each voice, one behind the other
const kReducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

interface Voice {
  colour: string; // custom property of the style sheet
  radius: number; // at rest, as a share of half the canvas
  swell: number; // outward at full level
  turn: 1 | -1; // the two voices turn against each other
}

const kCaller: Voice = { colour: "--you", radius: 0.68, swell: 0.05, turn: 1 };
const kAgent: Voice = { colour: "--agent", radius: 0.76, swell: 0.13, turn: -1 };

export class Ring {
  private readonly canvas: HTMLCanvasElement;
  private readonly context: CanvasRenderingContext2D | null;
  private phase = 0;

  constructor(canvas: HTMLCanvasElement) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
  }

  // Draws both voices at these levels (0..1).
  draw(caller: number, agent: number, elapsedMs: number): void {
    const { canvas, context } = this;
    if (!context) return;
    const size = Math.round(canvas.clientWidth * devicePixelRatio);
    if (size === 0) return;
    if (canvas.width !== size) canvas.width = canvas.height = size;
    if (!kReducedMotion.matches) this.phase += 0.0011 * elapsedMs;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, size, size);
    context.translate(size / 2, size / 2);
    const style = getComputedStyle(canvas);
    for (const [voice, level] of [[kAgent, agent], [kCaller, caller]] as const) {
      context.strokeStyle = context.fillStyle = style.getPropertyValue(voice.colour);
      for (let line = kLines - 1; line >= 0; --line) this.trace(voice, level, line, size / 2);
    }
  }

  private trace(voice: Voice, level: number, line: number, scale: number): void {
    const context = this.context!;
    const lag = 0.9 * line;
    const swell = voice.swell * level;
    context.globalAlpha = [0.95, 0.42, 0.2][line] * (0.45 + 0.55 * Math.min(1, 3 * level));
    context.lineWidth = devicePixelRatio * (line === 0 ? 2 : 1.25);
    context.beginPath();
    for (let i = 0; i <= kPoints; ++i) {
      const angle = (2 * Math.PI * i) / kPoints;
      const wave = kReducedMotion.matches ? 0 : ripple(angle, voice.turn * this.phase - lag);
      const radius = scale * (voice.radius + swell * (0.55 + 0.45 * wave) * (1 + 0.35 * line));
      const x = radius * Math.cos(angle);
      const y = radius * Math.sin(angle);
      if (i === 0) context.moveTo(x, y);
      else context.lineTo(x, y);
    }
    context.closePath();
    context.stroke();
    if (line > 0) return;
    context.globalAlpha = 0.1 * level;
    context.fill();
  }
}

// A smooth closed wave between -1 and 1 that never quite repeats.
function ripple(angle: number, phase: number): number {
  return (
    0.5 * Math.sin(3 * angle + 1.7 * phase) +
    0.3 * Math.sin(5 * angle - 2.3 * phase) +
    0.2 * Math.sin(8 * angle + 3.1 * phase)
  );
}
