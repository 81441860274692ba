// Cases of scaled_gemm: both kinds of codes, every epilogue, strided rows, remainders of all tiles.
#pragma once

#include "ops/op_case.h"
#include "ops/scaled_gemm/scaled_gemm_impl.h"

namespace tachy::ops {

struct ScaledGemmCase {
  CaseKind kind;
  int64_t m, n, k;
  bool bias = false, addend = false, strided = false, alias = false;
  Activation act = Activation::none;
  bool cpu = true;      // false for GPUs only
  bool packed = false;  // only for CPUs and int8
};

// Scales are positive, so that sums have the size of an activation.
inline Tensor scaled_gemm_case_scales(CaseMemory& memory, int64_t count) {
  const Tensor scales = memory.param({count});
  auto* values = memory.host(scales).as<float>();
  for (int64_t i = 0; i < count; ++i) values[i] = 0x1p-9f * (0.5f + std::abs(values[i]));
  return scales;
}

// Also takes the codes away: the packed weight must suffice.
inline Tensor pack_scaled_gemm_case(CaseMemory& memory, Tensor& weight) {
  const Tensor packed = memory.normal_as(DType::u8, {packed_scaled_gemm_bytes(weight.dim(0), weight.dim(1))});
  ThreadPool pool(1);
  Arena arena(0);
  Stream stream{.arena = &arena, .pool = &pool};
  if (!memory.blank()) pack_scaled_gemm_weight(weight, packed, stream);
  weight.data = nullptr;
  return packed;
}

inline BoundOp make_scaled_gemm_case(CaseMemory& memory, const ScaledGemmCase& c, DType dtype) {
  const auto rows = [&](const Tensor& t, int64_t columns) {
    return t.slice(1, c.strided ? 3 : 0, (c.strided ? 3 : 0) + columns);
  };
  const int64_t pad = c.strided ? 5 : 0;
  ScaledGemmArgs args{.act = c.act};
  args.x = rows(memory.normal_as(dtype, {c.m, c.k + pad}), c.k);
  args.x_scale = scaled_gemm_case_scales(memory, c.m);
  args.weight = memory.normal_as(dtype, {c.n, c.k});
  args.weight_scale = scaled_gemm_case_scales(memory, c.n);
  if (c.bias) args.bias = memory.normal({c.n});
  if (c.addend) args.addend = rows(memory.normal({c.m, c.n + pad}), c.n);
  if (c.packed) args.packed = pack_scaled_gemm_case(memory, args.weight);
  args.y = c.alias ? memory.inout(args.addend) : rows(memory.output({c.m, c.n + pad}), c.n);
  const auto bind = [&](const ScaledGemmArgs& a) {
    return bind_op<ScaledGemmArgs>("scaled_gemm", scaled_gemm, scaled_gemm_table(), scaled_gemm_working, a,
                                   {a.y});
  };
  BoundOp bound = bind(args);
  if (c.m <= 4 * kSampledRows || c.kind < CaseKind::real) return bound;
  std::vector<BoundOp> parts;
  for (const int64_t begin : sampled_rows(c.m)) {
    ScaledGemmArgs part = args;
    for (Tensor* t : {&part.x, &part.x_scale, &part.addend, &part.y})
      if (t->defined()) *t = t->slice(0, begin, begin + kSampledRows);
    parts.push_back(bind(part));
  }
  return define_parts(std::move(bound), std::move(parts));
}

inline OpCase scaled_gemm_op_case(const ScaledGemmCase& c, DType dtype) {
  const auto flag = [](bool on, const char* name) { return on ? name : ""; };
  const auto name =
      fmt::format("{}x{}x{}-{}-act{}{}{}{}{}{}", c.m, c.n, c.k, dtype_name(dtype), static_cast<int>(c.act),
                  flag(c.bias, "-bias"), flag(c.addend, "-addend"), flag(c.strided, "-strided"),
                  flag(c.alias, "-alias"), flag(c.packed, "-packed"));
  const double codes = 1.0 * c.k * (c.m + c.n), out = 4.0 * c.m * c.n;
  OpCase made{"scaled_gemm", name, c.kind, codes + out, 2.0 * c.m * c.n * c.k, [=](CaseMemory& memory) {
                return make_scaled_gemm_case(memory, c, dtype);
              }};
  made.gpu = !c.packed, made.cpu = c.cpu;
  // Hopper's products of e4m3 add with about 14 bits, and cuBLASLt's "fast" sums do so all the way.
  if (dtype == DType::f8_e4m3) made.gpu_factor = 3;
  return made;
}

inline std::vector<OpCase> scaled_gemm_cases() {
  using enum CaseKind;
  using enum Activation;
  std::vector<OpCase> cases;
  const auto add = [&](const ScaledGemmCase& c) {
    for (const DType dtype : {DType::f8_e4m3, DType::i8})
      if (!c.packed || dtype == DType::i8) cases.push_back(scaled_gemm_op_case(c, dtype));
  };
  add({tiny, 2, 3, 4, true});
  add({odd, 1, 1, 3});
  add({odd, 7, 5, 17, true, false, false, false, silu});
  add({odd, 65, 129, 33, true, true, true, false, gelu_tanh});
  add({odd, 193, 130, 384, true, true, false, true, gelu_erf});
  add({odd, 130, 77, 1037, false, true, true, true, mish});
  add({tiny, 130, 264, 144, true});  // rows begin at multiples of 16 bytes
  add({tiny, 77, 144, 208, true, false, false, false, gelu_tanh});
  add({tiny, 200, 80, 64, true, true, false, true, gelu_tanh});
  add({tiny, 130, 96, 1040});
  add({real, 1560, 1536, 1536, true});  // Wan 1.3B, one frame of 480p
  add({real, 1560, 8960, 1536, true, false, false, false, gelu_tanh});
  add({real, 1560, 1536, 8960, true});
  const auto add_packed = [&](ScaledGemmCase c) { c.packed = true, add(c); };
  add_packed({odd, 7, 5, 17, true, false, false, false, silu});
  add_packed({odd, 130, 77, 1037, false, true, true, true, mish});
  add_packed({odd, 577, 129, 4096, true, true});
  add_packed({tiny, 33, 112, 130, true, true});
  add_packed({real, 1560, 1536, 1536, true});
  add_packed({real, 1560, 8960, 1536, true, false, false, false, gelu_tanh});
  add_packed({real, 1560, 1536, 8960, true});
  const auto add_gpu = [&](ScaledGemmCase c) { c.cpu = false, add(c); };
  add_gpu({video, 32760, 4608, 1536, true});   // Wan 1.3B at 81x480x832
  add_gpu({video, 32760, 15360, 5120, true});  // Wan 14B
  add_gpu({video, 32760, 5120, 5120, true});
  add_gpu({video, 32760, 13824, 5120, true, false, false, false, gelu_tanh});
  add_gpu({video, 32760, 5120, 13824, true});
  return cases;
}

}  // namespace tachy::ops
