#!/usr/bin/env python3
"""Makes the sound files of this folder and what Python's libraries read from them.

    python3 make_sound_files.py     (librosa 0.11.0, soundfile, python-soxr 1.1.0, PyAV for m4a, mp4 and webm, NumPy 2.4; seed 9)

read_NAME.EXT holds a short sound of one or two channels; read_NAME.f32 is librosa.load(file, sr=16000, mono=True) as raw float32. What
librosa cannot read without a program beside it (m4a, mp4, webm) is decoded by PyAV and resampled by librosa.
"""
import os

import av
import librosa
import numpy as np
import soundfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOUNDS = (  # name, rate, channels, samples, soundfile's format and coding
    ("read_s16.wav", 44100, 2, 4011, "WAV", "PCM_16"), ("read_s24.wav", 48000, 1, 3001, "WAV", "PCM_24"),
    ("read_u8.wav", 8000, 1, 801, "WAV", "PCM_U8"), ("read_f32.wav", 22050, 3, 1103, "WAV", "FLOAT"),
    ("read_f64.wav", 16000, 1, 799, "WAV", "DOUBLE"), ("read_stereo.flac", 44100, 2, 4011, "FLAC", "PCM_16"),
    ("read_mono.mp3", 44100, 1, 6011, "MP3", "MPEG_LAYER_III"), ("read_opus.ogg", 48000, 2, 6000, "OGG", "OPUS"),
    ("read_vorbis.ogg", 44100, 1, 20011, "OGG", "VORBIS"))


def put(name, samples):
    np.asarray(samples, "<f4").tofile(os.path.join(HERE, os.path.splitext(name)[0] + ".f32"))


def sweep(rate, channels, count):
    """Two tones whose pitch rises, different in each channel, faded at both ends."""
    t = np.arange(count) / rate
    window = np.sin(np.pi * (np.arange(count) + 0.5) / count) ** 0.5
    noise = np.random.default_rng(9).normal(size=(count, channels)) * 0.01
    tones = [np.sin(2 * np.pi * (200 + 150 * c + 1500 * t) * t) * (0.5 - 0.1 * c) for c in range(channels)]
    return window[:, None] * np.stack(tones, 1) + noise


def by_soundfile():
    for name, rate, channels, count, form, coding in SOUNDS:
        path = os.path.join(HERE, name)
        soundfile.write(path, sweep(rate, channels, count), rate, format=form, subtype=coding)
        put(name, librosa.load(path, sr=16000, mono=True)[0])


def by_av(name, codec, rate, with_video):
    path = os.path.join(HERE, name)
    with av.open(path, "w", options={"fflags": "+bitexact"}) as out:
        video = out.add_stream("mpeg4", rate=25) if with_video else None
        if video:
            video.width, video.height, video.pix_fmt = 32, 32, "yuv420p"
        sound = out.add_stream(codec, rate=rate, layout="stereo")
        values = np.ascontiguousarray(sweep(rate, 2, 6011).T.astype(np.float32))
        frame = av.AudioFrame.from_ndarray(values, format="fltp", layout="stereo")
        frame.sample_rate, frame.pts = rate, 0
        for _ in range(4 if video else 0):
            picture = av.VideoFrame.from_ndarray(np.full((32, 32, 3), 90, np.uint8), format="rgb24")
            out.mux(video.encode(picture))
        out.mux(sound.encode(frame))
        out.mux(sound.encode(None))
        if video:
            out.mux(video.encode(None))
    with av.open(path) as read:
        kept = [f.to_ndarray() for f in read.decode(audio=0)]
    put(name, librosa.resample(np.concatenate(kept, 1).mean(0), orig_sr=rate, target_sr=16000))


by_soundfile()
by_av("read_aac.m4a", "aac", 44100, False)
by_av("read_film.mp4", "aac", 48000, True)
by_av("read_track.webm", "libopus", 48000, False)
