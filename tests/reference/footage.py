"""Compares VACE and video to video on fresh random models, videos, masks and pictures against diffusers' WanVACEPipeline and
WanVideoToVideoPipeline."""

import numpy as np
import torch
from diffusers import WanVACEPipeline, WanVideoToVideoPipeline
from diffusers.utils import load_image
from diffusers.video_processor import VideoProcessor
from PIL import Image
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast

import generation
import images
import random_models as rm


def fitted(picture, width, height, mode="default"):
    return VideoProcessor(vae_scale_factor=8).resize(picture, height, width, resize_mode=mode)


def compose(run, given):
    """Lays the given pictures on the clip's frames, as the engine says that it does: returns the video and the mask for diffusers, [1, F, C, H, W]
    in [0, 1], or None. Gray is exactly one half there, which no picture of bytes can say."""
    frames, width, height = run["num_frames"], run["width"], run["height"]
    anything = given["control"] or given["first"] or given["last"]
    if not anything:
        return None, None
    video = np.full((frames, height, width, 3), 0.5, np.float32)
    mask = np.ones((frames, height, width, 1), np.float32)
    left, top, right, bottom = given["outpaint"] or (0, 0, 0, 0)
    first, last = given["keep"] or (0, frames - 1)
    inside = slice(top, height - bottom), slice(left, width - right)
    if given["control"]:
        place = width - left - right, height - top - bottom
        for i in range(first, last + 1):
            fit = run.get("fit", "default")
            video[(i, *inside)] = np.asarray(fitted(given["control"][i - first], *place, fit)).astype(np.float32) / 255.0
            if given["mask"]:
                mask[(i, *inside)] = (np.asarray(fitted(given["mask"][i - first], *place, fit).convert("L")).astype(np.float32) / 255.0)[..., None]
            elif given["outpaint"] or given["keep"]:
                mask[(i, *inside)] = 0
    for i, picture in ((0, given["first"]), (frames - 1, given["last"])):
        if picture:
            video[i] = np.asarray(fitted(picture, width, height, run.get("fit", "default"))).astype(np.float32) / 255.0
            mask[i] = 0
    tensors = [torch.from_numpy(x).permute(0, 3, 1, 2)[None] for x in (video, mask)]
    return tensors[0], tensors[1] if mask.min() < 1 else None


def places_of(masks, run, shape):
    """Returns 1 for each place of latents [1, z, T, h, w] where a pixel of the mask is white."""
    pixels = np.stack([np.asarray(fitted(m, run["width"], run["height"])) for m in masks]) >= 128
    pixels = torch.from_numpy(pixels).float()[None, None]
    pixels = torch.cat([pixels[:, :, :1].repeat(1, 1, 3, 1, 1), pixels], 2)  # the first latent frame is one pixel frame
    return torch.nn.functional.max_pool3d(pixels, (4, 8, 8)).expand(shape)


def in_windows(predict, x, control, references, window, overlap):
    """Predicts a clip by static windows, as WanVideoWrapper blends them: the control's first frames of each are those of the references."""
    count, sums, weights = x.shape[2], torch.zeros_like(x), torch.zeros_like(x)
    for first in range(0, count, window - overlap):
        first = min(first, count - window)
        part = control[:, :, first : first + window].clone()
        part[:, :, :references] = control[:, :, :references]
        weight = torch.ones(window, dtype=x.dtype)
        if first > 0:
            weight[:overlap] = torch.linspace(0, 1, overlap)
        if first + window < count:
            weight[-overlap:] = torch.linspace(1, 0, overlap)
        weight = weight.view(1, 1, -1, 1, 1)
        sums[:, :, first : first + window] += predict(x[:, :, first : first + window], part) * weight
        weights[:, :, first : first + window] += weight
        if first + window == count:
            return sums / weights


def prediction(model, x, t, text, more, run, references):
    if "window" not in run:
        return model(x, t[None], text, **more).sample

    def predict(part, control):
        return model(part, t[None], text, **more | {"control_hidden_states": control}).sample

    return in_windows(predict, x, more["control_hidden_states"], references, run["window"], run["overlap"])


def reference(pipe, run, given, float64):
    """Does the pipelines' steps with everything in float64 but the noise, by their own functions; without `float64`, in float32."""
    if float64 is None:
        with torch.no_grad():
            return _reference(pipe, run, given, torch.float32)
    with torch.no_grad(), float64():
        parts = [p for p in (pipe.transformer, getattr(pipe, "transformer_2", None), pipe.text_encoder, pipe.vae) if p is not None]
        for part in parts:
            part.double()
        try:
            return _reference(pipe, run, given, torch.float64)
        finally:
            for part in parts:
                part.to(torch.float32)


def _reference(pipe, run, given, dtype):
    z, frames, width, height = pipe.vae.config.z_dim, run["num_frames"], run["width"], run["height"]
    text = pipe.encode_prompt(run["prompt"], run["negative_prompt"], True, max_sequence_length=512, device="cpu", dtype=dtype)
    scheduler = generation.scheduler(run["sampler"], run["flow_shift"])
    scheduler.set_timesteps(run["num_inference_steps"])
    timesteps, before, made = scheduler.timesteps, len(given["references"]), {}
    noise = torch.randn(1, z, (frames - 1) // 4 + 1 + before, height // 8, width // 8, generator=torch.Generator().manual_seed(run["seed"]))
    x, more = noise.to(dtype), {}
    if "strength" in run:
        timesteps, _ = pipe.get_timesteps(run["num_inference_steps"], timesteps, run["strength"], "cpu")
        video = pipe.video_processor.preprocess_video(given["control"], height=height, width=width).to(dtype)
        mean, std = (torch.tensor(v, dtype=dtype).view(1, -1, 1, 1, 1) for v in (pipe.vae.config.latents_mean, pipe.vae.config.latents_std))
        start = (pipe.vae.encode(video).latent_dist.mode() - mean) / std
        made["start"] = start[0]
        add = scheduler.add_noise if hasattr(scheduler, "add_noise") else lambda a, b, t: scheduler.scale_noise(a, t, b)
        x = add(start, x, timesteps[:1])
    else:
        video, mask = compose(run, given)
        video, mask, references = pipe.preprocess_conditions(video, mask, given["references"] or None, 1, height, width, frames, dtype, "cpu")
        control = pipe.prepare_video_latents(video, mask, references)
        control = torch.cat([control, pipe.prepare_masks(mask, references)], 1).to(dtype)
        made["control"] = control[0]
        scale = run.get("scale", 1.0)
        scale = torch.tensor(scale if isinstance(scale, list) else [scale] * len(pipe.transformer.config.vace_layers), dtype=dtype)
        more = dict(control_hidden_states=control, control_hidden_states_scale=scale)
    boundary = getattr(pipe.config, "boundary_ratio", None)
    keep = 1 - places_of(given["mask"], run, x.shape).to(dtype) if "strength" in run and given["mask"] else None
    for i, t in enumerate(timesteps):
        low = boundary is not None and t < boundary * 1000
        model, guidance = (pipe.transformer_2, run["guidance_scale_2"]) if low else (pipe.transformer, run["guidance_scale"])
        c, u = (prediction(model, x, t, e, more, run, before) for e in text)
        x = scheduler.step(u + guidance * (c - u) if guidance > 1 else c, t, x, return_dict=False)[0]
        if keep is not None:  # as in diffusers' FluxInpaintPipeline
            known = add(start, noise.to(dtype), timesteps[i + 1 : i + 2]) if i + 1 < len(timesteps) else start
            x = (1 - keep) * x + keep * known
    x = x[:, :, before:]
    mean, std = (torch.tensor(v, dtype=dtype).view(1, -1, 1, 1, 1) for v in (pipe.vae.config.latents_mean, pipe.vae.config.latents_std))
    pixels = pipe.vae.decode(x * std + mean).sample[0]
    made["latents"] = x[0]
    made["frames"] = ((pixels / 2 + 0.5).clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 3, 0)
    return made


def pipeline(pipe, run, given, output_type="latent"):
    """Runs diffusers' own pipeline in float32."""
    pipe.scheduler = generation.scheduler(run["sampler"], run["flow_shift"])
    pipe.set_progress_bar_config(disable=True)
    call = dict(prompt=run["prompt"], negative_prompt=run["negative_prompt"], height=run["height"], width=run["width"],
                num_inference_steps=run["num_inference_steps"], guidance_scale=run["guidance_scale"],
                generator=torch.Generator().manual_seed(run["seed"]), output_type=output_type)
    if "strength" in run:
        call.update(video=given["control"], strength=run["strength"])
    else:
        video, mask = compose(run, given)
        scale = run.get("scale", 1.0)
        call.update(video=video, mask=mask, reference_images=given["references"] or None, num_frames=run["num_frames"], conditioning_scale=scale)
        if "guidance_scale_2" in run:
            call.update(guidance_scale_2=run["guidance_scale_2"])
    with torch.no_grad():
        out = pipe(**call).frames[0]
    return out[:, len(given["references"]):] if output_type == "latent" else out


VACE_RUNS = ("follow", "inpaint", "references", "all", "outpaint", "keep", "first_last", "two experts", "windows")


def clip(ctx, folder, frames, width, height, make):
    folder.mkdir()
    out = [make(width, height) for _ in range(frames)]
    for i, picture in enumerate(out):
        picture.save(folder / f"{i:03}.png")
    return out


def blob(ctx, width, height):
    """Returns a mask with a soft edge."""
    y, x = np.mgrid[0:height, 0:width]
    far = np.hypot(x - ctx.rng.uniform(0, width), y - ctx.rng.uniform(0, height)) - ctx.rng.uniform(3, width / 2)
    return Image.fromarray(np.clip(128 - 60 * far, 0, 255).astype(np.uint8))


def parts(ctx, folder):
    z = ctx.rng.choice([4, 6])
    rm.tiny_tokenizer(folder / "tokenizer-source")
    return dict(tokenizer=PreTrainedTokenizerFast.from_pretrained(folder / "tokenizer-source"),
                text_encoder=rm.text_encoder(ctx.rng, d_model=24, vocab_size=64), vae=rm.vae(ctx.rng, base_dim=8, z_dim=z, num_res_blocks=1),
                scheduler=generation.scheduler("unipc", 3.0)), dict(in_channels=z, out_channels=z, text_dim=24)


def compare(ctx):
    for i, name in enumerate((*VACE_RUNS, "video to video", "video to video", "video, a part of it")):
        folder = ctx.folder / f"footage-{i}"
        folder.mkdir()
        common, sizes = parts(ctx, folder)
        if name.startswith("video"):
            pipe = WanVideoToVideoPipeline(transformer=rm.transformer(ctx.rng, **sizes), **common)
        else:
            layers = ctx.rng.choice([2, 4])
            blocks = dict(num_attention_heads=2, attention_head_dim=12, num_layers=layers, ffn_dim=48, vace_in_channels=2 * sizes["in_channels"] + 64,
                          vace_layers=ctx.rng.choice([[0], list(range(0, layers, 2)), list(range(layers))]))
            two = name == "two experts"
            more = dict(transformer_2=rm.transformer(ctx.rng, "vace", **sizes, **blocks), boundary_ratio=0.875) if two else {}
            pipe = WanVACEPipeline(transformer=rm.transformer(ctx.rng, "vace", **sizes, **blocks), **more, **common)
        pipe.save_pretrained(folder / "model")
        compare_run(ctx, folder, pipe, name, i)


def compare_run(ctx, folder, pipe, name, i):
    run = dict(prompt="the red cat moves", negative_prompt="ugly", width=16 * ctx.rng.randint(2, 4), height=16 * ctx.rng.randint(2, 4),
               num_frames=17 if name == "windows" else 9,
               num_inference_steps=10, guidance_scale=ctx.rng.choice([1.0, 4.0]), flow_shift=3.0, sampler=generation.SAMPLERS[i % 3],
               seed=ctx.rng.randrange(2**31))
    args = ["generate", run["prompt"], "-n", "ugly", "--model", folder / "model", "--size", f"{run['width']}x{run['height']}", "--frames", run["num_frames"], "--steps", 10,
            "--guidance", run["guidance_scale"], "--shift", 3, "--seed", run["seed"], "--sampler", run["sampler"], "--save-latents",
            folder / "out.safetensors", "-q", "-o", f"{folder}/frames/"]
    given = dict(control=None, mask=None, references=[], first=None, last=None, outpaint=None, keep=None)
    sized = ctx.rng.randint(20, 90), ctx.rng.randint(20, 90)
    if name != "references" and name != "first_last":
        # diffusers fits the frames of video to video itself, in the clip's size
        given["control"] = clip(ctx, folder / "control", run["num_frames"], *sized, lambda w, h: images.picture(ctx, w, h))
        args += ["--video" if name.startswith("video") else "--control-video", folder / "control"]
    if name.startswith("video"):
        run["strength"] = ctx.rng.choice([0.25, 0.5, 0.7, 1.0])
        args += ["--strength", run["strength"]]
    if name in ("inpaint", "all", "two experts", "windows", "video, a part of it"):
        given["mask"] = clip(ctx, folder / "mask", run["num_frames"], *sized, lambda w, h: blob(ctx, w, h))
        args += ["--mask-video", folder / "mask"]
    if name in ("references", "all", "keep", "windows"):
        for k in range(ctx.rng.randint(1, 3)):  # diffusers makes no mask for more references than latent frames
            picture = images.picture(ctx, ctx.rng.randint(9, 120), ctx.rng.randint(9, 120))
            if ctx.rng.random() < 0.5:  # what lies under transparent places counts, as in diffusers' load_image
                picture.putalpha(images.picture(ctx, *picture.size).convert("L"))
            picture.save(folder / f"reference-{k}.png")
            given["references"].append(load_image(str(folder / f"reference-{k}.png")))
            args += ["--reference", folder / f"reference-{k}.png"]
    if name == "outpaint":
        given["outpaint"] = [ctx.rng.randint(1, 8), 0, ctx.rng.randint(0, 8), ctx.rng.randint(0, 9)]
        args += ["--outpaint", ",".join(map(str, given["outpaint"]))]
    if name == "keep":
        first = ctx.rng.randint(0, 8)
        given["keep"] = [first, ctx.rng.randint(first, 8)]
        args += ["--keep", "-".join(map(str, given["keep"]))]
    if name in ("first_last", "all"):
        for key in ("first", "last"):
            given[key] = images.picture(ctx, *sized)
            given[key].save(folder / f"{key}.png")
        args += ["--image", folder / "first.png", "--last-image", folder / "last.png"]
    if name == "inpaint":
        run["scale"] = [ctx.rng.choice([0.0, 0.5, 1.0, 1.5]) for _ in pipe.transformer.config.vace_layers]
        run["scale"][0] = 0.75
        args += ["--vace-strength", ",".join(map(str, run["scale"]))]
    if name == "two experts":
        run["guidance_scale_2"] = run["guidance_scale"]
    if not name.startswith("video") and ctx.rng.random() < 0.4:
        run["fit"] = "crop"
        args += ["--image-fit", "crop"]
    if name == "windows":
        run |= dict(window=3, overlap=2)  # latent frames
        args += ["--windows", "static", "--window-frames", 9, "--window-overlap", 8, "--free-noise", "off"]
    if name in ("windows", "video, a part of it"):  # no pipeline of diffusers has windows, or takes a mask there
        made = reference(pipe, run, given, None)
        want, pixels = made["latents"], made["frames"].numpy() / 255
    else:
        want, pixels = pipeline(pipe, run, given), pipeline(pipe, run, given, "np")
    ctx.run(*args)
    label = f"{name}, {run['sampler']}, {sized[0]}x{sized[1]} to {run['width']}x{run['height']}"
    ctx.report(f"{label}: latents", generation.relative(load_file(folder / "out.safetensors")["latents"], want), 1e-5)
    ours = np.stack([np.asarray(Image.open(f)).astype(np.int16) for f in sorted((folder / "frames").glob("*.png"))])
    ctx.report(f"{label}: levels apart", float(np.abs(ours - (pixels * 255).round().astype(np.int16)).max()), 1.0)
