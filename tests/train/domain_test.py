#!/usr/bin/env python3
"""domain_test.py SOURCE: the training's domain is as large as it must be, and the evaluation's part is kept apart."""
import pathlib
import random
import string
import sys

sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "tools/train"))
import config  # noqa: E402
from domain import Domain  # noqa: E402

domain = Domain()
assert len(domain.intents) >= 80, len(domain.intents)
held, every = 0, 0
for name, intent in domain.intents.items():
    trained, kept = intent.paraphrases(False), intent.paraphrases(True)
    assert len(intent.ask) >= 8, f"{name}: {len(intent.ask)} paraphrases"
    assert len(set(intent.ask)) == len(intent.ask), f"{name}: a paraphrase twice"
    assert kept and not set(trained) & set(kept), name
    assert sorted(trained + kept) == sorted(intent.ask), name
    held += len(kept)
    every += len(intent.ask)
    for slot in (f for text in [*intent.ask, intent.answer] for _, f, _, _ in string.Formatter().parse(text) if f):
        assert intent.has_slots and slot in intent.values(random.Random(0)), f"{name}: nothing fills {slot}"
assert 0.2 <= held / every <= 0.25, held / every

# A question that the evaluation asks is asked in no training, by whatever intent.
spoken = {held_out: {p for i in domain.intents.values() for p in i.paraphrases(held_out)} for held_out in (False, True)}
assert not spoken[False] & spoken[True], spoken[False] & spoken[True]

# Sums are right: the answer's number is that of the question.
words = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen " \
    "seventeen eighteen nineteen twenty".split()
rng = random.Random(7)
for intent in (i for i in domain.intents.values() if i.kind in ("sum", "difference")):
    for _ in range(200):
        v = {k: words.index(w) for k, w in intent.values(rng).items()}
        assert v["y"] == (v["a"] + v["b"] if intent.kind == "sum" else v["a"] - v["b"]), v

# The same seed asks the same questions.
first, again = ([domain.sample(random.Random(3)) for _ in range(5)] for _ in range(2))
assert first == again

loaded = config.load(config.HERE / "train.toml")
assert loaded.agent.pitch_hz % 25 == 0
broken = pathlib.Path(sys.argv[2]) / "broken_train.toml"
broken.write_text((config.HERE / "train.toml").read_text().replace("pitch_hz", "pitch"))
try:
    config.load(broken)
    raise AssertionError("an unknown key was taken")
except ValueError as error:
    assert "pitch" in str(error) and str(broken) in str(error), error
finally:
    broken.unlink()
print(f"domain passed: {len(domain.intents)} intents, {every} paraphrases, {held} held out")
