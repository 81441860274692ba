#!/usr/bin/env python3
"""Makes loudness.txt and standardised.f32.

    python3 make_loudness.py      (pyloudnorm 0.2.0, transformers 5.23.0, NumPy 2.4)

loudness.txt has lines of: rate, samples, gain, pause (1 or 0) and pyloudnorm's loudness of sound(rate, samples, gain, pause) in double
precision. The sounds are whole numbers times powers of two, which the test reproduces exactly. standardised.f32 is what
Wav2Vec2FeatureExtractor(do_normalize=True) makes of sound(16000, 1999, 0.25, 1) + 0.125 (raw float32).
"""
import os

import numpy as np
import pyloudnorm
from transformers import Wav2Vec2FeatureExtractor

HERE = os.path.dirname(os.path.abspath(__file__))
ENVELOPE = (1, 2**-2, 2**-11, 2**-4, 1, 2**-6, 2**-1)
FLAT = (1, 1, 1, 1, 1, 1, 1)


def sound(rate, count, gain, pause):
    """Noise of a linear congruential generator and a square wave of 440 Hz, whose loudness changes seven times."""
    state, out = 1, np.empty(count)
    for i in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        wave = 8192 if i * 880 // rate % 2 else -8192
        out[i] = ((state >> 18) - 8192 + wave) / 32768 * (ENVELOPE if pause else FLAT)[i * 7 // count] * gain
    assert np.array_equal(out, out.astype(np.float32))
    return out


def loudness():
    lines = []
    for rate in (8000, 11025, 16000, 22050, 44100, 48000):
        meter = pyloudnorm.Meter(rate)
        for seconds in (0.4, 0.4501, 0.77, 1.333, 3.0507):
            for gain in (1, 2**-3, 2**-6, 2**-9):
                for pause in (0, 1):
                    count = int(np.ceil(seconds * rate))
                    samples = sound(rate, count, gain, pause)
                    value = meter.integrated_loudness(samples)
                    # If the caller passes float32, the filters' results are rounded, which makes no difference that matters.
                    rounded = meter.integrated_loudness(samples.astype(np.float32))
                    assert value == rounded or abs(value - rounded) < 1e-6, (value, rounded)
                    lines.append(f"{rate} {count} {gain!r} {pause} {float(value)!r}\n")
    with open(os.path.join(HERE, "loudness.txt"), "w", encoding="ascii") as out:
        out.writelines(lines)


loudness()
extractor = Wav2Vec2FeatureExtractor(feature_size=1, sampling_rate=16000, padding_value=0, do_normalize=True)
values = extractor((sound(16000, 1999, 0.25, 1) + 0.125).astype(np.float32), sampling_rate=16000)["input_values"][0]
np.asarray(values, "<f4").tofile(os.path.join(HERE, "standardised.f32"))
