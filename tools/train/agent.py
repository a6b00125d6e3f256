"""Stage: the agent's answers as sound, aligned to frames, with the times of their words."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from bank import Bank, BankWriter
from config import FRAME_SAMPLES, RATE_HZ, AgentConfig, Config
from damage import trimmed
from domain import DIGITS, Domain
from progress import Progress, is_fresh
from speech import Flite, Speech, Timed
from vocoder import synthesise

LEAD_S = 0.02


def _recorded(flite: Flite, config: AgentConfig, text: str) -> Speech:
    speech = trimmed(flite.say(config.voice, text, config.stretch), LEAD_S)
    speech.samples = synthesise(speech, config.pitch_hz)
    frames = -(-len(speech.samples) // FRAME_SAMPLES)
    speech.samples = np.pad(speech.samples, (0, frames * FRAME_SAMPLES - len(speech.samples)))
    return speech


def _joined(parts: list[Speech]) -> Speech:
    """Words that each begin with a frame, so that a digit sounds alike wherever it stands."""
    out, at = Speech(np.concatenate([part.samples for part in parts])), 0.0
    for part in parts:
        for source, target in ((part.phones, out.phones), (part.words, out.words)):
            target += [Timed(t.name, t.begin_s + at, t.end_s + at) for t in source]
        at += len(part.samples) / RATE_HZ
    return out


def make(config: Config, resume: bool) -> None:
    path = config.folder / "agent"
    if is_fresh(path.with_suffix(".json"), resume):
        return
    flite, writer = Flite(), BankWriter(path)
    answers = Domain().answers()
    progress = Progress("agent", len(answers))
    for i, answer in enumerate(answers):
        writer.add(_recorded(flite, config.agent, answer), answer, "agent", "", answer)
        progress.show(i)
    digits = {digit: _recorded(flite, config.agent, digit) for digit in DIGITS}
    for length in (1, 2, 3):
        for said in itertools.product(DIGITS, repeat=length):
            text = " ".join(said).capitalize() + "."
            writer.add(_joined([digits[d] for d in said]), text, "agent", "repeat", text)
    writer.close()
    progress.show(len(answers), force=True)


class Answers:
    """Sound and words of every answer."""

    def __init__(self, folder: Path) -> None:
        self.bank = Bank([folder / "agent"])
        self.index = {entry.text: i for i, entry in enumerate(self.bank.entries)}

    def sound(self, text: str) -> np.ndarray:
        return self.bank.sound(self.index[text])

    def frames(self, text: str) -> int:
        return self.bank.entries[self.index[text]].count // FRAME_SAMPLES

    def words(self, text: str) -> list[tuple[str, int]]:
        """The answer's words as written, and the frames in which they begin."""
        entry = self.bank.entries[self.index[text]]
        spoken = entry.words
        written = text.split()
        if len(spoken) != len(written):
            raise ValueError(f"{text!r}: {len(written)} words written, {len(spoken)} spoken")
        frame_s = FRAME_SAMPLES / RATE_HZ
        return [(word, int(begin / frame_s)) for word, (_, begin, _) in zip(written, spoken)]
