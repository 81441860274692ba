"""`tachyscope.graph`: a module as one CUDA graph, replayed with new inputs."""

import torch
from torch.utils import _pytree


def graph(module, *example, warmup=3, **example_keywords):
    """Captures a call of `module` (a module or any function) with the example inputs as a CUDA graph. Returns a
    callable that takes inputs of the same structure, shapes, dtypes and devices, copies their tensors to where the
    graph reads them, and replays it on the current stream. Inputs that are not tensors become part of the graph and
    must stay equal.

    The results are also at fixed addresses: the next call overwrites them, so clone results that you want to keep.
    Memory comes from a pool that the graph keeps for its lifetime. Before capturing, the module is called `warmup`
    times on the capturing stream. There are no gradients. Everything that happens on the host inside the module (random
    choices, printing, counting) happens only at the capture. Weights are read at their addresses at that time, so a
    module that is moved or offloaded needs a new graph.

    On the CPU, when no tensor of the example is on a GPU, there is no graph: each call checks its inputs in the same
    way and runs the module as it is, without gradients, into memory of its own."""
    if not callable(module):
        raise TypeError(f"graph: expected a module or a function, got {type(module).__name__}")
    leaves, structure = _pytree.tree_flatten((example, example_keywords))
    devices = {leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor)}
    if not devices:
        raise ValueError("graph: expected an example with at least one tensor, got none")
    if len({device for device in devices if device.type == "cuda"}) > 1:
        raise ValueError(f"graph: expected all tensors on one GPU, got {', '.join(sorted(map(str, devices)))}")
    gpu = next((device for device in devices if device.type == "cuda"), None)
    if gpu is None:
        return Graph(module, leaves, structure)
    if len(devices) > 1:
        raise ValueError(f"graph: expected all tensors on {gpu}, got some on {', '.join(sorted(map(str, devices - {gpu})))}")
    return CapturedGraph(module, leaves, structure, gpu, warmup)


class Graph:
    """The result of `graph` on the CPU: the module itself after the checks of the inputs."""

    captured = False

    def __init__(self, module, leaves, structure):
        self.module, self._structure = module, structure
        self._expected = [_kind(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def __call__(self, *inputs, **keywords):
        return self._run(self._checked(inputs, keywords))

    def _run(self, leaves):
        args, keywords = _pytree.tree_unflatten(leaves, self._structure)
        with torch.no_grad():
            return self.module(*args, **keywords)

    def _checked(self, inputs, keywords):
        leaves, structure = _pytree.tree_flatten((inputs, keywords))
        if structure != self._structure:
            raise ValueError(f"graph: expected inputs arranged like the example, {self._structure}, got {structure}")
        for i, (leaf, expected) in enumerate(zip(leaves, self._expected)):
            got = _kind(leaf) if isinstance(leaf, torch.Tensor) else leaf
            if type(got) is not type(expected) or got != expected:
                raise ValueError(f"graph: expected input {i} to be {expected} as in the example, got {got}")
        return leaves


class CapturedGraph(Graph):
    """The result of `graph` on a GPU. `graph` is the torch.cuda.CUDAGraph."""

    captured = True

    def __init__(self, module, leaves, structure, device, warmup):
        super().__init__(module, leaves, structure)
        self._inputs = [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(device):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(max(1, warmup)):  # allocations and choices of a first call must happen on this very stream
                    self._run(self._inputs)
            torch.cuda.synchronize()
            with torch.cuda.graph(self.graph, stream=stream):
                self._outputs = self._run(self._inputs)

    def __call__(self, *inputs, **keywords):
        for mine, given in zip(self._inputs, self._checked(inputs, keywords)):
            if isinstance(mine, torch.Tensor) and mine is not given:
                mine.copy_(given.detach())
        self.graph.replay()
        return self._outputs


class _kind:
    """Shape, dtype and device of a tensor, which a graph cannot change."""

    def __init__(self, tensor):
        self.words = (tuple(tensor.shape), tensor.dtype, tensor.device)

    def __eq__(self, other):
        return self.words == other.words

    def __repr__(self):
        shape, dtype, device = self.words
        return f"{list(shape)} {str(dtype).removeprefix('torch.')} on {device}"
