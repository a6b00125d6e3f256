"""What a line does to a voice: speed, tilt, room, noise, Opus and lost packets."""

from __future__ import annotations

import ctypes
import random

import numpy as np

from config import RATE_HZ
from speech import Speech, Timed, resample


def stretched(speech: Speech, speed: float) -> Speech:
    """Faster and higher by one factor, as a tape would."""
    scale = [[Timed(t.name, t.begin_s / speed, t.end_s / speed) for t in part]
             for part in (speech.phones, speech.words)]
    return Speech(resample(speech.samples, 1 / speed), *scale)


def trimmed(speech: Speech, margin_s: float = 0.02) -> Speech:
    """Without the silence at both ends."""
    level = np.convolve(np.abs(speech.samples), np.ones(120) / 120, "same")
    loud = np.flatnonzero(level > 0.02 * level.max())
    margin = int(margin_s * RATE_HZ)
    a, b = max(0, loud[0] - margin), min(len(level), loud[-1] + margin)
    shift, end = a / RATE_HZ, (b - a) / RATE_HZ
    parts = [[Timed(t.name, min(max(0.0, t.begin_s - shift), end), min(t.end_s - shift, end))
              for t in part if t.end_s > shift] for part in (speech.phones, speech.words)]
    return Speech(speech.samples[a:b], *parts)


def _filtered(x: np.ndarray, response: np.ndarray) -> np.ndarray:
    size = 1 << (len(x) + len(response) - 1).bit_length()
    y = np.fft.irfft(np.fft.rfft(x, size) * np.fft.rfft(response, size), size)
    return y[:len(x)].astype(np.float32)


def coloured(x: np.ndarray, rng: random.Random) -> np.ndarray:
    """A microphone's tilt and a small room; peak 1."""
    if rng.random() < 0.4:
        x = _filtered(x, np.array([1.0, rng.uniform(-0.6, 0.4)]))
    if rng.random() < 0.35:
        n = int(rng.uniform(0.04, 0.25) * RATE_HZ)
        tail = np.random.default_rng(rng.getrandbits(32)).standard_normal(n)
        tail *= np.exp(-6 * np.arange(n) / n) * rng.uniform(0.01, 0.06)
        tail[0] = 1
        x = _filtered(x, tail)
    return (x / (np.abs(x).max() + 1e-6)).astype(np.float32)


def noise(count: int, level_db: float, generator: np.random.Generator) -> np.ndarray:
    """Between white and brown, at this RMS level."""
    spectrum = np.fft.rfft(generator.standard_normal(count).astype(np.float32))
    slope = generator.uniform(0, 1)
    spectrum *= (1 + np.arange(len(spectrum)) * (RATE_HZ / count / 200)) ** -slope
    x = np.fft.irfft(spectrum, count)
    return (x * (10 ** (level_db / 20) / (np.sqrt(np.mean(x * x)) + 1e-9))).astype(np.float32)


def knocks(count: int, rng: random.Random) -> np.ndarray:
    x = np.zeros(count, np.float32)
    generator = np.random.default_rng(rng.getrandbits(32))
    for _ in range(rng.randint(1, max(2, count // RATE_HZ * 2))):
        n = rng.randint(100, 3000)
        at = rng.randint(0, max(1, count - n - 1))
        burst = generator.standard_normal(n) * np.exp(-5 * np.arange(n) / n)
        x[at:at + n] += (burst * 10 ** (rng.uniform(-35, -8) / 20)).astype(np.float32)[:count - at]
    return x


def music(count: int, rng: random.Random) -> np.ndarray:
    """Tones and chords, some of them pulsing."""
    t = np.arange(count) / RATE_HZ
    x = np.zeros(count)
    base = rng.uniform(60, 600)
    beat = rng.uniform(0.1, 4)
    for ratio in rng.sample((1, 1.25, 1.5, 2, 3, 4), rng.randint(1, 4)):
        gate = (np.sin(2 * np.pi * beat * t + rng.uniform(0, 6)) > rng.uniform(-1, 0.5))
        x += np.sin(2 * np.pi * base * ratio * t) * gate
    return (x * 10 ** (rng.uniform(-45, -18) / 20)).astype(np.float32)


class Opus:
    """A call through Opus, encoder and decoder of one direction."""

    _PACKET = 480  # 20 ms
    _SET_BITRATE, _SET_COMPLEXITY = 4002, 4010

    def __init__(self) -> None:
        self._lib = ctypes.CDLL("libopus.so.0")
        for name in ("opus_encoder_create", "opus_decoder_create"):
            getattr(self._lib, name).restype = ctypes.c_void_p

    def pass_through(self, x: np.ndarray, bits_per_s: int, loss: float,
                     rng: random.Random) -> np.ndarray:
        """The same length and alignment: Opus's own delay is taken out."""
        lib, error, n = self._lib, ctypes.c_int(), self._PACKET
        encoder = ctypes.c_void_p(lib.opus_encoder_create(RATE_HZ, 1, 2048, ctypes.byref(error)))
        decoder = ctypes.c_void_p(lib.opus_decoder_create(RATE_HZ, 1, ctypes.byref(error)))
        lib.opus_encoder_ctl(encoder, self._SET_BITRATE, ctypes.c_int(bits_per_s))
        lib.opus_encoder_ctl(encoder, self._SET_COMPLEXITY, ctypes.c_int(2))
        delay = 156  # samples at 24 kHz
        padded = np.pad(np.clip(x, -1, 1), (0, 2 * n + delay))
        out, packet = [], ctypes.create_string_buffer(1500)
        floats = ctypes.POINTER(ctypes.c_float)
        for at in range(0, len(padded) - n + 1, n):
            piece = np.ascontiguousarray(padded[at:at + n], np.float32)
            size = lib.opus_encode_float(encoder, piece.ctypes.data_as(floats), n, packet, 1500)
            heard = np.zeros(n, np.float32)
            lost = rng.random() < loss
            lib.opus_decode_float(decoder, None if lost else packet, 0 if lost else size,
                                  heard.ctypes.data_as(floats), n, 0)
            out.append(heard)
        lib.opus_encoder_destroy(encoder)
        lib.opus_decoder_destroy(decoder)
        return np.concatenate(out)[delay:delay + len(x)]
