#include "ops/count_work.h"
#include "ops/op_helpers.h"
#include "ops/patchify/patchify_impl.h"

namespace tachy::ops {

void patchify_cuda(const PatchifyArgs& args, Stream& stream);  // patchify_sm80.cu
void unpatchify_cuda(const UnpatchifyArgs& args, Stream& stream);
namespace {

void check_place(const char* op, const Tensor& place, int64_t tokens, const Stream& stream) {
  if (!place.defined()) return;
  expect_real(op, "place", place, {tokens}, DType::i32);
  expect_contiguous(op, "place", place), expect_here(op, "place", place, stream);
  if (stream.gpu || stream.measuring()) return;
  for (int64_t l = 0; l < tokens; ++l)
    require(place.as<int32_t>()[l] >= 0 && place.as<int32_t>()[l] < tokens,
            "{}: expected place[{}] in [0, {}), got {}", op, l, tokens, place.as<int32_t>()[l]);
}

void check_video(const char* op, const Tensor& video, const Tensor& tokens, int64_t pt, int64_t ph,
                 int64_t pw, const Tensor& place, const Stream& stream) {
  require(pt >= 1 && ph >= 1 && pw >= 1, "{}: expected a positive patch, got {} x {} x {}", op, pt, ph, pw);
  expect_f32(op, "video", video, {-1, -1, -1, -1, -1});
  expect_contiguous(op, "video", video);
  const int64_t t = video.dim(2), h = video.dim(3), w = video.dim(4);
  require(t % pt == 0 && h % ph == 0 && w % pw == 0, "{}: expected {} to be whole patches of {} x {} x {}",
          op, shape_string(video), pt, ph, pw);
  expect_float(op, "tokens", tokens,
               {video.dim(0), t / pt * (h / ph) * (w / pw), video.dim(1) * pt * ph * pw}, stream);
  expect_contiguous(op, "tokens", tokens);
  check_place(op, place, tokens.dim(1), stream);
}

}  // namespace

std::span<const Impl<PatchifyArgs>> patchify_table() {
  static constexpr Impl<PatchifyArgs> table[] = {gpu_impl<patchify_cuda>("cuda"),
                                                 {"ref", nullptr, patchify_ref}};
  return table;
}

std::span<const Impl<UnpatchifyArgs>> unpatchify_table() {
  static constexpr Impl<UnpatchifyArgs> table[] = {gpu_impl<unpatchify_cuda>("cuda"),
                                                   {"ref", nullptr, unpatchify_ref}};
  return table;
}

void patchify(const PatchifyArgs& a, Stream& stream) {
  check_video("patchify", a.x, a.y, a.patch_t, a.patch_h, a.patch_w, a.place, stream);
  if (count_pass("patchify", a.y.dtype, {a.x, a.y}, stream)) return;
  const auto& impl = pick<PatchifyArgs>("patchify", patchify_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

void unpatchify(const UnpatchifyArgs& a, Stream& stream) {
  check_video("unpatchify", a.y, a.x, a.patch_t, a.patch_h, a.patch_w, a.place, stream);
  if (count_pass("unpatchify", a.y.dtype, {a.x, a.y}, stream)) return;
  const auto& impl = pick<UnpatchifyArgs>("unpatchify", unpatchify_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
