"""One set of phones for all synthesisers."""

from __future__ import annotations

PHONES = ("sil aa ae ah ao aw ay b ch d dh eh er ey f g hh ih iy jh k l m n ng ow oy p r s sh t th "
          "uh uw v w y z zh").split()
INDEX = {name: i for i, name in enumerate(PHONES)}
VOICED = set("aa ae ah ao aw ay eh er ey ih iy l m n ng ow oy r uh uw w y".split())
BOTH = set("v z zh dh jh".split())  # pulses and noise
BURST = set("b d g".split())

_FLITE = {"pau": "sil", "ssil": "sil", "h#": "sil", "brth": "sil", "ax": "ah", "axr": "er",
          "ix": "ih", "el": "l", "em": "m", "en": "n", "nx": "n", "dx": "d", "hv": "hh"}

# espeak-ng's mnemonics of its English voices; the longest prefix counts.
_ESPEAK = {
    "": "sil", "_": "sil", "_:": "sil", "?": "sil", "a": "ae", "aa": "ae", "a#": "ah", "A": "aa",
    "A@": "aa", "A:": "aa", "A#": "aa", "0": "aa", "02": "ah", "0#": "aa", "O": "ao", "O:": "ao",
    "O@": "ao", "O2": "ao", "o@": "ao", "oI": "oy", "OI": "oy", "aU": "aw", "aI": "ay",
    "aI@": "ay", "aI3": "ay", "aU@": "aw", "E": "eh", "E2": "eh", "E#": "eh", "e@": "eh",
    "e": "eh", "3": "er", "3:": "er", "@r": "er", "V": "ah", "V2": "ah", "@": "ah", "@2": "ah",
    "@5": "ah", "@L": "l", "eI": "ey", "e:": "ey", "I": "ih", "I#": "ih", "I2": "ih", "i": "iy",
    "i:": "iy", "i@": "ih", "i@3": "ih", "i3": "ih", "oU": "ow", "o": "ow", "o:": "ow",
    "@U": "ow", "U": "uh", "U@": "uh", "u": "uw", "u:": "uw", "b": "b", "tS": "ch", "d": "d",
    "d#": "d", "D": "dh", "f": "f", "g": "g", "h": "hh", "H": "hh", "dZ": "jh", "k": "k",
    "l": "l", "l^": "l", "m": "m", "m-": "m", "n": "n", "n-": "n", "n^": "n", "N": "ng",
    "p": "p", "r": "r", "r-": "r", "r2": "r", "*": "d", "**": "d", "s": "s", "S": "sh", "t": "t",
    "t#": "d", "t2": "t", "T": "th", "v": "v", "w": "w", "W": "w", "w#": "w", "x": "k", "j": "y",
    "z": "z", "z#": "z", "Z": "zh", ";": "sil", "@-": "ah", "IR": "er", "VR": "er", "aI2": "ay",
    "t[": "t",
}


def from_flite(name: str) -> str:
    name = _FLITE.get(name, name)
    return name if name in INDEX else "sil"


def from_espeak(name: str) -> str:
    for length in range(len(name), 0, -1):
        if name[:length] in _ESPEAK:
            return _ESPEAK[name[:length]]
    return "sil"
