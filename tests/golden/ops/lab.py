"""CIE Lab and colour matching in torch, written from the definitions of Lab (D65, 2 degrees) and sRGB; make_colors.py
compares it with scikit-image."""

import torch

XYZ_OF_RGB = torch.tensor([[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]], dtype=torch.float64)
WHITE = torch.tensor([0.95047, 1.0, 1.08883], dtype=torch.float64)


def lab_of(rgb):
    """Converts [..., 3] in [0, 1] to L, a, b."""
    linear = torch.where(rgb > 0.04045, ((rgb.clamp(min=0.04) + 0.055) / 1.055) ** 2.4, rgb / 12.92)
    t = linear @ XYZ_OF_RGB.T.to(rgb.dtype) / WHITE.to(rgb.dtype)
    x, y, z = torch.where(t > 0.008856, t.clamp(min=0.008) ** (1 / 3), 7.787 * t + 16 / 116).unbind(-1)
    return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], -1)


def rgb_of(lab):
    y = (lab[..., 0] + 16) / 116
    t = torch.stack([lab[..., 1] / 500 + y, y, (y - lab[..., 2] / 200).clamp(min=0)], -1)
    xyz = torch.where(t > 0.2068966, t**3, (t - 16 / 116) / 7.787) * WHITE.to(lab.dtype)
    linear = xyz @ torch.linalg.inv(XYZ_OF_RGB).T.to(lab.dtype)
    return torch.where(linear > 0.0031308, 1.055 * linear.clamp(min=0.003) ** (1 / 2.4) - 0.055, 12.92 * linear).clamp(0, 1)


def statistics(picture):
    """Returns mean and deviation of each Lab channel, [..., 1, 1, 3], of pictures [..., H, W, 3] in [-1, 1]."""
    lab = lab_of(((picture + 1) / 2).clamp(0, 1))
    return lab.mean((-3, -2), keepdim=True), lab.std((-3, -2), keepdim=True, unbiased=False)


def match_colors(frames, picture, strength):
    """Gives frames [n, H, W, 3] the mean and deviation of each channel of the picture [H, W, 3], all in [-1, 1]."""
    (mean, deviation), (wanted, spread) = statistics(frames), statistics(picture)
    v = ((frames + 1) / 2).clamp(0, 1)
    # In a frame of one colour the deviation is only rounding.
    factor = torch.where(deviation < 1e-9, torch.zeros_like(deviation), spread / deviation.clamp(min=1e-9))
    corrected = rgb_of((lab_of(v) - mean) * factor + wanted)
    return 2 * ((1 - strength) * v + strength * corrected) - 1
