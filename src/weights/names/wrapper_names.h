// Removes from names the parts that PyTorch's wrappers add when a wrapped model is saved.
#pragma once

#include <string>
#include <string_view>

namespace tachy {

// Returns `name` without its dotted parts that come from a wrapper, at the front or inside:
//
//   torch.compile              _orig_mod                   _orig_mod.blocks.0.ffn.0.weight
//   DistributedDataParallel    module                      module.blocks.0.ffn.0.weight
//   FullyShardedDataParallel   _fsdp_wrapped_module, and _fpw_module before PyTorch 1.13
//   activation checkpointing   _checkpoint_wrapped_module  blocks.0._checkpoint_wrapped_module.ffn.0.weight
//   Lightning                  _forward_module
//
// The last part names the tensor itself and is always kept.
std::string without_wrappers(std::string_view name);

// Does the same for names in which a trainer replaced dots by underscores:
// lora_unet__orig_mod_blocks_0_ffn_0. "module" is kept there, because it may be part of a layer's own name.
std::string without_underscored_wrappers(std::string_view name);

}  // namespace tachy
