"""`ops.mlp`: two linear layers of the framework with our GELU between them, or in the epilogue of the first one."""

from . import _op as way


def gelu_in_product(x, weight, bias):
    """Says whether torch's product of x on a GPU, which applies GELU by its tanh approximation as it stores, may
    replace both steps: nothing is recorded, compiled or cast, and the weight is a plain tensor on the GPU. The
    result is rounded once, not twice."""
    import torch

    return (x.is_cuda and bias is not None and type(weight) in (torch.Tensor, torch.nn.Parameter) and weight.device == x.device
            and not torch.compiler.is_compiling() and not way.records(x, weight, bias) and not torch.is_autocast_enabled("cuda"))


def product_with_gelu(x, weight, bias):
    import torch

    rows = torch._addmm_activation(bias, x.reshape(-1, x.shape[-1]), weight.t(), use_gelu=True)
    return rows.view(*x.shape[:-1], weight.shape[0])


def run(gelu, x, weight, bias, weight2, bias2, approximate):
    for name, matrix in (("weight", weight), ("weight2", weight2)):
        if len(getattr(matrix, "shape", ())) != 2:
            raise ValueError(f"mlp: expected {name} [out, in], got {way.shape_of(matrix)}")
    if not hasattr(x, "shape") or not len(x.shape) or x.shape[-1] != weight.shape[1]:
        raise ValueError(f"mlp: expected x [..., {weight.shape[1]}] beside weight {list(weight.shape)}, got {way.shape_of(x)}")
    if weight2.shape[1] != weight.shape[0]:
        raise ValueError(f"mlp: expected weight2 [out, {weight.shape[0]}] behind weight, got {list(weight2.shape)}")
    for name, vector, size in (("bias", bias, weight.shape[0]), ("bias2", bias2, weight2.shape[0])):
        if vector is not None and way.shape_of(vector) != [size]:
            raise ValueError(f"mlp: expected {name} [{size}], got {way.shape_of(vector)}")
    for name, t in (("weight", weight), ("bias", bias), ("weight2", weight2), ("bias2", bias2)):
        if t is not None and way.is_torch(t) != way.is_torch(x):
            raise TypeError(f"mlp: expected {name} of x's framework, got {type(t).__name__} beside {type(x).__name__}")
    if not way.is_torch(x):
        return _linear(gelu(_linear(x, weight, bias), approximate), weight2, bias2)
    import torch
    from torch.nn.functional import linear

    plain = not way.records(x, weight, bias, weight2, bias2) and not torch.compiler.is_compiling()
    if plain and approximate == "tanh" and gelu_in_product(x, weight, bias):
        hidden = product_with_gelu(x, weight, bias)
    else:
        hidden = linear(x, weight, bias)
        hidden = gelu(hidden, approximate, out=hidden if plain else None)
    return linear(hidden, weight2, bias2)


def _linear(x, weight, bias):
    y = x @ weight.T
    return y if bias is None else y + bias
