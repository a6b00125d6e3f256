"""The agent's voice: a flite voice's spectral envelope over a pitch that never changes.

Every pulse falls on the codec's grid and the noise repeats with it, so the same sound is the same
waveform wherever it stands in a frame. A decoder then has no phase to invent: it learns envelopes,
in minutes, where a voice with free pitch takes it hours and stays mumbled.
"""

from __future__ import annotations

import numpy as np

from config import RATE_HZ
from phones import BOTH, BURST, VOICED
from speech import Speech

HOP = 120  # 5 ms
WINDOW = 720
SIZE = 1024
LIFTER = 72  # 3 ms: what is slower in the cepstrum is envelope
NOISE_PERIOD = 960  # one column of the codec, 40 ms
FLOOR = 1e-4
SPREAD_S = 0.012  # over which voicing changes


def envelope(x: np.ndarray) -> np.ndarray:
    """Log magnitude per 5 ms, [frames, SIZE/2+1], smooth over the harmonics."""
    padded = np.pad(x, (WINDOW // 2, WINDOW // 2 + HOP))
    count = (len(padded) - WINDOW) // HOP
    at = np.arange(count)[:, None] * HOP + np.arange(WINDOW)[None]
    window = np.hanning(WINDOW)
    log = np.log(np.abs(np.fft.rfft(padded[at] * window, SIZE)) / np.sqrt(np.sum(window**2)) + FLOOR)
    smooth = log
    for _ in range(12):  # the true envelope lies on the peaks of the harmonics
        cepstrum = np.fft.irfft(np.maximum(log, smooth) if smooth is not log else log)
        cepstrum[:, LIFTER:-LIFTER + 1] = 0
        smooth = np.fft.rfft(cepstrum).real
    return smooth


def minimum_phase(log: np.ndarray) -> np.ndarray:
    """Spectra [frames, SIZE/2+1] of minimum phase with these log magnitudes."""
    cepstrum = np.fft.irfft(log)
    cepstrum[:, 1:SIZE // 2] *= 2
    cepstrum[:, SIZE // 2 + 1:] = 0
    return np.exp(np.fft.rfft(cepstrum))


def voicing(speech: Speech, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of pulses and of noise per 5 ms."""
    pulses, noise = np.zeros(count), np.zeros(count)
    for phone in speech.phones:
        a, b = (int(t * RATE_HZ / HOP) for t in (phone.begin_s, phone.end_s))
        if phone.name in VOICED:
            pulses[a:b] = 1
        elif phone.name in BOTH:
            pulses[a:b], noise[a:b] = 0.6, 0.5
        elif phone.name in BURST:
            pulses[a:b], noise[a:b] = 0.6, 0.5
        elif phone.name != "sil":
            noise[a:b] = 1
    width = max(1, round(SPREAD_S * RATE_HZ / HOP))
    kernel = np.ones(width) / width
    return np.convolve(pulses, kernel, "same"), np.convolve(noise, kernel, "same")


def synthesise(speech: Speech, pitch_hz: int) -> np.ndarray:
    """The same words with pulses every 1/pitch_hz from the first sample on, peak 0.5."""
    if RATE_HZ % pitch_hz or NOISE_PERIOD % (RATE_HZ // pitch_hz):
        raise ValueError(f"pitch {pitch_hz} Hz does not fall on the codec's grid")
    log = envelope(speech.samples)
    count = len(log)
    pulses, noise = voicing(speech, count)
    spectra = minimum_phase(log)
    out = np.zeros(count * HOP + SIZE)
    response = np.fft.irfft(spectra)
    period = RATE_HZ // pitch_hz
    for at in range(0, count * HOP, period):
        i = at // HOP
        if pulses[i] > 0.01:
            out[at:at + SIZE] += pulses[i] * np.sqrt(period) * response[i]
    pattern = np.random.default_rng(1).standard_normal(NOISE_PERIOD)
    window = np.hanning(2 * HOP + 1)[:-1]
    for i in np.flatnonzero(noise > 0.01):
        at = i * HOP
        piece = pattern[(at + np.arange(2 * HOP)) % NOISE_PERIOD] * window
        shaped = np.fft.irfft(np.fft.rfft(piece, SIZE) * spectra[i])
        out[at:at + SIZE] += noise[i] * shaped
    out = out[:len(speech.samples)]
    out[np.abs(out) < 10 ** (-70 / 20) * np.abs(out).max()] = 0
    return (out * (0.5 / np.abs(out).max())).astype(np.float32)
