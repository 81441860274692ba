"""Makes the data for training on the CPU: faces, utterances with their sound, clips of them, tokenised captions.

    python3 bank.py --out /tmp/talker/bank --people 12000 --utterances 3000

    faces.npy        packed faces [people, P]; kinds.npy their classes [people, K] (class_names in bank.json)
    sound.npy        all utterances' samples, int16; mouth.npy [frames, 2] and phones.npy [frames] of their frames at 25 a second
    lengths.npy      samples and frames of each utterance [utterances, 2]
    clips.npy        [clips, 4]: person, utterance, first frame (0: the clip begins with the photo), motion
    captions.npy     token ids [motions, wordings, L]
"""
import argparse
import json
import multiprocessing
import os
import time

import numpy as np

import faces
import net
import speech

WORDINGS = 96
KINDS = ("skin", "hair", "style", "eyes", "shirt", "glasses", "background")


def tokens_of(folder):
    """Returns token ids [motions, WORDINGS, L] of captions."""
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(os.path.join(folder, "google", "umt5-xxl", "tokenizer.json"))
    rng = np.random.default_rng(17)
    ids = [[tok.encode(faces.caption(m, rng)).ids for _ in range(WORDINGS)] for m in faces.MOTIONS]
    longest = max(len(i) for row in ids for i in row)
    out = np.zeros((len(ids), WORDINGS, longest), np.int64)
    for m, row in enumerate(ids):
        for j, i in enumerate(row):
            out[m, j, :len(i)] = i
    return out


def utterance(job):
    """Returns samples int16, mouth [frames, 2] and phones [frames] of one utterance; one in twenty is silent."""
    seed, seconds, silent = job
    rng = np.random.default_rng(seed)
    u = speech.sample_utterance(rng, seconds, silent=1.0 if silent else 0.0)
    x = speech.synthesise(u, speech.sample_voice(rng), rng)
    frames = int(len(x) / net.RATE * net.FPS)
    return np.round(x * 32767).astype(np.int16), speech.mouth_track(u, frames).astype(np.float32), speech.labels(u, frames).astype(np.int16)


def person(seed):
    f = faces.sample_face(np.random.default_rng(seed))
    return f, [str(getattr(f, k)) for k in KINDS]


def draw_clips(rng, people, lengths, each):
    """Draws `each` clips of every person: the first begins with the photo, the others anywhere later."""
    out = []
    for p in range(people):
        for j in range(each):
            u = int(rng.integers(len(lengths)))
            a = 0 if j == 0 else int(rng.integers(1, lengths[u, 1] - net.WINDOW + 1))
            out.append((p, u, a, int(rng.integers(len(faces.MOTIONS)))))
    return np.array(out, np.int64)


def make(args):
    began = time.time()
    os.makedirs(args.out, exist_ok=True)
    save = lambda name, value: np.save(os.path.join(args.out, name), value)
    rng = np.random.default_rng(args.seed)
    with multiprocessing.get_context("fork").Pool(args.processes) as pool:
        people = pool.map(person, range(args.seed * 10**6, args.seed * 10**6 + args.people), chunksize=64)
        names = {k: sorted({labels[i] for _, labels in people}) for i, k in enumerate(KINDS)}
        save("faces.npy", np.asarray(faces.pack([f for f, _ in people]), np.float32))
        save("kinds.npy", np.array([[names[k].index(labels[i]) for i, k in enumerate(KINDS)] for _, labels in people], np.int64))
        seconds = rng.choice([3.0, 4.0, 5.0, 7.0, 10.0], args.utterances, p=[0.2, 0.25, 0.25, 0.15, 0.15])
        jobs = [(args.seed * 10**7 + i, float(s), i % 20 == 19) for i, s in enumerate(seconds)]
        said = pool.map(utterance, jobs, chunksize=4)
    lengths = np.array([(len(x), len(m)) for x, m, _ in said], np.int64)
    save("lengths.npy", lengths)
    for i, name in enumerate(("sound", "mouth", "phones")):
        save(f"{name}.npy", np.concatenate([part[i] for part in said]))
    save("clips.npy", draw_clips(rng, args.people, lengths, args.each))
    save("captions.npy", tokens_of(args.model))
    with open(os.path.join(args.out, "bank.json"), "w") as f:  # written last: its presence says that the bank is complete
        json.dump({"class_names": names, "motions": faces.MOTIONS, "phones": list(speech.PHONES)}, f)
    print(f"bank: {args.people} people, {args.utterances} utterances ({lengths[:, 1].sum() / net.FPS / 60:.0f} minutes), {time.time() - began:.0f} s", flush=True)


class Bank:
    """The files as torch tensors on a device; waits until they exist."""

    def __init__(self, folder, device):
        import torch
        while not os.path.exists(os.path.join(folder, "bank.json")):
            time.sleep(0.5)
        with open(os.path.join(folder, "bank.json")) as f:
            self.info = json.load(f)
        for name in ("faces", "kinds", "sound", "mouth", "phones", "lengths", "clips", "captions"):
            setattr(self, name, torch.from_numpy(np.load(os.path.join(folder, f"{name}.npy"))).to(device))
        ends = self.lengths.cumsum(0)
        self.begins = ends - self.lengths  # [utterances, 2]: the first sample and frame of each
        self.poses = torch.stack([torch.from_numpy(np.asarray(faces.pose_track(m, 400), np.float32)) for m in faces.MOTIONS]).to(device)

    def tracks(self, clips):
        """Returns mouth [B, WINDOW, 2] and pose [B, WINDOW, 4] of clips [B, 4]."""
        import torch
        frame = clips[:, 2, None] + torch.arange(net.WINDOW, device=clips.device)
        return self.mouth[self.begins[clips[:, 1], 1][:, None] + frame], self.poses[clips[:, 3, None], frame]


if __name__ == "__main__":
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--out", default="/tmp/talker/bank")
    a.add_argument("--model", default="models/talker", help="whose tokenizer the captions are for")
    a.add_argument("--people", type=int, default=12000)
    a.add_argument("--each", type=int, default=3, help="clips of a person")
    a.add_argument("--utterances", type=int, default=3000)
    a.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    a.add_argument("--seed", type=int, default=1)
    make(a.parse_args())
