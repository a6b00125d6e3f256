"""Stage: the utterances of callers, in training voices and in held-out ones."""

from __future__ import annotations

import random
from pathlib import Path

from bank import Bank, BankWriter
from config import Config
from damage import Opus, coloured, stretched, trimmed
from domain import Domain, Question
from progress import Progress, is_fresh, run_workers
from speech import Espeak, Festival, Flite, Speech
from voices import HELD_OUT, Voice, speak, training_voice

FESTIVAL_BATCH = 40


class _Studio:
    def __init__(self, path: Path, rng: random.Random, damaged: bool) -> None:
        self.rng = rng
        self._writer = BankWriter(path)
        self._espeak, self._flite, self._festival = Espeak(), Flite(), Festival()
        self._opus = Opus()
        self._damaged = damaged
        self._waiting: dict[str, list[Question]] = {}
        self.count = 0

    def record(self, voice: Voice, question: Question) -> None:
        if voice.engine == "festival":
            waiting = self._waiting.setdefault(voice.name, [])
            waiting.append(question)
            if len(waiting) >= FESTIVAL_BATCH:
                self._flush(voice.name)
            return
        speech = speak(voice, question.text, self.rng, self._espeak, self._flite)
        self._keep(speech, voice, question)

    def _flush(self, name: str) -> None:
        questions = self._waiting.pop(name, [])
        stretch = self.rng.uniform(0.85, 1.2)
        made = self._festival.say_all(name, [q.text for q in questions], stretch)
        for speech, question in zip(made, questions):
            self._keep(speech, Voice("festival", name), question)

    def _keep(self, speech: Speech, voice: Voice, question: Question) -> None:
        rng = self.rng
        speech = trimmed(stretched(speech, rng.uniform(0.93, 1.08)))
        speech.samples = speech.samples / (abs(speech.samples).max() + 1e-6)
        if self._damaged:
            speech.samples = coloured(speech.samples, rng)
            if rng.random() < 0.4:
                speech.samples = self._opus.pass_through(
                    speech.samples * 0.5, rng.randint(12000, 32000), rng.choice((0, 0, 0.02)),
                    rng) * 2
        speech.samples = speech.samples * (0.9 / (abs(speech.samples).max() + 1e-6))
        self._writer.add(speech, question.text, str(voice), question.intent, question.answer)
        self.count += 1

    def close(self) -> None:
        for name in list(self._waiting):
            self._flush(name)
        self._writer.close()


def _record(rank: int, config: Config) -> None:
    domain = Domain()
    rng = random.Random(config.data.seed * 1000 + rank)
    count = config.data.utterances // config.data.workers
    studio = _Studio(config.folder / f"callers{rank}", rng, damaged=True)
    progress = Progress(f"callers {rank}", count)
    for i in range(count):
        studio.record(training_voice(rng), domain.sample(rng))
        progress.show(i)
    studio.close()
    progress.show(count, force=True)


def _record_held_out(config: Config) -> None:
    domain = Domain()
    rng = random.Random(config.data.seed * 1000 + 999)
    studio = _Studio(config.folder / "held_out", rng, damaged=False)
    for i in range(config.data.held_out_utterances):
        studio.record(HELD_OUT[i % len(HELD_OUT)], domain.sample(rng, held_out=True))
    studio.close()


def make(config: Config, resume: bool) -> None:
    if not is_fresh(config.folder / "callers0.json", resume):
        run_workers(config.data.workers, _record, config)
    if not is_fresh(config.folder / "held_out.json", resume):
        run_workers(1, lambda _: _record_held_out(config))


def training_bank(config: Config) -> Bank:
    return Bank([config.folder / f"callers{rank}" for rank in range(config.data.workers)])


def held_out_bank(config: Config) -> Bank:
    return Bank([config.folder / "held_out"])
