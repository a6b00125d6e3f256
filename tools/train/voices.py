"""Who calls: synthesisers' voices, six of which only the evaluation hears."""

from __future__ import annotations

import random
from dataclasses import dataclass

from speech import Espeak, Flite, Speech

_LANGUAGES = ("en-us", "en-us", "en-us", "en", "en-gb-x-rp", "en-gb-scotland", "en-us-nyc",
              "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-029")
_VARIANTS = (" m1 m2 m3 m4 m5 m6 m7 f1 f2 f3 f4 Alex Andrea Andy Annie Henrique Lee Mike Gene Diogo "
             "adam anika belinda benjamin boris caleb david ed edward john linda marcelo Marco Mario "
             "michael norbert pablo paul pedro quincy rob robert sandro shelby steph travis victor "
             "zac klatt2 klatt3 iven iven2 grandma aunty miguel").split(" ")


@dataclass(frozen=True)
class Voice:
    engine: str  # espeak, flite or festival
    name: str

    def __str__(self) -> str:
        return f"{self.engine}/{self.name}"


HELD_OUT = (Voice("espeak", "en-us+m8"), Voice("espeak", "en-us+f5"),
            Voice("espeak", "en-us+Denis"), Voice("espeak", "en-gb-x-rp+Hugo"),
            Voice("espeak", "en+Alicia"), Voice("festival", "kal_diphone"))
_FLITE = ("slt", "awb", "kal", "kal16")
_FESTIVAL = ("ked_diphone", "cmu_us_slt_arctic_hts")


def training_voice(rng: random.Random) -> Voice:
    draw = rng.random()
    if draw < 0.18:
        return Voice("flite", rng.choice(_FLITE))
    if draw < 0.24:
        return Voice("festival", rng.choice(_FESTIVAL))
    variant = rng.choice(_VARIANTS)
    return Voice("espeak", rng.choice(_LANGUAGES) + ("+" + variant if variant else ""))


def speak(voice: Voice, text: str, rng: random.Random, espeak: Espeak, flite: Flite) -> Speech:
    """Of espeak and flite voices; festival's are made in batches."""
    if voice.engine == "flite":
        return flite.say(voice.name, text, rng.uniform(0.85, 1.25))
    return espeak.say(voice.name, text, rng.randint(125, 195), rng.randint(25, 75))
