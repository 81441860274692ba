// The sum and its norm as codes of e4m3 with a scale per row, in one pass (device/row_norm.cuh). The bits are
// those of the norm followed by quantize, which would read the norm's result. It takes rows that fit into
// registers, in packs.
#include "ops/add_norm/add_norm_params.h"

namespace tachy::ops {
namespace {

constexpr int kLiked = 5;  // packs per thread, as in launch_row_norm for sums

cuda::RowPlan plan_of(const AddNormArgs& a, const Stream& stream) {
  const int64_t values = 16 / std::max(dtype_size(a.x.dtype), dtype_size(a.u.dtype));
  return cuda::plan_row(a.x.dim(1) / values, a.x.dim(0), stream, kLiked);
}

template <device::RowNorm kKind, class X, class U, class W>
void launch(const AddNormArgs& a, device::RowNormParams<X, U, U, W> p, const Stream& stream) {
  using device::Parts;
  constexpr bool kLayer = kKind == device::RowNorm::layer;
  const cuda::RowPlan plan = plan_of(a, stream);
  p.inverse_c = 1.0f / static_cast<float>(p.c);
  p.streaming = cuda::streams(stream, p.rows * p.c * static_cast<int64_t>(sizeof(X) + 1));
  p.log2_width = std::countr_zero(static_cast<unsigned>(plan.width));
  const bool usual = !p.bias && (kLayer ? p.scale && !p.weight : p.weight && !p.scale);
  const auto run = [&]<int Chunks, Parts kParts>() {
    cuda::launch_overlapping(
        "add_norm",
        device::row_norm_kernel<kKind, true, device::Act::none, kParts, device::kPack<X, U>, Chunks, X, U, U,
                                W, true>,
        {cuda::blocks_for(p.rows, plan.threads / plan.width), static_cast<unsigned>(plan.threads)}, stream,
        p);
  };
  cuda::dispatch_chunks(plan.chunks, [&]<int Chunks>() {
    if constexpr (!kLayer || sizeof(W) == 4)
      if (usual) return run.template operator()<Chunks, Parts::usual>();
    run.template operator()<Chunks, Parts::any>();
  });
}

}  // namespace

std::optional<Refusal> add_norm_why_not_codes(const AddNormArgs& a, const Stream& stream) {
  if (a.y.dtype != DType::f8_e4m3) return Refusal::arguments("it makes codes");
  if (a.round_twice) return Refusal::arguments("a rounding before the weight");
  const int pack = 16 / std::max(dtype_size(a.x.dtype), dtype_size(a.u.dtype));
  if (!cuda::fits_packs(pack, {&a.x, &a.u, &a.sum, &a.y, &a.weight, &a.bias, &a.gate, &a.scale, &a.shift}))
    return Refusal::arguments("rows that do not come in packs of 16 bytes");
  if (!plan_of(a, stream).chunks || a.x.dim(0) > (int64_t{1} << 30))
    return Refusal::arguments("rows that do not fit into registers, or too many of them");
  return std::nullopt;
}

void add_norm_codes_cuda(const AddNormArgs& a, Stream& stream) {
  if (a.x.numel() == 0) return;
  cuda::dispatch_pair("add_norm", a.x.dtype, a.u.dtype, [&]<class X, class U>() {
    if constexpr (sizeof(X) == 2 && sizeof(U) == 4) {
      fail(ErrorCode::unsupported, "add_norm: expected u of x's dtype, got f32 beside 16-bit x");
    } else {
      cuda::dispatch_weight<X, U>(a.weight, a.bias, [&]<class W>() {
        device::RowNormParams<X, U, U, W> p = add_norm_params<X, U, W>(a);
        p.codes = cuda::data_of<uint8_t>(a.y), p.codes_stride = a.y.strides[0];
        p.codes_scale = cuda::data_of<float>(a.y_scale);
        if (a.kind == NormKind::rms)
          launch<device::RowNorm::rms>(a, p, stream);
        else
          launch<device::RowNorm::layer>(a, p, stream);
      });
    }
  });
}

}  // namespace tachy::ops
