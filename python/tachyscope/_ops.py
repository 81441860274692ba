"""The place of this package's ops in torch: torch.ops.tachyscope. A kernel for the Hugging Face hub replaces this file
by its own, with a namespace that no other build has (tools/make_hub_kernel), so that both may be in one process."""

import torch

ops = torch.ops.tachyscope


def add_op_namespace_prefix(op_name):
    return f"{ops.name}::{op_name}"
