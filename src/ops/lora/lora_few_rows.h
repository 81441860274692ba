// How the kernels for few rows cut their work; a header that nvcc takes.
#pragma once

#include "ops/lora/lora_impl.h"

namespace tachy::ops {

// Sums depend on both numbers of `down`, so a kept choice gives the same bits as long as it is kept.
struct LoraTiles {
  int splits = 1;      // shares of K, each of whole steps
  int down_warps = 8;  // of a block of `down`, which a share passes through in turn
  int up_warps = 4;    // of a block of `up`: 32 columns of y each
};

// What the kernels run with where nobody measured: about two blocks of `down` a multiprocessor.
LoraTiles usual_lora_tiles(const LoraShape& shape, bool index, const Stream& stream);
// Those that were measured for this shape on this GPU and kept; measured now where TACHY_TUNE has `lora`; the usual ones otherwise.
// Holds no results: `run` is called with tiles and queues both kernels on tensors of its own.
LoraTiles choose_lora_tiles(const LoraArgs& args, const LoraShape& shape, Stream& stream);

void run_lora_few_rows(const LoraArgs& args, const LoraTiles& tiles, Stream& stream);

}  // namespace tachy::ops
