"""Speech from text: espeak-ng and flite through their libraries, festival in batches."""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
import wave
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from config import RATE_HZ
from phones import from_espeak, from_flite


@dataclass
class Timed:
    name: str
    begin_s: float
    end_s: float


@dataclass
class Speech:
    samples: np.ndarray  # float32 [n] at RATE_HZ
    phones: list[Timed] = field(default_factory=list)  # names of phones.PHONES
    words: list[Timed] = field(default_factory=list)


def resample(x: np.ndarray, ratio: float) -> np.ndarray:
    """By Fourier interpolation; the result has len(x) * ratio samples."""
    n, m = len(x), max(1, round(len(x) * ratio))
    padded = 1 << (n - 1).bit_length()
    scaled = round(padded * ratio)
    spectrum = np.fft.rfft(x, padded)
    out = np.zeros(scaled // 2 + 1, np.complex128)
    k = min(len(spectrum), len(out))
    out[:k] = spectrum[:k]
    return (np.fft.irfft(out, scaled)[:m] * (scaled / padded)).astype(np.float32)


class Espeak:
    """One per process: the library has one state."""

    class _Id(ctypes.Union):
        _fields_ = [("number", ctypes.c_int), ("string", ctypes.c_char * 8)]

    class _Event(ctypes.Structure):
        pass

    _WORD, _PHONEME = 1, 7

    def __init__(self) -> None:
        event = Espeak._Event
        event._fields_ = [("type", ctypes.c_int), ("unique_id", ctypes.c_uint),
                          ("text_position", ctypes.c_int), ("length", ctypes.c_int),
                          ("audio_position", ctypes.c_int), ("sample", ctypes.c_int),
                          ("user_data", ctypes.c_void_p), ("id", Espeak._Id)]
        self._lib = ctypes.CDLL("libespeak-ng.so.1")
        self._rate_hz = self._lib.espeak_Initialize(2, 0, None, 1)  # synchronous, phoneme events
        if self._rate_hz <= 0:
            raise RuntimeError("espeak-ng cannot be initialised")
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int,
                                ctypes.POINTER(event))
        self._callback = kind(self._heard)
        self._lib.espeak_SetSynthCallback(self._callback)
        self._sound: list[np.ndarray] = []
        self._events: list[tuple[int, float, int, int, str]] = []

    def _heard(self, pcm, count, events) -> int:  # type: ignore[no-untyped-def]
        if count > 0 and pcm:
            self._sound.append(np.ctypeslib.as_array(pcm, (count,)).copy())
        i = 0
        while events[i].type != 0:
            e = events[i]
            name = e.id.string.decode("utf-8", "replace") if e.type == self._PHONEME else ""
            self._events.append((e.type, e.audio_position / 1000, e.text_position, e.length, name))
            i += 1
        return 0

    def say(self, voice: str, text: str, words_per_minute: int = 170, pitch: int = 50) -> Speech:
        self._sound, self._events = [], []
        if self._lib.espeak_SetVoiceByName(voice.encode()) != 0:
            raise ValueError(f"espeak-ng has no voice {voice}")
        self._lib.espeak_SetParameter(1, words_per_minute, 0)
        self._lib.espeak_SetParameter(3, pitch, 0)
        data = text.encode()
        self._lib.espeak_Synth(data, len(data) + 1, 0, 1, 0, 1, None, None)
        if not self._sound:
            raise RuntimeError(f"espeak-ng said nothing for {text!r} as {voice}")
        sound = np.concatenate(self._sound).astype(np.float32) / 32768
        end = len(sound) / self._rate_hz
        speech = Speech(resample(sound, RATE_HZ / self._rate_hz))
        marks = [(t, name) for kind, t, _, _, name in self._events if kind == self._PHONEME]
        for (t, name), (until, _) in zip(marks, marks[1:] + [(end, "")]):
            speech.phones.append(Timed(from_espeak(name), t, until))
        marks = [(t, text[at - 1:at - 1 + n])
                 for kind, t, at, n, _ in self._events if kind == self._WORD]
        for (t, name), (until, _) in zip(marks, marks[1:] + [(end, "")]):
            speech.words.append(Timed(name.strip().lower(), t, until))
        return speech


class Flite:
    VOICES = {"slt": "cmu_us_slt", "rms": "cmu_us_rms", "awb": "cmu_us_awb", "kal": "cmu_us_kal",
              "kal16": "cmu_us_kal16"}

    class _Wave(ctypes.Structure):
        _fields_ = [("type", ctypes.c_char_p), ("sample_rate", ctypes.c_int),
                    ("num_samples", ctypes.c_int), ("num_channels", ctypes.c_int),
                    ("samples", ctypes.POINTER(ctypes.c_short))]

    def __init__(self) -> None:
        lib = ctypes.CDLL("libflite.so.1", mode=ctypes.RTLD_GLOBAL)
        for part in ("usenglish", "cmulex"):
            ctypes.CDLL(f"libflite_{part}.so.1", mode=ctypes.RTLD_GLOBAL)
        pointer, text, real = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_float
        for name, result, arguments in (
                ("flite_init", ctypes.c_int, []), ("flite_synth_text", pointer, [text, pointer]),
                ("utt_wave", ctypes.POINTER(Flite._Wave), [pointer]),
                ("utt_relation", pointer, [pointer, text]), ("relation_head", pointer, [pointer]),
                ("item_next", pointer, [pointer]), ("item_feat_string", text, [pointer, text]),
                ("item_feat_float", real, [pointer, text]),
                ("path_to_item", pointer, [pointer, text]),
                ("delete_utterance", None, [pointer]),
                ("feat_set_float", None, [pointer, text, real])):
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        lib.flite_init()
        self._lib = lib
        self._voices: dict[str, int] = {}

    def _voice(self, name: str) -> int:
        if name not in self._voices:
            lib = ctypes.CDLL(f"libflite_{self.VOICES[name]}.so.1", mode=ctypes.RTLD_GLOBAL)
            register = getattr(lib, f"register_{self.VOICES[name]}")
            register.restype, register.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
            self._voices[name] = register(None)
        return self._voices[name]

    def say(self, voice: str, text: str, stretch: float = 1.0) -> Speech:
        lib, handle = self._lib, self._voice(voice)
        # struct cst_voice begins with its name; features are its second pointer.
        features = ctypes.cast(handle, ctypes.POINTER(ctypes.c_void_p))[1]
        lib.feat_set_float(features, b"duration_stretch", stretch)
        utterance = lib.flite_synth_text(text.encode(), handle)
        sound = lib.utt_wave(utterance).contents
        x = np.ctypeslib.as_array(sound.samples, (sound.num_samples,)).astype(np.float32) / 32768
        speech = Speech(resample(x, RATE_HZ / sound.sample_rate))
        item, begin, last = lib.relation_head(lib.utt_relation(utterance, b"Segment")), 0.0, None
        while item:
            end = lib.item_feat_float(item, b"end")
            name = from_flite(lib.item_feat_string(item, b"name").decode())
            speech.phones.append(Timed(name, begin, end))
            word = lib.path_to_item(item, b"R:SylStructure.parent.parent")
            if word and word == last:
                speech.words[-1].end_s = end
            elif word:
                text_of = lib.item_feat_string(word, b"name").decode()
                speech.words.append(Timed(text_of.lower(), begin, end))
            last = word
            begin, item = end, lib.item_next(item)
        lib.delete_utterance(utterance)
        return speech


class Festival:
    """A process per batch of sentences."""

    VOICES = ("kal_diphone", "ked_diphone", "cmu_us_slt_arctic_hts")

    def say_all(self, voice: str, texts: list[str], stretch: float = 1.0) -> list[Speech]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            script = [f"(voice_{voice})", f"(Parameter.set 'Duration_Stretch {stretch:.3f})"]
            for i, text in enumerate(texts):
                script.append(f'(set! u (SynthText "{re.sub("[^a-zA-Z ]", "", text)}"))'
                              f'(utt.save.wave u "{folder}/{i}.wav" \'riff)'
                              f'(utt.save.segs u "{folder}/{i}.seg")'
                              f'(utt.save.words u "{folder}/{i}.wrd")')
            (folder / "script.scm").write_text("\n".join(script))
            subprocess.run(["festival", "-b", str(folder / "script.scm")], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return [self._read(folder, i) for i in range(len(texts))]

    @staticmethod
    def _read(folder: Path, i: int) -> Speech:
        with wave.open(str(folder / f"{i}.wav")) as file:
            x = np.frombuffer(file.readframes(file.getnframes()), np.int16)
            speech = Speech(resample(x.astype(np.float32) / 32768, RATE_HZ / file.getframerate()))
        for kind, out in (("seg", speech.phones), ("wrd", speech.words)):
            begin = 0.0
            for line in (folder / f"{i}.{kind}").read_text().split("#", 1)[1].split("\n"):
                part = line.split()
                if len(part) >= 3:
                    name = from_flite(part[2]) if kind == "seg" else part[2].lower()
                    out.append(Timed(name, begin, float(part[0])))
                    begin = float(part[0])
        return speech
