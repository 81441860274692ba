"""The voices of the talking-photo world: utterances, a formant synthesiser, and the mouth that goes with them. Numpy only.

An utterance is a sequence of phones with times. `synthesise` speaks it: a train of glottal pulses and a noise are cut into overlapping
windows, each window's spectrum is shaped (pulses by the resonances of the vocal tract, noise by the place where it arises), and the
windows are added up again. Resonances and levels move smoothly from phone to phone, so neighbours colour each other as in speech.
`mouth_track` tells how far the mouth is open, and how wide, at each frame of a video.
"""
from dataclasses import asdict, dataclass

import numpy as np

RATE, FPS = 16000, 25
VOWELS = ["a", "e", "i", "o", "u"]
PHONES = ["pause"] + VOWELS + ["m", "n", "s", "f", "p", "t", "k"]
INDEX = {p: i for i, p in enumerate(PHONES)}

# For each phone: shortest and longest duration in ms; opening and width of the mouth; F1, F2, F3 in Hz; level
# of the voice.
TABLE = {
    "pause": (0, 0, 0.00, 0.50, 500, 1500, 2500, 0.0),
    "a": (100, 210, 1.00, 0.55, 800, 1220, 2550, 1.0),
    "e": (100, 200, 0.60, 0.85, 490, 1900, 2600, 0.95),
    "i": (90, 200, 0.25, 1.00, 280, 2300, 3050, 0.8),
    "o": (100, 210, 0.75, 0.25, 490, 860, 2450, 0.95),
    "u": (90, 200, 0.35, 0.05, 310, 680, 2250, 0.8),
    "m": (80, 130, 0.00, 0.50, 250, 1050, 2200, 0.4),
    "n": (60, 120, 0.15, 0.55, 260, 1650, 2500, 0.4),
    "s": (80, 150, 0.12, 0.75, 320, 1750, 2650, 0.0),
    "f": (70, 140, 0.08, 0.50, 320, 1150, 2300, 0.0),
    "p": (80, 120, 0.00, 0.50, 320, 820, 2300, 0.0),
    "t": (60, 110, 0.15, 0.60, 320, 1800, 2650, 0.0),
    "k": (60, 120, 0.20, 0.50, 320, 2050, 2400, 0.0),
}
LIPS = ("m", "p")  # their closure starts before the sound and outlasts it
VOWEL_SHAPES = np.array([TABLE[v][2:4] for v in VOWELS], np.float32)  # (opening, width), in the order of VOWELS


@dataclass
class Utterance:
    """What is said: `phones` are indices into PHONES, and `ends` is where each ends, in whole milliseconds. They cover the whole length."""
    phones: list
    ends: list

    @property
    def seconds(self):
        return self.ends[-1] / 1000

    @property
    def spans(self):
        """Yields (name, start, end) of each phone, in seconds."""
        return [(PHONES[p], a / 1000, b / 1000) for p, a, b in zip(self.phones, [0] + self.ends[:-1], self.ends)]

    def json(self):
        return {"phones": " ".join(PHONES[p] for p in self.phones), "ends": list(self.ends)}

    @staticmethod
    def of(d):
        return Utterance([INDEX[p] for p in d["phones"].split()], [int(e) for e in d["ends"]])


@dataclass
class Voice:
    """A voice: `pitch` in Hz; `size` scales the formants; `breath` is 0..1; `range` of the pitch in semitones; `level` and `noise` (background) in
    dBFS."""
    pitch: float
    size: float
    breath: float
    range: float
    level: float
    noise: float
    colour: float  # colour of the background noise: 0 white, 1 pink

    def json(self):
        return {k: round(v, 3) for k, v in asdict(self).items()}

    @staticmethod
    def of(d):
        return Voice(**d)


def sample_voice(rng):
    pitch = float(np.exp(rng.uniform(np.log(90), np.log(260))))
    # small throats have high voices, mostly
    size = float(np.clip(0.85 + 0.35 * np.log(pitch / 90) / np.log(260 / 90) + rng.normal(0, 0.06), 0.85, 1.2))
    level = float(rng.uniform(-32, -15))
    noise = -120.0 if rng.random() < 0.2 else level - float(rng.uniform(18, 60))
    return Voice(round(pitch, 3), round(size, 3), float(rng.uniform(0, 1)), float(rng.uniform(0.5, 4)), level, noise, float(rng.uniform(0, 1)))


def _word(rng):
    """Draws one to four syllables (C)V(C) as names of phones; no phone follows itself."""
    out = []
    for _ in range(int(rng.choice([1, 2, 3, 4], p=[0.3, 0.4, 0.2, 0.1]))):
        if rng.random() < 0.85:
            out.append(str(rng.choice(["m", "n", "s", "f", "p", "t", "k"], p=[0.19, 0.13, 0.14, 0.12, 0.18, 0.12, 0.12])))
        out.append(str(rng.choice(VOWELS)))
        if rng.random() < 0.22:
            out.append(str(rng.choice(["m", "n", "s", "f", "p", "t", "k"], p=[0.2, 0.3, 0.2, 0.1, 0.06, 0.08, 0.06])))
    return out


def sample_utterance(rng, seconds, silent=0.0):
    """Draws a random utterance of that length; with the probability `silent` nothing is said at all."""
    total = int(round(seconds * 1000))
    if rng.random() < silent:
        return Utterance([0], [total])
    last = total - (int(rng.integers(400, 1500)) if rng.random() < 0.3 else 0)  # some end in silence
    slow = float(rng.uniform(0.85, 1.2))
    phones, times, t = [0], [int(rng.integers(120, 301))], 0
    t = times[0]
    while t < last:
        for name in _word(rng):
            low, high = TABLE[name][:2]
            ms = int(np.clip(round(rng.uniform(low, high) * slow), low, 220))
            if phones[-1] == INDEX[name]:  # across a word's border: joined, they would be one long phone, which is a different sound
                continue
            if t + ms > last:
                t = total
                break
            t += ms
            phones.append(INDEX[name])
            times.append(t)
        if t < last and rng.random() < 0.28 and phones[-1] != 0:
            t = min(t + int(rng.integers(200, 901)), total)
            phones.append(0)
            times.append(t)
    if times[-1] < total:  # the rest is silence
        if phones[-1] == 0:
            times[-1] = total
        else:
            phones.append(0)
            times.append(total)
    times[-1] = total
    return Utterance(phones, times)


# ---------------------------------------------------------------------------------------------------------------- the mouth
def _knots(utterance):
    """Returns times and (opening, width) between which the mouth moves: each phone holds its shape, and changes take 50 ms."""
    spans = utterance.spans
    t, v = [], []
    for k, (name, start, end) in enumerate(spans):
        lips, before = name in LIPS, k > 0 and spans[k - 1][0] in LIPS
        after = k + 1 < len(spans) and spans[k + 1][0] in LIPS
        a = start + (0.010 if lips else 0.040 if before else 0.025)
        b = end - (0.010 if lips else 0.040 if after else 0.025)
        if a > b:
            a = b = (a + b) / 2
        t += [a, max(b, a + 1e-6)]
        v += [TABLE[name][2:4]] * 2
    return np.array(t), np.array(v)


def mouth_track(utterance, frames):
    """Returns (opening, width), each 0..1, in the middle of each frame at 25 frames a second: float32 [frames, 2]."""
    t, v = _knots(utterance)
    at = (np.arange(frames) + 0.5) / FPS
    k = np.clip(np.searchsorted(t, at, side="right") - 1, 0, len(t) - 2)
    x = np.clip((at - t[k]) / np.maximum(t[k + 1] - t[k], 1e-6), 0, 1)[:, None]
    ease = x * x * (3 - 2 * x)
    return (v[k] + (v[k + 1] - v[k]) * ease).astype(np.float32)


def labels(utterance, frames):
    """Returns the phone in the middle of each frame: int64 [frames], indices into PHONES, with a pause after the end."""
    at = (np.arange(frames) + 0.5) * (1000 / FPS)
    k = np.searchsorted(np.array(utterance.ends), at, side="right")
    return np.array(list(utterance.phones) + [0], np.int64)[np.minimum(k, len(utterance.phones))]


# ---------------------------------------------------------------------------------------------------------------- the voice
HOP, WINDOW, FFT = 64, 256, 512
SOURCES = ["s", "f", "p", "t", "k"]  # the phones that have noise
_HZ = np.arange(FFT // 2 + 1) * (RATE / FFT)


def _smooth(x, ms):
    """Returns x [n, c] smoothed in time by a Gaussian of the given standard deviation; one row is one hop."""
    s = ms * RATE / 1000 / HOP
    r = int(np.ceil(3 * s))
    g = np.exp(-0.5 * (np.arange(-r, r + 1) / s) ** 2)
    g /= g.sum()
    p = np.pad(x, ((r, r), (0, 0)), mode="edge")
    return sum(g[i] * p[i:i + len(x)] for i in range(2 * r + 1))


def _bump(centre, width):
    return np.exp(-0.5 * ((_HZ - centre) / width) ** 2)


def _noises(size):
    """Returns the spectra of the noises, [len(SOURCES), bins], of unit power."""
    q = np.sqrt(size)
    n = np.array([_bump(6200 * q, 1300), 0.25 + _bump(7000 * q, 3000) * (_HZ > 900),
                  _bump(700 * q, 500) + 0.15, _bump(4300 * q, 1100) + 0.05, _bump(2000 * q, 450) + 0.05])
    return n / np.sqrt((n ** 2).mean(1, keepdims=True))


def _tract(formants, nasal, size):
    """Returns the gain of the vocal tract, [n, bins], of unit power on pulses, from formants [n, 3] in Hz and nasal [n, 1] 0..1 (the closed mouth has
    a zero at F2)."""
    f2 = _HZ[None] ** 2
    gain = 1.0
    for k in range(4):
        c = formants[:, k:k + 1] * size if k < 3 else np.full((len(formants), 1), 3600 * size)
        b = (60 + 0.03 * c) * (1 + 1.5 * nasal)
        gain = gain * c ** 2 / np.sqrt((c ** 2 - f2) ** 2 + b ** 2 * f2)
    zero = (formants[:, 1:2] * size * 0.8) ** 2
    dip = np.sqrt((zero - f2) ** 2 + 250 ** 2 * f2) / (zero + f2)
    gain = gain * (1 + nasal * (dip - 1))
    tilt = 1 / (1 + (_HZ / 500) ** 2)  # roughly the spectrum of pulses
    return gain / np.sqrt(((gain * tilt) ** 2).sum(1, keepdims=True) / (tilt ** 2).sum())


def _controls(utterance, voice, rows):
    """Returns tracks with one row per hop: formants [rows, 3], nasal [rows, 1], voice level [rows, 1], noise levels [rows, 5], aspiration [rows,
    1]."""
    ends = np.array(utterance.ends) / 1000
    starts = np.concatenate([[0], ends[:-1]])
    t = np.arange(rows) * (HOP / RATE)
    k = np.minimum(np.searchsorted(ends, t, side="right"), len(ends) - 1)
    phone = np.array(utterance.phones)[k]
    rows_of = np.array([TABLE[p][4:] for p in PHONES], float)
    formants = rows_of[phone, :3]
    for i in np.flatnonzero(np.array(utterance.phones) == 0):  # during a pause the formants stay those of the neighbour
        near = i - 1 if i > 0 else min(i + 1, len(utterance.phones) - 1)
        formants[k == i] = rows_of[utterance.phones[near], :3]
    level = _smooth(rows_of[phone, 3:4], 7)
    nasal = _smooth(np.isin(phone, [INDEX["m"], INDEX["n"]])[:, None] * 1.0, 9)
    noise = np.zeros((rows, len(SOURCES)))
    noise[:, 0], noise[:, 1] = 0.45 * (phone == INDEX["s"]), 0.16 * (phone == INDEX["f"])
    noise = _smooth(noise, 8)
    since = t - (starts[k] + 0.6 * (ends[k] - starts[k]))  # time since the release of a plosive
    burst = np.exp(-np.clip(since, 0, 1) / 0.010) * (since >= 0)
    for j, p in enumerate(SOURCES[2:]):
        noise[:, 2 + j] += (phone == INDEX[p]) * burst * (0.5, 0.5, 0.55)[j]
    after = np.isin(phone, [INDEX[p] for p in SOURCES[2:]]) * (since >= 0.006)
    aspiration = _smooth(0.12 * after[:, None], 5) + 0.10 * voice.breath * level
    return _smooth(formants, 16), nasal, level, noise, aspiration


def _pulses(voice, quiet, n, rng):
    """Makes a train of glottal pulses (the flow's derivative) of unit power, [n]. The pitch falls over each phrase (`quiet` [rows] marks pauses)."""
    rows = len(quiet)
    wander = _smooth(rng.standard_normal((rows, 1)), 90)[:, 0]
    wander *= voice.range / max(float(wander.std()), 1e-9) * 0.7
    since = np.arange(rows) - np.maximum.accumulate(np.where(quiet, np.arange(rows), 0))
    tone = wander - 0.8 * voice.range * (1 - np.exp(-since * (HOP / RATE) / 1.0)) + 0.4 * voice.range
    shake = _smooth(rng.standard_normal((rows, 1)), 4)[:, 0] * 0.25
    pitch = np.interp(np.arange(n), np.arange(rows) * HOP, voice.pitch * 2 ** ((tone + shake) / 12))
    u = np.cumsum(pitch / RATE) % 1.0
    rise, fall = 0.42, 0.16
    x = np.where(u < rise, np.sin(np.pi * u / rise) / rise, np.where(u < rise + fall, -np.sin(np.pi / 2 * (u - rise) / fall) / fall, 0.0))
    return x / np.sqrt((x ** 2).mean())


def _background(voice, n, rng):
    x = np.fft.rfft(rng.standard_normal(n))
    f = np.maximum(np.fft.rfftfreq(n, 1 / RATE), 50.0)
    x = np.fft.irfft(x * (f / 1000) ** (-voice.colour / 2), n)
    return x * (10 ** (voice.noise / 20) / max(float(np.sqrt((x ** 2).mean())), 1e-12))


def synthesise(utterance, voice, rng):
    """Synthesises an utterance: float32 [round(seconds * 16000)] in -1..1."""
    n = int(round(utterance.seconds * RATE))
    rows = n // HOP + 2
    formants, nasal, level, noise, aspiration = _controls(utterance, voice, rows)
    tract = _tract(formants, nasal, voice.size)
    pad = WINDOW // 2
    length = (rows - 1) * HOP + WINDOW
    at = np.arange(rows)[:, None] * HOP + np.arange(WINDOW)[None]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    pulses = np.zeros(length)
    pulses[pad:pad + n] = _pulses(voice, level[:, 0] < 0.02, n, rng)
    hiss = rng.standard_normal(length)
    spectrum = np.fft.rfft(pulses[at] * hann, FFT) * (tract * level)
    spectrum += np.fft.rfft(hiss[at] * hann, FFT) * (noise @ _noises(voice.size) + tract * aspiration)
    # the filters are zero-phase, so their responses extend to both sides: leave half a window of room on each
    spectrum *= np.exp(-2j * np.pi * np.arange(FFT // 2 + 1) * ((FFT - WINDOW) // 2) / FFT)
    pieces = np.fft.irfft(spectrum, FFT).reshape(rows, FFT // HOP, HOP)
    out = np.zeros((rows + FFT // HOP - 1, HOP))
    for j in range(FFT // HOP):
        out[j:j + rows] += pieces[:, j]
    out = out.reshape(-1)[FFT // 2:FFT // 2 + n] / 2
    out = out * 10 ** (voice.level / 20) + _background(voice, n, rng)
    return np.clip(out, -0.99, 0.99).astype(np.float32)
