// Turns video latents into tokens and back. Note the asymmetry of the Wan DiT: the input side orders a
// token's values (c, pt, ph, pw), the output side (pt, ph, pw, c). Tokens are ordered by frames, then rows,
// then columns, or lie where `place` says: a permutation of a video's tokens costs nothing here.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct PatchifyArgs {
  Tensor x;  // [B, C, T, H, W] f32, contiguous
  int64_t patch_t = 1, patch_h = 2, patch_w = 2;
  Tensor y;  // [B, L, C·pt·ph·pw] f32, contiguous, L = (T/pt)(H/ph)(W/pw)
  // Optional [L] i32, contiguous, where the op computes: patch l is token place[l] of its video. Values are
  // in [0, L): any other is an error on the CPU, and is clamped on a GPU. Tokens that no place names are not
  // written.
  Tensor place = {};
};

struct UnpatchifyArgs {
  Tensor x;  // [B, L, pt·ph·pw·C] f32, contiguous
  int64_t patch_t = 1, patch_h = 2, patch_w = 2;
  Tensor y;           // [B, C, T, H, W] f32, contiguous
  Tensor place = {};  // as above, patch l is token place[l]
};

void patchify(const PatchifyArgs& args, Stream& stream);
void unpatchify(const UnpatchifyArgs& args, Stream& stream);

}  // namespace tachy::ops
