"""Compares `tachyscope talk` on fresh random models, picture and sound with InfiniteTalk's whole loop, restated from the published description with
diffusers', transformers' and infinitetalk.py's modules.

Windows of F frames follow each other; each begins with the last m frames of the one before, which are encoded again and which no step changes;
speech is played backwards after its end; each step has three passes; each frame's colours are brought to the photo's
before anything else is done with it (golden/ops/lab.py, which is compared with scikit-image). The wrapper's sampler dpm++_sde is compared, too. The
loop runs in float64, and in float32 to see how much rounding matters."""

import math
import pathlib
import sys
import wave

import numpy as np
import torch
from diffusers import WanImageToVideoPipeline
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast

import clip_pictures
import generation
import infinitetalk
import random_models as rm
import wav2vec2
from precision import error, float64

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden" / "ops"))
import lab  # noqa: E402

PROMPT, NEGATIVE = "the red cat moves", "ugly"
WIDTH, HEIGHT, SIDE = 48, 32, 28


def biquad(x, b, a):
    y, x1, x2, y1, y2 = np.empty_like(x), 0.0, 0.0, 0.0, 0.0
    for i, x0 in enumerate(x.tolist()):
        y0 = b[0] * x0 + b[1] * x1 + b[2] * x2 - a[0] * y1 - a[1] * y2
        y[i], x1, x2, y1, y2 = y0, x0, x1, y0, y1
    return y


def as_loud_as_expected(samples):
    """Scales a sound to -23 LUFS by ITU-R BS.1770 as pyloudnorm measures it at 16 kHz, with the coefficients, blocks and gates of the description."""
    x = biquad(samples.double().numpy(), (1.444233908713844, -1.839542987741787, 0.685432300820589), (-1.1071392365035588, 0.3972624582962044))
    x = biquad(x, (0.9852425301500196, -1.9704850603000392, 0.9852425301500196), (-1.9703753578722906, 0.9705947627276879))
    count = round((len(x) / 16000 - 0.4) / 0.1) + 1
    z = np.array([(x[int(0.4 * 16000 * 0.25 * j):int(0.4 * 16000 * (0.25 * j + 1))] ** 2).sum() / 6400 for j in range(count)])
    loudness = -0.691 + 10 * np.log10(z)
    gate = -0.691 + 10 * math.log10(z[loudness >= -70].mean()) - 10
    whole = -0.691 + 10 * math.log10(z[(loudness > gate) & (loudness > -70)].mean())
    return (samples.double() * 10 ** ((-23 - whole) / 20)).float()


def weights(recipe, text, speech):
    """Returns [(weight, negative prompt?, silent?)], expanded from the formulas of InfiniteTalk and of the wrapper."""
    if text == 1 and speech == 1:
        return [(1.0, False, False)]
    if text == 1:
        return [(speech, False, False), (1 - speech, False, True)]
    if recipe == "infinitetalk":  # n + text (c - t) + speech (t - n)
        return [(text, False, False), (speech - text, True, False), (1 - speech, True, True)]
    # n + text ((c - t) + speech (t - n))
    return [(text, False, False), (text * speech - text, True, False), (1 - text * speech, True, True)]


class Case:
    def __init__(self, ctx, i):
        self.ctx, self.folder = ctx, ctx.folder / f"talk-{i}"
        self.folder.mkdir()
        rng, z = ctx.rng, ctx.rng.choice([4, 6])
        heads, dim = rng.choice([1, 2]), rng.choice([12, 32])
        vae = rm.vae(rng, base_dim=8, z_dim=z, num_res_blocks=1)
        dit = rm.transformer(rng, in_channels=2 * z + 4, out_channels=z, text_dim=24, image_dim=24, num_attention_heads=heads,
                             attention_head_dim=dim, added_kv_proj_dim=heads * dim, num_layers=2)
        rm.tiny_tokenizer(self.folder / "tokenizer-source")
        tokenizer = PreTrainedTokenizerFast.from_pretrained(self.folder / "tokenizer-source")
        clip = rm.image_encoder(rng, hidden_size=24, intermediate_size=50, num_attention_heads=2, num_hidden_layers=2, image_size=SIDE, patch_size=14)
        self.pipe = WanImageToVideoPipeline(tokenizer=tokenizer, text_encoder=rm.text_encoder(rng, d_model=24, vocab_size=64), vae=vae,
                                            scheduler=generation.scheduler("unipc", 3.0), transformer=dit, image_encoder=clip,
                                            image_processor=clip_pictures.processor(SIDE))
        self.pipe.save_pretrained(self.folder / "model")
        self.ears = rm.audio_encoder(rng, hidden_size=16, num_attention_heads=2, intermediate_size=40, num_hidden_layers=3, conv_dim=[8] * 7,
                                     num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)
        self.ears.save_pretrained(self.folder / "wav2vec2")
        self.talker = infinitetalk.talker(rng, dit, layers=3, width=16)
        save_file(self.talker.branch_state(), self.folder / "infinitetalk.safetensors")

    def sound(self, name, frames):
        """Makes a sound slightly longer than `frames` frames."""
        rng = self.ctx.rng
        sound = wav2vec2.random_sound(rng, frames * 640 + rng.randint(0, 639), 0.2).clamp(-1, 1)
        integers = (sound * 32767).round().to(torch.int16)
        with wave.open(str(self.folder / name), "wb") as out:
            out.setnchannels(1), out.setsampwidth(2), out.setframerate(16000)
            out.writeframes(integers.numpy().tobytes())
        return integers.float() / 32768

    def picture(self):
        image = clip_pictures.random_picture(np.random.default_rng(self.ctx.rng.randrange(2**32)), WIDTH, HEIGHT)
        image.save(self.folder / "photo.png")
        return image

    def embeddings(self, image, sounds, frames):
        """The embeddings of both prompts, the picture and each speaker's samples, in the models' precision."""
        pipe, dtype = self.pipe, self.ears.dtype
        positive, negative = pipe.encode_prompt(PROMPT, NEGATIVE, True, 1, max_sequence_length=512)
        pixels = pipe.image_processor(images=image, return_tensors="pt")["pixel_values"]
        picture = pipe.image_encoder(pixels.to(dtype), output_hidden_states=True).hidden_states[-2]
        return positive, negative, picture, torch.stack([wav2vec2.hidden_states(self.ears, s.to(dtype), frames) for s in sounds])


def laid_in_time(sounds, in_turn):
    """Makes each sound as loud as expected. Two sounds get the same length, filled with silence; with `in_turn` one speaks after the other."""
    sounds = [as_loud_as_expected(s) for s in sounds]
    if len(sounds) == 1:
        return sounds
    first, second = sounds
    if in_turn:
        return [torch.cat([first, second * 0]), torch.cat([first * 0, second])]
    return [torch.cat([s, torch.zeros(max(len(first), len(second)) - len(s))]) for s in sounds]


def regions(boxes):
    """[3, rows, columns] of tokens: tells whose box contains the first pixel of each token. The picture is as large as the video."""
    masks = torch.zeros(3, HEIGHT // 16, WIDTH // 16)
    for mask, (x0, y0, x1, y1) in zip(masks, boxes):
        picture = torch.zeros(HEIGHT, WIDTH)
        picture[y0:y1, x0:x1] = 1
        mask[:] = picture[::16, ::16]
    masks[2] = (masks[0] + masks[1] == 0).float()
    return masks


def encode(vae, pixels):
    mean, std = (torch.tensor(v, dtype=pixels.dtype).view(1, -1, 1, 1, 1) for v in (vae.config.latents_mean, vae.config.latents_std))
    return (vae.encode(pixels).latent_dist.mode() - mean) / std


def decode(vae, latents):
    mean, std = (torch.tensor(v, dtype=latents.dtype).view(1, -1, 1, 1, 1) for v in (vae.config.latents_mean, vae.config.latents_std))
    return vae.decode(latents * std + mean).sample.clamp(-1, 1)


class Euler:
    """The sampler of MultiTalk and InfiniteTalk: timesteps from 1000 to 1, shifted once."""

    def __init__(self, steps, shift):
        t = torch.linspace(1000, 1, steps) / 1000
        self.times = torch.cat([shift * t / (1 + (shift - 1) * t) * 1000, torch.zeros(1)])

    def step(self, i, x, v, draw):
        return x + (self.times[i + 1] - self.times[i]).to(x.dtype) / 1000 * v


class Sde:
    """The wrapper's dpm++_sde: two-step DPM-Solver++ of the stochastic equation, with noise in each step, including the last."""

    def __init__(self, steps, shift):
        shifted = lambda u: shift * u / (1 + (shift - 1) * u)
        sigmas = shifted(np.linspace(float(shifted(torch.tensor([0.999]))), 0, steps + 1)[:-1])
        self.times = torch.from_numpy(np.trunc(sigmas * 1000)).float()
        self.sigmas, self.before = np.append(sigmas, 0).astype(np.float32).astype(np.float64), None

    def step(self, i, x, v, draw):
        s, after, z = self.sigmas[i], self.sigmas[i + 1], draw(x.shape[1:])[None].to(x.dtype)
        clean = x - s * v
        if after == 0:
            return clean
        half = lambda sigma: math.log((1 - sigma) / sigma)
        h, estimate = half(after) - half(s), clean
        if self.before is not None:
            estimate = clean + 0.5 * (clean - self.before) * h / (half(s) - half(self.sigmas[i - 1]))
        self.before = clean
        e = math.exp(-h)
        return after / s * e * x + (1 - after) * (1 - e * e) * estimate + after * math.sqrt(1 - e * e) * z


def talk(case, embeddings, image, frames, r, dtype):
    """Returns the last window's latents, and all frames [frames, H, W, 3] in [-1, 1]. As in the original, latents never have fewer than 32 bits."""
    wide = dtype if dtype.itemsize >= 4 else torch.float32
    positive, negative, picture, states = (t.to(dtype) for t in embeddings)
    vae, talker, window, m = case.pipe.vae, case.talker, r["window"], r["motion"]
    photo = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float().div(255).mul(2).sub(1)[None, :, None].to(dtype)
    y = encode(vae, torch.cat([photo, torch.zeros(1, 3, window - 1, *photo.shape[3:], dtype=dtype)], 2))
    mask = torch.zeros(1, 4, *y.shape[2:], dtype=dtype)
    mask[:, :, 0] = 1
    motion, generator = encode(vae, photo), torch.Generator().manual_seed(r["seed"])
    draw = lambda shape: torch.randn(shape, generator=generator)
    if r["recipe"] == "wrapper":
        draw(y.shape[1:])
    made, first, total = [], 0, states.shape[1]
    while True:
        x, sampler = draw(y.shape[1:])[None].to(wide), r["sampler"](r["steps"], r["shift"])
        if first and r["recipe"] == "infinitetalk":
            for _ in range(r["steps"] + 1):
                draw(motion.shape[1:])
        for i in range(r["steps"]):
            x[:, :, :motion.shape[2]] = motion
            v = 0
            for weight, no, silent in weights(r["recipe"], r["text"], r["speech"]):
                spoken = states[:1] * 0 if silent else states[None] if len(states) == 2 else states  # one speaker is silent
                v = v + weight * talker(hidden_states=torch.cat([x.to(dtype), mask, y], 1), timestep=sampler.times[i:i + 1],
                                        encoder_hidden_states=negative if no else positive, encoder_hidden_states_image=picture,
                                        audio_embeds=spoken, audio_start=torch.tensor([first]),
                                        speaker_masks=r["masks"].to(dtype) if len(spoken.shape) == 5 else None).to(wide)
            x = sampler.step(i, x, v, draw)
        x[:, :, :motion.shape[2]] = motion
        pixels = decode(vae, x.to(dtype))
        if r["colors"]:
            frames_of = lambda video: video[0].permute(1, 2, 3, 0)
            pixels = lab.match_colors(frames_of(pixels), frames_of(photo)[0], r["colors"]).permute(3, 0, 1, 2)[None]
        made.append(pixels[:, :, m if first else 0:])
        if first + window >= min(frames, total):
            break
        motion = encode(vae, pixels[:, :, -m:])
        first += window - m
        behind = first + window - total + 3
        if first + window >= min(frames, total) and behind > 0:
            states = torch.cat([states, states[:, -behind:].flip(1)], 1)
    video = torch.cat(made, 2)[0, :, :frames].permute(1, 2, 3, 0)
    return x[0], video


def compare_one(ctx, i, window, motion, spoken, text, speech, recipe, frames=None, colors=None, sampler=None, second=None, in_turn=False):
    """second: the number of frames in which a second speaker talks."""
    case = Case(ctx, i)
    image, sounds = case.picture(), [case.sound("speech.wav", spoken)]
    boxes, more = [], []
    if second:
        sounds.append(case.sound("second.wav", second))
        boxes = [(0, 0, 20, HEIGHT), (20, 3, WIDTH, HEIGHT)]  # the right end of the first row is background
        more = ["--audio", case.folder / "second.wav", "--speakers", "one-after-the-other" if in_turn else "together"]
        for box in boxes:
            more += ["--speaker-box", ",".join(map(str, box))]
    sounds = laid_in_time(sounds, in_turn)
    spoken = int(len(sounds[0]) / 16000 * 25)
    r = {"window": window, "motion": motion, "steps": 3, "shift": ctx.rng.choice([5.0, 11.0]), "text": text, "speech": speech, "recipe": recipe,
         "seed": ctx.rng.randrange(2**31), "colors": colors if colors is not None else float(recipe == "infinitetalk"),
         "sampler": Sde if sampler else Euler, "masks": regions(boxes)}
    folder, frames = case.folder, frames or spoken
    ctx.run("talk", PROMPT, "-n", NEGATIVE, "--model", folder / "model", "--photo", folder / "photo.png", "--audio", folder / "speech.wav",
            "--infinitetalk", folder / "infinitetalk.safetensors", "--wav2vec2", folder / "wav2vec2", "--size", f"{WIDTH}x{HEIGHT}", "--steps", 3,
            "--guidance", text, "--audio-guidance", speech, "--shift", r["shift"], "--seed", r["seed"], "--recipe", recipe, "--frames", frames,
            "--window-frames", window, "--motion-frames", motion, "--save-latents", folder / "out.safetensors", "-q", "-o", f"{folder}/frames/",
            *(["--color-correction", colors] if colors is not None else []), *(["--sampler", sampler] if sampler else []), *more)
    with torch.no_grad():
        r32, _ = talk(case, case.embeddings(image, sounds, spoken), image, frames, r, torch.float32)
        with float64():
            for part in (case.pipe.vae, case.talker, case.ears, case.pipe.text_encoder, case.pipe.image_encoder):
                part.double()
            embeddings = case.embeddings(image, sounds, spoken)
            assert all(e.dtype == torch.float64 for e in embeddings)
            r64, video = talk(case, embeddings, image, frames, r, torch.float64)
            deaf, _ = talk(case, (*embeddings[:3], embeddings[3] * 0), image, frames, r, torch.float64)
    label = f"talk: {len(sounds)} speakers, {frames} of {spoken} frames, windows of {window} and {motion}, text {text:g}, speech {speech:g}, {recipe}, " \
            f"colours {r['colors']:g}{', ' + sampler if sampler else ''}"
    if case.talker.tie < infinitetalk.TIE:  # rounding may decide which speaker a token follows
        print(f"{label}: two regions were closer than {infinitetalk.TIE:g}: not compared")
        return False
    got = load_file(folder / "out.safetensors")["latents"]
    ctx.report(label, error(got, r64), max(3 * error(r32, r64), 1e-5))
    ours = np.stack([np.asarray(Image.open(f)).astype(np.int16) for f in sorted((folder / "frames").glob("*.png"))])
    want = ((video + 1) * 127.5).round().numpy().astype(np.int16)
    ctx.report(f"{label}: frames missing", float(abs(len(ours) - frames)), 0.0)
    ctx.report(f"{label}: levels apart", float(np.abs(ours[:len(want)] - want).max()), 1.0)
    ctx.report(f"{label}: what speech does", -error(deaf, r64), -0.02)
    return True


def compare(ctx):
    compare_one(ctx, 0, 13, 5, 26, 5.0, 4.0, "infinitetalk")  # three windows and three passes; the last window reaches past the end
    compare_one(ctx, 1, 9, 1, 25, 1.0, 2.0, "infinitetalk")  # the end is that of a window
    compare_one(ctx, 2, 13, 9, 19, 3.0, 2.0, "wrapper", sampler="dpm++_sde")
    compare_one(ctx, 3, 17, 5, 12, 1.0, 1.0, "infinitetalk")  # shorter than a window
    compare_one(ctx, 4, 13, 5, 40, 2.0, 1.5, "infinitetalk", frames=22, colors=0)  # only the beginning of the speech
    compare_one(ctx, 5, 13, 5, 26, 1.0, 2.0, "wrapper", colors=0.4)
    i = 6
    for two in ({"spoken": 18, "second": 14}, {"spoken": 11, "second": 13, "in_turn": True}):
        spoken = two.pop("spoken")
        while not compare_one(ctx, i, 13, 5, spoken, 2.0, 3.0, "infinitetalk", **two):
            i += 1
        i += 1
