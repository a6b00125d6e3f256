"""The closed domain: what callers ask and what the agent answers (domain/*.toml)."""

from __future__ import annotations

import random
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from config import HERE

NUMBERS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
           "fifteen sixteen seventeen eighteen nineteen twenty").split()
DIGITS = NUMBERS[:10]
# The 3rd, 8th, 13th ... paraphrase of an intent is only in the evaluation: of eight that makes two.
HELD_OUT_EVERY, HELD_OUT_FIRST = 5, 2


@dataclass(frozen=True)
class Question:
    intent: str
    text: str  # as it is spoken: no punctuation
    answer: str


@dataclass
class Intent:
    name: str
    answer: str
    ask: list[str]
    weight: float = 1.0
    kind: str = ""  # sum, difference or digits: items are computed
    items: list[list[str]] = field(default_factory=list)

    def paraphrases(self, held_out: bool) -> list[str]:
        return [p for i, p in enumerate(self.ask)
                if (i % HELD_OUT_EVERY == HELD_OUT_FIRST) == held_out]

    @property
    def has_slots(self) -> bool:
        return bool(self.kind or self.items)

    def values(self, rng: random.Random) -> dict[str, str]:
        if self.kind == "sum":
            a = rng.randint(1, 19)
            b = rng.randint(1, 20 - a)
            return {"a": NUMBERS[a], "b": NUMBERS[b], "y": NUMBERS[a + b]}
        if self.kind == "difference":
            a = rng.randint(1, 20)
            b = rng.randint(1, a)
            return {"a": NUMBERS[a], "b": NUMBERS[b], "y": NUMBERS[a - b]}
        if self.kind == "digits":
            said = " ".join(rng.choice(DIGITS) for _ in range(rng.choice((1, 2, 2, 3, 3))))
            return {"x": said, "y": said}
        if self.items:
            x, y = rng.choice(self.items)
            return {"x": x, "y": y}
        return {}

    def question(self, rng: random.Random, held_out: bool) -> Question:
        values = self.values(rng)
        text = rng.choice(self.paraphrases(held_out)).format(**values).lower()
        answer = self.answer.format(**values)
        return Question(self.name, text, answer[0].upper() + answer[1:])

    def answers(self) -> list[str]:
        """All answers but those of digits, which are put together from words."""
        if self.kind == "digits":
            return []
        if self.kind:
            values = [{"y": word} for word in NUMBERS]
        else:
            values = [{"x": x, "y": y} for x, y in self.items] or [{}]
        made = [self.answer.format(**v) for v in values]
        return [answer[0].upper() + answer[1:] for answer in made]


class Domain:
    def __init__(self, folder: Path = HERE / "domain") -> None:
        self.intents: dict[str, Intent] = {}
        for path in sorted(folder.glob("*.toml")):
            with open(path, "rb") as file:
                for name, table in tomllib.load(file).items():
                    if name in self.intents:
                        raise ValueError(f"{path}: [{name}]: an intent of this name exists")
                    self.intents[name] = Intent(name, **table)
        self._names = list(self.intents)
        self._weights = [self.intents[name].weight for name in self._names]

    def sample(self, rng: random.Random, held_out: bool = False, intent: str = "") -> Question:
        name = intent or rng.choices(self._names, self._weights)[0]
        return self.intents[name].question(rng, held_out)

    def answers(self) -> list[str]:
        every = [answer for intent in self.intents.values() for answer in intent.answers()]
        return list(dict.fromkeys(every))

    def words(self) -> list[str]:
        """Every word that a caller may say."""
        found = set(NUMBERS)
        for intent in self.intents.values():
            for text in intent.ask:
                found.update(w for w in text.lower().split() if "{" not in w)
            for x, _ in intent.items:
                found.update(x.lower().split())
        return sorted(found)


def plain(text: str) -> list[str]:
    """Words without case and punctuation, to compare answers."""
    return "".join(c if c.isalpha() or c == "'" else " " for c in text.lower()).split()
