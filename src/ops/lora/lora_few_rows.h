// How the kernels for few rows divide their work. nvcc accepts this header.
#pragma once

#include "ops/lora/lora_impl.h"

namespace tachy::ops {

// The order of sums depends on `splits` and `down_warps`, so a stored choice gives the same bits as long as
// it is kept.
struct LoraTiles {
  int splits = 1;      // shares of K, each of whole steps
  int down_warps = 8;  // warps of a block of `down`, which take turns at a share
  int up_warps = 4;    // warps of a block of `up`, with 32 columns of y each
};

// The tiles for shapes that nobody has measured: about two blocks of `down` per multiprocessor.
LoraTiles usual_lora_tiles(const LoraShape& shape, bool index, const Stream& stream);
// The tiles that were measured for this shape on this GPU and stored. If there are none they are measured
// now, provided TACHY_TUNE has `lora`; otherwise these are the usual ones. Nothing of `args` is computed:
// measuring runs both kernels on tensors of its own.
LoraTiles choose_lora_tiles(const LoraArgs& args, const LoraShape& shape, Stream& stream);

void run_lora_few_rows(const LoraArgs& args, const LoraTiles& tiles, Stream& stream);

}  // namespace tachy::ops
