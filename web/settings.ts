// Voice, persona and sampling: shows what the model offers, remembers what the user chose.

import type { ModelFacts, Sampling, StartOptions } from "./protocol";

const kStorageKey = "antiphon.settings";
const kSamplingFields = [
  "text_temperature",
  "text_top_k",
  "audio_temperature",
  "audio_top_k",
] as const satisfies readonly (keyof Sampling)[];

type Choices = Partial<Record<string, string>>; // by the name of the form's field; absent: default

export class Settings {
  private readonly form: HTMLFormElement;
  private choices: Choices = load();
  private model: ModelFacts | null = null;

  // The form holds fields named as in StartOptions. `onChange` comes after each choice.
  constructor(form: HTMLFormElement, onChange: () => void) {
    this.form = form;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", () => {
      this.read();
      onChange();
    });
    form.addEventListener("reset", () => {
      this.choices = {};
      store(this.choices);
      // The fields themselves are reset after this event.
      setTimeout(() => {
        this.fill();
        onChange();
      });
    });
  }

  // True if there is anything to choose.
  offer(model: ModelFacts): boolean {
    this.model = model;
    const voices = this.select();
    voices.replaceChildren(new Option("The model's own", ""));
    for (const voice of model.voices) voices.add(new Option(voice));
    this.group("voice").hidden = model.voices.length === 0;
    this.group("text_prompt").hidden = !model.textPrompt;
    this.group("sampling").hidden = model.defaults === null;
    this.fill();
    return model.voices.length > 0 || model.textPrompt || model.defaults !== null;
  }

  // What a conversation begins with: only what the user chose and this model takes.
  options(): Omit<StartOptions, "audio"> {
    const { model, choices } = this;
    const options: Omit<StartOptions, "audio"> = {};
    if (!model) return options;
    if (choices.voice && model.voices.includes(choices.voice)) options.voice = choices.voice;
    if (choices.text_prompt && model.textPrompt) options.text_prompt = choices.text_prompt;
    if (model.defaults) {
      for (const name of kSamplingFields) options[name] = numberOf(choices[name]);
      options.seed = numberOf(choices.seed);
    }
    return options;
  }

  private fill(): void {
    for (const field of this.fields()) {
      field.value = this.choices[field.name] ?? "";
      if (!(field instanceof HTMLInputElement) || !this.model?.defaults) continue;
      const preset = this.model.defaults[field.name as keyof Sampling];
      field.placeholder = preset === undefined ? "random" : String(preset);
    }
    if (this.select().selectedIndex < 0) this.select().selectedIndex = 0; // a voice of another model
  }

  private read(): void {
    this.choices = {};
    for (const field of this.fields()) {
      if (field.value !== "" && field.checkValidity()) this.choices[field.name] = field.value;
    }
    store(this.choices);
  }

  private fields(): (HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement)[] {
    return [...this.form.querySelectorAll<HTMLInputElement>("input, select, textarea")];
  }

  private select(): HTMLSelectElement {
    return this.form.elements.namedItem("voice") as HTMLSelectElement;
  }

  private group(name: string): HTMLElement {
    return this.form.querySelector<HTMLElement>(`[data-group="${name}"]`)!;
  }
}

function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}

// Storage may be forbidden; then choices last as long as the page.
function load(): Choices {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(kStorageKey) ?? "{}");
    return typeof stored === "object" && stored !== null ? (stored as Choices) : {};
  } catch {
    return {};
  }
}

function store(choices: Choices): void {
  try {
    localStorage.setItem(kStorageKey, JSON.stringify(choices));
  } catch {
    // As above.
  }
}
