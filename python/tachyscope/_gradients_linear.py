"""The backward pass of `ops.linear` by torch's products. What the forward pass did not keep, the product before the
activation, is computed again if there is an activation or a gate."""

import torch.nn.functional as F


def products(ctx, dy, activate, activation):
    """Returns the gradients of x, weight, bias, gate and residual; `activate(z)` is the
    activation and `activation(dz, z)` its backward pass."""
    x, weight, bias, gate = ctx.saved_tensors
    wants = ctx.needs_input_grad
    dresidual = dy if ctx.added else None
    dz, dgate = dy.to(x.dtype), None
    if ctx.act or (gate is not None and wants[3]):
        z = F.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))
    if gate is not None:
        if wants[3]:
            made = activate(z) if ctx.act else z
            dgate = (dz * made).sum_to_size(gate.shape).to(gate.dtype)
        dz = dz * gate.to(dz.dtype)
    if ctx.act:
        dz = activation(dz, z)
    rows = dz.flatten(0, -2) if dz.dim() > 1 else dz[None]
    dx = (rows @ weight.to(rows.dtype)).view(x.shape) if wants[0] else None
    dweight = (rows.t() @ x.reshape(-1, x.shape[-1])).to(weight.dtype) if wants[1] else None
    dbias = rows.sum(0).to(bias.dtype) if bias is not None and wants[2] else None
    return dx, dweight, dbias, dgate, dresidual
