"""Makes checkpoint_*.pth beside itself: training checkpoints, which contain the model together with optimizers and other training state.

    python make_checkpoints.py     (torch 2.11.0, numpy, omegaconf 2.4.0; seed 3)

    checkpoint_dmd.pth        as Self-Forcing's and CausVid's trainers write: two generators, a critic, two optimizers, a step
    checkpoint_lightning.pth  as Lightning writes: state_dict beside hyper parameters, callbacks, loops and optimizer_states
    checkpoint_module.pth     as DeepSpeed writes: `module`, with tensors of dtypes and kinds that nobody here reads
    checkpoint_ema.pth        averaged weights in `shadow`, with the names of FSDP and of torch.compile
    checkpoint_optimizer.pth  an optimizer's state and nothing else
"""
import argparse
import collections
import datetime
import enum
import pathlib
import random
from pathlib import Path

import numpy
import torch
from omegaconf import OmegaConf

HERE = Path(__file__).parent
torch.manual_seed(3)
random.seed(3)
torch.set_num_threads(1)


class Mode(enum.Enum):
    train = 1


def ramp(*shape, plus=0.0):
    count = torch.Size(shape).numel()
    return ((torch.arange(count, dtype=torch.float32) - 5) / 4 + plus).reshape(shape)


def trained(model):
    """Returns the states of Adam and of a schedule after one step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    schedule.step()
    return optimizer.state_dict(), schedule.state_dict()


def odds():
    return {
        "args": argparse.Namespace(lr=1e-4, out=pathlib.PurePosixPath("runs/1"), size=(832, 480)),
        "config": OmegaConf.create({"model": {"dim": 1536, "names": ["a", "b"]}, "seed": 3}),
        "numpy": numpy.float32(0.5), "array": numpy.arange(3), "dtype": torch.bfloat16, "device": torch.device("cpu"),
        "shape": torch.Size([2, 3]), "when": datetime.datetime(2025, 5, 1), "mode": Mode.train, "names": {"a", "b"}, "frozen": frozenset((1,)),
        "nothing": None, "flag": True, "loss": float("nan"), "huge": 1 << 90, "bytes": b"abc", "bytearray": bytearray(b"abc"),
        "rng": torch.get_rng_state()[:16].clone(), "python_random": random.getstate()[1][:4],
        "counts": collections.Counter("abb"), "default": collections.defaultdict(list, {"a": [1]}), "complex": 1 + 2j,
    }


def main():
    linear = torch.nn.Linear(2, 2)
    optimizer, schedule = trained(linear)
    torch.save({"step": torch.tensor(1000), "epoch": 3, "generator": {"model.x": ramp(3), "model.y": ramp(2, 2)},
                "critic": {"model.x": ramp(3, plus=2), "model.y": ramp(2, 2)},
                "generator_ema": {"model.x": ramp(3, plus=1), "model.y": ramp(2, 2)},
                "generator_optimizer": optimizer, "critic_optimizer": optimizer, "lr_scheduler": schedule},
               HERE / "checkpoint_dmd.pth")
    torch.save({"epoch": 1, "global_step": 10, "pytorch-lightning_version": "2.4.0", "state_dict": collections.OrderedDict(x=ramp(3)),
                "loops": {"fit_loop": {"state_dict": {}}}, "callbacks": {"ModelCheckpoint{'monitor': None}": {"best_model_score": torch.tensor(0.5)}},
                "optimizer_states": [optimizer], "lr_schedulers": [schedule], "hparams_name": "kwargs", "hyper_parameters": odds()},
               HERE / "checkpoint_lightning.pth")
    module = {"x": ramp(3), "complex": torch.ones(2, dtype=torch.complex64), "u16": torch.ones(2, dtype=torch.uint16),
              "sparse": ramp(2, 2).to_sparse(), "quantized": torch.quantize_per_tensor(ramp(4), 0.5, 0, torch.qint8),
              "buffer": torch.nn.Buffer(ramp(2))}
    torch.save({"module": module, "optimizer": optimizer, "lr_scheduler": None, "ds_config": odds()["config"], **odds()},
               HERE / "checkpoint_module.pth", pickle_protocol=4)
    names = {"_orig_mod.blocks.0._fsdp_wrapped_module.x.weight": ramp(3, plus=1), "_orig_mod.blocks.0._checkpoint_wrapped_module.y.weight": ramp(2)}
    torch.save({"model": {k: v - 1 for k, v in names.items()}, "ema": {"decay": 0.99, "shadow": names, "updates": torch.tensor(7)},
                "optimizer": {"state": {k: {"exp_avg": v, "step": torch.tensor(1.0)} for k, v in names.items()}, "param_groups": []}},
               HERE / "checkpoint_ema.pth")
    torch.save(optimizer, HERE / "checkpoint_optimizer.pth")


if __name__ == "__main__":
    main()
