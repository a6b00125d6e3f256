"""A store of sounds: one file of samples and one of what is said where."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from speech import Speech


@dataclass
class Entry:
    """phones and words: [name, begin_s, end_s]."""

    text: str
    voice: str
    intent: str
    answer: str
    begin: int
    count: int
    phones: list[tuple[str, float, float]] = field(default_factory=list)
    words: list[tuple[str, float, float]] = field(default_factory=list)


class BankWriter:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open(path.with_suffix(".pcm"), "wb")
        self._entries: list[Entry] = []
        self._at = 0

    def add(self, speech: Speech, text: str, voice: str, intent: str, answer: str) -> None:
        x = (np.clip(speech.samples, -1, 1) * 32767).astype("<i2")
        self._file.write(x.tobytes())
        times = [[(t.name, round(t.begin_s, 4), round(t.end_s, 4)) for t in part]
                 for part in (speech.phones, speech.words)]
        self._entries.append(Entry(text, voice, intent, answer, self._at, len(x), *times))
        self._at += len(x)

    def close(self) -> None:
        self._file.close()
        partial = self._path.with_suffix(".tmp")
        partial.write_text(json.dumps([asdict(entry) for entry in self._entries]))
        partial.rename(self._path.with_suffix(".json"))


class Bank:
    """Of one or more files."""

    def __init__(self, paths: list[Path]) -> None:
        self.entries: list[Entry] = []
        self._files: list[np.ndarray] = []
        self._file_of: list[int] = []
        for path in paths:
            for table in json.loads(path.with_suffix(".json").read_text()):
                self.entries.append(Entry(**table))
                self._file_of.append(len(self._files))
            self._files.append(np.memmap(path.with_suffix(".pcm"), "<i2", "r"))

    def sound(self, i: int) -> np.ndarray:
        """float32 [count]"""
        entry = self.entries[i]
        x = self._files[self._file_of[i]][entry.begin:entry.begin + entry.count]
        return x.astype(np.float32) / 32768
