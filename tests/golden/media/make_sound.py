#!/usr/bin/env python3
"""Makes the sounds of this folder, and what Python's libraries compute from them.

    python3 make_sound.py        (librosa 0.11.0 with python-soxr 1.1.0, NumPy 2.4; seed 7)

sound.f32 is a sweep with noise; sound_RATE.f32 is librosa.resample(sound, orig_sr=RATE, target_sr=16000), whose default is soxr's
HQ; sound_16000_TO.f32 go the other way. All are raw float32.
"""
import os

import librosa
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
RATES = (8000, 22050, 44100, 48000)


def put(name, samples):
    np.asarray(samples, "<f4").tofile(os.path.join(HERE, name))


def sweep(count):
    rng = np.random.default_rng(7)
    t = np.arange(count) / count
    return (0.4 * np.sin(2 * np.pi * count * (0.01 * t + 0.2 * t * t)) + 0.1 * rng.normal(size=count)).astype(np.float32)


def resampled():
    sound = sweep(1999)
    put("sound.f32", sound)
    for rate in RATES:
        put(f"sound_{rate}.f32", librosa.resample(sound, orig_sr=rate, target_sr=16000))
    put("sound_16000_48000.f32", librosa.resample(sound[:600], orig_sr=16000, target_sr=48000))


resampled()
