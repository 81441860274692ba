"""`ops.conv1d_group_norm`: torch's convolution over one axis, followed by GroupNorm with its activation in one pass of
ours."""

from . import _op as way


def run(group_norm, x, weight, bias, groups, norm_weight, norm_bias, eps, options, activation):
    if not way.is_torch(x):
        raise TypeError(f"conv1d_group_norm: expected x to be a tensor of torch, got {type(x).__name__}")
    if x.dim() != 3:
        raise ValueError(f"conv1d_group_norm: expected x [samples, channels, length], got {list(x.shape)}")
    if len(way.shape_of(weight)) != 3 or not way.is_torch(weight):
        raise ValueError(f"conv1d_group_norm: expected weight [out, in / conv_groups, kernel], got {way.shape_of(weight)}")
    channels, conv_groups = weight.shape[1], options["groups"]
    if not isinstance(conv_groups, int):
        raise TypeError(f"conv1d_group_norm: expected conv_groups to be a whole number, got {type(conv_groups).__name__}")
    if conv_groups < 1 or x.shape[1] != channels * conv_groups or weight.shape[0] % conv_groups:
        raise ValueError(f"conv1d_group_norm: expected weight [out, in / conv_groups, kernel] beside {x.shape[1]} channels and "
                         f"conv_groups {conv_groups}, got {list(weight.shape)}")
    if bias is not None and way.shape_of(bias) != [weight.shape[0]]:
        raise ValueError(f"conv1d_group_norm: expected bias [{weight.shape[0]}], got {way.shape_of(bias)}")
    import torch

    h = torch.nn.functional.conv1d(x, weight, bias, **options)
    free = type(h) is torch.Tensor and not way.records(h, norm_weight, norm_bias) and not torch.compiler.is_compiling()
    in_place = free and not torch._C._is_any_autocast_enabled()  # autocast may want another dtype for the norm
    return group_norm(h, groups, norm_weight, norm_bias, eps, activation=activation, out=h if in_place else None)
