"""Tests tachyscope.Engine: the frames, latents and sounds of the program, plans, lists, streams, jobs and asyncio."""

import asyncio
import concurrent.futures
import contextlib
import itertools
import threading
import time

import numpy as np
import pytest
import tachyscope
import torch
from engine_cases import LONG, SPRITES, TALKER, TINY, TINY_IMAGE, by_program, tiny
from PIL import Image
from tachyscope import _inputs

load_file = pytest.importorskip("safetensors.numpy").load_file
pytestmark = pytest.mark.cpu
SHORT = dict(frames=9, steps=2, size=(64, 48))


@pytest.fixture(scope="module")
def engine():
    with tiny() as made:
        yield made


@pytest.fixture(scope="module")
def cat(engine):
    return engine.generate("a red cat", seed=3)


def test_frames_and_latents_of_the_program(tmp_path):
    prompt, options = "a red circle moves right", ["--frames", "9", "--steps", "2", "--width", "64", "--height", "48", "--seed", "7"]
    want = by_program("generate", prompt, *options, "-m", SPRITES, "--save-latents", tmp_path / "l.safetensors", folder=tmp_path)
    with tachyscope.Engine(SPRITES, device="cpu", threads=1) as engine:
        video = engine.generate(prompt, seed=7, **SHORT)
        assert video.frames.shape == (9, 48, 64, 3) and video.frames.dtype == np.uint8
        assert np.array_equal(video.frames, want)
        latents = engine.generate(prompt, seed=7, output="latents", **SHORT)
        assert latents.frames is None and np.array_equal(latents.latents, load_file(tmp_path / "l.safetensors")["latents"])
        with pytest.raises(ValueError, match="latents in place of frames"):
            latents.save(tmp_path / "no.mp4")


def test_a_talking_photo_with_its_sound(tmp_path):
    photo, speech = f"{TALKER}/example/photo.png", f"{TALKER}/example/speech.wav"
    small = dict(size=(64, 64), frames=9, steps=1, window_frames=9, motion_frames=5)
    options = ["--width", "64", "--height", "64", "--frames", "9", "--steps", "1", "--window-frames", "9", "--motion-frames", "5"]
    want = by_program("talk", "a person talks", "-m", TALKER, "--photo", photo, "--audio", speech, *options, folder=tmp_path)
    with tachyscope.Engine(TALKER, device="cpu", infinitetalk=f"{TALKER}/infinitetalk.safetensors") as engine:
        video = engine.generate("a person talks", image=photo, audio=speech, **small)
        assert np.array_equal(video.frames, want)
        assert video.fps == 25 and len(video.audio.samples) == -(-9 * video.audio.rate // 25) and np.abs(video.audio.samples).max() > 0.01
        whole = tachyscope.Audio(*read_wav(speech))
        pixels = np.asarray(Image.open(photo).convert("RGB"))
        again = engine.generate("a person talks", image=torch.from_numpy(pixels.copy()), audio=tuple(whole), **small)
        assert np.array_equal(again.frames, want) and np.array_equal(again.audio.samples, video.audio.samples)
        video.save(tmp_path / "talk.mp4")
        assert b"mp4a" in (tmp_path / "talk.mp4").read_bytes(), "the sound is in it"
    node, kept = {"waveform": torch.from_numpy(whole.samples)[None, None], "sample_rate": whole.rate}, []
    sound = _inputs.sound("audio", node, kept)
    assert (sound.count, sound.rate) == (len(whole.samples), whole.rate) and np.array_equal(kept[0], whole.samples)


def read_wav(path):
    import wave
    with wave.open(path) as file:
        assert file.getnchannels() == 1 and file.getsampwidth() == 2
        return np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768, file.getframerate()


def test_plan(engine):
    plan = engine.plan("a red cat", num_frames=9)
    assert (plan.frames, plan.width, plan.height) == (9, 32, 16) and plan.bytes > 0 and plan.seconds > 0
    assert engine.plan(frames=81).bytes > plan.bytes
    assert plan.settings["num_frames"] == 9 and plan.settings["model"] == TINY


def test_result(engine, cat, tmp_path):
    assert cat.frames.shape == (5, 16, 32, 3) and cat.audio is None and cat.latents is None
    assert cat.timings["total"] >= cat.timings["denoise"] > 0 and cat.settings["seed"] == 3
    torches = engine.generate("a red cat", seed=3, output="torch")
    assert np.array_equal(torches.frames.numpy(), cat.frames) and torches.frames.data_ptr() == torches.pixels.ctypes.data, "the same memory"
    pictures = engine.generate("a red cat", seed=3, output="pil").frames
    assert np.array_equal(np.stack([np.asarray(p) for p in pictures]), cat.frames)
    for name in ("cat.mp4", "cat.webm", "cat.gif"):
        cat.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100
    cat.save(tmp_path / "cat_%d.png", crf=None)
    assert np.array_equal(np.asarray(Image.open(tmp_path / "cat_4.png").convert("RGB")), cat.frames[4])
    assert b"num_inference_steps" in (tmp_path / "cat.mp4").read_bytes()


def test_prompts_before_seeds(engine, cat):
    made = engine.generate(["a red cat", "a dog"], seed=[3, 4])
    assert [(m.settings["prompt"], m.settings["seed"]) for m in made] == list(itertools.product(["a red cat", "a dog"], [3, 4]))
    assert np.array_equal(made[0].frames, cat.frames) and not np.array_equal(made[1].frames, cat.frames)
    assert isinstance(engine.generate("a red cat", seed=[3]), list) and isinstance(engine.generate(["a red cat"], seed=3), list)


def test_pictures_of_any_kind():
    y, x = np.mgrid[:30, :40]
    pixels = np.stack([3 * y, 4 * x, x + y], -1).astype(np.uint8)
    with tachyscope.Engine(TINY_IMAGE, device="cpu", threads=1) as engine:
        def frames(image):
            return engine.generate("a cat", image=image, size=(32, 32), frames=5, steps=1).frames
        want = frames(pixels)
        assert not np.array_equal(frames(255 - pixels), want)
        strided = np.zeros((60, 80, 3), np.uint8)
        strided[::2, ::2] = pixels
        for same in (Image.fromarray(pixels), torch.from_numpy(pixels), np.asfortranarray(pixels), strided[::2, ::2], pixels[::-1][::-1],
                     Image.fromarray(pixels).convert("RGBA")):
            assert np.array_equal(frames(same), want)
        with pytest.raises(tachyscope.ArgumentError, match="`image`"):
            engine.generate("a cat")


def test_stream_in_order_and_leaving_it(engine, cat):
    events = list(engine.stream("a red cat", seed=3, preview=True))
    frames = [e for e in events if isinstance(e, tachyscope.Frame)]
    assert [f.index for f in frames] == list(range(5)) and np.array_equal(np.stack([f.image for f in frames]), cat.frames)
    assert [e.step for e in events if isinstance(e, tachyscope.Preview)] and events[0].stage == "text"
    assert not [e for e in engine.stream("a red cat") if isinstance(e, tachyscope.Preview)]
    before = threading.active_count()
    for event in engine.stream("a red cat", **LONG):
        if event.stage == "denoise":
            break
    assert threading.active_count() == before, "the run has ended with the loop"
    assert np.array_equal(engine.generate("a red cat", seed=3).frames, cat.frames)


def test_the_first_frame_comes_before_the_last_is_made(engine):
    stream = engine.stream("a red cat", frames=81, steps=1)
    first = next(e for e in stream if isinstance(e, tachyscope.Frame))
    assert first.index == 0
    stream.close()
    assert list(stream) == []


def test_jobs(engine, cat):
    job = engine.submit("a red cat", seed=3)
    assert isinstance(job, concurrent.futures.Future) and np.array_equal(job.result(timeout=60).frames, cat.frames)
    long = engine.submit("a red cat", **LONG)
    after = engine.submit(["a red cat"], seed=3)
    with pytest.raises(concurrent.futures.TimeoutError):
        long.result(timeout=0.3)
    assert long.cancel() and long.cancelled()
    with pytest.raises(concurrent.futures.CancelledError):
        long.result()
    assert np.array_equal(after.result(timeout=60)[0].frames, cat.frames)
    assert isinstance(engine.submit("a red cat", fps=999).exception(timeout=60), tachyscope.ArgumentError)


def test_several_threads_at_once(engine, cat):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda seed: engine.generate("a red cat", seed=seed).frames, [3, 4, 3, 4]))
    assert np.array_equal(made[0], cat.frames) and np.array_equal(made[2], cat.frames) and np.array_equal(made[1], made[3])


def test_other_python_threads_go_on(engine):
    counted, ended = 0, threading.Event()
    def count():
        nonlocal counted
        while not ended.wait(0.001):
            counted += 1
    thread = threading.Thread(target=count)
    thread.start()
    engine.generate("a red cat", frames=33, steps=100)  # long enough for them to count on a busy machine
    ended.set(), thread.join()
    assert counted > 20


def test_asyncio(cat):
    async def work():
        async with tachyscope.AsyncEngine(TINY, device="cpu", threads=2, workers=2) as engine:
            assert (await engine.plan("a red cat")).frames == 5
            one, other = await asyncio.gather(engine.generate("a red cat", seed=3), engine.generate("a red cat", seed=4))
            assert np.array_equal(one.frames, cat.frames) and not np.array_equal(other.frames, cat.frames)
            frames = [e.image async for e in engine.stream("a red cat", seed=3) if isinstance(e, tachyscope.Frame)]
            assert np.array_equal(np.stack(frames), cat.frames)
            task = asyncio.create_task(engine.generate("a red cat", **LONG))
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with contextlib.aclosing(engine.stream("a red cat", **LONG)) as events:
                async for _ in events:
                    break
            began = time.monotonic()
            await engine.generate("a red cat")
            assert time.monotonic() - began < 20, "nothing long is being made any more"
        with pytest.raises(ValueError, match="async with"):
            await engine.generate("a red cat")
    asyncio.run(work())


def test_in_diffusers_shape(cat):
    pipe = tachyscope.TachyscopeWanPipeline.from_pretrained(TINY, device="cpu", torch_dtype=torch.float32)
    out = pipe(prompt="a red cat", num_frames=5, generator=torch.Generator("cpu").manual_seed(3))
    assert out.frames.shape == (1, 5, 16, 32, 3) and np.array_equal(np.round(out.frames[0] * 255).astype(np.uint8), cat.frames)
    again = pipe("a red cat", seed=3, output_type="pt", num_videos_per_prompt=2)
    assert again.frames.shape == (2, 5, 3, 16, 32) and torch.equal(again.frames[0, :, 0], torch.from_numpy(out.frames[0, ..., 0]))
    assert pipe("a red cat", seed=3, output_type="pil").frames[0][0].size == (32, 16)
    assert pipe("a red cat", seed=3, output_type="latent").frames.shape[:2] == (1, 16)
    assert len(pipe("a red cat", seed=range(3, 5), num_inference_steps=1).frames) == 2 and len(pipe("a red cat", seed=None, num_inference_steps=1).frames) == 1
    for wrong in (dict(output_type="mp4"), dict(output_type=["np"]), dict(seed="3"), dict(seed=1.5), dict(seed=-1), dict(num_videos_per_prompt=0), dict(callback_on_step_end=7), dict(prompt_embeds=torch.zeros(1, 4)),
                  dict(negative_prompt_embeds=torch.zeros(1, 4)), dict(attention_kwargs={"a": 1}), dict(generator=[torch.Generator("cpu")] * 2),
                  dict(callback_on_step_end_tensor_inputs=["prompt_embeds"], callback_on_step_end=print),
                  dict(callback_on_step_end_tensor_inputs=3, callback_on_step_end=print)):
        with pytest.raises(tachyscope.ArgumentError) as caught:
            pipe("a red cat", **wrong)
        assert caught.value.field == next(iter(wrong))
    pipe.engine.close()


def test_callbacks_in_diffusers_shape(cat):
    pipe, seen = tachyscope.TachyscopeWanPipeline(tiny()), []
    want = pipe("a red cat", seed=3, num_inference_steps=4).frames
    out = pipe("a red cat", seed=3, num_inference_steps=4, callback_on_step_end=lambda *given: seen.append(given))
    assert np.array_equal(out.frames, want), "whoever looks on changes nothing"
    assert [(p, step, t, dict(kwargs)) for p, step, t, kwargs in seen] == [(pipe, step, None, {}) for step in range(4)]
    with pytest.raises(tachyscope.ArgumentError, match="hands out no tensors"):
        pipe("a red cat", callback_on_step_end=lambda p, step, t, kwargs: kwargs["latents"])
    with pytest.raises(tachyscope.ArgumentError, match="return nothing"):
        pipe("a red cat", callback_on_step_end=lambda p, step, t, kwargs: {"latents": 1})
    with pytest.raises(ValueError, match="this is its callback"):
        pipe("a red cat", callback_on_step_end=lambda *given: pipe.engine.close())
    with pytest.raises(tachyscope.Cancelled):
        pipe("a red cat", callback_on_step_end=lambda *given: pipe.engine.cancel(), num_inference_steps=4)
    with pytest.raises(IndexError):
        pipe("a red cat", callback_on_step_end=lambda p, step, t, kwargs: [][0] if step == 1 else None, num_inference_steps=4)
    assert np.array_equal(pipe("a red cat", seed=3, num_inference_steps=4).frames, want)
    pipe.engine.close()
