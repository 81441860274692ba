"""A clip of a world, steered by a script of keys."""

from . import host, places, values


def script(text, keys):
    """Reads lines such as "W D 3": the keys that are held, and for how many blocks (1 if no number stands there). Returns a list with
    the keys of each block. Raises ValueError for a key that the world has not got."""
    blocks = []
    for line in values.lines(text):
        words = line.split()
        count = int(words.pop()) if words[-1].isdigit() and words[-1] not in keys else 1
        unknown = [word for word in words if word not in keys and word != "-"]
        if unknown:
            raise ValueError(f"actions: no key {unknown[0]!r}; this world has {' '.join(keys) or 'none'}")
        if not 1 <= count <= 10000 or len(blocks) + count > 10000:
            raise ValueError(f"actions: expected 1 to 10000 blocks, got {line!r}")
        blocks += [[word for word in words if word != "-"]] * count
    if not blocks:
        raise ValueError('actions: expected lines such as "W 3"')
    return blocks


class World:
    DESCRIPTION = "A clip of a world that goes where keys lead it: each line names the keys that are held, and for how many blocks."
    CATEGORY, FUNCTION = "Tachyscope", "run"
    RETURN_TYPES, RETURN_NAMES = ("IMAGE", "FLOAT"), ("frames", "fps")

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("STRING", {"default": "world"}), "actions": ("STRING", {"multiline": True, "default": "- 2"}),
                             "seed": ("INT", {"default": 0, "min": 0, "max": 0xFFFFFFFFFFFFFFFF, "control_after_generate": True}),
                             "device": (["auto", "cpu", "cuda"],)},
                "optional": {"image": ("IMAGE",), "prompt": ("STRING", {"default": "", "multiline": True})}}

    def run(self, model, actions, seed, device, image=None, prompt=""):
        import tachyscope
        with tachyscope.World(places.model(model) or "", device) as world:
            blocks = script(actions, world.info.keys)
            world.start(None if image is None else values.picture(image, "image"), prompt, seed)
            bar, frames = host.progress_bar(len(blocks)), []

            def take(frame, index):
                host.throw_if_cancelled()  # which ends the block
                frames.append(frame)
            for held in blocks:
                world.act(held)
                world.next_block(take)
                bar.update(1)
            return values.batch(frames), world.info.fps
