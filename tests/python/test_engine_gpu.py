"""Tests tachyscope.Engine on a GPU: frames that stay there as tensors. It needs a package that was built with CUDA."""

import numpy as np
import pytest
import tachyscope
import torch
from engine_cases import TINY

pytestmark = pytest.mark.skipif(not torch.cuda.is_available() or tachyscope.build_info()["cuda"] is None,
                                reason="needs a GPU and a package with kernels for it")


def test_torch_frames_stay_on_the_gpu(tmp_path):
    with tachyscope.Engine(TINY, device="cuda") as engine:
        want = engine.generate("a red cat", seed=3, frames=9)
        video = engine.generate("a red cat", seed=3, frames=9, output="torch")
        assert video.frames.is_cuda and video.frames.dtype == torch.uint8 and video.frames.is_contiguous()
        assert np.array_equal(video.frames.cpu().numpy(), want.frames)
        assert torch.from_dlpack(video.frames).data_ptr() == video.frames.data_ptr()
        again = engine.generate("a red cat", seed=3, frames=9, output="torch")
        assert torch.equal(again.frames, video.frames) and again.frames.data_ptr() != video.frames.data_ptr(), "the memory is its own"
        for result, name in ((want, "want.mp4"), (video, "video.mp4")):
            result.save(tmp_path / name)
        assert (tmp_path / "want.mp4").read_bytes() == (tmp_path / "video.mp4").read_bytes()
