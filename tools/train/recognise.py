"""Word error rate of pocketsphinx, which hears what a listener would."""

from __future__ import annotations

import subprocess
import tempfile
import wave
from pathlib import Path

import numpy as np

from config import RATE_HZ
from domain import plain
from speech import resample

MODEL = Path("/usr/share/pocketsphinx/model/en-us")
RATE_16K_HZ = 16000


def write_wav(path: Path, x: np.ndarray, rate_hz: int) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes((np.clip(x, -1, 1) * 32767).astype("<i2").tobytes())


def read_wav(path: Path) -> np.ndarray:
    with wave.open(str(path)) as file:
        x = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
        return x if file.getframerate() == RATE_HZ else resample(x, RATE_HZ / file.getframerate())


def transcribe(sounds: list[np.ndarray]) -> list[list[str]]:
    """Words heard in each sound, float [n] at RATE_HZ."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i, x in enumerate(sounds):
            quiet = np.zeros(RATE_16K_HZ // 4, np.float32)
            y = resample(x, RATE_16K_HZ / RATE_HZ) if len(x) else quiet
            write_wav(folder / f"{i}.wav", np.concatenate([quiet, y, quiet]), RATE_16K_HZ)
        (folder / "ids").write_text("\n".join(map(str, range(len(sounds)))) + "\n")
        subprocess.run(["pocketsphinx_batch", "-adcin", "yes", "-adchdr", "44", "-cepdir", name,
                        "-cepext", ".wav", "-ctl", name + "/ids", "-hyp", name + "/hyp",
                        "-hmm", str(MODEL / "en-us"), "-lm", str(MODEL / "en-us.lm.bin"),
                        "-dict", str(MODEL / "cmudict-en-us.dict")], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        heard: list[list[str]] = [[] for _ in sounds]
        for line in (folder / "hyp").read_text().splitlines():
            words, rest = line.rsplit("(", 1)
            heard[int(rest.split()[0])] = plain(" ".join(w.split("(")[0] for w in words.split()))
        return heard


def edits(a: list[str], b: list[str]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def word_error_rate(said: list[str], heard: list[list[str]]) -> float:
    words = [plain(text) for text in said]
    return sum(map(edits, words, heard)) / max(1, sum(map(len, words)))
