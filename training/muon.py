"""Muon together with AdamW for parameters in one vector (common.Flat). Matrices of hidden layers, and kernels of convolutions as matrices with a row
for each output channel, move by their momentum with all singular values made equal (Jordan et al. 2024), at a size that fits AdamW's learning rates
(Liu et al. 2025, section 2.2); everything else stays with AdamW."""
import torch
import torch.distributed as dist

from common import Flat


def orthogonal(g, steps=5):
    """Returns matrices [N, rows, columns] with their singular values brought to about 1 (0.7 to 1.2) by five Newton-Schulz steps."""
    x = g.bfloat16() if g.is_cuda else g
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    for _ in range(steps):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return (x.mT if tall else x).to(g.dtype)


class FlatMuon(Flat):
    """Flat, where Muon updates `hidden` (some of the modules' matrices and kernels)."""

    def __init__(self, team, modules, hidden, momentum=0.95, **options):
        super().__init__(team, modules, **options)
        chosen, self.by_shape, self.momentum = {id(p) for p in hidden}, {}, momentum
        for p in self.params:
            if id(p) in chosen:
                matrix, grad = p.data.flatten(1), p.grad.flatten(1)  # views of the vectors
                values, grads = self.by_shape.setdefault(tuple(matrix.shape), ([], []))
                values.append(matrix)
                grads.append(grad)
        self.kept = {shape: torch.zeros(len(values), *shape, device=team.device) for shape, (values, _) in self.by_shape.items()}

    @torch.no_grad()
    def step(self, lr, surprise=1.5, decay=0.999):
        for shape, (values, grads) in self.by_shape.items():
            g = torch.stack(grads).nan_to_num_(0, 0, 0)
            if self.team.size > 1:
                dist.all_reduce(g)
            torch._foreach_zero_(grads)  # AdamW moves the rest; on these only its weight decay acts
            kept = self.kept[shape]
            kept.lerp_(g, 1 - self.momentum)
            move = orthogonal(g.lerp_(kept, self.momentum))  # Nesterov's momentum; a common factor of g does not matter
            torch._foreach_add_(values, list(move), alpha=-lr * 0.2 * max(shape) ** 0.5)
        super().step(lr, surprise, decay)
