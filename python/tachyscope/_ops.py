"""Where torch has the ops of this package: torch.ops.tachyscope. A kernel for the Hugging Face hub has a file of its own in the
place of this one, with a namespace that no other build has (tools/make_hub_kernel), so that both may be in one process."""

import torch

ops = torch.ops.tachyscope


def add_op_namespace_prefix(op_name):
    return f"{ops.name}::{op_name}"
