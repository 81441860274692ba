// Both directions go through the tokens and move pw neighbouring values at a time. Latents are small (a few
// MB), so this plain loop is also the fast path.
#include "ops/op_helpers.h"
#include "ops/patchify/patchify_impl.h"

namespace tachy::ops {
namespace {

// Calls move(video row of pw values, token, offset in the token) for every such row; the offset depends on
// the order of a token's values.
template <class Move>
void walk(const Tensor& video, int64_t pt, int64_t ph, int64_t pw, const Tensor& place, bool channel_first,
          Stream& stream, Move&& move) {
  const int64_t c = video.dim(1), t = video.dim(2), h = video.dim(3), w = video.dim(4);
  const int64_t rows = h / ph, columns = w / pw, length = t / pt * rows * columns;
  parallel_ranges(
      stream, video.dim(0) * length, rows_per_tile(c * pt * ph * pw), [&](int64_t begin, int64_t end, int) {
        for (int64_t token = begin; token < end; ++token) {
          const int64_t b = token / length, l = token % length;
          const int64_t to = b * length + (place.defined() ? place.as<int32_t>()[l] : l);
          const int64_t t0 = l / (rows * columns) * pt, h0 = l / columns % rows * ph, w0 = l % columns * pw;
          for (int64_t ci = 0; ci < c; ++ci)
            for (int64_t dt = 0; dt < pt; ++dt)
              for (int64_t dh = 0; dh < ph; ++dh) {
                const int64_t source = (((b * c + ci) * t + t0 + dt) * h + h0 + dh) * w + w0;
                const int64_t patch = (dt * ph + dh) * pw;
                move(source, to * c * pt * ph * pw,
                     channel_first ? ci * pt * ph * pw + patch : patch * c + ci);
              }
        }
      });
}

}  // namespace

void patchify_ref(const PatchifyArgs& a, Stream& stream) {
  const float* x = a.x.as<float>();
  float* y = a.y.as<float>();
  walk(a.x, a.patch_t, a.patch_h, a.patch_w, a.place, true, stream,
       [&](int64_t source, int64_t token, int64_t offset) {
         for (int64_t i = 0; i < a.patch_w; ++i) y[token + offset + i] = x[source + i];
       });
}

void unpatchify_ref(const UnpatchifyArgs& a, Stream& stream) {
  const float* x = a.x.as<float>();
  float* y = a.y.as<float>();
  const int64_t c = a.y.dim(1);
  walk(a.y, a.patch_t, a.patch_h, a.patch_w, a.place, false, stream,
       [&](int64_t source, int64_t token, int64_t offset) {
         for (int64_t i = 0; i < a.patch_w; ++i) y[source + i] = x[token + offset + i * c];
       });
}

}  // namespace tachy::ops
