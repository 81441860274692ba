#include "denoise/kept_part.h"

#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {

KeptPart::KeptPart(const Tensor& start, std::span<const float> anew, std::span<const float> noise,
                   Stream& stream)
    : store_({}, stream), start_(start), noise_(store_.allocate(DType::f32, start.shape())) {
  const int64_t places = start.numel() / start.dim(0);
  anew_ = store_.allocate(DType::f32, {places}), kept_ = store_.allocate(DType::f32, {places});
  if (stream.measuring()) return;
  std::vector<float> kept;
  for (const float m : anew) kept.push_back(1 - m);
  upload(noise.data(), noise_, stream);
  upload(anew.data(), anew_, stream), upload(kept.data(), kept_, stream);
}

void KeptPart::put(const Tensor& latents, float sigma, Stream& stream) const {
  const ArenaScope scope(*stream.arena);
  const Tensor known = stream.arena->f32({start_.dim(0), anew_.dim(0)}),
               part = stream.arena->f32({start_.dim(0), anew_.dim(0)});
  const auto flat = [&](const Tensor& t) { return t.view({start_.dim(0), anew_.dim(0)}); };
  ops::LincombArgs noisy{.terms = {}, .count = 2, .out = part};
  noisy.terms[0] = {flat(start_), 1 - sigma}, noisy.terms[1] = {flat(noise_), sigma};
  ops::lincomb(noisy, stream);
  ops::copy({.x = part, .scale = kept_, .shift = {}, .channel_axis = 1, .y = known}, stream);
  ops::copy({.x = flat(latents), .scale = anew_, .shift = {}, .channel_axis = 1, .y = part}, stream);
  ops::LincombArgs sum{.terms = {}, .count = 2, .out = flat(latents)};
  sum.terms[0] = {part, 1}, sum.terms[1] = {known, 1};
  ops::lincomb(sum, stream);
}

}  // namespace tachy
